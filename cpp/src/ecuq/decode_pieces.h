#pragma once

#include <cstddef>
#include <functional>

#include "docofl/frame.h"

namespace docofl {

// Outputs of this many values do not fit the caches and are written past them.
constexpr std::size_t kMinPastCaches = std::size_t(1) << 21;

// Decodes a float32 ECUQ frame a block (65,536 or 131,072 values, the last one fewer) at a time and
// hands each to use(begin, values, count, worker), which may change them; several threads do so at
// once, and `worker` is that of parallel_for.
using UsePiece =
    std::function<void(std::size_t begin, float* values, std::size_t count, int worker)>;
void ecuq_decode_pieces(const Frame& frame, int threads, const UsePiece& use);

}  // namespace docofl
