#include "ecuq/sample.h"

#include <algorithm>
#include <cstdint>

#include "common/counter_rng.h"
#include "common/source.h"

namespace docofl {
namespace {

// Short, so that many places of a tensor whose parts differ are seen; enough for pairs.
constexpr std::size_t kRunLength = 2;
constexpr std::size_t kMaxSorted = 256;
constexpr std::uint64_t kSampleKey = 2;  // any constant: bytes must not depend on chance

}  // namespace

Sample::Sample(const TensorView& tensor, std::size_t max_size)
    : tensor_(tensor), size_(tensor.size), is_whole_(tensor.size <= max_size) {
  if (is_whole_) {
    if (tensor.dtype != DType::kFloat32) storage_.resize(size_);
    values_ = load_values(tensor, 0, size_, storage_.data());
    return;
  }
  num_runs_ = max_size / kRunLength;
  size_ = num_runs_ * kRunLength;
  storage_.resize(size_);
  values_ = storage_.data();
}

void Sample::gather(std::size_t begin, std::size_t end) {
  if (is_whole_) return;
  const std::size_t width = tensor_.size / num_runs_;
  const std::size_t rest = tensor_.size % num_runs_;
  const auto part_begin = [&](std::size_t run) { return run * width + run * rest / num_runs_; };
  // The part that holds `begin`, first roughly, then exactly.
  std::size_t run =
      static_cast<std::size_t>(static_cast<double>(begin) / static_cast<double>(tensor_.size) *
                               static_cast<double>(num_runs_));
  while (run > 0 && part_begin(run) > begin) --run;
  while (part_begin(run + 1) <= begin) ++run;
  for (; run < num_runs_ && part_begin(run) < end; ++run) {
    const std::uint64_t random = counter_random(kSampleKey, run) >> 32;
    const std::size_t start = part_begin(run) + ((random * (width - kRunLength + 1)) >> 32);
    if (start < begin || start >= end) continue;
    float* const to = &storage_[run * kRunLength];
    const float* values = load_values(tensor_, start, kRunLength, to);
    if (values != to) std::copy(values, values + kRunLength, to);
  }
}

void Sample::finish() {
  const std::size_t stride = std::max<std::size_t>(1, size_ / kMaxSorted);
  for (std::size_t i = 0; i < size_; i += stride) sorted_.push_back(values_[i]);
  std::sort(sorted_.begin(), sorted_.end());
}

float Sample::quantile(double fraction) const {
  return sorted_[static_cast<std::size_t>(fraction * static_cast<double>(sorted_.size() - 1))];
}

}  // namespace docofl
