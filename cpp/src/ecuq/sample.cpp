#include "ecuq/sample.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/checked.h"
#include "common/counter_rng.h"
#include "common/source.h"
#include "docofl/error.h"

namespace docofl {
namespace {

constexpr std::size_t kMaxSorted = 256;
// Deviations are summed over every other run of 64 values, the first or the second ones of a piece.
constexpr std::size_t kPiece = 4096;
constexpr std::size_t kSummedRun = 64;
constexpr std::size_t kSummedRuns = kPiece / (2 * kSummedRun);
// Their limit, in median deviations: far outliers would drown the rest.
constexpr float kDeviationLimit = 8;
constexpr std::size_t kPreview = 256;
constexpr std::uint64_t kSampleKey = 2;  // any constant: bytes must not depend on chance

}  // namespace

Sample::Sample(const TensorView& tensor, std::size_t max_size, std::size_t run_length,
               bool compares)
    : tensor_(tensor),
      run_length_(run_length),
      size_(tensor.size),
      is_whole_(tensor.size <= max_size),
      compares_(compares && !is_whole_) {
  if (is_whole_) {
    if (tensor.dtype != DType::kFloat32) storage_.reset(new float[size_]);
    values_ = load_values(tensor, 0, size_, storage_.get());
    return;
  }
  num_runs_ = max_size / run_length_;
  size_ = num_runs_ * run_length_;
  storage_.reset(new float[size_]);
  values_ = storage_.get();
  if (compares_) choose_deviation();
}

Sample::Sample(const Sample& sample, const std::vector<Part>& parts)
    : tensor_(sample.tensor_), run_length_(sample.run_length_), is_whole_(sample.is_whole_) {
  for (const Part& part : parts) size_ += part.end - part.begin;
  storage_.reset(new float[size_]);
  float* to = storage_.get();
  for (const Part& part : parts)
    to = std::copy(sample.values_ + part.begin, sample.values_ + part.end, to);
  values_ = storage_.get();
  finish();
}

// The middle and the median deviation of a few values.
void Sample::choose_deviation() {
  std::vector<float> preview(kPreview);
  const std::size_t width = tensor_.size / kPreview;
  for (std::size_t i = 0; i < kPreview; ++i) {
    const std::uint64_t random = counter_random(kSampleKey, i) >> 32;
    preview[i] = *load_values(tensor_, i * width + ((random * width) >> 32), 1, &preview[i]);
  }
  const auto median = [&] {
    const auto middle = preview.begin() + kPreview / 2;
    std::nth_element(preview.begin(), middle, preview.end());
    return *middle;
  };
  deviation_.centre = median();
  for (float& value : preview) value = std::fabs(value - deviation_.centre);
  deviation_.limit = kDeviationLimit * median();
  deviation_sums_.assign(divide_up(tensor_.size, kPiece), 0);
}

void Sample::sum_deviations(std::size_t begin, std::size_t end) {
  float scratch[kPiece];
  for (; begin + kPiece <= end; begin += kPiece) {
    const std::size_t shift = (counter_random(kSampleKey, begin / kPiece) & 1) * kSummedRun;
    const float* values = load_values(tensor_, begin, kPiece, scratch) + shift;
    deviation_sums_[begin / kPiece] =
        kernels().sum_deviations(deviation_, values, kSummedRuns, 2 * kSummedRun);
  }
}

void Sample::gather(std::size_t begin, std::size_t end) {
  if (is_whole_) return;
  if (compares_) sum_deviations(begin, end);
  const std::size_t width = tensor_.size / num_runs_;
  const std::size_t rest = tensor_.size % num_runs_;
  const auto part_begin = [&](std::size_t run) { return run * width + run * rest / num_runs_; };
  // The part that holds `begin`, first roughly, then exactly.
  std::size_t run =
      static_cast<std::size_t>(static_cast<double>(begin) / static_cast<double>(tensor_.size) *
                               static_cast<double>(num_runs_));
  while (run > 0 && part_begin(run) > begin) --run;
  while (part_begin(run + 1) <= begin) ++run;
  // From part to part without divisions.
  std::size_t part = part_begin(run);
  std::size_t remainder = run * rest % num_runs_;
  const float* const direct =
      tensor_.dtype == DType::kFloat32 ? static_cast<const float*>(tensor_.data) : nullptr;
  for (; run < num_runs_ && part < end; ++run) {
    const std::uint64_t random = counter_random(kSampleKey, run) >> 32;
    const std::size_t start = part + ((random * (width - run_length_ + 1)) >> 32);
    part += width;
    remainder += rest;
    if (remainder >= num_runs_) {
      remainder -= num_runs_;
      ++part;
    }
    if (start < begin || start >= end) continue;
    float* const to = &storage_[run * run_length_];
    const float* values = direct ? direct + start : load_values(tensor_, start, run_length_, to);
    if (values != to) std::memcpy(to, values, run_length_ * sizeof(float));
  }
}

void Sample::compare_deviations() {
  double total = 0;
  for (const double sum : deviation_sums_) total += sum;
  const std::size_t summed = tensor_.size / kPiece * kSummedRuns * kSummedRun;
  const std::size_t runs = size_ / kSummedRun;
  const double mean = kernels().sum_deviations(deviation_, values_, runs, kSummedRun) /
                      static_cast<double>(runs * kSummedRun);
  deviation_excess_ = total / static_cast<double>(summed) - mean;

  double squares = 0;
  const std::size_t stride = size_ / kPiece;
  for (std::size_t i = 0; i < kPiece; ++i) {
    const float distance = std::fabs(values_[i * stride] - deviation_.centre);
    const double difference = static_cast<double>(std::min(distance, deviation_.limit)) - mean;
    squares += difference * difference;
  }
  deviation_variance_ = squares / static_cast<double>(kPiece);
  // Deviations beyond float32, or of a tensor that changes, say nothing.
  if (!std::isfinite(deviation_excess_) || !std::isfinite(deviation_variance_)) {
    deviation_excess_ = deviation_variance_ = 0;
  }
}

void Sample::finish() {
  if (compares_) compare_deviations();
  const std::size_t stride = std::max<std::size_t>(1, size_ / kMaxSorted);
  for (std::size_t i = 0; i < size_; i += stride) sorted_.push_back(values_[i]);
  // All were finite when the range was taken.
  if (!std::all_of(sorted_.begin(), sorted_.end(), [](float x) { return std::isfinite(x); })) {
    throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
  }
  std::sort(sorted_.begin(), sorted_.end());
}

float Sample::quantile(double fraction) const {
  return sorted_[static_cast<std::size_t>(fraction * static_cast<double>(sorted_.size() - 1))];
}

}  // namespace docofl
