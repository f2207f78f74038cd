#include "ecuq/rans_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "common/exact_log2.h"
#include "common/parallel.h"
#include "common/source.h"
#include "ecuq/payload_fields.h"
#include "ecuq/rans_fit.h"
#include "ecuq/rans_source.h"

namespace docofl {
namespace {

constexpr std::size_t kMinSize = 1024;
constexpr std::size_t kMinSampleSize = 131072;
constexpr std::size_t kMaxSampleSize = 262144;
constexpr std::size_t kOriginSampleSize = 16384;
// Large tensors have tables from a part of this size.
constexpr std::size_t kPartSize = std::size_t(1) << 22;
// A pass over a tensor of this size takes so long that the step is tried on a part before.
constexpr std::size_t kMinSettledSize = std::size_t(1) << 22;
constexpr std::size_t kSettledSize = std::size_t(1) << 20;
constexpr int kSettleRounds = 3;
constexpr int kOriginRounds = 6;
constexpr int kMinRounds = 5;
constexpr int kMaxRounds = 14;
constexpr int kMaxPasses = 10;
constexpr int kEnoughPasses = 5;  // with these, any that meets the budget is good enough
constexpr double kCloseBits = 0.004;
// Outliers a coordinate, where few values are far away; a finer grid needs a larger window.
constexpr double kMaxOutliers = 0.005;
constexpr double kMaxScalarOutliers = 0.001;
// The first guesses of a step start anew where they are so far off; later ones go on from the
// tables that were found, as levels that cost little become more frequent, and cost less, from
// round to round.
constexpr int kGuesses = 3;
constexpr double kFarBits = 0.15;
// A bit's worth (TrellisModel::rate_weight) for values that are not symmetric, found by trial.
constexpr float kSkewRateWeight = 0.36f;
// Of the step's logarithm, for a bit too much.
constexpr double kGain = 1.5;
constexpr double kMaxGain = 8;

// Looks for the step of so many bits, by secants that stay between what is too fine and what is too
// coarse.
class StepSearch {
 public:
  StepSearch(double first, double aim) : first_(first), aim_(aim) {}

  double step() const { return first_ * exact_exp2(log_, kMostLog); }

  // Goes to the next step, after this one took `bits`.
  void advance(double bits) {
    const double excess = bits - aim_;
    (excess > 0 ? fine_ : coarse_) = log_;
    double effect = 1;  // bits less for twice the step
    if (log_ != last_log_) effect = (last_bits_ - bits) / (log_ - last_log_);
    last_log_ = log_;
    last_bits_ = bits;
    double next = log_ + std::min(4.0, std::max(-4.0, excess / std::max(0.2, effect)));
    const bool is_bracketed = coarse_ - fine_ < kMostLog;
    const double margin = is_bracketed ? 0.05 * (coarse_ - fine_) : 0;
    log_ = std::min(coarse_ - margin, std::max(fine_ + margin, next));
  }

 private:
  static constexpr double kMostLog = 40;

  double first_, aim_;
  double log_ = 0;  // of the step, in units of the first
  double fine_ = -2 * kMostLog, coarse_ = 2 * kMostLog;
  double last_log_ = 0, last_bits_ = 0;
};

// The same where the model stays as it is: bits follow the step nearly as they did before.
class StepFollower {
 public:
  explicit StepFollower(double aim) : aim_(aim) {}

  // The change of the step's logarithm, after this step took `bits`.
  double change(double bits) {
    constexpr double kUsualEffect = 0.8;  // bits less for twice the step
    const double effect = is_first_ ? kUsualEffect : (last_bits_ - bits) / last_change_;
    is_first_ = false;
    last_bits_ = bits;
    const double change = (bits - aim_) / std::min(1.5, std::max(0.4, effect));
    last_change_ = std::min(0.5, std::max(-0.5, change));
    return last_change_;
  }

 private:
  double aim_;
  bool is_first_ = true;
  double last_bits_ = 0, last_change_ = 0;
};

float quantile(std::vector<float>* values, double fraction) {
  const std::size_t rank =
      static_cast<std::size_t>(fraction * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), values->begin() + static_cast<std::ptrdiff_t>(rank),
                   values->end());
  return (*values)[rank];
}

class RansSearch {
 public:
  RansSearch(const PlanRequest& request, const ValueRange& range, bool dependent,
             const RunTransform& transform)
      : source_(request.tensor, transform, request.options.threads),
        room_{request.room, most_charged(request)},
        options_(request.options),
        range_(range),
        dependent_(dependent),
        has_budget_(options_.budget == Budget::kBytes),
        sample_(source_.sample(sample_size())) {}

