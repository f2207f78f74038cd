#include "ecuq/rans_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/counter_rng.h"
#include "common/exact_log2.h"
#include "common/parallel.h"
#include "ecuq/payload_fields.h"
#include "ecuq/rans_fit.h"
#include "ecuq/rans_write.h"
#include "ecuq/transform.h"

namespace docofl {
namespace {

constexpr std::size_t kMinSize = 1024;
constexpr std::size_t kMinSampleSize = 131072;
constexpr std::size_t kMaxSampleSize = 262144;
constexpr std::size_t kOriginSampleSize = 16384;
constexpr std::uint64_t kSampleKey = 3;
constexpr int kOriginRounds = 4;
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
constexpr double kUsualEffect = 0.8;
// Places of levels are exact in float32, and so are the differences of values of this range.
constexpr double kMinStep = 0x1p-100;
constexpr double kMaxStep = 0x1p100;

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

// Segments of a tensor, evenly spread; with `whole_segments`, of those that share a table.
std::vector<float> take_sample(const TensorView& tensor, std::size_t size, bool whole_segments) {
  const bool is_whole = tensor.size <= size;
  std::vector<float> sample(is_whole ? tensor.size : size);
  std::vector<float> scratch(kRansSegment);
  const std::size_t parts = divide_up(sample.size(), kRansSegment);
  const std::size_t width = tensor.size / parts;
  for (std::size_t k = 0; k < parts; ++k) {
    const std::size_t to = k * kRansSegment;
    const std::size_t count = std::min(kRansSegment, sample.size() - to);
    const std::uint64_t random = counter_random(kSampleKey, k) >> 32;
    std::size_t from = is_whole ? to : k * width + ((random * (width - count + 1)) >> 32);
    if (whole_segments) from = from / kRansSegment * kRansSegment;
    const float* values = load_values(tensor, from, count, scratch.data());
    std::copy(values, values + count, sample.begin() + static_cast<std::ptrdiff_t>(to));
  }
  return sample;
}

float quantile(std::vector<float>* values, double fraction) {
  const std::size_t rank =
      static_cast<std::size_t>(fraction * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), values->begin() + static_cast<std::ptrdiff_t>(rank),
                   values->end());
  return (*values)[rank];
}

class RansSearch {
 public:
  // Of the transformed tensor, if it is not empty.
  RansSearch(const PlanRequest& request, const ValueRange& range, bool dependent,
             const TransformedTensor& transformed)
      : tensor_(request.tensor),
        options_(request.options),
        transformed_(transformed),
        range_(range),
        dependent_(dependent),
        has_budget_(options_.budget == Budget::kBytes) {
    if (is_transformed()) {
      tensor_ = {transformed_.coefficients.data(), tensor_.size, DType::kFloat32};
    }
    sample_ = take_sample(tensor_, sample_size(), is_transformed());
  }

  std::optional<RansPlan> run() {
    std::vector<float> sorted = sample_;
    const double low = quantile(&sorted, 0.1), high = quantile(&sorted, 0.9);
    const float median = quantile(&sorted, 0.5);
    double step = options_.step;
    if (has_budget_) step = (high - low) * exact_exp2(-options_.bits);
    if (!(step >= kMinStep && step <= kMaxStep)) return std::nullopt;

    // 1. Where the grid lies. 2. The step, on the sample. 3. Everything, on all values.
    RansFit fit;
    fit.model.dependent = dependent_;
    fit.may_displace = dependent_ || options_.centroids;
    fit.transformed = is_transformed();
    fit.spike_bytes = transformed_.num_spikes * kRansOutlierBytes;
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
      sample_fitter().start(step, &fit);
      fit_sample(&fit);
    } else if (has_budget_) {
      step = choose_anchor({{middle, 0.0f}, {middle, 0.5f}, {0.0f, 0.5f}}, step, &fit);
      solve_step(sample_fitter(), step, &fit);
    } else {
      fit.anchor = 0;
      solve_step(sample_fitter(), step, &fit);
    }
    // More than 128 levels would be worth it.
    const double most = dependent_ ? kMaxOutliers : kMaxScalarOutliers;
    if (static_cast<double>(fit.num_outliers) > most * static_cast<double>(sample_.size())) {
      return std::nullopt;
    }
    return code_tensor(&fit);
  }

