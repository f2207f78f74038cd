#include "ecuq/dependent_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/byte_io.h"
#include "common/counter_rng.h"
#include "common/exact_log2.h"
#include "common/parallel.h"
#include "common/source.h"
#include "docofl/error.h"
#include "ecuq/local_tables.h"
#include "ecuq/payload_fields.h"
#include "ecuq/trellis.h"

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
constexpr int kEnoughPasses = 5;    // with these, any that meets the budget is good enough
constexpr int kAdaptingPasses = 2;  // after which the model of all values is left as it is
constexpr double kCloseBits = 0.004;
constexpr double kMaxOutliers = 0.005;  // a coordinate, where few values are far away
constexpr double kPairBonus = 0.004;    // bits a coordinate that speed is worth
// The first guesses of a step start anew where they are so far off; later ones go on from the
// tables that were found, as levels that cost little become more frequent, and cost less, from
// round to round.
constexpr int kGuesses = 3;
constexpr double kFarBits = 0.15;
// A bit's worth (TrellisModel::rate_weight) for values that are not symmetric, found by trial.
constexpr float kSkewRateWeight = 0.5f;
constexpr double kGain = 1.5;  // of the step's logarithm, for a bit too much
// Means of so few values tell little about those of another tensor, or of another step.
constexpr std::uint32_t kMinMeanCount = 16;
// Places of levels are exact in float32, and so are the differences of values of this range.
constexpr double kMinStep = 0x1p-100;
constexpr double kMaxStep = 0x1p100;

// 2^x for small x, the same everywhere.
double exp2_of(double x) {
  x = std::min(8.0, std::max(-8.0, x));
  const double whole = std::floor(x);
  const double part = (x - whole) * 0.6931471805599453;
  double term = 1, sum = 1;
  for (int k = 1; k < 16; ++k) term *= part / k, sum += term;
  return std::ldexp(sum, static_cast<int>(whole));
}

