#include "ecuq/bytes_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "common/exact_log2.h"
#include "common/parallel.h"
#include "ecuq/level_grid.h"
#include "ecuq/level_means.h"
#include "ecuq/local_codes.h"
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

// Trials take time: a small tensor has one way for its grid to lie.
bool is_small(const TensorView& tensor) { return tensor.size < 2048; }

// How a grid lies.
struct Anchor {
  enum class Kind {
    kRange,   // a whole number of levels between the smallest and the largest value
    kLevel,   // with a level at `origin`
    kBorder,  // with `origin` in the middle between two levels
  };
  Kind kind = Kind::kRange;
  double origin = 0;
};

// Searches among the grids of one anchor. They are told apart by their fineness: how many levels
// the range takes, in units of a level or of a part of it.
class BytesSearch {
 public:
  BytesSearch(const PlanRequest& request, const Sample& sample, const Sample& coarse_sample,
              const ValueRange& range, const Anchor& anchor)
      : request_(request),
        tensor_(request.tensor),
        sample_(sample),
        coarse_sample_(coarse_sample),
        range_(range),
        length_(static_cast<double>(range.x_max) - range.x_min),
        options_(request.options),
        anchor_(anchor),
        parts_(anchor.kind == Anchor::Kind::kRange ? 1 : kParts),
        tolerance_(
            std::max(options_.tolerance, kRoundingBits / static_cast<double>(tensor_.size))) {}

  // The squared error at about the budget, on the coarse sample, looking around `step` first; none
  // where nothing meets the budget.
  std::optional<double> rough_error(std::optional<double> step) {
    const double guess = step ? length_ * parts_ / *step : first_guess(limit());
    const auto start = static_cast<std::int64_t>(std::min(guess, static_cast<double>(end() - 1)));
    // Where it cannot lie like that, it would be a grid between the extremes, which is tried
    // anyway.
    if (step && anchor_.kind != Anchor::Kind::kRange && !anchored(start)) return std::nullopt;
    // Without others to compare with, this one only has to be near what is found later.
    const double slack = is_small(tensor_) ? std::max(tolerance_, kRoughSlack) : tolerance_;
    rough_ = search(coarse_sample_, 0, end(), start, limit(), slack);
    if (rough_ == 0) return std::nullopt;
    const Grid& grid = grid_for(coarse_sample_, rough_);
    const LevelMeans means(coarse_sample_, grid.levels, grid.code);
    has_means_ = options_.centroids && means.pay(tensor_.size);
    if (has_means_) means_bits_ = means.bits() / static_cast<double>(tensor_.size);
    const double error = has_means_ ? means.mean_error() : means.centre_error();
    // What is left of the budget is no merit of this step, where others are between it and the
    // next: a bit is four times the squared error.
    if (anchor_.kind == Anchor::Kind::kRange) return error;
    return error * rough_exp2(2 * (grid.code.bits + means_bits_ - limit()));
  }

  // The squared error of a plan of this search.
  double error_of(const PayloadPlan& plan) const {
    const LevelMeans means(sample_, plan.levels, plan.code);
    return plan.levels.is_displaced() ? means.mean_error() : means.centre_error();
  }

  // That of the grid which rough_error found.
  double rough_step() const { return make_grid(levels(rough_)).step; }

