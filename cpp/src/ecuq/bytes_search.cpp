#include "ecuq/bytes_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "common/exact_log2.h"
#include "ecuq/symbol_code.h"

namespace docofl {
namespace {

// 2^x well enough for a guess, and the same everywhere.
double rough_exp2(double x) {
  x = std::min(40.0, std::max(-40.0, x));
  const double whole = std::floor(x);
  const double part = x - whole;
  return std::ldexp(1.0 + part * (0.6565 + part * 0.3435), static_cast<int>(whole));
}

class BytesSearch {
 public:
  BytesSearch(const PlanRequest& request, const Sample& sample, const ValueRange& range)
      : request_(request),
        tensor_(request.tensor),
        sample_(sample),
        coarse_sample_(sample.view(), kCoarseSampleSize, false),
        range_(range),
        options_(request.options),
        tolerance_(
            std::max(options_.tolerance, kRoundingBits / static_cast<double>(tensor_.size))) {
    coarse_sample_.gather(0, sample.size());
    coarse_sample_.finish();
  }

  PayloadPlan run() {
    const double size = static_cast<double>(tensor_.size);
    const std::uint64_t budget = static_cast<std::uint64_t>(options_.bits * size / 8) + 1;
    std::optional<PayloadPlan> best;
    std::int64_t fits = 0;                                // levels known to meet the budget
    std::int64_t exceeds = std::int64_t(kMaxLevels) + 1;  // and known not to
    // Aim at the middle of the accepted band, as the sample is never quite right.
    double margin = sample_.is_whole() ? 0 : tolerance_ * (1 - kSlack) / 2;
    double correction = sample_.is_whole() ? 0 : first_correction(options_.bits - margin);
    for (int attempt = 0; attempt < kMaxPasses; ++attempt) {
      const double limit = options_.bits - correction;
      std::int64_t proposal = propose(fits, exceeds, limit - margin);
      // Where a level more or less makes a larger difference than the band is wide, dare more.
      if (margin > 0 &&
          (proposal <= fits || code_for(sample_, proposal).bits < limit - tolerance_)) {
        proposal = propose(fits, exceeds, limit - margin / 4);
      }
      if (proposal <= fits) break;
      const SymbolCode& code = code_for(sample_, proposal);
      if (best) best->blocks.bytes = nullptr;  // about to be overwritten
      PayloadPlan plan = make_plan(request_, levels(proposal), code);
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
      if (best) best->blocks.bytes = nullptr;
      PayloadPlan fixed = plan_fixed_width(width);
      if (charged_bytes(fixed, tensor_.size) <= budget) return fixed;
      if (!best) return plan_fixed_width(0);
    }
    return *std::move(best);
  }

 private:
  // Frames are whole bytes: a small tensor cannot be closer to its budget than about this.
  static constexpr double kRoundingBits = 16;
  // The part of the tolerance with which the search on the sample is satisfied.
  static constexpr double kSlack = 0.3;
  static constexpr int kMaxPasses = 8;
  static constexpr int kMaxProbes = 48;
  static constexpr int kMaxGuesses = 8;
  static constexpr std::size_t kCoarseSampleSize = 16384;

  Levels levels(std::int64_t num_levels) const {
    return {range_.x_min, range_.x_max, static_cast<std::int32_t>(num_levels), {}};
  }

  PayloadPlan plan_fixed_width(unsigned width) const {
    return make_plan(request_, levels(std::int64_t(1) << width), fixed_width_code(width));
  }

  const SymbolCode& code_for(const Sample& sample, std::int64_t num_levels) {
    const auto key = std::make_pair(&sample, num_levels);
    const auto known = codes_.find(key);
    if (known != codes_.end()) return known->second;
    return codes_[key] =
               choose_code(sample, range_.x_min, range_.x_max,
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

  // What the sample's estimate of bits is off, as far as its mean deviation tells.
  double first_correction(double limit) {
    const std::int64_t rough = search(coarse_sample_, 0, std::int64_t(kMaxLevels) + 1,
                                      first_guess(limit), limit, tolerance_);
    if (rough == 0 || !(sample_.deviation_variance() > 0)) return 0;
    const double covariance =
        bits_covariance(coarse_sample_, sample_.deviation(), range_.x_min, range_.x_max,
                        static_cast<std::int32_t>(rough), options_.threads);
    return covariance / sample_.deviation_variance() * sample_.deviation_excess();
  }

  // The most levels between `fits` and `exceeds` (both excluded) that the sample estimates within
  // `limit`; `fits` where it finds none.
  std::int64_t propose(std::int64_t fits, std::int64_t exceeds, double limit) {
    std::int64_t start = exceeds <= kMaxLevels ? exceeds - 1
                         : fits > 0            ? fits + 1
                                               : first_guess(limit);
    if (start == first_guess(limit) && !coarse_sample_.is_whole()) {
      start = search(coarse_sample_, fits, exceeds, start, limit, tolerance_);
    }
    return search(sample_, fits, exceeds, start, limit,
                  sample_.is_whole() ? tolerance_ : tolerance_ * kSlack);
  }

  // The same for one sample, from `start`, satisfied with `slack` below the limit. Twice the levels
  // cost about a bit: the first steps follow that slope, then the one they found; after them the
  // bracket is halved.
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
      if (probe > 0) slope = std::min(2.0, std::max(0.6, (bits - last_bits) / (log - last_log)));
      last_log = log;
      last_bits = bits;
      const double guess = static_cast<double>(next) * rough_exp2((aim - bits) / slope);
      next = static_cast<std::int64_t>(std::min(guess, static_cast<double>(high)));
      if (probe >= kMaxGuesses) {
        const double middle = std::sqrt(static_cast<double>(std::max<std::int64_t>(low, 1)) *
                                        static_cast<double>(high));
        next = high / 2 < low ? low + (high - low) / 2 : static_cast<std::int64_t>(middle);
      } else if (next <= low) {
        next = high <= kMaxLevels ? low + 1 : low + 1 + low / 32;
      } else if (next >= high) {
        next = low > 0 ? high - 1 : high - 1 - high / 32;
      }
    }
    return low;
  }

  const PlanRequest& request_;
  const TensorView& tensor_;
  const Sample& sample_;
  Sample coarse_sample_;
  ValueRange range_;
  const EcuqOptions& options_;
  double tolerance_;
  std::map<std::pair<const Sample*, std::int64_t>, SymbolCode> codes_;
};

}  // namespace

PayloadPlan search_bytes(const PlanRequest& request, const Sample& sample,
                         const ValueRange& range) {
  return BytesSearch(request, sample, range).run();
}

}  // namespace docofl
