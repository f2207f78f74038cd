#include "ecuq/step_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "docofl/error.h"
#include "ecuq/level_grid.h"
#include "ecuq/level_means.h"
#include "ecuq/symbol_code.h"

namespace docofl {
namespace {

// With more levels than that their means are as good as their centres.
constexpr double kMaxMeanBits = 4.5;

// Multiples of half a step below 2^12 have at most 24 bits where the step has 12.
constexpr int kShortStepBits = 12;
constexpr double kMaxOpenLevel = 2048;

// Levels beyond the sample's range on each side of an open grid: as many as it has, and these.
constexpr std::int32_t kMargin = 32;

Levels levels_for_step(const ValueRange& range, double step, DType dtype) {
  const double length = static_cast<double>(range.x_max) - range.x_min;
  if (!(length / step < kMaxLevels - 1)) {
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
SymbolCode fit_code(const PlanRequest& request, const Sample& sample, Levels* levels) {
  const EcuqOptions& options = request.options;
  const std::size_t size = request.tensor.size;
  SymbolCode code = choose_code(sample, *levels, size, options.threads);
  if (options.centroids && code.entropy <= kMaxMeanBits) {
    const LevelMeans means(sample, *levels, code.layout);
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
      std::min<std::size_t>(65536, std::max<std::size_t>(32768, tensor_size / 32));
  return tensor_size < size + size / 2 ? tensor_size : size;
}

PayloadPlan plan_step(const PlanRequest& request, const Sample& sample, const ValueRange& range) {
  Levels levels = levels_for_step(range, request.options.step, request.tensor.dtype);
  const SymbolCode code = fit_code(request, sample, &levels);
  return make_plan(request, levels, code);
}

std::optional<PayloadPlan> plan_step_in_one_pass(const PlanRequest& request) {
  const TensorView& tensor = request.tensor;
  const double step = request.options.step;
  Sample sample(tensor, step_sample_size(tensor.size), Sample::kLongRun, false);
  if (sample.is_whole() || !is_short(step)) return std::nullopt;
  sample.gather(0, tensor.size);
  const std::optional<ValueRange> range = finite_range(sample.values(), sample.size());
  if (!range || range->x_min == range->x_max) return std::nullopt;
  sample.finish();
  const std::optional<Levels> seen = levels_at(*range, step, 0, tensor.dtype);
  if (!seen || make_grid(*seen).step != step) return std::nullopt;
  const std::int32_t beyond = seen->num_levels + kMargin;
  const double begin = seen->x_min - beyond * step;
  const double end = seen->x_max + beyond * step;
  if (!(-begin <= kMaxOpenLevel * step && end <= kMaxOpenLevel * step)) return std::nullopt;
  if (!can_hold(tensor.dtype, begin, end)) return std::nullopt;
  Levels levels = *seen;
  SymbolCode code = fit_code(request, sample, &levels);
  levels.x_min = static_cast<float>(begin);
  levels.x_max = static_cast<float>(end);
  levels.num_levels += 2 * beyond;
  code.layout.base += beyond;
  PayloadPlan plan = make_plan(request, levels, code);
  if (plan.blocks.reaches_ends) return std::nullopt;
  return plan;
}

}  // namespace docofl
