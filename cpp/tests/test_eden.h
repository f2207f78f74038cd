#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/kernels.h"

// Rotations of EDEN by the letter of docs/format.md, sections 4.1 and 4.4, one value at a time.
namespace docofl {
namespace test {

// (a, b) -> (a + b, a - b) for all values at a distance.
inline void butterflies(float* x, std::size_t n, std::size_t distance) {
  for (std::size_t i = 0; i < n; ++i) {
    if ((i & distance) != 0) continue;
    const float a = x[i];
    const float b = x[i + distance];
    x[i] = a + b;
    x[i + distance] = a - b;
  }
}

// The Walsh-Hadamard transform of every `size` consecutive values of n.
inline void hadamard_up(float* x, std::size_t n, std::size_t size) {
  for (std::size_t distance = 1; distance < size; distance *= 2) butterflies(x, n, distance);
}

inline void hadamard_down(float* x, std::size_t n, std::size_t size) {
  for (std::size_t distance = size / 2; distance > 0; distance /= 2) butterflies(x, n, distance);
}

inline void flip_signs(float* x, std::size_t n, const std::uint64_t* signs) {
  for (std::size_t i = 0; i < n; ++i) {
    if (((signs[i / 64] >> (i % 64)) & 1) != 0) x[i] = -x[i];
  }
}

// The size of the inner transforms of a block.
inline std::size_t inner_size(std::size_t n) { return std::min<std::size_t>(n, 4096); }

// sqrt(g n) * scale times a rotated block. Only what undoes it is part of the format; here, sums go
// from distance 1 up.
inline std::vector<float> rotated(std::vector<float> x, float scale, const RotationSigns& signs) {
  const std::size_t n = x.size();
  for (float& value : x) value *= scale;
  flip_signs(x.data(), n, signs.first);
  hadamard_up(x.data(), n, inner_size(n));
  flip_signs(x.data(), n, signs.second);
  hadamard_up(x.data(), n, n);
  return x;
}

// Section 4.4, steps 1 to 3.
inline std::vector<float> rotated_back(std::vector<float> v, const RotationSigns& signs, float norm,
                                       float scale) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::size_t n = v.size();
  hadamard_down(v.data(), n, n);
  flip_signs(v.data(), n, signs.second);
  hadamard_down(v.data(), n, inner_size(n));
  flip_signs(v.data(), n, signs.first);
  for (float& value : v) {
    const float normed = value * norm;
    const float scaled = normed * scale;
    value = scaled > kLargest ? kLargest : scaled < -kLargest ? -kLargest : scaled;
  }
  return v;
}

}  // namespace test
}  // namespace docofl
