#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

// The paper's symbols: x_min, x_max and K (num_levels) span the quantization values Q; Delta is
// `step`.
namespace docofl {

constexpr std::int32_t kMaxLevels = 1 << 30;
constexpr std::int32_t kMaxNarrowLevels = 1 << 14;
constexpr unsigned kMaxCodedLevels = 256;
constexpr unsigned kMaxTuple = 6;
constexpr unsigned kMaxRawBits = 24;
constexpr int kMaxDisplacement = 32;  // to the border of the bin

// Where values are reconstructed: at the centres of K uniform bins, or at explicit values.
struct Levels {
  float x_min = 0;
  float x_max = 0;
  std::int32_t num_levels = 1;
  // No value may have the first or the last level: they are what NaN and all that lies beyond get.
  bool is_open = false;
  std::vector<float> explicit_values;  // not empty: these, in order, and the rest is unused
  // How far some coded levels, from this one on, lie from the centres of their bins, in units of
  // step / 64. Only where the grid is narrow.
  unsigned first_displaced = 0;
  std::vector<std::int8_t> displacements;

  bool is_explicit() const { return !explicit_values.empty(); }
  bool is_displaced() const { return !displacements.empty(); }
};

inline Levels uniform_levels(float x_min, float x_max, std::int32_t num_levels) {
  Levels levels;
  levels.x_min = x_min;
  levels.x_max = x_max;
  levels.num_levels = num_levels;
  return levels;
}

// The arithmetic of docs/format.md, section 3.1. x_min < x_max.
inline GridParams make_grid(float x_min, float x_max, std::int32_t num_levels) {
  const double range = static_cast<double>(x_max) - static_cast<double>(x_min);
  GridParams grid;
  grid.x_min = x_min;
  grid.step = range / num_levels;
  grid.inverse_step = num_levels / range;
  grid.num_levels = num_levels;
  grid.narrow = num_levels <= kMaxNarrowLevels && range >= 0x1p-96 && range <= 0x1p96;
  return grid;
}

inline GridParams make_grid(const Levels& levels) {
  return make_grid(levels.x_min, levels.x_max, levels.num_levels);
}

// Which levels have code words, and how code words are made of them (docs/format.md, section 3).
struct Layout {
  std::int32_t base = 0;
  unsigned num_coded = 1;  // W
  unsigned tuple = 1;      // t
  unsigned raw_bits = 0;   // r
  // Sent in the place of an outlier: any coded level will do, a frequent one is cheap.
  std::uint8_t placeholder = 0;

  std::size_t alphabet() const {
    std::size_t size = 1;
    for (unsigned k = 0; k < tuple; ++k) size *= num_coded;
    return size;
  }
  WindowParams window() const { return {base, static_cast<std::int32_t>(num_coded << raw_bits)}; }
};

}  // namespace docofl
