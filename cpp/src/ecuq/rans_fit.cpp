#include "ecuq/rans_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/parallel.h"
#include "common/source.h"
#include "ecuq/rans_write.h"
#include "ecuq/scalar_levels.h"

namespace docofl {
namespace {

constexpr std::size_t kStartSize = 262144;  // values that choose a window
// Bits a coordinate that speed is worth; levels that are not dependent come close to their entropy.
constexpr double kPairBonus = 0.004;
constexpr double kScalarPairBonus = 0.002;
// Means of so few values tell little about those of another tensor, or of another step.
constexpr std::uint32_t kMinMeanCount = 16;

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

// The mean of a level's values, less its place on the grid, in units that a frame can hold.
int displacement_of(const RansCode& code, const TrellisCounts& counts, int quantizer, unsigned j,
                    std::uint64_t min_count) {
  const std::uint64_t count = counts.counts[quantizer][j];
  if (!code.displaced || count < min_count) return 0;
  // Zeros stay zeros.
  if (!code.dependent && code.value(quantizer, j) == 0) return 0;
  const double mean = counts.sums[quantizer][j] / static_cast<double>(count);
  const double units =
      (mean - code.position(quantizer, j)) / static_cast<double>(kDisplacementUnit);
  return static_cast<int>(std::min(127.0, std::max(-127.0, std::floor(units + 0.5))));
}

void set_places(const RansCode& code, TrellisModel* model) {
  for (int quantizer = 0; quantizer < 2; ++quantizer) {
    for (unsigned j = 0; j < code.num_coded; ++j) {
      model->places[quantizer][j] = code.place(quantizer, j);
    }
  }
}

}  // namespace

void set_step(double step, RansFit* fit) {
  fit->model.step = static_cast<float>(std::min(kMaxRansStep, std::max(kMinRansStep, step)));
  fit->model.origin = fit->anchor + fit->shift * fit->model.step;
}

RansCode code_of(const RansFit& fit) {
  const TrellisModel& model = fit.model;
  RansCode code;
  code.dependent = model.dependent;
  code.mirrored = model.mirrored;
  code.displaced = fit.displaced;
  code.has_outliers = fit.num_outliers > 0;
  code.transformed = fit.transformed;
  code.num_coded = model.num_coded;
  code.origin = model.origin;
  code.step = model.step;
  code.base = model.base;
  code.tuple = fit.tuple;
  code.tables = fit.code.tables;
  return code;
}

void displace(const TrellisCounts& counts, std::uint64_t min_count, RansCode* code) {
  for (int quantizer = 0; quantizer < 2; ++quantizer) {
    for (unsigned j = 0; j < code->num_coded; ++j) {
      code->displacements[quantizer][j] =
          static_cast<std::int8_t>(displacement_of(*code, counts, quantizer, j, min_count));
    }
  }
}

double squared_error_of(const TrellisResult& result, const TrellisModel& model,
                        const RansCode& code) {
  double error = result.squared_error;
  for (int quantizer = 0; quantizer < 2; ++quantizer) {
    for (unsigned j = 0; j < code.num_coded; ++j) {
      const double count = static_cast<double>(result.counts.counts[quantizer][j]);
      if (count == 0) continue;
      const double mean = result.counts.sums[quantizer][j] / count;
      const double before = mean - static_cast<double>(model.places[quantizer][j]);
      const double after = mean - static_cast<double>(code.place(quantizer, j));
      error += count * (after * after - before * before);
    }
  }
  return error;
}

double displaced_error_of(const RansFit& fit) {
  RansCode code = code_of(fit);
  code.displaced = fit.may_displace;
  displace(fit.result.counts, kMinMeanCount, &code);
  return squared_error_of(fit.result, fit.model, code);
}

void RansFitter::start(double step, RansFit* fit) const {
  set_step(step, fit);
  TrellisModel& model = fit->model;
  const std::size_t count = std::min(tensor_.size, kStartSize);
  std::vector<float> scratch(kRansSegment);
  // Indices of the (first) quantizer's levels; the farthest are outliers anyway.
  constexpr int kFarthest = 4096;
  std::vector<std::uint32_t> histogram(2 * kFarthest + 1);
  const float inverse_step = 1.0f / model.step;
  const float reach = model.dependent ? 2 * kFarthest : kFarthest;
  std::vector<std::int16_t> indices(count);
  for (std::size_t begin = 0; begin < count; begin += kRansSegment) {
    const std::size_t length = std::min(kRansSegment, count - begin);
    const float* values = load_values(tensor_, begin, length, scratch.data());
    for (std::size_t i = 0; i < length; ++i) {
      const float u = std::min(reach, std::max(-reach, (values[i] - model.origin) * inverse_step));
      indices[begin + i] = static_cast<std::int16_t>(
          std::floor(model.dependent ? (u < 0 ? u : u + 1) * 0.5f : u + 0.5f));
      ++histogram[std::size_t(kFarthest) + static_cast<std::size_t>(indices[begin + i])];
    }
  }
  choose_window(histogram, kFarthest, &model);
  set_places(code_of(*fit), &model);
  if (!model.dependent) return;
  std::vector<SegmentCounts> segments(divide_up(count, kRansSegment));
  for (std::size_t i = 0; i < count; ++i) {
    const int j = indices[i] - model.base;
    if (j >= 0 && j < static_cast<int>(model.num_coded)) {
      ++segments[i / kRansSegment][static_cast<std::size_t>(j)];
    }
  }
  fit->tables = choose_tables(segments, model.num_coded, scale());
  fit->tables.choices.resize(divide_up(tensor_.size, kRansSegment));
  model.bits = level_bits(fit->tables.tables, model.num_coded);
}

void RansFitter::run(RansFit* fit) {
  const std::size_t runs = divide_up(tensor_.size, kTrellisRun);
  std::vector<TrellisResult> results(runs);
  std::vector<TrellisScratch> scratch(num_workers(runs, threads_));
  std::vector<SegmentCounts> segments(divide_up(tensor_.size, kRansSegment));
  parallel_for(runs, threads_, [&](std::size_t run, int worker) {
    const std::size_t begin = run * kTrellisRun;
    const std::size_t count = std::min(kTrellisRun, tensor_.size - begin);
    const std::size_t block_begin = begin / kRansBlock * kRansBlock;
    std::uint8_t* const coded = coded_.data() + begin;
    if (fit->model.dependent) {
      run_trellis(fit->model, tensor_, begin, count,
                  fit->tables.choices.data() + begin / kRansSegment, block_begin, &scratch[worker],
                  coded, &results[run]);
    } else {
      run_scalar(fit->model, tensor_, begin, count, block_begin, &scratch[worker], coded,
                 &results[run]);
    }
    for (std::size_t i = 0; i < count; i += kRansSegment) {
      kernels().histogram(coded + i, std::min(kRansSegment, count - i),
                          segments[(begin + i) / kRansSegment].data());
    }
  });
  fit->result = {};
  fit->num_outliers = 0;
  fit->outliers.assign(num_rans_blocks(tensor_.size), {});
  for (std::size_t run = 0; run < runs; ++run) {
    const TrellisResult& result = results[run];
    fit->result.counts.add(result.counts, fit->model.num_coded);
    fit->result.squared_error += result.squared_error;
    fit->num_outliers += result.outliers.size();
    std::vector<RansOutlier>& list = fit->outliers[run * kTrellisRun / kRansBlock];
    list.insert(list.end(), result.outliers.begin(), result.outliers.end());
  }
  fit->tables = choose_tables(segments, fit->model.num_coded, scale());
  choose_code(fit);
  choose_displaced(fit);
  fit->bits = charged_bits(*fit);
}

void RansFitter::adapt(RansFit* fit) {
  RansCode code = code_of(*fit);
  displace(fit->result.counts, kMinMeanCount, &code);
  set_places(code, &fit->model);
  fit->model.bits = level_bits(fit->tables.tables, fit->model.num_coded);
}

// The indices of levels that are worth a place in the tables, at most kMaxDependentLevels, and
// one more on either side; the first is even where levels are dependent.
void RansFitter::choose_window(const std::vector<std::uint32_t>& histogram, int farthest,
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
  if (model->dependent && base % 2 != 0) --base;
  model->base = base;
  model->num_coded = static_cast<unsigned>(static_cast<int>(end) - farthest + 1 - base);
  const auto most = std::max_element(histogram.begin() + static_cast<std::ptrdiff_t>(begin),
                                     histogram.begin() + static_cast<std::ptrdiff_t>(end));
  model->placeholder =
      static_cast<std::uint8_t>(static_cast<int>(most - histogram.begin()) - farthest - base);
}

// Means of levels where they take fewer bits than a smaller step would, for the same error.
void RansFitter::choose_displaced(RansFit* fit) const {
  fit->displaced = false;
  const RansCode code = code_of(*fit);
  const double plain = squared_error_of(fit->result, fit->model, code);
  if (!fit->may_displace) return;
  const double displaced = displaced_error_of(*fit);
  const double saved = 0.5 * (plain / displaced - 1) / 0.6931471805599453;
  fit->displaced =
      saved * static_cast<double>(size_) > 8.0 * code.num_quantizers() * code.num_coded;
}

// Pairs of levels where there are few: they halve the decoder's work.
void RansFitter::choose_code(RansFit* fit) const {
  fit->tuple = 1;
  fit->code = fit->tables;
  const unsigned num_coded = fit->model.num_coded;
  if (num_coded > kMaxPairLevels) return;
  std::vector<SegmentCounts> segments(divide_up(tensor_.size, kRansSegment));
  parallel_for(segments.size(), threads_, [&](std::size_t segment, int) {
    std::uint8_t pairs[kRansSegment / 2];
    const std::size_t begin = segment * kRansSegment;
    const std::size_t count = std::min(kRansSegment, tensor_.size - begin);
    kernels().histogram(pairs, pack_pairs(coded_.data() + begin, count, num_coded, pairs),
                        segments[segment].data());
  });
  LocalTables pairs = choose_tables(segments, std::size_t(num_coded) * num_coded, scale());
  const double bonus = fit->model.dependent ? kPairBonus : kScalarPairBonus;
  if (pairs.symbol_bits + pairs.table_bits - bonus * static_cast<double>(size_) <
      fit->code.symbol_bits + fit->code.table_bits) {
    fit->tuple = 2;
    fit->code = std::move(pairs);
  }
}

double RansFitter::charged_bits(const RansFit& fit) const {
  const RansCode code = code_of(fit);
  double bytes = static_cast<double>(rans_header_size(code, size_)) -
                 static_cast<double>(rans_free_bytes(code, size_));
  for (std::size_t block = 0; block < num_rans_blocks(size_); ++block) {
    // Of the four bytes of a state, two say nothing, and two are half full on average.
    bytes += 3.0 * rans_lanes(rans_block_length(size_, block));
  }
  bytes += scale() * static_cast<double>(fit.num_outliers * kRansOutlierBytes);
  bytes += static_cast<double>(fit.spike_bytes);
  return (8 * bytes + fit.code.symbol_bits) / static_cast<double>(size_);
}

}  // namespace docofl
