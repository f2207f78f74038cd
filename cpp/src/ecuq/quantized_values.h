#pragma once

#include <cstddef>

#include "ecuq/levels.h"

namespace docofl {

// What a decoder gives back for values that were coded with these levels. Explicit levels are the
// values themselves.
void quantized_values(const Levels& levels, const float* x, std::size_t n, float* out);

}  // namespace docofl
