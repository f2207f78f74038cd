#include "ecuq/level_grid.h"

#include <algorithm>
#include <cmath>

namespace docofl {

namespace {

double largest_of(DType dtype) { return dtype == DType::kFloat16 ? 65504.0 : 0x1.fep127; }

}  // namespace

bool can_hold(DType dtype, double begin, double end) {
  return -begin <= largest_of(dtype) && end <= largest_of(dtype);
}

float value_of(const Levels& levels, double level) {
  const GridParams grid = make_grid(levels);
  if (!grid.narrow) return static_cast<float>(grid.x_min + (level + 0.5) * grid.step);
  return static_cast<float>(grid.x_min) +
         (static_cast<float>(level) + 0.5f) * static_cast<float>(grid.step);
}

namespace {

constexpr int kTrials = 32;  // a few are enough

// Levels from `first` to `last`, multiples of about `step`, of which the one at zero is zero
// exactly; where ends are just rounded, it becomes a small number of either sign.
std::optional<Levels> levels_around_zero(double step, double first, double last) {
  if (last - first < kMaxNarrowLevels) {
    // The beginning is a multiple of a step in float32, and the end is one that gives this step.
    const auto num_levels = static_cast<std::int32_t>(last - first) + 1;
    float width = static_cast<float>(step);
    for (int trial = 0; trial < kTrials; ++trial) {
      const float begin = -(static_cast<float>(-first) + 0.5f) * width;
      const float end = static_cast<float>(begin + num_levels * static_cast<double>(width));
      for (const float x_max : {end, std::nextafter(end, 0.0f), std::nextafter(end, 2 * end)}) {
        if (!(begin < x_max && std::isfinite(x_max))) continue;
        Levels levels = uniform_levels(begin, x_max, num_levels);
        if (make_grid(levels).narrow && value_of(levels, -first) == 0) return levels;
      }
      width = std::nextafter(width, 2 * width);
    }
  }
  // As many on both sides.
  for (int trial = 0; trial < kTrials; ++trial) {
    const double most = std::max(-first, last) + trial;
    if (2 * most + 1 >= kMaxLevels) break;
    const float end = static_cast<float>((most + 0.5) * step);
    if (!(end > 0 && std::isfinite(end))) break;
    Levels levels = uniform_levels(-end, end, static_cast<std::int32_t>(2 * most) + 1);
    if (value_of(levels, most) == 0) return levels;
  }
  return std::nullopt;
}

}  // namespace

Levels level_near(const ValueRange& range, double origin, DType dtype) {
  // Ends as far from the origin as the farthest value, if the dtype goes so far.
  const double x_min = range.x_min, x_max = range.x_max;
  const double reach = std::max(x_max - origin, origin - x_min);
  const double most = largest_of(dtype);
  const auto begin = static_cast<float>(std::max(origin - reach, -most));
  const auto end = static_cast<float>(std::min(origin + reach, most));
  return uniform_levels(std::min(begin, range.x_min), std::max(end, range.x_max), 1);
}

std::optional<Levels> levels_at(const ValueRange& range, double step, double origin, DType dtype) {
  const double first = std::floor((range.x_min - origin) / step + 0.5);
  const double last = std::floor((range.x_max - origin) / step + 0.5);
  if (!(last - first < kMaxLevels)) return std::nullopt;
  const double begin = std::min<double>(range.x_min, origin + (first - 0.5) * step);
  const double end = std::max<double>(range.x_max, origin + (last + 0.5) * step);
  // Values that have one sign keep it.
  const bool is_negative = range.x_min >= 0 && begin + step / 2 < 0;
  const bool is_positive = range.x_max <= 0 && end - step / 2 > 0;
  if (is_negative || is_positive) return std::nullopt;
  if (!can_hold(dtype, begin, end)) return std::nullopt;
  std::optional<Levels> levels = uniform_levels(std::min(static_cast<float>(begin), range.x_min),
                                                std::max(static_cast<float>(end), range.x_max),
                                                static_cast<std::int32_t>(last - first) + 1);
  const bool has_zero = origin == 0 && first <= 0 && last >= 0;
  if (has_zero && value_of(*levels, -first) != 0) levels = levels_around_zero(step, first, last);
  if (!levels || !can_hold(dtype, levels->x_min, levels->x_max)) return std::nullopt;
  constexpr double kRounding = 0x1p-16;
  const double distance = make_grid(*levels).step;
  const bool is_close = distance <= step * (1 + kRounding) && distance >= step * (1 - kRounding);
  return is_close ? levels : std::nullopt;
}

}  // namespace docofl
