#pragma once

#include <cstddef>
#include <vector>

#include "ecuq/rans_payload.h"

namespace docofl {

// How a tensor whose neighbours resemble each other becomes the cosine transform of its runs
// (docs/format.md, section 3.9). Spikes are taken out before, as they would be in all coefficients
// of their run.
struct RunTransform {
  float spike = 0;             // larger magnitudes are spikes; 0: there is no transform
  std::size_t num_spikes = 0;  // of the whole tensor

  bool is_used() const { return spike > 0; }
};

// Chooses a transform for a tensor of finite values where it saves a tenth of a bit a coordinate or
// more at about `bits` bits, as far as a sample can tell. Counts spikes in a pass over the tensor.
RunTransform choose_transform(const TensorView& tensor, double bits, int threads);

// Transforms a block of `length` values into as many coefficients, those of one number after each
// other, and then the values that are no run. Lists the spikes.
void transform_block(const RunTransform& transform, const float* values, std::size_t length,
                     float* coefficients, std::vector<RansOutlier>* spikes);

}  // namespace docofl
