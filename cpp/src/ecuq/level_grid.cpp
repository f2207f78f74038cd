#include "ecuq/level_grid.h"

#include <algorithm>
#include <cmath>

namespace docofl {

bool can_hold(DType dtype, double begin, double end) {
  const double largest = dtype == DType::kFloat16 ? 65504.0 : 0x1.fep127;
  return -begin <= largest && end <= largest;
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
  const Levels levels = uniform_levels(std::min(static_cast<float>(begin), range.x_min),
                                       std::max(static_cast<float>(end), range.x_max),
                                       static_cast<std::int32_t>(last - first) + 1);
  constexpr double kRounding = 0x1p-16;
  const double distance = make_grid(levels).step;
  const bool is_close = distance <= step * (1 + kRounding) && distance >= step * (1 - kRounding);
  return is_close ? std::optional(levels) : std::nullopt;
}

}  // namespace docofl
