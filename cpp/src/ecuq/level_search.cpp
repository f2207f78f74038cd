#include "ecuq/level_search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "common/checked.h"
#include "common/exact_log2.h"
#include "common/parallel.h"
#include "common/source.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/blocks.h"
#include "ecuq/sample.h"
#include "ecuq/symbol_code.h"
#include "entropy/histogram.h"

namespace docofl {
namespace {

// --- explicit levels ---------------------------------------------------------------------------

// Different values in the order of their first appearance.
struct DistinctValues {
  ValueRanks ranks;
  std::vector<float> values;

  // Adds the values; returns false as soon as there are more than 256 different ones.
  bool add(const float* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (ranks.find(from[i]) >= 0) continue;
      if (values.size() == kMaxCodedLevels) return false;
      ranks.add(from[i]);
      values.push_back(from[i]);
    }
    return true;
  }
};

// The different values of the tensor where there are at most 256.
std::optional<Levels> distinct_values(const TensorView& tensor, const Sample& sample, int threads) {
  DistinctValues distinct;
  if (!distinct.add(sample.values(), sample.size())) return std::nullopt;
  if (!sample.is_whole()) {
    const std::size_t blocks = num_blocks(tensor.size);
    std::vector<DistinctValues> found(num_workers(blocks, threads), distinct);
    std::vector<std::vector<float>> scratch(found.size());
    std::atomic<bool> few{true};
    parallel_for(blocks, threads, [&](std::size_t block, int worker) {
      if (!few.load(std::memory_order_relaxed)) return;
      const std::size_t length = block_length(tensor.size, block);
      if (tensor.dtype != DType::kFloat32) scratch[worker].resize(kBlockSize);
      const float* values = load_values(tensor, block_begin(block), length, scratch[worker].data());
      if (!found[worker].add(values, length)) few.store(false);
    });
    if (!few.load()) return std::nullopt;
    for (const DistinctValues& mine : found) {
      if (!distinct.add(mine.values.data(), mine.values.size())) return std::nullopt;
    }
  }
  std::sort(distinct.values.begin(), distinct.values.end(), [](float a, float b) {
    return a != b ? a < b : std::signbit(a) && !std::signbit(b);
  });
  Levels levels;
  levels.explicit_values = std::move(distinct.values);
  return levels;
}

// Encoded blocks are kept for the encoder while they and the frame take less than this part of the input.
constexpr double kMaxKeptPart = 0.32;

PayloadPlan make_plan(const TensorView& tensor, const Levels& levels, const SymbolCode& code,
                      const EcuqOptions& options) {
  const double input_bits = 8.0 * static_cast<double>(item_size(tensor.dtype));
  const bool keep = 2 * std::max(code.bits, options.bits) <= kMaxKeptPart * input_bits;
  return {levels, code, encode_blocks(tensor, levels, code, keep, options.threads)};
}

// --- the bytes rule ----------------------------------------------------------------------------

// 2^x well enough for a guess, and the same everywhere.
double rough_exp2(double x) {
  x = std::min(40.0, std::max(-40.0, x));
  const double whole = std::floor(x);
  const double part = x - whole;
  return std::ldexp(1.0 + part * (0.6565 + part * 0.3435), static_cast<int>(whole));
}

// Finds the most levels whose frame meets the budget. The sample proposes, a pass over the tensor
// confirms, and what the pass found corrects the next proposal.
class BytesSearch {
 public:
  BytesSearch(const TensorView& tensor, const Sample& sample, const ValueRange& range,
              const EcuqOptions& options)
      : tensor_(tensor),
        sample_(sample),
        coarse_sample_(sample.view(), kCoarseSampleSize),
        range_(range),
        options_(options),
        tolerance_(std::max(options.tolerance, kRoundingBits / static_cast<double>(tensor.size))) {
    coarse_sample_.gather(0, sample.size());
    coarse_sample_.finish();
  }

