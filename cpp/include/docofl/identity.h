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

// Writes frame.size values; out.dtype is the frame's, or float32 for a 16-bit one.
void identity_decode(const Frame& frame, const MutableTensorView& out, int threads);

}  // namespace docofl