  std::optional<RansPlan> run() {
    std::vector<float> sorted = sample_;
    const double low = quantile(&sorted, 0.1), high = quantile(&sorted, 0.9);
    const float median = quantile(&sorted, 0.5);
    double step = options_.step;
    if (has_budget_) step = (high - low) * exact_exp2(-options_.bits);
    if (!(step >= kMinRansStep && step <= kMaxRansStep)) return std::nullopt;

    // 1. Where the grid lies, and levels and step, on the sample.
    RansFit fit;
    fit.model.dependent = dependent_;
    fit.may_displace = dependent_ || options_.centroids;
    fit.transformed = source_.transform().is_used();
    fit.spike_bytes = source_.transform().num_spikes * kRansOutlierBytes;
    const double spread = high - low;
    const bool is_symmetric = std::fabs(low + high - 2.0 * median) < 0.05 * spread;
    const float middle = std::fabs(median) < 0.02 * spread ? 0.0f : median;
    if (is_symmetric) {
      fit.model.mirrored = dependent_;
      fit.anchor = middle;
    } else {
      fit.model.rate_weight = kSkewRateWeight;
    }
    if (dependent_) {
      if (!is_symmetric) choose_origin({0.0f, static_cast<float>(low), median}, step, &fit);
      RansFitter fitter = sample_fitter();
      fitter.start(step, &fit);
      fit_levels(kMaxRounds, &fitter, &fit);
      RansFitter::adapt(&fit);
      settle_step(sample_view(), &fit);
    } else if (has_budget_) {
      step = choose_anchor({{middle, 0.0f}, {middle, 0.5f}, {0.0f, 0.5f}}, step, &fit);
      solve_step(sample_fitter(), step, &fit);
    } else {
      fit.anchor = 0;
      solve_step(sample_fitter(), step, &fit);
    }
    // 2. Whether it pays: more than 128 levels might be worth it.
    if (lists_many(fit.num_outliers, sample_.size())) return std::nullopt;
    // 3. The step on a larger part, then everything.
    if (has_budget_ && source_.size() >= kMinSettledSize) {
      const std::vector<float> part = source_.sample(kSettledSize);
      settle_step({part.data(), part.size(), DType::kFloat32}, &fit);
    }
    return code_tensor(&fit);
  }

 private:
  static std::size_t most_charged(const PlanRequest& request) {
    if (request.options.budget != Budget::kBytes) return std::numeric_limits<std::size_t>::max();
    return static_cast<std::size_t>(request.options.bits *
                                    static_cast<double>(request.tensor.size) / 8) +
           1;
  }

  std::size_t sample_size() const {
    const std::size_t part = source_.size() / 8 / kRansSegment * kRansSegment;
    return std::min(kMaxSampleSize, std::max(kMinSampleSize, part));
  }

  TensorView sample_view() const { return {sample_.data(), sample_.size(), DType::kFloat32}; }

  RansFitter sample_fitter() const { return {sample_view(), source_.size(), options_.threads}; }

  // A part, to try origins on.
  RansFitter small_fitter() const {
    const TensorView part{sample_.data(), std::min(sample_.size(), kOriginSampleSize),
                          DType::kFloat32};
    return {part, source_.size(), options_.threads};
  }

  // A base-2 logarithm, but for a constant.
  static double log_ratio(double a, double b) {
    return exact_log2(1 + static_cast<std::uint64_t>(std::min(0x1p40, a / b) * 0x1p20));
  }

  // A measure of squared error and bits. Six decibels a bit. Errors of values that are no longer
  // finite are none.
  static double loss_of(double squared_error, double bits) {
    const double scaled = squared_error * 0x1p20;
    const bool is_sane = scaled >= 0 && scaled < 0x1p63;
    return 0.5 * exact_log2(1 + (is_sane ? static_cast<std::uint64_t>(scaled) : 0)) + bits;
  }

  // The origin that gives the least error at equal rate.
  void choose_origin(const std::vector<float>& origins, double step, RansFit* fit) const {
    RansFitter fitter = small_fitter();
    std::optional<double> least;
    float best = 0;
    for (const float origin : origins) {
      fit->anchor = origin;
      fitter.start(step, fit);
      fit_levels(kOriginRounds, &fitter, fit);
      const double loss = loss_of(fit->result.squared_error, fit->bits) +
                          log_ratio(static_cast<double>(fit->model.step), step);
      if (!least || loss < *least) {
        least = loss;
        best = origin;
      }
    }
    fit->anchor = best;
  }

  struct Anchor {
    float place;
    float shift;  // in steps
  };