  PayloadPlan run() {
    const double size = static_cast<double>(tensor_.size);
    const std::uint64_t budget = static_cast<std::uint64_t>(options_.bits * size / 8) + 1;
    std::optional<PayloadPlan> best;
    std::int64_t fits = 0;         // fineness known to meet the budget
    std::int64_t exceeds = end();  // and known not to
    // Aim at the middle of the accepted band, as the sample is never quite right.
    double margin = first_margin();
    double correction = means_bits_ + (sample_.is_whole() ? 0 : first_correction());
    find_groups();
    for (int attempt = 0; attempt < kMaxPasses; ++attempt) {
      const double most = options_.bits - correction;
      std::int64_t proposal = propose(fits, exceeds, most - margin);
      // Where a little more makes a larger difference than the band is wide, dare more.
      if (margin > 0 &&
          (proposal <= fits || grid_for(sample_, proposal).code.bits < most - tolerance_)) {
        proposal = propose(fits, exceeds, most - margin / 4);
      }
      if (proposal <= fits) break;
      Grid grid = grid_for(sample_, proposal);
      if (best) best->blocks.bytes = nullptr;  // about to be overwritten
      double squared_error = 0;
      if (has_means_ || compares_error()) {
        const LevelMeans means(sample_, grid.levels, grid.code);
        if (has_means_) means.displace(&grid.levels);
        squared_error = has_means_ ? means.mean_error() : means.centre_error();
      }
      PayloadPlan plan = make_plan(request_, grid.levels, grid.code);
      const std::size_t bytes = charged_bytes(plan, tensor_.size);
      const double exact = 8.0 * static_cast<double>(bytes) / size;
      correction = exact - grid.code.bits;
      margin /= 2;
      if (bytes > budget) {
        exceeds = proposal;
        continue;
      }
      fits = proposal;
      best = std::move(plan);
      best->mean_squared_error = squared_error;
      if (exact >= options_.bits - std::max(tolerance_, next_bits(fits))) break;
    }
    // Plain fixed-width codes need no table: they win where the tensor is small.
    const unsigned width = static_cast<unsigned>(std::min(24.0, options_.bits));
    const double fixed_step = std::ldexp(length_, -static_cast<int>(width));
    if (width > 0 && (!best || fixed_step < make_grid(best->levels).step)) {
      if (best) best->blocks.bytes = nullptr;
      PayloadPlan fixed = plan_fixed_width(width);
      fixed.mean_squared_error = fixed_step * fixed_step / 12;
      if (charged_bytes(fixed, tensor_.size) <= budget) return fixed;
    }
    if (width > 0 && best) return *std::move(best);
    // With next to nothing to spend, a grid may be worse than none.
    const SingleLevel single = single_level();
    if (best && best->mean_squared_error <= single.mean_squared_error) return *std::move(best);
    PayloadPlan plan = make_plan(request_, single.levels, fixed_width_code(0));
    plan.mean_squared_error = single.mean_squared_error;
    return plan;
  }

 private:
  struct Grid {
    Levels levels;
    SymbolCode code;
  };
  struct SingleLevel {
    Levels levels;
    double mean_squared_error;
  };

  // Frames are whole bytes: a small tensor cannot be closer to its budget than about this.
  static constexpr double kRoundingBits = 16;
  // The part of the tolerance with which the search on the sample is satisfied.
  static constexpr double kSlack = 0.3;
  // Bits a coordinate with which a first one is.
  static constexpr double kRoughSlack = 0.06;
  // Codes for parts of a tensor take time: they have to save so many bits a coordinate. With a
  // budget of more than `kFewBits` that is more, and parts have to differ a lot to be tried at all.
  static constexpr double kFewBits = 5;
  static constexpr double kMinSaving = 0.02;
  static constexpr double kMinLargeSaving = 0.25;
  static constexpr double kMinLargeVariance = 1;
  static constexpr int kMaxPasses = 8;
  static constexpr int kMaxProbes = 48;
  static constexpr int kMaxGuesses = 8;
  static constexpr int kParts = 1024;  // of a level

  // What the next finer grid takes more, roughly: coding a large tensor again may be in vain.
  double next_bits(std::int64_t fineness) const {
    return sample_.is_whole() ? 0
                              : exact_log2(static_cast<std::uint64_t>(fineness) + 1) -
                                    exact_log2(static_cast<std::uint64_t>(fineness));
  }

  // One more than the finest.
  std::int64_t end() const { return std::int64_t(kMaxLevels) * parts_ + 1; }

  double first_margin() const { return sample_.is_whole() ? 0 : tolerance_ * (1 - kSlack) / 2; }
  double limit() const { return options_.bits - first_margin(); }

  // Whether somebody wants to know the error of the plan.
  bool compares_error() const {
    return options_.quality == Quality::kBest || options_.coder != Coder::kHuffman ||
           options_.bits < 1;
  }

  Levels plain_levels(std::int64_t num_levels) const {
    num_levels = std::max<std::int64_t>(1, num_levels);
    return uniform_levels(range_.x_min, range_.x_max, static_cast<std::int32_t>(num_levels));
  }

  // Levels that lie as the anchor says, if they can.
  std::optional<Levels> anchored(std::int64_t fineness) const {
    const double step = length_ * parts_ / static_cast<double>(fineness);
    const double shift = anchor_.kind == Anchor::Kind::kBorder ? step / 2 : 0;
    return levels_at(range_, step, anchor_.origin + shift, tensor_.dtype);
  }

