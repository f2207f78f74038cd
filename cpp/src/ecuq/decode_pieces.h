#pragma once

#include <cstddef>
#include <functional>

#include "docofl/frame.h"

namespace docofl {

// Decodes a float32 ECUQ frame a block (65,536 values, the last one fewer) at a time and hands each
// to use(begin, values, count, worker), which may change them; several threads do so at once, and
// `worker` is that of parallel_for.
using UsePiece =
    std::function<void(std::size_t begin, float* values, std::size_t count, int worker)>;
void ecuq_decode_pieces(const Frame& frame, int threads, const UsePiece& use);

}  // namespace docofl
