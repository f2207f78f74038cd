#include "ecuq/step_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "docofl/error.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/explicit_levels.h"
#include "ecuq/level_grid.h"
#include "ecuq/level_means.h"
#include "ecuq/symbol_code.h"

namespace docofl {
namespace {

// With more levels than that their means are as good as their centres.
constexpr double kMaxMeanBits = 4.5;

// Halves of a step of 12 bits times numbers below 2^12 have at most 24 bits: float32 holds the ends
// of an open grid, its levels, and their distance from its beginning, from which they are computed.
constexpr int kShortStepBits = 12;
constexpr double kMaxOpenLevel = 1023;

// An open grid goes this much farther from zero than a sample. Farther would do too, but values are
// rounded to 2^-24 of the grid before they are quantized.
constexpr double kOpenFactor = 8;
constexpr double kOpenMargin = 64;
constexpr double kLeastOpenFactor = 1.25;

double length_of(const ValueRange& range) { return static_cast<double>(range.x_max) - range.x_min; }

// Whether a frame can tell so many levels.
bool has_levels(const ValueRange& range, double step) {
  return length_of(range) / step < kMaxLevels - 1;
}

Levels levels_for_step(const ValueRange& range, double step, DType dtype) {
  const double length = length_of(range);
  if (!has_levels(range, step)) {
    char found[32], least[32];
    std::snprintf(found, sizeof found, "%g", step);
    std::snprintf(least, sizeof least, "%g", length / (kMaxLevels - 1));
    throw Error(ErrorKind::kInvalidInput, std::string("step: found ") + found +
                                              ", expected at least " + least +
                                              " for values of this range");
  }
  if (const std::optional<Levels> levels = levels_at(range, step, 0, dtype)) return *levels;
  const double num_levels = std::max(1.0, std::ceil(length / step));
  return uniform_levels(range.x_min, range.x_max, static_cast<std::int32_t>(num_levels));
}

// The code for the levels, which move to their means where that pays.
SymbolCode fit_code(const EcuqOptions& options, std::size_t size, const Sample& sample,
                    Levels* levels) {
  SymbolCode code = choose_code(sample, *levels, Blocks(size), options.threads);
  if (options.centroids && code.entropy <= kMaxMeanBits) {
    const LevelMeans means(sample, *levels, code);
    if (means.pay(size)) means.displace(levels);
  }
  return code;
}

bool is_short(double step) {
  int exponent;
  const double digits = std::ldexp(std::frexp(step, &exponent), kShortStepBits);
  return digits == std::floor(digits);
}

}  // namespace

std::size_t step_sample_size(std::size_t tensor_size) {
  // To pick values costs more than to take some more.
  const std::size_t size =
      std::min<std::size_t>(65536, std::max<std::size_t>(16384, tensor_size / 32));
  return tensor_size < size + size / 2 ? tensor_size : size;
}

PayloadPlan plan_step(const PlanRequest& request, const Sample& sample, const ValueRange& range) {
  const TensorView& tensor = request.tensor;
  const int threads = request.options.threads;
  const double step = request.options.step;
  const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
  SymbolCode exact_code;
  if (exact) exact_code = choose_code(sample, *exact, Blocks(tensor.size), threads);
  if (exact && !has_levels(range, step)) return make_plan(request, *exact, exact_code);
  Levels levels = levels_for_step(range, step, tensor.dtype);
  const SymbolCode code = fit_code(request.options, tensor.size, sample, &levels);
  if (exact) {
    const double values_bits = 32.0 * static_cast<double>(exact->explicit_values.size());
    const double exact_bits = exact_code.bits + values_bits / static_cast<double>(tensor.size);
    if (exact_bits <= code.bits) return make_plan(request, *exact, exact_code);
  }
  return make_plan(request, levels, code);
}

std::optional<OpenCode> fit_open_grid(const TensorView& tensor, const EcuqOptions& options) {
  const double step = options.step;
  const std::size_t sample_size = step_sample_size(tensor.size);
  if (sample_size == tensor.size || !is_short(step)) return std::nullopt;
  Sample sample(tensor, sample_size, Sample::kLongRun, false);
  sample.gather(0, tensor.size);
  const std::optional<ValueRange> range = finite_range(sample.values(), sample.size());
  if (!range || range->x_min == range->x_max) return std::nullopt;
  if (has_few_values(sample)) return std::nullopt;
  sample.finish();
  const std::optional<Levels> seen = levels_at(*range, step, 0, tensor.dtype);
  if (!seen || make_grid(*seen).step != step) return std::nullopt;
  const double first = std::floor(range->x_min / step + 0.5);
  const double most = std::max(-first, std::floor(range->x_max / step + 0.5));
  const double last = std::min(kMaxOpenLevel, kOpenFactor * most + kOpenMargin);
  const double end = (last + 0.5) * step;
  if (kLeastOpenFactor * most > last || !can_hold(tensor.dtype, -end, end)) return std::nullopt;
  Levels levels = *seen;
  SymbolCode code = fit_code(options, tensor.size, sample, &levels);
  levels.x_min = static_cast<float>(-end);
  levels.x_max = static_cast<float>(end);
  levels.num_levels = static_cast<std::int32_t>(2 * last + 1);
  levels.is_open = true;
  Layout& layout = code.tables[0].layout;
  layout.base += static_cast<std::int32_t>(first + last);
  const WindowParams window = layout.window();
  const bool is_inside = window.base > 0 && window.base + window.span < levels.num_levels;
  if (!is_inside || !make_grid(levels).narrow) return std::nullopt;
  return OpenCode{std::move(levels), code};
}

std::optional<PayloadPlan> plan_step_in_one_pass(const PlanRequest& request) {
  const std::optional<OpenCode> open = fit_open_grid(request.tensor, request.options);
  if (!open) return std::nullopt;
  try {
    return make_plan(request, open->levels, open->code);
  } catch (const BeyondOpenGrid&) {
    return std::nullopt;
  }
}

}  // namespace docofl
