#pragma once

#include <cstddef>
#include <vector>

#include "ecuq/rans_payload.h"

namespace docofl {

// A tensor whose neighbours resemble each other, as the cosine transform of its runs
// (docs/format.md, section 3.9), and the values that were taken out before, as they would be in all
// coefficients of their run.
struct TransformedTensor {
  std::vector<float> coefficients;               // empty: neighbours do not resemble each other
  std::vector<std::vector<RansOutlier>> spikes;  // one list for every kRansBlock values
  std::size_t num_spikes = 0;
};

// Transforms a tensor of finite values where that saves a tenth of a bit a coordinate or more at
// about `bits` bits, as far as a sample can tell.
TransformedTensor transform_tensor(const TensorView& tensor, double bits, int threads);

}  // namespace docofl