// Segments of a tensor, evenly spread.
std::vector<float> take_sample(const TensorView& tensor, std::size_t size) {
  const bool is_whole = tensor.size <= size;
  std::vector<float> sample(is_whole ? tensor.size : size);
  std::vector<float> scratch(kRansSegment);
  const std::size_t parts = divide_up(sample.size(), kRansSegment);
  const std::size_t width = tensor.size / parts;
  for (std::size_t k = 0; k < parts; ++k) {
    const std::size_t to = k * kRansSegment;
    const std::size_t count = std::min(kRansSegment, sample.size() - to);
    const std::uint64_t random = counter_random(kSampleKey, k) >> 32;
    const std::size_t from = is_whole ? to : k * width + ((random * (width - count + 1)) >> 32);
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

// Levels, and the tables that were made for the symbols they gave.
struct Fit {
  TrellisModel model;
  LocalTables tables;  // of single levels, for the next model
  LocalTables code;    // what symbols are coded with
  unsigned tuple = 1;
  bool displaced = true;
  TrellisCounts counts;
  std::vector<std::vector<RansOutlier>> outliers;  // one list for every kRansBlock values
  std::size_t num_outliers = 0;
  double squared_error = 0;
  double bits = 0;  // a coordinate, all that the budget is charged for
};

// What a table takes for each level.
std::vector<std::array<float, kMaxDependentLevels>> level_bits(
    const std::vector<RansFrequencies>& tables, unsigned num_coded) {
  // A level that is hardly used now may be wanted at another step; it must not price itself out.
  constexpr float kMostBits = 10;
  std::vector<std::array<float, kMaxDependentLevels>> bits(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (unsigned j = 0; j < num_coded; ++j) {
      bits[t][j] = tables[t][j] > 0
                       ? std::min(kMostBits, static_cast<float>(rans_cost(tables[t][j])))
                       : kMostBits;
    }
  }
  return bits;
}

RansCode code_of(const Fit& fit) {
  const TrellisModel& model = fit.model;
  RansCode code;
  code.dependent = true;
  code.mirrored = model.mirrored;
  code.displaced = fit.displaced;
  code.has_outliers = fit.num_outliers > 0;
  code.num_coded = model.num_coded;
  code.origin = model.origin;
  code.step = model.step;
  code.base = model.base;
  code.tuple = fit.tuple;
  code.tables = fit.code.tables;
  return code;
}

// The mean of a level's values, less its place on the grid, in units that a frame can hold.
int displacement_of(const RansCode& code, const TrellisCounts& counts, int quantizer, unsigned j,
                    std::uint32_t min_count) {
  const std::uint32_t count = counts.counts[quantizer][j];
  if (!code.displaced || count < min_count) return 0;
  const double mean = counts.sums[quantizer][j] / count;
  const double units =
      (mean - code.position(quantizer, j)) / static_cast<double>(kDisplacementUnit);
  return static_cast<int>(std::min(127.0, std::max(-127.0, std::floor(units + 0.5))));
}

// Moves levels there.
void displace(const TrellisCounts& counts, std::uint32_t min_count, RansCode* code) {
  for (int quantizer = 0; quantizer < 2; ++quantizer) {
    for (unsigned j = 0; j < code->num_coded; ++j) {
      code->displacements[quantizer][j] =
          static_cast<std::int8_t>(displacement_of(*code, counts, quantizer, j, min_count));
    }
  }
}

// Squared error, in steps, with the levels of `code`.
double squared_error_of(const Fit& fit, const RansCode& code) {
  double error = fit.squared_error;
  for (int quantizer = 0; quantizer < 2; ++quantizer) {
    for (unsigned j = 0; j < code.num_coded; ++j) {
      const double count = fit.counts.counts[quantizer][j];
      if (count == 0) continue;
      const double mean = fit.counts.sums[quantizer][j] / count;
      const double before = mean - static_cast<double>(fit.model.places[quantizer][j]);
      const double after = mean - static_cast<double>(code.place(quantizer, j));
      error += count * (after * after - before * before);
    }
  }
  return error;
}

// Searches on a tensor, which may be a sample of another.
class Fitter {
 public:
  // `size` is that of the tensor to be coded.
  Fitter(const TensorView& tensor, std::size_t size, int threads)
      : tensor_(tensor), size_(size), threads_(threads), coded_(tensor.size) {}

  const std::uint8_t* coded() const { return coded_.data(); }

  // Levels at a new step, with the code that plain quantization would give them.
  void start(float origin, bool mirrored, double step, Fit* fit) const {
    TrellisModel& model = fit->model;
    model.origin = origin;
    model.mirrored = mirrored;
    model.step = static_cast<float>(step);
    const std::size_t count = std::min(tensor_.size, kMaxSampleSize);
    std::vector<float> scratch(kRansSegment);
    // Indices of the first quantizer's levels; the farthest are outliers anyway.
    constexpr int kFarthest = 4096;
    std::vector<std::uint32_t> histogram(2 * kFarthest + 1);
    const float inverse_step = 1.0f / model.step;
    std::vector<std::int16_t> indices(count);
    for (std::size_t begin = 0; begin < count; begin += kRansSegment) {
      const std::size_t length = std::min(kRansSegment, count - begin);
      const float* values = load_values(tensor_, begin, length, scratch.data());
      for (std::size_t i = 0; i < length; ++i) {
        const float u = std::min<float>(
            2 * kFarthest, std::max<float>(-2 * kFarthest, (values[i] - origin) * inverse_step));
        indices[begin + i] = static_cast<std::int16_t>(std::floor((u < 0 ? u : u + 1) * 0.5f));
        ++histogram[std::size_t(kFarthest) + static_cast<std::size_t>(indices[begin + i])];
      }
    }
    choose_window(histogram, kFarthest, &model);
    std::vector<SegmentCounts> segments(divide_up(count, kRansSegment));
    for (std::size_t i = 0; i < count; ++i) {
      const int j = indices[i] - model.base;
      if (j >= 0 && j < static_cast<int>(model.num_coded)) {
        ++segments[i / kRansSegment][static_cast<std::size_t>(j)];
      }
    }
    set_places(code_of(*fit), &model);
    fit->tables = choose_tables(segments, model.num_coded, scale());
    fit->tables.choices.resize(divide_up(tensor_.size, kRansSegment));
    model.bits = level_bits(fit->tables.tables, model.num_coded);
  }

  // Quantizes with the model, and fits tables and places to what that gives.
  void run(Fit* fit) {
    const std::size_t runs = divide_up(tensor_.size, kTrellisRun);
    std::vector<TrellisResult> results(runs);
    std::vector<TrellisScratch> scratch(num_workers(runs, threads_));
    std::vector<SegmentCounts> segments(divide_up(tensor_.size, kRansSegment));
    parallel_for(runs, threads_, [&](std::size_t run, int worker) {
      const std::size_t begin = run * kTrellisRun;
      const std::size_t count = std::min(kTrellisRun, tensor_.size - begin);
      run_trellis(
          fit->model, tensor_, begin, count, fit->tables.choices.data() + begin / kRansSegment,
          begin / kRansBlock * kRansBlock, &scratch[worker], coded_.data() + begin, &results[run]);
      for (std::size_t i = 0; i < count; i += kRansSegment) {
        kernels().histogram(coded_.data() + begin + i, std::min(kRansSegment, count - i),
                            segments[(begin + i) / kRansSegment].data());
      }
    });
    fit->counts = {};
    fit->squared_error = 0;
    fit->num_outliers = 0;
    fit->outliers.assign(num_rans_blocks(tensor_.size), {});
    for (std::size_t run = 0; run < runs; ++run) {
      const TrellisResult& result = results[run];
      for (int quantizer = 0; quantizer < 2; ++quantizer) {
        for (unsigned j = 0; j < fit->model.num_coded; ++j) {
          fit->counts.counts[quantizer][j] += result.counts.counts[quantizer][j];
          fit->counts.sums[quantizer][j] += result.counts.sums[quantizer][j];
        }
      }
      fit->squared_error += result.squared_error;
      fit->num_outliers += result.outliers.size();
      std::vector<RansOutlier>& list = fit->outliers[run * kTrellisRun / kRansBlock];
      list.insert(list.end(), result.outliers.begin(), result.outliers.end());
    }
    fit->tables = choose_tables(segments, fit->model.num_coded, scale());
    choose_code(fit);
    choose_displaced(fit);
    fit->bits = charged_bits(*fit);
  }

  // Levels [begin, begin + count), as far as there are any, two a symbol; returns how many symbols.
  std::size_t pack_pairs(unsigned num_coded, std::size_t begin, std::size_t count,
                         std::uint8_t* pairs) const {
    count = std::min(count, tensor_.size - begin);
    kernels().pack_tuples(coded_.data() + begin, count / 2, num_coded, 2, pairs);
    if (count % 2 == 1) {
      pairs[count / 2] = static_cast<std::uint8_t>(coded_[begin + count - 1] * num_coded);
    }
    return divide_up(count, 2);
  }

  // Places and code lengths for the next run.
  static void adapt(Fit* fit) {
    RansCode code = code_of(*fit);
    displace(fit->counts, kMinMeanCount, &code);
    set_places(code, &fit->model);
    fit->model.bits = level_bits(fit->tables.tables, fit->model.num_coded);
  }

 private:
  static void set_places(const RansCode& code, TrellisModel* model) {
    for (int quantizer = 0; quantizer < 2; ++quantizer) {
      for (unsigned j = 0; j < code.num_coded; ++j) {
        model->places[quantizer][j] = code.place(quantizer, j);
      }
    }
  }

  double scale() const { return static_cast<double>(size_) / static_cast<double>(tensor_.size); }

  // The indices of levels that are worth a place in the tables, at most kMaxDependentLevels, and
  // one more on either side; the first is even.
  void choose_window(const std::vector<std::uint32_t>& histogram, int farthest,
                     TrellisModel* model) const {
    constexpr double kLevelBits = 9;     // that a level without values takes
    constexpr double kOutlierBits = 48;  // more than a level, for each value
    std::size_t begin = 0, end = histogram.size();
    while (histogram[begin] == 0) ++begin;
    while (histogram[end - 1] == 0) --end;
    const auto is_worth = [&](std::size_t gap, std::uint32_t values) {
      return kLevelBits * static_cast<double>(gap) <= kOutlierBits * scale() * values;
    };
    while (end - begin > 2) {
      std::size_t next = begin + 1, previous = end - 2;
      while (histogram[next] == 0) ++next;
      while (histogram[previous] == 0) --previous;
      const bool is_narrow = end - begin <= kMaxDependentLevels - 4;
      const bool lower = histogram[begin] <= histogram[end - 1];
      if (!is_worth(next - begin, histogram[begin]) || (!is_narrow && lower)) {
        begin = next;
      } else if (!is_worth(end - 1 - previous, histogram[end - 1]) || !is_narrow) {
        end = previous + 1;
      } else {
        break;
      }
    }
    int base = static_cast<int>(begin) - farthest - 1;
    if (base % 2 != 0) --base;
    model->base = base;
    model->num_coded = static_cast<unsigned>(static_cast<int>(end) - farthest + 1 - base);
  }

  // Means of levels where they take fewer bits than a smaller step would, for the same error.
  void choose_displaced(Fit* fit) const {
    fit->displaced = false;
    const double plain = squared_error_of(*fit, code_of(*fit));
    fit->displaced = true;
    RansCode code = code_of(*fit);
    displace(fit->counts, kMinMeanCount, &code);
    const double displaced = squared_error_of(*fit, code);
    const double saved = 0.5 * (plain / displaced - 1) / 0.6931471805599453;
    fit->displaced = saved * static_cast<double>(size_) > 16.0 * code.num_coded;
  }

  // Pairs of levels where there are few: they halve the decoder's work.
  void choose_code(Fit* fit) const {
    fit->tuple = 1;
    fit->code = fit->tables;
    const unsigned num_coded = fit->model.num_coded;
    if (num_coded > kMaxPairLevels) return;
    std::vector<SegmentCounts> segments(divide_up(tensor_.size, kRansSegment));
    parallel_for(segments.size(), threads_, [&](std::size_t segment, int) {
      std::uint8_t pairs[kRansSegment / 2];
      const std::size_t count = pack_pairs(num_coded, segment * kRansSegment, kRansSegment, pairs);
      kernels().histogram(pairs, count, segments[segment].data());
    });
    LocalTables pairs = choose_tables(segments, std::size_t(num_coded) * num_coded, scale());
    const double bonus = kPairBonus * static_cast<double>(size_);
    if (pairs.symbol_bits + pairs.table_bits - bonus <
        fit->code.symbol_bits + fit->code.table_bits) {
      fit->tuple = 2;
      fit->code = std::move(pairs);
    }
  }

  double charged_bits(const Fit& fit) const {
    const RansCode code = code_of(fit);
    double bytes = static_cast<double>(rans_header_size(code, size_)) -
                   static_cast<double>(rans_free_bytes(code, size_));
    for (std::size_t block = 0; block < num_rans_blocks(size_); ++block) {
      // Half of a state is no information.
      bytes += 2.0 * rans_lanes(rans_block_length(size_, block));
    }
    bytes += scale() * static_cast<double>(fit.num_outliers * kRansOutlierBytes);
    return (8 * bytes + fit.code.symbol_bits) / static_cast<double>(size_);
  }

  TensorView tensor_;
  std::size_t size_;
  int threads_;
  std::vector<std::uint8_t> coded_;
};

class DependentSearch {
 public:
  explicit DependentSearch(const PlanRequest& request)
      : tensor_(request.tensor),
        options_(request.options),
        has_budget_(options_.budget == Budget::kBytes),
        sample_(take_sample(tensor_, sample_size())) {}

  std::optional<DependentPlan> run() {
    std::vector<float> sorted = sample_;
    const double low = quantile(&sorted, 0.1), high = quantile(&sorted, 0.9);
    const float median = quantile(&sorted, 0.5);
    double step = options_.step;
    if (has_budget_) step = (high - low) * exp2_of(-options_.bits);
    if (!(step >= kMinStep && step <= kMaxStep)) return std::nullopt;

    // 1. Where the grid lies. 2. The step, on the sample. 3. Everything, on all values.
    Fit fit;
    const double spread = high - low;
    if (std::fabs(low + high - 2.0 * median) < 0.05 * spread) {
      const float origin = std::fabs(median) < 0.02 * spread ? 0.0f : median;
      Fitter(sample_view(), tensor_.size, options_.threads).start(origin, true, step, &fit);
    } else {
      fit.model.rate_weight = kSkewRateWeight;
      choose_origin({0.0f, static_cast<float>(low), median}, step, &fit);
    }
    fit_sample(&fit);
    // More than 128 levels would be worth it.
    const double outliers = static_cast<double>(fit.num_outliers);
    if (outliers > kMaxOutliers * static_cast<double>(sample_.size())) return std::nullopt;
    return code_tensor(&fit);
  }

 private:
  std::size_t sample_size() const {
    const std::size_t part = tensor_.size / 8 / kRansSegment * kRansSegment;
    return std::min(kMaxSampleSize, std::max(kMinSampleSize, part));
  }

  TensorView sample_view() const { return {sample_.data(), sample_.size(), DType::kFloat32}; }

  // The origin that gives the least error at equal rate, on a part of the sample.
  void choose_origin(const std::vector<float>& origins, double step, Fit* fit) const {
    const TensorView part{sample_.data(), std::min(sample_.size(), kOriginSampleSize),
                          DType::kFloat32};
    Fitter fitter(part, tensor_.size, options_.threads);
    std::optional<double> least;
    float best = 0;
    for (const float origin : origins) {
      fitter.start(origin, false, step, fit);
      for (int round = 0; round < kOriginRounds; ++round) {
        fitter.run(fit);
        Fitter::adapt(fit);
      }
      // Six decibels a bit.
      const std::uint64_t error = 1 + static_cast<std::uint64_t>(fit->squared_error * 0x1p20);
      const double loss = 0.5 * exact_log2(error) + fit->bits;
      if (!least || loss < *least) {
        least = loss;
        best = origin;
      }
    }
    Fitter(sample_view(), tensor_.size, options_.threads).start(best, false, step, fit);
  }

  // Changes the step by a factor, and with it what levels stand for.
  static void change_step(double factor, Fit* fit) {
    fit->model.step = static_cast<float>(static_cast<double>(fit->model.step) * factor);
  }

  void fit_sample(Fit* fit) {
    Fitter fitter(sample_view(), tensor_.size, options_.threads);
    for (int round = 0; round < kMaxRounds; ++round) {
      fitter.run(fit);
      const double excess = has_budget_ ? fit->bits - aim() : 0;
      if (round >= kMinRounds && std::fabs(excess) < kCloseBits) break;
      if (round < kGuesses && std::fabs(excess) > kFarBits) {
        fitter.start(fit->model.origin, fit->model.mirrored,
                     static_cast<double>(fit->model.step) * exp2_of(excess), fit);
        continue;
      }
      Fitter::adapt(fit);
      change_step(exp2_of(kGain * excess), fit);
    }
    Fitter::adapt(fit);
  }

  double tolerance() const {
    return std::max(options_.tolerance, 16 / static_cast<double>(tensor_.size));
  }

  // A little below the budget, in the middle of what is accepted.
  double aim() const { return options_.bits - 0.4 * tolerance(); }

  std::optional<DependentPlan> code_tensor(Fit* fit) {
    Fitter fitter(tensor_, tensor_.size, options_.threads);
    choose_segments(fit);
    std::optional<DependentPlan> best;
    double effect = 1 / kGain;  // bits less for twice the step
    double last_bits = 0, last_change = 0;
    std::vector<std::uint8_t> choices = fit->tables.choices;
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      fitter.run(fit);
      if (!fits_dtype(*fit)) return std::nullopt;
      if (!has_budget_) return write(*fit, fitter);
      if (fit->bits <= options_.bits) {
        DependentPlan plan = write(*fit, fitter);
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
      double change = fit->bits - aim();
      if (pass < kAdaptingPasses) {
        Fitter::adapt(fit);
        choices = fit->tables.choices;
      } else {
        // The model stays as it is, and bits follow the step.
        fit->tables.choices = choices;
        if (pass > kAdaptingPasses) effect = (last_bits - fit->bits) / last_change;
        change /= std::min(1.5, std::max(0.4, effect));
      }
      last_bits = fit->bits;
      last_change = std::min(0.5, std::max(-0.5, change));
      change_step(exp2_of(last_change), fit);
    }
    return best;
  }

  // Whether the tensor's dtype can hold all levels, which may lie beyond its values.
  bool fits_dtype(const Fit& fit) const {
    RansCode code = code_of(fit);
    displace(fit.counts, 1, &code);
    const float overflow = overflow_of(tensor_.dtype);
    for (int quantizer = 0; quantizer < 2; ++quantizer) {
      for (unsigned j = 0; j < code.num_coded; ++j) {
        if (!(std::fabs(code.value(quantizer, j)) < overflow)) return false;
      }
    }
    return true;
  }

  // The cheapest table of each segment, for some of its values and without a trellis.
  void choose_segments(Fit* fit) const {
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

  DependentPlan write(const Fit& fit, const Fitter& fitter) const {
    RansCode code = code_of(fit);
    displace(fit.counts, 1, &code);
    code.entropy = static_cast<float>(fit.code.symbol_bits / static_cast<double>(tensor_.size));
    const RansEncoder encoder(code.tables);
    const std::size_t count = num_rans_blocks(tensor_.size);
    std::vector<RansBlock> blocks(count);
    std::vector<std::vector<std::uint8_t>> streams(count);
    parallel_for(count, options_.threads, [&](std::size_t b, int) {
      const std::size_t length = rans_block_length(tensor_.size, b);
      const unsigned lanes = rans_lanes(length);
      const std::uint8_t* const choices = fit.code.choices.data() + b * (kRansBlock / kRansSegment);
      std::copy(choices, choices + num_segments(length), blocks[b].choices.begin());
      std::vector<std::uint8_t> room(RansEncoder::max_bytes(length, lanes));
      std::uint8_t* const end = room.data() + room.size();
      const std::uint8_t* symbols = fitter.coded() + b * kRansBlock;
      std::size_t symbol_count = length;
      std::vector<std::uint8_t> pairs;
      if (code.tuple == 2) {
        pairs.resize(divide_up(length, 2));
        symbol_count = fitter.pack_pairs(code.num_coded, b * kRansBlock, length, pairs.data());
        symbols = pairs.data();
      }
      const std::uint8_t* const begin =
          encoder.encode({lanes, kRansSegment / code.tuple, choices}, symbols, symbol_count, end);
      streams[b].assign(begin, static_cast<const std::uint8_t*>(end));
      blocks[b].stream_bytes = static_cast<std::uint32_t>(streams[b].size());
      blocks[b].num_outliers = static_cast<std::uint32_t>(fit.outliers[b].size());
    });
    std::size_t size = rans_header_size(code, tensor_.size);
    for (const RansBlock& block : blocks) size += block.bytes();
    std::vector<std::uint8_t> payload(size);
    std::uint8_t* out = write_rans_header(code, tensor_.size, blocks, payload.data());
    for (std::size_t b = 0; b < count; ++b) {
      std::memcpy(out, streams[b].data(), streams[b].size());
      out += streams[b].size();
      for (const RansOutlier& outlier : fit.outliers[b]) {
        if (!std::isfinite(outlier.value)) {
          throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
        }
        out = write_le(out, static_cast<std::uint16_t>(outlier.position));
        *out++ = static_cast<std::uint8_t>(outlier.position >> 16);
        out = write_le(out, outlier.value);
      }
    }
    const double step = static_cast<double>(code.step);
    return {std::move(payload),
            squared_error_of(fit, code) * step * step / static_cast<double>(tensor_.size)};
  }

  TensorView tensor_;
  EcuqOptions options_;
  bool has_budget_;
  std::vector<float> sample_;
};

}  // namespace

std::optional<DependentPlan> search_dependent(const PlanRequest& request) {
  if (request.tensor.size < kMinSize) return std::nullopt;
  return DependentSearch(request).run();
}

}  // namespace docofl
