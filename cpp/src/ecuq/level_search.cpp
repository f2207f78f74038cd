#include "ecuq/level_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "common/checked.h"
#include "common/parallel.h"
#include "common/source.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/blocks.h"
#include "ecuq/layout_choice.h"
#include "ecuq/sample.h"
#include "entropy/histogram.h"

namespace docofl {
namespace {

// --- explicit levels ---------------------------------------------------------------------------

struct BitOrder {
  // Floats in order, -0 before +0.
  bool operator()(float a, float b) const {
    return a != b ? a < b : std::signbit(a) && !std::signbit(b);
  }
};

using ValueSet = std::set<float, BitOrder>;

// Adds the values; returns false as soon as there are more than 256 different ones.
bool add_distinct(const float* values, std::size_t count, ValueSet* distinct) {
  std::uint32_t previous = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    if (bits == previous && i > 0) continue;
    previous = bits;
    distinct->insert(values[i]);
    if (distinct->size() > kMaxCodedLevels) return false;
  }
  return true;
}

// The different values of the tensor where there are at most 256.
std::optional<Levels> distinct_values(const TensorView& tensor, const Sample& sample, int threads) {
  ValueSet distinct;
  if (!add_distinct(sample.values.data(), sample.values.size(), &distinct)) return std::nullopt;
  if (!sample.is_whole) {
    const std::size_t blocks = num_blocks(tensor.size);
    std::vector<ValueSet> sets(num_workers(blocks, threads));
    std::vector<std::vector<float>> scratch(sets.size());
    const ValueRanks known({distinct.begin(), distinct.end()});
    std::vector<std::uint8_t> few(blocks);
    parallel_for(blocks, threads, [&](std::size_t block, int worker) {
      const std::size_t length = block_length(tensor.size, block);
      scratch[worker].resize(kBlockSize);
      const float* values = load_values(tensor, block_begin(block), length, scratch[worker].data());
      few[block] = true;
      for (std::size_t i = 0; i < length && few[block]; ++i) {
        if (known.find(values[i]) < 0) few[block] = add_distinct(&values[i], 1, &sets[worker]);
      }
    });
    if (std::count(few.begin(), few.end(), 0) > 0) return std::nullopt;
    for (const ValueSet& set : sets) distinct.insert(set.begin(), set.end());
    if (distinct.size() > kMaxCodedLevels) return std::nullopt;
  }
  Levels levels;
  levels.explicit_values.assign(distinct.begin(), distinct.end());
  return levels;
}

CodingPlan make_plan(const TensorView& tensor, const Levels& levels, const Layout& layout,
                     int threads) {
  CodingPlan plan{levels, layout, measure(tensor, levels, layout, threads), {}};
  plan.coding = make_coding(plan.measurement, levels, layout, tensor.size);
  plan.measurement.stream_counts = {};
  return plan;
}

CodingPlan plan_explicit(const TensorView& tensor, const Sample& sample, const Levels& levels,
                         int threads) {
  const Layout layout = choose_layout(sample, levels, tensor.size, threads).layout;
  return make_plan(tensor, levels, layout, threads);
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
      : tensor_(tensor), sample_(sample), range_(range), options_(options) {}

  CodingPlan run() {
    const double size = static_cast<double>(tensor_.size);
    const std::uint64_t budget = static_cast<std::uint64_t>(options_.bits * size / 8) + 1;
    std::optional<CodingPlan> best;
    std::int64_t fits = 0;                              // levels known to meet the budget
    std::int64_t exceeds = std::int64_t(kMaxLevels) + 1;  // and known not to
    double correction = 0;
    // Aim at the middle of the accepted band, as the sample is never quite right.
    double margin = sample_.is_whole ? 0 : std::min(0.004, options_.tolerance / 2);
    for (int attempt = 0; attempt < kMaxPasses; ++attempt) {
      const std::int64_t proposal =
          propose(fits, exceeds, options_.bits - correction - margin);
      if (proposal <= fits) break;
      const LayoutEstimate& estimate = estimated(proposal);
      CodingPlan plan = make_plan(tensor_, levels(proposal), estimate.layout, options_.threads);
      const double exact = 8.0 * static_cast<double>(plan.coding.charged_bytes) / size;
      correction = exact - estimate.bits;
      margin = 0;
      if (plan.coding.charged_bytes > budget) {
        exceeds = proposal;
        continue;
      }
      fits = proposal;
      best = std::move(plan);
      if (exact >= options_.bits - options_.tolerance) break;
    }
    // Plain fixed-width codes need no table: they win where the tensor is small.
    const int width = static_cast<int>(std::min(24.0, options_.bits));
    if (!best || (std::int64_t(1) << width) > best->levels.num_levels) {
      CodingPlan fixed = plan_fixed_width(width);
      if (fixed.coding.charged_bytes <= budget) return fixed;
      if (!best) return plan_fixed_width(0);
    }
    return *std::move(best);
  }

 private:
  static constexpr int kMaxPasses = 8;
  static constexpr int kMaxProbes = 48;

  Levels levels(std::int64_t num_levels) const {
    return {range_.x_min, range_.x_max, static_cast<std::int32_t>(num_levels), {}};
  }

  CodingPlan plan_fixed_width(int width) const {
    Layout layout;
    layout.raw_bits = static_cast<unsigned>(width);
    return make_plan(tensor_, levels(std::int64_t(1) << width), layout, options_.threads);
  }

  const LayoutEstimate& estimated(std::int64_t num_levels) {
    const auto known = estimates_.find(num_levels);
    if (known != estimates_.end()) return known->second;
    return estimates_[num_levels] =
               choose_layout(sample_, range_.x_min, range_.x_max,
                             static_cast<std::int32_t>(num_levels), tensor_.size, options_.threads);
  }

  // The number of levels of a bell-shaped vector whose middle 80 % spread like the sample's.
  std::int64_t first_guess(double bits) const {
    const double range = static_cast<double>(range_.x_max) - range_.x_min;
    const double spread =
        static_cast<double>(sample_.quantile(0.9)) - static_cast<double>(sample_.quantile(0.1));
    const double guess = rough_exp2(bits) * (spread > 0 ? range / (1.6 * spread) : 2);
    return static_cast<std::int64_t>(std::min(guess, double(kMaxLevels)));
  }

  // The most levels between `fits` and `exceeds` (both excluded) that the sample estimates within
  // `limit`; `fits` where it finds none. A level more costs about 1 / (K ln 2) bits, which the first
  // steps use; then the bracket is halved.
  std::int64_t propose(std::int64_t fits, std::int64_t exceeds, double limit) {
    std::int64_t low = fits;
    std::int64_t high = exceeds;
    std::int64_t next = low > 0 && high <= kMaxLevels ? low + (high - low) / 2 : first_guess(limit);
    for (int probe = 0; probe < kMaxProbes && high - low > 1; ++probe) {
      next = std::min(high - 1, std::max(low + 1, next));
      const double bits = estimated(next).bits;
      if (bits <= limit) {
        low = next;
        if (bits >= limit - options_.tolerance / 4) break;
      } else {
        high = next;
      }
      if (probe < 8) {
        next = static_cast<std::int64_t>(static_cast<double>(next) *
                                         rough_exp2(limit - options_.tolerance / 8 - bits));
        if (probe >= 3 && (next <= low || next >= high)) next = low + (high - low) / 2;
      } else {
        const double middle = std::sqrt(static_cast<double>(std::max<std::int64_t>(low, 1)) *
                                        static_cast<double>(high));
        next = static_cast<std::int64_t>(middle);
      }
    }
    return low;
  }

  const TensorView& tensor_;
  const Sample& sample_;
  ValueRange range_;
  EcuqOptions options_;
  std::map<std::int64_t, LayoutEstimate> estimates_;
};

// --- the paper's rule --------------------------------------------------------------------------

// The double binary search of algorithm 3 as printed, on exact entropies. Where the sample leaves no doubt
// on which side of the band a level count falls, it spares the pass over the tensor.
class EntropySearch {
 public:
  EntropySearch(const TensorView& tensor, const Sample& sample, const ValueRange& range,
                const EcuqOptions& options)
      : tensor_(tensor), sample_(sample), range_(range), options_(options) {}

