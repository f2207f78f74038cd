#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "eden/codebooks.h"
#include "harness.h"
#include "test_data.h"

// The tables of docs/format.md, section 4.2: Lloyd-Max levels of the standard normal distribution.
namespace docofl {
namespace {

std::size_t num_magnitudes(unsigned width) { return std::size_t(1) << (width - 1); }

// Calls action(codebook, number of magnitudes) for every width that has words.
template <class Action>
void for_each_codebook(const Action& action) {
  for (unsigned width = 1; width <= kMaxEdenWidth; ++width) {
    const test::Note note("width ", width);
    const EdenCodebook& codebook = eden_codebook(width);
    DOCOFL_CHECK_EQUAL(codebook.width, width);
    action(codebook, num_magnitudes(width));
  }
}

double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)); }

// By Simpson's rule.
template <class Function>
double integral(double low, double high, const Function& function) {
  constexpr int kSteps = 2000;
  const double step = (high - low) / kSteps;
  double sum = function(low) + function(high);
  for (int i = 1; i < kSteps; ++i) sum += (i % 2 == 1 ? 4 : 2) * function(low + i * step);
  return sum * step / 3;
}

// Where the cell of a level begins; that of no level ends.
double edge(const EdenCodebook& codebook, std::size_t count, std::size_t i) {
  constexpr double kFar = 14;  // nothing beyond it counts in double
  return i == 0 ? 0 : i == count ? kFar : static_cast<double>(codebook.thresholds[i - 1]);
}

DOCOFL_TEST(no_bits_have_one_level) {
  DOCOFL_CHECK_EQUAL(eden_codebook(0).width, 0u);
  DOCOFL_CHECK_EQUAL(eden_codebook(0).magnitudes[0], 0.0f);
}

DOCOFL_TEST(levels_ascend) {
  for_each_codebook([](const EdenCodebook& codebook, std::size_t count) {
    DOCOFL_CHECK(codebook.magnitudes[0] > 0);
    for (std::size_t i = 1; i < count; ++i) {
      DOCOFL_CHECK(codebook.magnitudes[i - 1] < codebook.magnitudes[i]);
    }
    DOCOFL_CHECK(codebook.magnitudes[count - 1] < 5);
  });
}

DOCOFL_TEST(thresholds_are_midpoints) {
  for_each_codebook([](const EdenCodebook& codebook, std::size_t count) {
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const double below = codebook.magnitudes[i];
      const double above = codebook.magnitudes[i + 1];
      DOCOFL_CHECK_EQUAL(codebook.thresholds[i], static_cast<float>((below + above) / 2));
    }
  });
}

// Small tables have room for a register, and nothing reaches the last threshold of any.
DOCOFL_TEST(tables_are_filled_up) {
  for_each_codebook([](const EdenCodebook& codebook, std::size_t count) {
    const std::size_t room = std::max<std::size_t>(count, 8);
    for (std::size_t i = count - 1; i < room; ++i) {
      DOCOFL_CHECK_EQUAL(codebook.thresholds[i], std::numeric_limits<float>::infinity());
    }
    for (std::size_t i = count; i < room; ++i) DOCOFL_CHECK(std::isfinite(codebook.magnitudes[i]));
  });
}

DOCOFL_TEST(levels_are_the_means_of_their_cells) {
  for_each_codebook([](const EdenCodebook& codebook, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const double low = edge(codebook, count, i);
      const double high = edge(codebook, count, i + 1);
      const double mass = integral(low, high, density);
      const double moment = integral(low, high, [](double x) { return x * density(x); });
      const test::Note note("level ", i, ", mean ", moment / mass);
      DOCOFL_CHECK(std::fabs(static_cast<double>(codebook.magnitudes[i]) - moment / mass) <= 1e-6);
    }
  });
}

// Max, 1960, table I, of which the last digits of the larger quantizers are known to be too low.
DOCOFL_TEST(errors_are_the_known_ones) {
  const double known[] = {0.3634, 0.1175, 0.03454, 0.009497, 0.002499};
  for (unsigned width = 1; width <= 5; ++width) {
    const EdenCodebook& codebook = eden_codebook(width);
    const std::size_t count = num_magnitudes(width);
    double error = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double level = codebook.magnitudes[i];
      error += 2 * integral(edge(codebook, count, i), edge(codebook, count, i + 1),
                            [&](double x) { return (x - level) * (x - level) * density(x); });
    }
    const test::Note note("width ", width, ", error ", error);
    DOCOFL_CHECK(std::fabs(error / known[width - 1] - 1) <= 0.003);
  }
}

DOCOFL_TEST(cells_hold_at_most_one_threshold) {
  for_each_codebook([](const EdenCodebook& codebook, std::size_t count) {
    if (codebook.width <= 4) return;
    const float* const end = codebook.thresholds + (count - 1);
    for (unsigned i = 0; i < kEdenCells; ++i) {
      const test::Note note("cell ", i);
      const float start = static_cast<float>(i) / kEdenCellsPerUnit;
      const auto below = std::count_if(codebook.thresholds, end,
                                       [&](float threshold) { return threshold < start; });
      DOCOFL_CHECK_EQUAL(codebook.cells[i], below);
      // The last cell has no end.
      const float stop = i + 1 == kEdenCells ? std::numeric_limits<float>::max()
                                             : static_cast<float>(i + 1) / kEdenCellsPerUnit;
      const auto inside = std::count_if(codebook.thresholds, end, [&](float threshold) {
        return threshold >= start && threshold < stop;
      });
      DOCOFL_CHECK(inside <= 1);
    }
  });
}

DOCOFL_TEST(ranks_by_cells_are_ranks_by_search) {
  for_each_codebook([](const EdenCodebook& codebook, std::size_t count) {
    if (codebook.width <= 4) return;
    const auto check = [&](float magnitude) {
      const test::Note note("magnitude ", magnitude);
      const float cell = std::min(magnitude * kEdenCellsPerUnit, float(kEdenCells - 1));
      const auto first = static_cast<std::size_t>(codebook.cells[static_cast<std::size_t>(cell)]);
      const std::size_t rank = first + (magnitude >= codebook.thresholds[first] ? 1 : 0);
      std::size_t expected = 0;
      while (expected + 1 < count && magnitude >= codebook.thresholds[expected]) ++expected;
      DOCOFL_CHECK_EQUAL(rank, expected);
    };
    for (std::size_t i = 0; i + 1 < count; ++i) {
      check(codebook.thresholds[i]);
      check(std::nextafterf(codebook.thresholds[i], 0.0f));
      check(std::nextafterf(codebook.thresholds[i], 9.0f));
    }
    for (unsigned i = 0; i <= kEdenCells + 10; ++i) {
      const float start = static_cast<float>(i) / kEdenCellsPerUnit;
      check(start);
      check(std::nextafterf(start, 9.0f));
      if (i > 0) check(std::nextafterf(start, 0.0f));
    }
    for (const float special : test::special_floats()) {
      if (special >= 0 && std::isfinite(special)) check(special);
    }
    test::Random random(111);
    for (int i = 0; i < 20000; ++i) check(static_cast<float>(9 * random.uniform()));
  });
}

}  // namespace
}  // namespace docofl
