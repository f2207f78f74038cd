#pragma once

#include <cstddef>
#include <cstdint>

#include "ecuq/levels.h"
#include "ecuq/sample.h"

namespace docofl {

// A way to code the levels, and what the sample says it takes in bits a coordinate, everything
// that counts against the budget included.
struct LayoutEstimate {
  Layout layout;
  double bits = 0;
};

// The cheapest layout found for a uniform grid of `num_levels` over [x_min, x_max], for a tensor
// of `size` coordinates of which `sample` was taken.
LayoutEstimate choose_layout(const Sample& sample, float x_min, float x_max,
                             std::int32_t num_levels, std::size_t size, int threads);

// The same for explicit levels: the tuple size is all there is to choose.
LayoutEstimate choose_layout(const Sample& sample, const Levels& explicit_levels, std::size_t size,
                             int threads);

}  // namespace docofl
