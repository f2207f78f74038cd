#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "docofl/tensor.h"
#include "kernels/kernels.h"

namespace docofl {

// Values that stand for a tensor while the search looks around: runs of consecutive values, one at
// a pseudo-random but fixed place of each of equal parts of the tensor (so that tuples of
// neighbours and parts of different spread are represented), or all values where there are not many
// more.
//
// It can also compare itself with the tensor: the mean deviation from the middle is cheap to take
// over much more of the tensor than is sampled, and a value's code word grows almost linearly with
// it.
class Sample {
 public:
  // Values in a run. Short ones see many places of a tensor whose parts differ, and are enough for
  // pairs; long ones take little memory traffic.
  static constexpr std::size_t kShortRun = 2;
  static constexpr std::size_t kLongRun = 16;

  // At most about `max_size` values, still to be gathered. A float32 tensor that is taken whole is
  // not copied. The tensor must outlive the sample.
  Sample(const TensorView& tensor, std::size_t max_size, std::size_t run_length, bool compares);
  // The values of a sample in some parts of it, in order: a sample of the tensor's parts there.
  struct Part {
    std::size_t begin, end;
  };
  Sample(const Sample& sample, const std::vector<Part>& parts);
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  // Copies the runs that start in [begin, end) of the tensor; `begin` must be a multiple of 4096.
  // Cheapest while that part is in the cache; parts may be gathered at the same time.
  void gather(std::size_t begin, std::size_t end);

  // To be called when all of the tensor has been gathered. Throws Error(kInvalidInput) for a tensor
  // whose values are no longer finite.
  void finish();

  const float* values() const { return values_; }
  std::size_t size() const { return size_; }
  bool is_whole() const { return is_whole_; }
  TensorView view() const { return {values_, size_, DType::kFloat32}; }

  // How values deviate from the middle: the mean of much of the tensor less the sample's own, and
  // the sample's variance. All zero where the sample is the whole tensor or not compared.
  const DeviationParams& deviation() const { return deviation_; }
  double deviation_excess() const { return deviation_excess_; }
  double deviation_variance() const { return deviation_variance_; }

  // The value that `fraction` of the sample does not exceed, roughly.
  float quantile(double fraction) const;

 private:
  void choose_deviation();
  void sum_deviations(std::size_t begin, std::size_t end);
  void compare_deviations();

  TensorView tensor_;
  std::size_t num_runs_ = 0;
  std::size_t run_length_;
  const float* values_ = nullptr;
  std::size_t size_ = 0;
  bool is_whole_ = false;
  bool compares_ = false;
  std::unique_ptr<float[]> storage_;  // not cleared: gathering threads are the first to touch it
  DeviationParams deviation_{};
  double deviation_excess_ = 0;
  double deviation_variance_ = 0;
  std::vector<double> deviation_sums_;  // of the pieces of the tensor
  std::vector<float> sorted_;           // a subset, for quantiles
};

}  // namespace docofl
