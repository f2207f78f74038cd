#pragma once

#include <cstddef>
#include <cstdint>

#include "docofl/frame.h"
#include "docofl/tensor.h"

// The identity codec: the values themselves in a frame, for exact transport.
namespace docofl {

// Writes a whole frame of frame_size(header, tensor bytes) bytes. Throws Error(kInvalidInput) for
// values that are not finite.
void identity_encode(const FrameHeader& header, const TensorView& tensor, int threads,
                     std::uint8_t* out);

// Writes frame.size values of the frame's dtype.
void identity_decode(const Frame& frame, const MutableTensorView& out, int threads);

}  // namespace docofl
