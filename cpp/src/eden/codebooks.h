#pragma once

#include "kernels/kernels.h"

namespace docofl {

constexpr unsigned kMaxEdenWidth = 8;

// The Lloyd-Max codebook of N(0, 1) for words of `width` bits, 0 to 8 (docs/format.md,
// section 4.2).
const EdenCodebook& eden_codebook(unsigned width);

}  // namespace docofl
