#pragma once

#include <cstddef>
#include <vector>

#include "docofl/tensor.h"

namespace docofl {

// A fixed choice of values that stands for the tensor while the search looks around: runs of
// consecutive values, one at a pseudo-random place of each of equal parts of the tensor (so that tuples of
// neighbours and the parts' different spreads are represented), or the whole tensor where it is small.
struct Sample {
  std::vector<float> values;
  std::vector<float> sorted;  // a subset, for quantiles
  bool is_whole = false;

  TensorView view() const { return {values.data(), values.size(), DType::kFloat32}; }
  // The value that `fraction` of the sample does not exceed, roughly.
  float quantile(double fraction) const;
};

Sample take_sample(const TensorView& tensor);

}  // namespace docofl
