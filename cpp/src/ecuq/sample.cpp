#include "ecuq/sample.h"

#include <algorithm>
#include <cstdint>

#include "common/counter_rng.h"
#include "common/source.h"

namespace docofl {
namespace {

constexpr std::size_t kRunLength = 32;
constexpr std::size_t kNumRuns = 4096;
constexpr std::size_t kMaxSorted = 1024;
constexpr std::uint64_t kSampleKey = 0x446f436f464c;  // any constant: bytes must not depend on chance

}  // namespace

float Sample::quantile(double fraction) const {
  return sorted[static_cast<std::size_t>(fraction * static_cast<double>(sorted.size() - 1))];
}

Sample take_sample(const TensorView& tensor) {
  Sample sample;
  sample.is_whole = tensor.size <= kRunLength * kNumRuns;
  sample.values.resize(sample.is_whole ? tensor.size : kRunLength * kNumRuns);
  const auto copy = [&](std::size_t from, std::size_t count, float* to) {
    const float* values = load_values(tensor, from, count, to);
    if (values != to) std::copy(values, values + count, to);
  };
  if (sample.is_whole) {
    copy(0, tensor.size, sample.values.data());
  } else {
    for (std::size_t run = 0; run < kNumRuns; ++run) {
      // Split as quotient and remainder: run * size could overflow.
      const std::size_t width = tensor.size / kNumRuns;
      const std::size_t rest = tensor.size % kNumRuns;
      const std::size_t begin = run * width + run * rest / kNumRuns;
      const std::size_t jitter = counter_random(kSampleKey, run) % (width - kRunLength + 1);
      copy(begin + jitter, kRunLength, &sample.values[run * kRunLength]);
    }
  }
  const std::size_t stride = std::max<std::size_t>(1, sample.values.size() / kMaxSorted);
  for (std::size_t i = 0; i < sample.values.size(); i += stride) {
    sample.sorted.push_back(sample.values[i]);
  }
  std::sort(sample.sorted.begin(), sample.sorted.end());
  return sample;
}

}  // namespace docofl