  PayloadPlan run() {
    const double size = static_cast<double>(tensor_.size);
    const std::uint64_t budget = static_cast<std::uint64_t>(options_.bits * size / 8) + 1;
    std::optional<PayloadPlan> best;
    std::int64_t fits = 0;                                // levels known to meet the budget
    std::int64_t exceeds = std::int64_t(kMaxLevels) + 1;  // and known not to
    double correction = 0;
    // Aim at the middle of the accepted band, as the sample is never quite right.
    double margin = sample_.is_whole() ? 0 : std::min(0.003, tolerance_ / 3);
    for (int attempt = 0; attempt < kMaxPasses; ++attempt) {
      const double limit = options_.bits - correction;
      std::int64_t proposal = propose(fits, exceeds, limit - margin);
      // Where a level more or less makes a larger difference than the band is wide, dare more.
      if (proposal <= fits || code_for(sample_, proposal).bits < limit - tolerance_) {
        proposal = propose(fits, exceeds, limit - margin / 4);
      }
      if (proposal <= fits) break;
      const SymbolCode& code = code_for(sample_, proposal);
      PayloadPlan plan = make_plan(tensor_, levels(proposal), code, options_);
      const std::size_t bytes = charged_bytes(plan, tensor_.size);
      const double exact = 8.0 * static_cast<double>(bytes) / size;
      correction = exact - code.bits;
      margin /= 2;
      if (bytes > budget) {
        exceeds = proposal;
        continue;
      }
      fits = proposal;
      best = std::move(plan);
      if (exact >= options_.bits - tolerance_) break;
    }
    // Plain fixed-width codes need no table: they win where the tensor is small.
    const unsigned width = static_cast<unsigned>(std::min(24.0, options_.bits));
    if (!best || (std::int64_t(1) << width) > best->levels.num_levels) {
      PayloadPlan fixed = plan_fixed_width(width);
      if (charged_bytes(fixed, tensor_.size) <= budget) return fixed;
      if (!best) return plan_fixed_width(0);
    }
    return *std::move(best);
  }

 private:
  // Frames are whole bytes: a small tensor cannot be closer to its budget than about this.
  static constexpr double kRoundingBits = 16;
  static constexpr int kMaxPasses = 8;
  static constexpr int kMaxProbes = 48;
  static constexpr int kMaxGuesses = 8;
  static constexpr std::size_t kCoarseSampleSize = 16384;

  Levels levels(std::int64_t num_levels) const {
    return {range_.x_min, range_.x_max, static_cast<std::int32_t>(num_levels), {}};
  }

  PayloadPlan plan_fixed_width(unsigned width) const {
    return make_plan(tensor_, levels(std::int64_t(1) << width), fixed_width_code(width), options_);
  }

  const SymbolCode& code_for(const Sample& sample, std::int64_t num_levels) {
    const auto key = std::make_pair(&sample, num_levels);
    const auto known = codes_.find(key);
    if (known != codes_.end()) return known->second;
    return codes_[key] = choose_code(sample, range_.x_min, range_.x_max,
                                     static_cast<std::int32_t>(num_levels), tensor_.size,
                                     options_.threads);
  }

  // The number of levels of a bell-shaped vector whose middle 80 % spread like the sample's.
  std::int64_t first_guess(double bits) const {
    const double range = static_cast<double>(range_.x_max) - range_.x_min;
    const double spread =
        static_cast<double>(sample_.quantile(0.9)) - static_cast<double>(sample_.quantile(0.1));
    const double guess = rough_exp2(bits) * (spread > 0 ? range / (1.6 * spread) : 2);
    return static_cast<std::int64_t>(std::min(guess, double(kMaxLevels)));
  }

