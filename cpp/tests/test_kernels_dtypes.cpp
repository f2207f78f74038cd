#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "harness.h"
#include "kernels/kernels.h"
#include "test_data.h"

// Conversions between dtypes, at every ISA level, over all patterns of the 16-bit formats.
namespace docofl {
namespace {

// A binary format of 16 bits.
struct Format {
  const char* name;
  int exponent_bits;
  int fraction_bits;
  void (*Kernels::*from_table)(const std::uint16_t*, std::size_t, float*);
  void (*Kernels::*to_table)(const float*, std::size_t, std::uint16_t*);

  void from(const std::uint16_t* in, std::size_t n, float* out) const {
    (kernels().*from_table)(in, n, out);
  }
  void to(const float* in, std::size_t n, std::uint16_t* out) const {
    (kernels().*to_table)(in, n, out);
  }
  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  }
  // The value of a pattern by the definition of IEEE 754; infinities and NaN as such.
  double value(std::uint16_t pattern) const {
    const double sign = pattern & 0x8000 ? -1.0 : 1.0;
    const int exponent = (pattern & 0x7fff) >> fraction_bits;
    const int fraction = pattern & ((1 << fraction_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    if (exponent == (1 << exponent_bits) - 1) {
      return fraction == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
    }
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  }
};

const Format kFormats[] = {
    {"float16", 5, 10, &Kernels::from_float16, &Kernels::to_float16},
    {"bfloat16", 8, 7, &Kernels::from_bfloat16, &Kernels::to_bfloat16},
};

// The pattern nearest to a value of the format's range, of two equally near ones the even one, by
// bisection over the ordered patterns.
std::uint16_t nearest(const Format& format, float x) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const double magnitude = std::fabs(static_cast<double>(x));
  std::uint16_t below = 0;
  std::uint16_t above = format.infinity();
  while (above - below > 1) {
    const auto middle = static_cast<std::uint16_t>((below + above) / 2);
    (format.value(middle) <= magnitude ? below : above) = middle;
  }
  const double down = magnitude - format.value(below);
  // Of the largest value, the neighbour would be a step further.
  const double up = above < format.infinity()
                        ? format.value(above) - magnitude
                        : 2 * format.value(below) - format.value(below - 1) - magnitude;
  const bool rounds_up = up < down || (up == down && below % 2 == 1);
  return static_cast<std::uint16_t>(sign | (rounds_up ? above : below));
}

template <class Action>
void for_each_format(const Action& action) {
  test::for_each_isa([&](const std::string& isa) {
    for (const Format& format : kFormats) {
      const test::Note note("isa ", isa, ", format ", format.name);
      action(format);
    }
  });
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}

bool is_finite(const Format& format, std::uint16_t pattern) {
  return (pattern & 0x7fff) < format.infinity();
}

DOCOFL_TEST(all_patterns_to_float32) {
  for_each_format([](const Format& format) {
    const std::vector<std::uint16_t> patterns = all_patterns();
    std::vector<float> values(patterns.size());
    format.from(patterns.data(), patterns.size(), values.data());
    for (const std::uint16_t pattern : patterns) {
      const double expected = format.value(pattern);
      if (std::isnan(expected)) {
        DOCOFL_CHECK(std::isnan(values[pattern]));
        continue;
      }
      DOCOFL_CHECK_EQUAL(values[pattern], expected);
      DOCOFL_CHECK_EQUAL(std::signbit(values[pattern]), pattern >= 0x8000);
    }
  });
}

DOCOFL_TEST(all_finite_patterns_come_back) {
  for_each_format([](const Format& format) {
    const std::vector<std::uint16_t> patterns = all_patterns();
    std::vector<float> values(patterns.size());
    std::vector<std::uint16_t> back(patterns.size());
    format.from(patterns.data(), patterns.size(), values.data());
    format.to(values.data(), values.size(), back.data());
    for (const std::uint16_t pattern : patterns) {
      if (is_finite(format, pattern)) DOCOFL_CHECK_EQUAL(back[pattern], pattern);
    }
  });
}

// Halfway to the next pattern, and one float32 to either side of it.
DOCOFL_TEST(rounding_between_all_neighbours) {
  for_each_format([](const Format& format) {
    std::vector<float> values;
    std::vector<std::uint16_t> expected;
    const auto add = [&](float value, std::uint16_t pattern) {
      for (const unsigned sign : {0u, 0x8000u}) {
        values.push_back(sign == 0 ? value : -value);
        expected.push_back(static_cast<std::uint16_t>(pattern | sign));
      }
    };
    for (std::uint16_t low = 0; low < format.infinity() - 1; ++low) {
      const auto high = static_cast<std::uint16_t>(low + 1);
      const auto halfway = static_cast<float>((format.value(low) + format.value(high)) / 2);
      add(halfway, low % 2 == 0 ? low : high);
      add(std::nextafter(halfway, 0.0f), low);
      add(std::nextafter(halfway, HUGE_VALF), high);
    }
    std::vector<std::uint16_t> found(values.size());
    format.to(values.data(), values.size(), found.data());
    DOCOFL_CHECK_SAME(found.data(), expected.data(), expected.size());
  });
}

DOCOFL_TEST(random_values_are_rounded_to_the_nearest) {
  for_each_format([](const Format& format) {
    test::Random random(61);
    const auto largest_pattern = static_cast<std::uint16_t>(format.infinity() - 1);
    const double largest = format.value(largest_pattern);
    std::vector<float> values = {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(), -0x1p-126f,
                                 static_cast<float>(largest)};
    while (values.size() < 20000) {
      // Exponents of float16 are a small part of those of float32: most values go there.
      const auto near = static_cast<float>(random.uniform() * 2 - 1);
      const float candidate = random.below(4) == 0
                                  ? test::float_of(static_cast<std::uint32_t>(random.next()))
                                  : std::ldexp(near, static_cast<int>(random.below(46)) - 28);
      if (std::fabs(static_cast<double>(candidate)) <= largest) values.push_back(candidate);
    }
    std::vector<std::uint16_t> found(values.size());
    format.to(values.data(), values.size(), found.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const test::Note note("value ", values[i]);
      DOCOFL_CHECK_EQUAL(found[i], nearest(format, values[i]));
    }
  });
}

DOCOFL_TEST(small_sizes_and_alignments) {
  for_each_format([](const Format& format) {
    test::Random random(62);
    for (std::size_t n = 0; n <= 70; ++n) {
      const test::Note note("n ", n);
      test::ExactArray<std::uint16_t> patterns(n, n % 9);
      for (std::size_t i = 0; i < n; ++i) {
        patterns[i] =
            static_cast<std::uint16_t>(random.below(format.infinity()) | (random.next() & 0x8000));
      }
      test::ExactArray<float> values(n, n % 7);
      format.from(patterns.data(), n, values.data());
      for (std::size_t i = 0; i < n; ++i) {
        DOCOFL_CHECK_EQUAL(values[i], format.value(patterns[i]));
      }
      test::ExactArray<std::uint16_t> back(n, n % 5);
      format.to(values.data(), n, back.data());
      DOCOFL_CHECK_SAME(back.data(), patterns.data(), n);
    }
  });
}

DOCOFL_TEST(float64_to_float32_and_back) {
  constexpr float kMax = std::numeric_limits<float>::max();
  // Halfway between the largest float32 and the power of two that would follow it.
  const double limit = std::ldexp(1.0, 128) - std::ldexp(1.0, 103);
  test::for_each_isa([&](const std::string& isa) {
    test::Random random(63);
    for (std::size_t n = 0; n <= 70; ++n) {
      const test::Note note("isa ", isa, ", n ", n);
      test::ExactArray<double> doubles(n, n % 5);
      test::ExactArray<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        const double tiny = std::ldexp(random.uniform() - 0.5, -126 - int(random.below(30)));
        const double values[] = {limit,        std::nextafter(limit, 0),
                                 double(kMax), HUGE_VAL,
                                 1e300,        random.normal(),
                                 tiny,         0.0,
                                 0x1p-149,     0x1p-150,
                                 0x1.8p-149};
        const float results[] = {HUGE_VALF,
                                 kMax,
                                 kMax,
                                 HUGE_VALF,
                                 HUGE_VALF,
                                 static_cast<float>(values[5]),
                                 static_cast<float>(tiny),
                                 0.0f,
                                 0x1p-149f,
                                 0.0f,
                                 0x1p-148f};
        const std::size_t pick = random.below(11);
        const bool negative = random.below(2) == 0;
        doubles[i] = negative ? -values[pick] : values[pick];
        expected[i] = negative ? -results[pick] : results[pick];
      }
      test::ExactArray<float> found(n, n % 9);
      kernels().from_float64(doubles.data(), n, found.data());
      DOCOFL_CHECK_SAME(found.data(), expected.data(), n);
      test::ExactArray<double> back(n, n % 3);
      kernels().to_float64(found.data(), n, back.data());
      for (std::size_t i = 0; i < n; ++i) {
        const auto wide = static_cast<double>(found[i]);
        DOCOFL_CHECK_SAME(&back[i], &wide, 1);
      }
    }
    const double nan = std::numeric_limits<double>::quiet_NaN();
    float converted = 0;
    kernels().from_float64(&nan, 1, &converted);
    DOCOFL_CHECK(std::isnan(converted));
  });
}

}  // namespace
}  // namespace docofl
