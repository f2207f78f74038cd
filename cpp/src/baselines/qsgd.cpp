#include <algorithm>
#include <cmath>
#include <limits>

#include "common/counter_rng.h"
#include "common/float_mode.h"
#include "docofl/baselines.h"

namespace docofl {
namespace {

// floor(log2(value)), value > 0.
unsigned log2_floor(std::uint32_t value) {
  return 31 - static_cast<unsigned>(__builtin_clz(value));
}

// Bits of the Elias gamma word of value >= 1.
unsigned word_bits(std::uint32_t value) { return 2 * log2_floor(value) + 1; }

// Bits of a multiple in a dense stream: the word of m + 1, and a sign where m is not 0.
unsigned dense_bits(std::uint32_t magnitude) { return word_bits(magnitude + 1) + (magnitude != 0); }

// Finite, so that a zero is at place 0 whatever the norm.
double steps_per_unit(const QsgdGrid& grid) {
  if (!(grid.norm > 0)) return 0;
  return std::min(static_cast<double>(grid.levels) / grid.norm, std::numeric_limits<double>::max());
}

struct Place {
  std::uint32_t floor;  // at most kMaxQsgdLevels
  double fraction;
};

Place place(double steps, float x) {
  const double position =
      std::min(std::fabs(static_cast<double>(x)) * steps, static_cast<double>(kMaxQsgdLevels));
  const auto floor = static_cast<std::uint32_t>(position);
  return {floor, position - floor};
}

std::uint32_t draw(const Place& at, std::uint64_t key, std::size_t i) {
  const double uniform = static_cast<double>(counter_random(key, i) >> 11) * 0x1p-53;
  return at.floor + (uniform < at.fraction);
}

}  // namespace

double euclidean_norm(const float* x, std::size_t n) {
  const DefaultFloatMode float_mode;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return std::sqrt(sum);
}

QsgdCost qsgd_cost(const QsgdGrid& grid, const float* x, std::size_t n, std::uint64_t key) {
  const DefaultFloatMode float_mode;
  const double steps = steps_per_unit(grid);
  std::uint64_t dense = 0;
  std::uint64_t sparse = 0;
  double variance = 0;
  std::size_t next = 0;  // the first coordinate after the last that is not 0
  for (std::size_t i = 0; i < n; ++i) {
    const Place at = place(steps, x[i]);
    const std::uint32_t magnitude = draw(at, key, i);
    dense += dense_bits(magnitude);
    const double difference = dense_bits(at.floor + 1) - dense_bits(at.floor);
    variance += at.fraction * (1 - at.fraction) * difference * difference;
    if (magnitude == 0) continue;
    const auto gap = static_cast<std::uint32_t>(std::min<std::size_t>(i - next, UINT32_MAX - 1));
    sparse += word_bits(gap + 1) + word_bits(magnitude) + 1;
    next = i + 1;
  }
  return {static_cast<double>(dense), static_cast<double>(sparse), variance};
}

void qsgd_quantize(const QsgdGrid& grid, const float* x, std::size_t n, std::uint64_t key,
                   std::int32_t* multiples) {
  const DefaultFloatMode float_mode;
  const double steps = steps_per_unit(grid);
  for (std::size_t i = 0; i < n; ++i) {
    const auto magnitude = static_cast<std::int32_t>(draw(place(steps, x[i]), key, i));
    multiples[i] = x[i] < 0 ? -magnitude : magnitude;
  }
}

}  // namespace docofl
