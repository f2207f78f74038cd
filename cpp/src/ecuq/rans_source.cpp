#include "ecuq/rans_source.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/parallel.h"
#include "common/source.h"

namespace docofl {
namespace {

// Of a segment; infinite where it is beyond float32.
float sum_of_magnitudes(const float* values) {
  constexpr std::size_t kLanes = 8;  // sums that values take turns at
  float sums[kLanes] = {};
  for (std::size_t i = 0; i < kRansSegment; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += std::fabs(values[i + lane]);
  }
  return std::accumulate(sums, sums + kLanes, 0.0f);
}

}  // namespace

RansSource::RansSource(const TensorView& tensor, const RunTransform& transform, int threads)
    : tensor_(tensor), transform_(transform), threads_(threads) {
  if (!transform_.is_used() || is_large()) return;
  const std::size_t blocks = num_rans_blocks(size());
  std::vector<float> coefficients(size());
  spikes_.resize(blocks);
  std::vector<Scratch> scratch(num_workers(blocks, threads));
  parallel_for(blocks, threads, [&](std::size_t b, int worker) {
    const std::size_t length = rans_block_length(size(), b);
    float* const values = coefficients.data() + b * kRansBlock;
    transform_block(transform_, load_tensor(b, &scratch[worker]), length, values, &spikes_[b]);
  });
  coefficients_ = std::move(coefficients);
}

const float* RansSource::load_tensor(std::size_t block, Scratch* scratch) const {
  scratch->values.resize(kRansBlock);
  return load_values(tensor_, block * kRansBlock, rans_block_length(size(), block),
                     scratch->values.data());
}

RansSource::Block RansSource::load(std::size_t block, Scratch* scratch) const {
  if (!coefficients_.empty()) return {coefficients_.data() + block * kRansBlock, &spikes_[block]};
  scratch->spikes.clear();
  const float* const values = load_tensor(block, scratch);
  if (!transform_.is_used()) return {values, &scratch->spikes};
  scratch->coefficients.resize(kRansBlock);
  transform_block(transform_, values, rans_block_length(size(), block),
                  scratch->coefficients.data(), &scratch->spikes);
  return {scratch->coefficients.data(), &scratch->spikes};
}

TensorView RansSource::whole() const {
  return coefficients_.empty() ? tensor_
                               : TensorView{coefficients_.data(), size(), DType::kFloat32};
}

std::vector<float> RansSource::sample(std::size_t size) {
  std::vector<std::size_t> segments(num_segments(this->size()));
  std::iota(segments.begin(), segments.end(), std::size_t(0));
  if (this->size() > size) {
    if (by_spread_.empty()) sort_segments();
    segments.resize(size / kRansSegment);
    for (std::size_t k = 0; k < segments.size(); ++k) {
      segments[k] = by_spread_[(2 * k + 1) * by_spread_.size() / (2 * segments.size())];
    }
    std::sort(segments.begin(), segments.end());
  }
  // Of all segments, the last may be shorter.
  std::vector<float> sample(std::min(this->size(), segments.size() * kRansSegment));
  constexpr std::size_t kInBlock = kRansBlock / kRansSegment;
  const std::size_t blocks = num_rans_blocks(this->size());
  std::vector<Scratch> scratch(num_workers(blocks, threads_));
  parallel_for(blocks, threads_, [&](std::size_t b, int worker) {
    auto next = std::lower_bound(segments.begin(), segments.end(), b * kInBlock);
    if (next == segments.end() || *next >= (b + 1) * kInBlock) return;
    const Block block = load(b, &scratch[worker]);
    for (; next != segments.end() && *next < (b + 1) * kInBlock; ++next) {
      const std::size_t to = static_cast<std::size_t>(next - segments.begin()) * kRansSegment;
      const float* const values = block.values + *next % kInBlock * kRansSegment;
      std::copy_n(values, std::min(kRansSegment, sample.size() - to), &sample[to]);
    }
  });
  return sample;
}

void RansSource::sort_segments() {
  const std::size_t blocks = num_rans_blocks(size());
  std::vector<float> spreads(size() / kRansSegment);
  std::vector<Scratch> scratch(num_workers(blocks, threads_));
  parallel_for(blocks, threads_, [&](std::size_t block, int worker) {
    const float* const values = load(block, &scratch[worker]).values;
    const std::size_t first = block * (kRansBlock / kRansSegment);
    const std::size_t segments = rans_block_length(size(), block) / kRansSegment;
    for (std::size_t s = 0; s < segments; ++s) {
      spreads[first + s] = sum_of_magnitudes(values + s * kRansSegment);
    }
  });
  by_spread_.resize(spreads.size());
  std::iota(by_spread_.begin(), by_spread_.end(), std::size_t(0));
  std::stable_sort(by_spread_.begin(), by_spread_.end(),
                   [&](std::size_t a, std::size_t b) { return spreads[a] < spreads[b]; });
}

}  // namespace docofl