  // The most levels between `fits` and `exceeds` (both excluded) that the sample estimates within `limit`; `fits` where
  // it finds none.
  std::int64_t propose(std::int64_t fits, std::int64_t exceeds, double limit) {
    std::int64_t start = exceeds <= kMaxLevels ? exceeds - 1 : fits > 0 ? fits + 1 : first_guess(limit);
    if (start == first_guess(limit) && !coarse_sample_.is_whole()) {
      start = search(coarse_sample_, fits, exceeds, start, limit, tolerance_);
    }
    return search(sample_, fits, exceeds, start, limit, tolerance_ * 0.35);
  }

  // The same for one sample, from `start`, satisfied with `slack` below the limit. Twice the levels cost about a bit:
  // the first steps follow that slope, then the one they found; after them the bracket is halved.
  std::int64_t search(const Sample& sample, std::int64_t low, std::int64_t high, std::int64_t start,
                      double limit, double slack) {
    const double aim = limit - slack / 2;
    double slope = 1;
    double last_log = 0, last_bits = 0;
    std::int64_t next = start;
    for (int probe = 0; probe < kMaxProbes && high - low > 1; ++probe) {
      next = std::min(high - 1, std::max(low + 1, next));
      const double bits = code_for(sample, next).bits;
      if (bits <= limit) {
        low = next;
        if (bits >= limit - slack) break;
      } else {
        high = next;
      }
      const double log = exact_log2(static_cast<std::uint64_t>(next));
      if (probe > 0) slope = std::min(2.0, std::max(0.3, (bits - last_bits) / (log - last_log)));
      last_log = log;
      last_bits = bits;
      next = static_cast<std::int64_t>(static_cast<double>(next) * rough_exp2((aim - bits) / slope));
      if (probe >= kMaxGuesses) {
        const double middle = std::sqrt(static_cast<double>(std::max<std::int64_t>(low, 1)) *
                                        static_cast<double>(high));
        next = high / 2 < low ? low + (high - low) / 2 : static_cast<std::int64_t>(middle);
      } else if (next <= low) {
        next = low + 1 + low / 32;
      } else if (next >= high) {
        next = high - 1 - high / 32;
      }
    }
    return low;
  }

  const TensorView& tensor_;
  const Sample& sample_;
  Sample coarse_sample_;
  ValueRange range_;
  EcuqOptions options_;
  double tolerance_;
  std::map<std::pair<const Sample*, std::int64_t>, SymbolCode> codes_;
};

// --- the paper's rule --------------------------------------------------------------------------

// The double binary search of algorithm 3 as printed, on exact entropies. Where the sample leaves no doubt
// on which side of the band a level count falls, it spares the pass over the tensor.
class EntropySearch {
 public:
  EntropySearch(const TensorView& tensor, const Sample& sample, const ValueRange& range,
                const EcuqOptions& options)
      : tensor_(tensor), sample_(sample), range_(range), options_(options) {}

  // The number of levels.
  std::int32_t run() {
    const double start = std::min(std::exp2(options_.bits), double(kMaxLevels));
    std::int32_t best = static_cast<std::int32_t>(std::max(1.0, std::floor(start)));
    if (judge(best) != Verdict::kBelow) return best;
    double low = start;
    double high = std::numeric_limits<double>::infinity();
    int p = -1;
    while (low <= high) {
      double mid;
      if (std::isinf(high)) {
        ++p;
        mid = start + std::ldexp(1.0, p);
        if (mid > kMaxLevels) {
          is_unbounded_ = true;
          return best;
        }
      } else {
        mid = (low + high) / 2;
      }
      const std::int32_t num_levels = static_cast<std::int32_t>(std::floor(mid));
      switch (judge(num_levels)) {
        case Verdict::kAbove:
          high = mid - 1;
          break;
        case Verdict::kBelow:
          best = std::max(best, num_levels);
          low = mid + 1;
          break;
        case Verdict::kWithin:
          return num_levels;
      }
    }
    return best;
  }

  // True when the levels ran into kMaxLevels with entropy to spare.
  bool is_unbounded() const { return is_unbounded_; }

