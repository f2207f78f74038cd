#pragma once

#include <cstddef>
#include <vector>

#include "docofl/tensor.h"

namespace docofl {

// Values that stand for a tensor while the search looks around: runs of consecutive values, one at
// a pseudo-random but fixed place of each of equal parts of the tensor (so that tuples of
// neighbours and parts of different spread are represented), or all values where there are not many
// more.
class Sample {
 public:
  // At most about `max_size` values, still to be gathered. A float32 tensor that is taken whole is
  // not copied. The tensor must outlive the sample.
  Sample(const TensorView& tensor, std::size_t max_size);
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  // Copies the runs that start in [begin, end) of the tensor. Cheapest while that part is in the
  // cache; parts may be gathered at the same time.
  void gather(std::size_t begin, std::size_t end);

  // To be called when all of the tensor has been gathered.
  void finish();

  const float* values() const { return values_; }
  std::size_t size() const { return size_; }
  bool is_whole() const { return is_whole_; }
  TensorView view() const { return {values_, size_, DType::kFloat32}; }

  // The value that `fraction` of the sample does not exceed, roughly.
  float quantile(double fraction) const;

 private:
  TensorView tensor_;
  std::size_t num_runs_ = 0;
  const float* values_ = nullptr;
  std::size_t size_ = 0;
  bool is_whole_ = false;
  std::vector<float> storage_;
  std::vector<float> sorted_;  // a subset, for quantiles
};

}  // namespace docofl