  Levels levels(std::int64_t fineness) const {
    if (anchor_.kind != Anchor::Kind::kRange) {
      if (const std::optional<Levels> found = anchored(fineness)) return *found;
    }
    return plain_levels(fineness / parts_);
  }

  PayloadPlan plan_fixed_width(unsigned width) const {
    return make_plan(request_, plain_levels(std::int64_t(1) << width), fixed_width_code(width));
  }

  // The mean of the sample for all values, or zero where most of them are zero.
  SingleLevel single_level() const {
    const auto mean_of = [&](const auto& term) {
      double sum = 0;
      for (std::size_t i = 0; i < sample_.size(); ++i) {
        sum += term(static_cast<double>(sample_.values()[i]));
      }
      return sum / static_cast<double>(sample_.size());
    };
    const double middle = sample_.quantile(0.5) == 0 ? 0 : mean_of([](double x) { return x; });
    const Levels levels = level_near(range_, middle, tensor_.dtype);
    const double value = static_cast<double>(value_of(levels, 0));
    return {levels, mean_of([&](double x) { return (x - value) * (x - value); })};
  }

  const Grid& grid_for(const Sample& sample, std::int64_t fineness) {
    const auto key = std::make_pair(&sample, fineness);
    const auto known = grids_.find(key);
    if (known != grids_.end()) return known->second;
    Grid& grid = grids_[key];
    grid.levels = levels(fineness);
    grid.code = groups_ && &sample == &sample_
                    ? groups_->choose_code(grid.levels, options_.threads)
                    : choose_code(sample, grid.levels, Blocks(tensor_.size), options_.threads);
    return grid;
  }

  // Finds out whether parts of the tensor differ so much that they should have codes of their own,
  // at the fineness of the coarse sample; with these a finer grid fits.
  void find_groups() {
    if (!options_.local_tables || rough_ == 0) return;
    const bool is_large = options_.bits > kFewBits;
    const Grid grid = grid_for(sample_, rough_);
    groups_ =
        BlockGroups::find(sample_, grid.levels, tensor_.size, is_large ? kMinLargeVariance : 0);
    if (!groups_) return;
    grids_.clear();
    const double saved = grid.code.bits - grid_for(sample_, rough_).code.bits;
    if (saved < (is_large ? kMinLargeSaving : kMinSaving)) {
      groups_.reset();
      grids_.clear();
      return;
    }
    const double finer = static_cast<double>(rough_) * rough_exp2(saved);
    rough_ = static_cast<std::int64_t>(std::min(finer, static_cast<double>(end() - 1)));
  }

  // The fineness of a bell-shaped vector whose middle 80 % spread like the sample's.
  double first_guess(double bits) const {
    const double spread =
        static_cast<double>(sample_.quantile(0.9)) - static_cast<double>(sample_.quantile(0.1));
    return rough_exp2(bits) * (spread > 0 ? length_ / (1.6 * spread) : 2) * parts_;
  }

  // What the sample's estimate of bits is off, as far as its mean deviation tells.
  double first_correction() const {
    if (rough_ == 0 || !(sample_.deviation_variance() > 0)) return 0;
    const double covariance =
        bits_covariance(coarse_sample_, sample_.deviation(), levels(rough_), options_.threads);
    return covariance / sample_.deviation_variance() * sample_.deviation_excess();
  }

  // The finest between `fits` and `exceeds` (both excluded) that the sample estimates within
  // `most`; `fits` where it finds none.
  std::int64_t propose(std::int64_t fits, std::int64_t exceeds, double most) {
    const std::int64_t start = exceeds < end() ? exceeds - 1
                               : fits > 0      ? fits + 1
                                               : std::max<std::int64_t>(1, rough_);
    const double slack = tolerance_ * (sample_.is_whole() ? 1 : kSlack);
    return search(sample_, fits, exceeds, start, most, slack);
  }

  // The same for one sample, from `start`, satisfied with `slack` below the limit. Twice the levels
  // cost about a bit: the first steps follow that slope, then the one they found; after them the
  // bracket is halved.
  std::int64_t search(const Sample& sample, std::int64_t low, std::int64_t high, std::int64_t start,
                      double most, double slack) {
    const double aim = most - slack / 2;
    double slope = 1;
    double last_log = 0, last_bits = 0;
    std::int64_t next = start;
    for (int probe = 0; probe < kMaxProbes && high - low > 1; ++probe) {
      next = std::min(high - 1, std::max(low + 1, next));
      const double bits = grid_for(sample, next).code.bits;
      if (bits <= most) {
        low = next;
        if (bits >= most - slack) break;
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
        next = high < end() ? low + 1 : low + 1 + low / 32;
      } else if (next >= high) {
        next = low > 0 ? high - 1 : high - 1 - high / 32;
      }
    }
    return low;
  }