 private:
  bool is_transformed() const { return !transformed_.coefficients.empty(); }

  std::size_t sample_size() const {
    const std::size_t part = tensor_.size / 8 / kRansSegment * kRansSegment;
    return std::min(kMaxSampleSize, std::max(kMinSampleSize, part));
  }

  RansFitter sample_fitter() const {
    const TensorView sample{sample_.data(), sample_.size(), DType::kFloat32};
    return {sample, tensor_.size, options_.threads};
  }

  // A part, to try origins on.
  RansFitter small_fitter() const {
    const TensorView part{sample_.data(), std::min(sample_.size(), kOriginSampleSize),
                          DType::kFloat32};
    return {part, tensor_.size, options_.threads};
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
      for (int round = 0; round < kOriginRounds; ++round) {
        fitter.run(fit);
        RansFitter::adapt(fit);
      }
      const double loss = loss_of(fit->squared_error, fit->bits);
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
      const double loss = loss_of(displaced_error_of(*fit), fit->bits) +
                          exact_log2(1 + static_cast<std::uint64_t>(found / step * 0x1p20));
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

  void fit_sample(RansFit* fit) {
    RansFitter fitter = sample_fitter();
    double gain = kGain, last = 0;
    for (int round = 0; round < kMaxRounds; ++round) {
      fitter.run(fit);
      const double excess = has_budget_ ? fit->bits - aim() : 0;
      if (round >= kMinRounds && std::fabs(excess) < kCloseBits) break;
      if (round < kGuesses && std::fabs(excess) > kFarBits) {
        fitter.start(static_cast<double>(fit->model.step) * exact_exp2(excess), fit);
        continue;
      }
      RansFitter::adapt(fit);
      // Levels that become more frequent take back what the step gave: push harder while they do.
      const bool is_held_back = excess * last > 0 && std::fabs(excess) > 0.5 * std::fabs(last);
      gain = is_held_back ? std::min(kMaxGain, 1.5 * gain) : kGain;
      last = excess;
      change_step(exact_exp2(gain * excess), fit);
    }
    RansFitter::adapt(fit);
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

  double tolerance() const {
    return std::max(options_.tolerance, 16 / static_cast<double>(tensor_.size));
  }

  // A little below the budget, in the middle of what is accepted.
  double aim() const { return options_.bits - 0.4 * tolerance(); }

  std::optional<RansPlan> code_tensor(RansFit* fit) {
    RansFitter fitter(tensor_, tensor_.size, options_.threads);
    if (dependent_) choose_segments(fit);
    StepSearch search(static_cast<double>(fit->model.step), aim());
    std::optional<RansPlan> best;
    double effect = kUsualEffect;  // bits less for twice the step
    double last_bits = 0, last_change = 0;
    const std::vector<std::uint8_t> choices = fit->tables.choices;
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      fitter.run(fit);
      if (!can_hold(*fit)) return std::nullopt;
      if (!has_budget_) return write(*fit, fitter);
      if (fit->bits <= options_.bits) {
        RansPlan plan = write(*fit, fitter);
        const double charged =
            8.0 *
            static_cast<double>(plan.payload.size() - rans_free_bytes(code_of(*fit), tensor_.size));
        const double bits = charged / static_cast<double>(tensor_.size);
        if (bits <= options_.bits) {
          if (!best || plan.payload.size() > best->payload.size()) best = std::move(plan);
          if (bits >= options_.bits - tolerance() || pass >= kEnoughPasses) return best;
        }
        fit->bits = std::max(bits, fit->bits);
      } else if (best && pass >= kEnoughPasses) {
        return best;
      }
      if (!dependent_) {
        search.advance(fit->bits);
        sample_fitter().start(search.step(), fit);
        continue;
      }
      // The model stays as it is, and bits follow the step.
      fit->tables.choices = choices;
      if (pass > 0) effect = (last_bits - fit->bits) / last_change;
      const double change = (fit->bits - aim()) / std::min(1.5, std::max(0.4, effect));
      last_bits = fit->bits;
      last_change = std::min(0.5, std::max(-0.5, change));
      change_step(exact_exp2(last_change), fit);
    }
    return best;
  }

  // Whether the tensor's dtype can hold all levels, which may lie beyond its values. Values of one
  // sign keep it where levels are not dependent.
  bool can_hold(const RansFit& fit) const {
    RansCode code = code_of(fit);
    displace(fit.counts, 1, &code);
    const float overflow = overflow_of(tensor_.dtype);
    for (int quantizer = 0; quantizer < 2; ++quantizer) {
      for (unsigned j = 0; j < code.num_coded; ++j) {
        const float value = code.value(quantizer, j);
        if (!(std::fabs(value) < overflow)) return false;
        if (dependent_ || fit.counts.counts[quantizer][j] == 0) continue;
        if ((range_.x_min >= 0 && value < 0) || (range_.x_max <= 0 && value > 0)) return false;
      }
    }
    return true;
  }

  // The cheapest table of each segment, for some of its values and without a trellis.
  void choose_segments(RansFit* fit) const {
    constexpr std::size_t kStride = 16;
    const TrellisModel& model = fit->model;
    const std::size_t segments = divide_up(tensor_.size, kRansSegment);
    fit->tables.choices.assign(segments, 0);
    if (model.bits.size() == 1) return;
    std::vector<std::vector<float>> scratch(num_workers(segments, options_.threads));
    const float inverse_step = 1.0f / model.step;
    parallel_for(segments, options_.threads, [&](std::size_t segment, int worker) {
      scratch[worker].resize(kRansSegment);
      const std::size_t begin = segment * kRansSegment;
      const std::size_t count = std::min(kRansSegment, tensor_.size - begin);
      const float* values = load_values(tensor_, begin, count, scratch[worker].data());
      float least = 0;
      for (std::size_t t = 0; t < model.bits.size(); ++t) {
        const auto& bits = model.bits[t];
        const auto frequent = static_cast<std::size_t>(
            std::min_element(bits.begin(), bits.begin() + model.num_coded) - bits.begin());
        float cost = 0;
        for (std::size_t i = 0; i < count; i += kStride) {
          const float u = (values[i] - model.origin) * inverse_step;
          if (!(u >= model.low() && u <= model.high())) continue;
          const int index = static_cast<int>(std::floor((u < 0 ? u : u + 1) * 0.5f)) - model.base;
          const auto near = static_cast<std::size_t>(
              std::min(static_cast<int>(model.num_coded) - 1, std::max(0, index)));
          const float near_error = u - model.places[0][near];
          const float error = u - model.places[0][frequent];
          cost += std::min(near_error * near_error + model.rate_weight * bits[near],
                           error * error + model.rate_weight * bits[frequent]);
        }
        if (t == 0 || cost < least) {
          least = cost;
          fit->tables.choices[segment] = static_cast<std::uint8_t>(t);
        }
      }
    });
  }

  RansPlan write(const RansFit& fit, const RansFitter& fitter) const {
    RansCode code = code_of(fit);
    displace(fit.counts, 1, &code);
    code.entropy = static_cast<float>(fit.code.symbol_bits / static_cast<double>(tensor_.size));
    const RansSymbols symbols{tensor_.size, fitter.coded(), fit.code.choices.data(),
                              fit.outliers.data(), transformed_.spikes.data()};
    std::vector<std::uint8_t> payload = write_rans_payload(code, symbols, options_.threads);
    const double step = static_cast<double>(code.step);
    return {std::move(payload),
            squared_error_of(fit, code) * step * step / static_cast<double>(tensor_.size)};
  }

  TensorView tensor_;
  EcuqOptions options_;
  const TransformedTensor& transformed_;
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
  TransformedTensor transformed;
  if (dependent && request.options.budget == Budget::kBytes) {
    transformed = transform_tensor(request.tensor, request.options.bits, request.options.threads);
  }
  std::optional<RansPlan> plan = RansSearch(request, range, dependent, transformed).run();
  if (plan || transformed.coefficients.empty()) return plan;
  transformed = {};
  return RansSearch(request, range, dependent, transformed).run();
}

}  // namespace docofl