  // Sets `unbounded` when the levels ran into kMaxLevels with entropy to spare.
  std::int32_t run(bool* unbounded) {
    *unbounded = false;
    const double start = std::exp2(options_.bits);
    std::int32_t best = static_cast<std::int32_t>(std::max(1.0, std::floor(start)));
    if (start >= kMaxLevels) return kMaxLevels;
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
          *unbounded = true;
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

 private:
  enum class Verdict { kBelow, kWithin, kAbove };

  // Rounding must not turn an entropy of exactly `bits` into one beyond it.
  static constexpr double kSlack = 1e-9;

  Verdict compare(double entropy, double doubt) const {
    if (entropy > options_.bits + kSlack + doubt) return Verdict::kAbove;
    if (entropy < options_.bits - options_.tolerance - kSlack - doubt) return Verdict::kBelow;
    return Verdict::kWithin;
  }

  Verdict judge(std::int32_t num_levels) const {
    const GridParams grid = make_grid(range_.x_min, range_.x_max, num_levels);
    std::size_t occupied = 0;
    if (!sample_.is_whole) {
      const double entropy = level_entropy(sample_.view(), grid, options_.threads, &occupied);
      // The sample's entropy is low by about occupied / (2 N ln 2) and scatters by a few thousandths.
      const double missing = static_cast<double>(occupied) / static_cast<double>(sample_.values.size());
      const Verdict verdict = compare(entropy, 0.05 + 4 * missing);
      if (verdict != Verdict::kWithin) return verdict;
    }
    return compare(level_entropy(tensor_, grid, options_.threads, &occupied), 0);
  }

  const TensorView& tensor_;
  const Sample& sample_;
  ValueRange range_;
  EcuqOptions options_;
};

}  // namespace

CodingPlan plan_coding(const TensorView& tensor, const EcuqOptions& options) {
  const int threads = options.threads;
  // 1. The range; a constant needs no levels but itself (a mixture of -0 and +0 becomes +0).
  const ValueRange range = value_range(tensor, threads);
  if (range.x_min == range.x_max) {
    Levels constant;
    constant.explicit_values = {range.x_max};
    return make_plan(tensor, constant, Layout{}, threads);
  }
  const Sample sample = take_sample(tensor);

  // 2. The paper's rule.
  if (options.budget == Budget::kEntropy) {
    bool unbounded = false;
    const std::int32_t num_levels = EntropySearch(tensor, sample, range, options).run(&unbounded);
    if (unbounded) {
      const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
      if (exact) return plan_explicit(tensor, sample, *exact, threads);
    }
    const Layout layout =
        choose_layout(sample, range.x_min, range.x_max, num_levels, tensor.size, threads).layout;
    return make_plan(tensor, {range.x_min, range.x_max, num_levels, {}}, layout, threads);
  }

  // 3. The bytes rule: exact where few different values fit the budget, otherwise as fine as fits.
  const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
  if (exact) {
    CodingPlan plan = plan_explicit(tensor, sample, *exact, threads);
    const double bits = 8.0 * static_cast<double>(plan.coding.charged_bytes);
    if (bits <= options.bits * static_cast<double>(tensor.size)) return plan;
  }
  return BytesSearch(tensor, sample, range, options).run();
}

}  // namespace docofl