  // Exact, by a pass over the tensor.
  double entropy(std::int32_t num_levels) const {
    std::size_t occupied = 0;
    return level_entropy(tensor_, make_grid(range_.x_min, range_.x_max, num_levels),
                         options_.threads, &occupied);
  }

  // Rounding must not turn an entropy of exactly `bits` into one beyond it.
  static constexpr double kSlack = 1e-9;

 private:
  enum class Verdict { kBelow, kWithin, kAbove };

  Verdict compare(double entropy, double doubt) const {
    if (entropy > options_.bits + kSlack + doubt) return Verdict::kAbove;
    if (entropy < options_.bits - options_.tolerance - kSlack - doubt) return Verdict::kBelow;
    return Verdict::kWithin;
  }

  Verdict judge(std::int32_t num_levels) const {
    if (!sample_.is_whole()) {
      const GridParams grid = make_grid(range_.x_min, range_.x_max, num_levels);
      std::size_t occupied = 0;
      const double estimate = level_entropy(sample_.view(), grid, options_.threads, &occupied);
      // The sample's entropy is low by about occupied / (2 N ln 2) and scatters by a few thousandths.
      const double missing = static_cast<double>(occupied) / static_cast<double>(sample_.size());
      const Verdict verdict = compare(estimate, 0.05 + 4 * missing);
      if (verdict != Verdict::kWithin) return verdict;
    }
    return compare(entropy(num_levels), 0);
  }

  const TensorView& tensor_;
  const Sample& sample_;
  ValueRange range_;
  EcuqOptions options_;
  bool is_unbounded_ = false;
};

// Enough that the estimate of bits is off by a few thousandths, and little beside the tensor.
std::size_t sample_size(std::size_t tensor_size) {
  constexpr std::size_t kLeast = 131072;
  constexpr std::size_t kMost = 262144;
  return std::min(kMost, std::max(kLeast, tensor_size / 8));
}

}  // namespace

PayloadPlan plan_payload(const TensorView& tensor, const EcuqOptions& options) {
  const int threads = options.threads;
  // 1. The range and a sample; a constant needs no levels but itself (a mixture of -0 and +0 becomes +0).
  Sample sample(tensor, sample_size(tensor.size));
  const ValueRange range = value_range(
      tensor, threads, [&](std::size_t begin, std::size_t end) { sample.gather(begin, end); });
  if (range.x_min == range.x_max) {
    Levels constant;
    constant.explicit_values = {range.x_max};
    return make_plan(tensor, constant, fixed_width_code(0), options);
  }
  sample.finish();
  const auto plan_exact = [&]() -> std::optional<PayloadPlan> {
    const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
    if (!exact) return std::nullopt;
    return make_plan(tensor, *exact, choose_code(sample, *exact, tensor.size, threads), options);
  };

  // 2. The paper's rule.
  if (options.budget == Budget::kEntropy) {
    EntropySearch search(tensor, sample, range, options);
    const std::int32_t num_levels = search.run();
    if (search.is_unbounded()) {
      std::optional<PayloadPlan> exact = plan_exact();
      if (exact && exact->code.entropy <= options.bits + EntropySearch::kSlack) return *std::move(exact);
    }
    SymbolCode code = choose_code(sample, range.x_min, range.x_max, num_levels, tensor.size, threads);
    code.entropy = search.entropy(num_levels);
    return make_plan(tensor, {range.x_min, range.x_max, num_levels, {}}, code, options);
  }

  // 3. The bytes rule: exact where few different values fit the budget, otherwise as fine as fits.
  std::optional<PayloadPlan> exact = plan_exact();
  const double budget_bits = options.bits * static_cast<double>(tensor.size);
  if (exact && 8.0 * static_cast<double>(charged_bytes(*exact, tensor.size)) <= budget_bits) {
    return *std::move(exact);
  }
  return BytesSearch(tensor, sample, range, options).run();
}

}  // namespace docofl
