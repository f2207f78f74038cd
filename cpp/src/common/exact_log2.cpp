#include "common/exact_log2.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace docofl {
namespace {

// 2^-exponent for 0 <= exponent <= 63, exactly.
double power_of_half(int exponent) {
  const std::uint64_t bits = static_cast<std::uint64_t>(1023 - exponent) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

double compute_log2(std::uint64_t value) {
  // value = mantissa * 2^exponent with mantissa in [sqrt(1/2), sqrt(2)].
  int exponent = 0;
  for (int half = 32; half > 0; half /= 2) {
    if (value >> exponent >> half) exponent += half;
  }
  double mantissa = static_cast<double>(value) * power_of_half(exponent);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // ln(mantissa) = 2 atanh(z) with z = (mantissa - 1) / (mantissa + 1), |z| < 0.172: the series up
  // to z^21 leaves less than 2^-57.
  constexpr double kSeries[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  constexpr double kTwoOverLn2 = 2.8853900817779268;
  const double z = (mantissa - 1.0) / (mantissa + 1.0);
  const double z2 = z * z;
  double sum = 0.0;
  for (const double coefficient : kSeries) sum = sum * z2 + coefficient;
  return exponent + kTwoOverLn2 * z * sum;
}

constexpr std::size_t kTableSize = 4096;

std::array<double, kTableSize> make_table() {
  std::array<double, kTableSize> table{};
  for (std::size_t value = 1; value < kTableSize; ++value) table[value] = compute_log2(value);
  return table;
}

}  // namespace

double exact_log2(std::uint64_t value) {
  static const std::array<double, kTableSize> table = make_table();
  return value < kTableSize ? table[value] : compute_log2(value);
}

double exact_exp2(double x, double most) {
  x = std::min(most, std::max(-most, x));
  const double whole = std::floor(x);
  const double part = (x - whole) * 0.6931471805599453;
  double term = 1, sum = 1;
  for (int k = 1; k < 16; ++k) term *= part / k, sum += term;
  return std::ldexp(sum, static_cast<int>(whole));
}

}  // namespace docofl