  // The same where levels are not dependent; returns the step for the budget.
  double choose_anchor(const std::vector<Anchor>& anchors, double step, RansFit* fit) const {
    RansFitter fitter = small_fitter();
    std::optional<double> least;
    Anchor best = anchors.front();
    double best_step = step;
    for (const Anchor& anchor : anchors) {
      fit->anchor = anchor.place;
      fit->shift = anchor.shift;
      solve_step(fitter, best_step, fit);
      if (fit->bits > aim() + kFarBits) continue;
      const double found = static_cast<double>(fit->model.step);
      const double loss = loss_of(displaced_error_of(*fit), fit->bits) + log_ratio(found, step);
      if (!least || loss < *least) {
        least = loss;
        best = anchor;
        best_step = found;
      }
    }
    fit->anchor = best.place;
    fit->shift = best.shift;
    return best_step;
  }

  // Changes the step by a factor.
  static void change_step(double factor, RansFit* fit) {
    set_step(static_cast<double>(fit->model.step) * factor, fit);
  }

  // Rounds of quantizing and adapting, with steps that approach the budget. The last one stays as
  // it is.
  void fit_levels(int most_rounds, RansFitter* fitter, RansFit* fit) const {
    double gain = kGain, last = 0;
    for (int round = 0;; ++round) {
      fitter->run(fit);
      const double excess = has_budget_ ? fit->bits - aim() : 0;
      const bool is_close = round >= kMinRounds && std::fabs(excess) < kCloseBits;
      if (is_close || round + 1 == most_rounds) return;
      const double step = static_cast<double>(fit->model.step);
      if (round < kGuesses && std::fabs(excess) > kFarBits) {
        fitter->start(step * exact_exp2(excess), fit);
        continue;
      }
      // The step has become too small for the levels that were worth a place, and there is more.
      const bool is_narrow = fit->model.num_coded <= kMaxDependentLevels / 2;
      if (has_budget_ && is_narrow && lists_many(fit->num_outliers, fitter->size())) {
        fitter->start(step, fit);
        continue;
      }
      RansFitter::adapt(fit);
      // Levels that become more frequent take back what the step gave: push harder while they do.
      const bool is_held_back = excess * last > 0 && std::fabs(excess) > 0.5 * std::fabs(last);
      gain = is_held_back ? std::min(kMaxGain, 1.5 * gain) : kGain;
      last = excess;
      change_step(exact_exp2(gain * excess), fit);
    }
  }

  // The same where levels are not dependent: bits follow the step.
  void solve_step(RansFitter fitter, double step, RansFit* fit) const {
    StepSearch search(step, aim());
    for (int round = 0; round < kMaxRounds; ++round) {
      fitter.start(search.step(), fit);
      fitter.run(fit);
      if (!has_budget_ || std::fabs(fit->bits - aim()) < kCloseBits) break;
      search.advance(fit->bits);
    }
  }

  // Goes to the next step, after the last one took so many bits.
  using StepChange = std::function<void(double bits)>;

  // For a model that was fitted to the sample, and now meets a part of the tensor, or all of it.
  // Dependent levels keep their model; of others the sample says which are worth a place.
  StepChange first_change(const TensorView& part, RansFit* fit) const {
    if (!dependent_) {
      return [this, fit, search = StepSearch(static_cast<double>(fit->model.step), aim())](
                 double bits) mutable {
        search.advance(bits);
        sample_fitter().start(search.step(), fit);
      };
    }
    choose_segments(part, fit);
    return
        [fit, choices = fit->tables.choices, follower = StepFollower(aim())](double bits) mutable {
          fit->tables.choices = choices;
          change_step(exact_exp2(follower.change(bits)), fit);
        };
  }

  // Moves the step until a part of the tensor takes what is aimed at.
  void settle_step(const TensorView& part, RansFit* fit) const {
    if (!has_budget_) return;
    RansFitter fitter(part, source_.size(), options_.threads);
    const StepChange next = first_change(part, fit);
    for (int round = 0; round < kSettleRounds; ++round) {
      fitter.run(fit);
      if (std::fabs(fit->bits - aim()) < kCloseBits) break;
      next(fit->bits);
    }
  }

  double tolerance() const {
    return std::max(options_.tolerance, 16 / static_cast<double>(source_.size()));
  }

  // A little below the budget, in the middle of what is accepted.
  double aim() const { return options_.bits - 0.4 * tolerance(); }

  bool lists_many(std::uint64_t num_outliers, std::size_t size) const {
    const double most = dependent_ ? kMaxOutliers : kMaxScalarOutliers;
    return static_cast<double>(num_outliers) > most * static_cast<double>(size);
  }

  // Bits a coordinate that the budget is charged for.
  double charged_bits(const RansPlan& plan) const {
    const std::size_t size = source_.size();
    return 8.0 * static_cast<double>(charged_bytes(plan, size)) / static_cast<double>(size);
  }