  const PlanRequest& request_;
  const TensorView& tensor_;
  const Sample& sample_;
  const Sample& coarse_sample_;
  ValueRange range_;
  double length_;
  const EcuqOptions& options_;
  Anchor anchor_;
  int parts_;
  double tolerance_;
  std::int64_t rough_ = 0;             // the fineness that the coarse sample found
  bool has_means_ = false;             // some levels lie at the means of their values
  double means_bits_ = 0;              // what that takes, a coordinate
  std::optional<BlockGroups> groups_;  // blocks that have code tables of their own
  std::map<std::pair<const Sample*, std::int64_t>, Grid> grids_;
};

// Grids that may suit. Where levels are many it does not matter how they lie.
std::vector<Anchor> anchors_for(const PlanRequest& request, const Sample& sample,
                                const ValueRange& range) {
  constexpr double kMaxAnchorBits = 4.5;
  if (request.options.bits > kMaxAnchorBits) return {{Anchor::Kind::kRange, 0}};
  const bool is_one_sided = range.x_min >= 0 || range.x_max <= 0;
  if (is_small(request.tensor)) {
    return {{is_one_sided ? Anchor::Kind::kRange : Anchor::Kind::kLevel, 0}};
  }
  std::vector<Anchor> anchors = {{Anchor::Kind::kBorder, 0}, {Anchor::Kind::kRange, 0}};
  if (!is_one_sided) anchors.push_back({Anchor::Kind::kLevel, 0});
  const double median = static_cast<double>(sample.quantile(0.5));
  const double spread =
      static_cast<double>(sample.quantile(0.9)) - static_cast<double>(sample.quantile(0.1));
  if (std::fabs(median) > 0.1 * spread) anchors.push_back({Anchor::Kind::kLevel, median});
  return anchors;
}

}  // namespace

PayloadPlan search_bytes(const PlanRequest& request, const Sample& sample,
                         const ValueRange& range) {
  constexpr std::size_t kCoarseSampleSize = 16384;
  constexpr double kLeftBits = 0.05;  // less is not worth a second coding pass
  std::optional<Sample> smaller;
  if (sample.size() > kCoarseSampleSize) {
    smaller.emplace(sample.view(), kCoarseSampleSize, Sample::kShortRun, false);
    smaller->gather(0, sample.size());
    smaller->finish();
  }
  const Sample& coarse_sample = smaller ? *smaller : sample;
  std::vector<BytesSearch> searches;
  for (const Anchor& anchor : anchors_for(request, sample, range)) {
    searches.emplace_back(request, sample, coarse_sample, range, anchor);
  }
  // The first tells about where to look; the others look there, side by side.
  std::vector<std::optional<double>> errors(searches.size());
  errors[0] = searches[0].rough_error(std::nullopt);
  std::optional<double> step;
  if (errors[0]) step = searches[0].rough_step();
  parallel_for(searches.size() - 1, request.options.threads, [&](std::size_t number, int) {
    errors[number + 1] = searches[number + 1].rough_error(step);
  });
  std::vector<std::size_t> order(searches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return errors[a] && (!errors[b] || *errors[a] < *errors[b]);
  });
  PayloadPlan plan = searches[order[0]].run();
  // Where levels are few, the best grid of the small sample may be just too much for the tensor,
  // and the next of its kind far less: then another kind may make more of the budget.
  const double size = static_cast<double>(request.tensor.size);
  const double used = 8.0 * static_cast<double>(charged_bytes(plan, request.tensor.size)) / size;
  const double enough = request.options.bits - std::max(request.options.tolerance, kLeftBits);
  if (used >= enough || order.size() < 2 || !errors[order[1]]) return plan;
  const double error = searches[order[0]].error_of(plan);
  plan.blocks.bytes = nullptr;  // about to be overwritten
  PayloadPlan other = searches[order[1]].run();
  return searches[order[1]].error_of(other) < error ? other : plan;
}

}  // namespace docofl
