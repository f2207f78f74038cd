#pragma once

#include "docofl/ecuq.h"
#include "ecuq/decode_pieces.h"

// The rANS coder's part of docofl/ecuq.h and decode_pieces.h.
namespace docofl {

EcuqInfo rans_inspect(const Frame& frame);
void rans_decode_frame(const Frame& frame, const MutableTensorView& out, int threads);
void rans_decode_pieces(const Frame& frame, int threads, const UsePiece& use);

}  // namespace docofl
