#include <algorithm>
#include <cmath>

#include "common/exact_log2.h"
#include "harness.h"
#include "test_data.h"

namespace docofl {
namespace {

// Distance of two doubles in steps of the larger one's last place.
double ulps_between(double a, double b) {
  const double larger = std::max(std::fabs(a), std::fabs(b));
  if (larger == 0) return 0;
  return std::fabs(a - b) / (std::nextafter(larger, HUGE_VAL) - larger);
}

void check_close(std::uint64_t value) {
  const double expected = static_cast<double>(std::log2(static_cast<long double>(value)));
  const double found = exact_log2(value);
  if (ulps_between(found, expected) <= 4) return;
  const test::Note note("value ", value);
  DOCOFL_CHECK_EQUAL(found, expected);
}

DOCOFL_TEST(powers_of_two_are_exact) {
  for (int exponent = 0; exponent < 64; ++exponent) {
    DOCOFL_CHECK_EQUAL(exact_log2(std::uint64_t(1) << exponent), static_cast<double>(exponent));
  }
}

DOCOFL_TEST(small_integers_are_close) {
  for (std::uint64_t value = 1; value <= 1 << 18; ++value) check_close(value);
}

DOCOFL_TEST(neighbours_of_powers_are_close) {
  for (int exponent = 1; exponent < 64; ++exponent) {
    const std::uint64_t power = std::uint64_t(1) << exponent;
    for (std::uint64_t off = 0; off < 100 && off < power; ++off) {
      check_close(power - off);
      check_close(power + off);
    }
  }
  check_close(UINT64_MAX);
}

DOCOFL_TEST(random_integers_are_close) {
  test::Random random(3);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t value = random.next() >> random.below(64);
    if (value > 0) check_close(value);
  }
}

DOCOFL_TEST(around_the_seam_of_the_reduction) {
  for (int exponent = 8; exponent < 63; ++exponent) {
    const auto seam = static_cast<std::uint64_t>(std::ldexp(1.4142135623730951, exponent));
    for (std::uint64_t value = seam - 50; value < seam + 50; ++value) check_close(value);
  }
}

}  // namespace
}  // namespace docofl
