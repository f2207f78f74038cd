#pragma once

#include <optional>

#include "common/source.h"
#include "docofl/tensor.h"
#include "ecuq/levels.h"

namespace docofl {

// Levels at `origin` and at multiples of `step` from it, as many as the range needs; none where
// there are more than a frame can tell, where float32 cannot hold the ends of that grid well
// enough, or where values of one sign would get a level of the other. A level at zero is decoded to
// zero exactly.
std::optional<Levels> levels_at(const ValueRange& range, double step, double origin, DType dtype);

// A single level, for all values of the range, near `origin`, which lies within it.
Levels level_near(const ValueRange& range, double origin, DType dtype);

// What the decoder makes of a level (docs/format.md, section 3.1), unless it is displaced.
float value_of(const Levels& levels, double level);

// Whether a grid with these ends is within what float32 and the dtype hold.
bool can_hold(DType dtype, double begin, double end);

}  // namespace docofl