  std::optional<RansPlan> code_tensor(RansFit* fit) {
    std::vector<float> values;
    const TensorView part = fitted_part(&values);
    RansFitter fitter(part, source_.size(), options_.threads);
    const bool is_whole = part.size == source_.size();
    const StepChange next = first_change(part, fit);
    std::optional<RansFit> best;  // as it was before it was run
    double best_bits = 0;
    const auto code_best = [&] {
      fitter.run(&*best);
      RansPlan plan = code_rans(source_, *best, fitter, room_, options_.threads);
      if (charged_bits(plan) > options_.bits) tensor_changed();
      return plan;
    };
    if (!has_budget_) {
      fitter.run(fit);
      RansPlan plan = code_rans(source_, *fit, fitter, room_, options_.threads);
      // Unlike the sample, the tensor may want more levels.
      if (!can_hold(plan) || lists_many(plan.num_outliers, source_.size())) return std::nullopt;
      return plan;
    }
    double excess = 0;  // bits that the tensor takes more than its part
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      RansFit before = *fit;
      fitter.run(fit);
      double bits = fit->bits + excess;
      // To code a whole tensor takes much longer than to fit a part of it.
      const bool is_close =
          is_whole || bits >= options_.bits - tolerance() || pass >= kEnoughPasses;
      if (bits <= options_.bits && is_close) {
        RansPlan plan = code_rans(source_, *fit, fitter, room_, options_.threads);
        if (!can_hold(plan)) return std::nullopt;
        const double exact = charged_bits(plan);
        if (exact <= options_.bits) {
          const bool is_enough = exact >= options_.bits - tolerance() || pass >= kEnoughPasses;
          if (!best || exact > best_bits) {
            if (is_enough) return plan;
            best = std::move(before);
            best_bits = exact;
          } else if (is_enough) {
            return code_best();
          }
        }
        if (!is_whole) excess = exact - fit->bits;
        bits = is_whole ? std::max(exact, bits) : exact;
      } else if (best && pass >= kEnoughPasses) {
        return code_best();
      }
      next(bits);
    }
    if (!best) return std::nullopt;
    return code_best();
  }

  // What tables and steps are fitted to: the whole of what is coded, where its levels can be kept,
  // or a sample that tells nearly as much.
  TensorView fitted_part(std::vector<float>* values) {
    if (!source_.is_large()) return source_.whole();
    *values = source_.sample(kPartSize);
    return {values->data(), values->size(), DType::kFloat32};
  }

  // Whether the tensor's dtype can hold all levels, which may lie beyond its values. Values of one
  // sign keep it where levels are not dependent.
  bool can_hold(const RansPlan& plan) const {
    const RansCode& code = plan.code;
    const float overflow = overflow_of(code.transformed ? DType::kFloat32 : source_.dtype());
    for (int quantizer = 0; quantizer < 2; ++quantizer) {
      for (unsigned j = 0; j < code.num_coded; ++j) {
        const float value = code.value(quantizer, j);
        if (!(std::fabs(value) < overflow)) return false;
        if (dependent_ || plan.counts.counts[quantizer][j] == 0) continue;
        if ((range_.x_min >= 0 && value < 0) || (range_.x_max <= 0 && value > 0)) return false;
      }
    }
    return true;
  }

  // A table for each segment of the part, before there are levels to choose it by.
  void choose_segments(const TensorView& part, RansFit* fit) const {
    const std::size_t segments = divide_up(part.size, kRansSegment);
    fit->tables.choices.resize(segments);
    std::vector<std::vector<float>> scratch(num_workers(segments, options_.threads));
    parallel_for(segments, options_.threads, [&](std::size_t segment, int worker) {
      scratch[worker].resize(kRansSegment);
      const std::size_t begin = segment * kRansSegment;
      const std::size_t count = std::min(kRansSegment, part.size - begin);
      const float* values = load_values(part, begin, count, scratch[worker].data());
      fit->tables.choices[segment] = likely_table(fit->model, values, count);
    });
  }

  RansSource source_;
  RansRoom room_;
  EcuqOptions options_;
  ValueRange range_;
  bool dependent_;
  bool has_budget_;
  std::vector<float> sample_;
};

}  // namespace

std::optional<RansPlan> search_rans(const PlanRequest& request, const ValueRange& range,
                                    bool dependent) {
  if (request.tensor.size < kMinSize) return std::nullopt;
  // The bound on errors that a given step promises is one for values.
  RunTransform transform;
  if (dependent && request.options.budget == Budget::kBytes) {
    transform = choose_transform(request.tensor, request.options.bits, request.options.threads);
  }
  std::optional<RansPlan> plan = RansSearch(request, range, dependent, transform).run();
  if (plan || !transform.is_used()) return plan;
  return RansSearch(request, range, dependent, {}).run();
}

}  // namespace docofl
