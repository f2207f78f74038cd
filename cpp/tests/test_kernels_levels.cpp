#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ecuq/levels.h"
#include "harness.h"
#include "kernels/kernels.h"
#include "test_data.h"

// The loops between values and levels, at every ISA level, against the arithmetic of
// docs/format.md, section 3.1, one value at a time.
namespace docofl {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();

std::vector<GridParams> grids() {
  return {
      make_grid(-1.0f, 1.0f, 1),
      make_grid(-1.0f, 1.0f, 7),
      make_grid(0.1f, 0.7f, 256),
      make_grid(-3.5f, 4.25f, 1000),
      make_grid(-3.5f, 4.25f, kMaxNarrowLevels),
      make_grid(-3.5f, 4.25f, kMaxNarrowLevels + 1),
      make_grid(-0.05f, 497160.0f, 30000000),
      make_grid(-1.0f, 1.0f, kMaxLevels),
      make_grid(-kMax, kMax, 17),
      make_grid(-kMax, kMax, kMaxLevels),
      make_grid(0.0f, 0x1p-96f, 100),
      make_grid(-0x1p95f, 0x1p95f, 100),
      make_grid(0.0f, 0x1p-140f, 300),
      make_grid(0.0f, std::numeric_limits<float>::denorm_min(), 2),
  };
}

template <class Real>
std::int32_t level_as(const GridParams& grid, float x) {
  const Real offset = static_cast<Real>(x) - static_cast<Real>(grid.x_min);
  const Real position = offset * static_cast<Real>(grid.inverse_step);
  if (!(position > 0)) return 0;  // NaN as well
  if (position >= static_cast<Real>(grid.num_levels - 1)) return grid.num_levels - 1;
  return static_cast<std::int32_t>(position);
}

std::int32_t level_of(const GridParams& grid, float x) {
  return grid.narrow ? level_as<float>(grid, x) : level_as<double>(grid, x);
}

template <class Real>
float value_as(const GridParams& grid, std::int32_t level) {
  const Real centre = static_cast<Real>(level) + static_cast<Real>(0.5);
  const Real product = centre * static_cast<Real>(grid.step);
  return static_cast<float>(static_cast<Real>(grid.x_min) + product);
}

float value_of(const GridParams& grid, std::int32_t level) {
  return grid.narrow ? value_as<float>(grid, level) : value_as<double>(grid, level);
}

// A value for a grid: inside it, near the edge of a level, beyond it, or a special one.
float random_value(const GridParams& grid, test::Random* random) {
  static const std::vector<float> specials = test::special_floats();
  const double range = grid.step * grid.num_levels;
  switch (random->below(6)) {
    case 0: return specials[random->below(specials.size())];
    case 1: return test::float_of(static_cast<std::uint32_t>(random->next()));
    case 2: {
      const double edge = std::floor(random->uniform() * (grid.num_levels + 1));
      return static_cast<float>(std::min(double(kMax), grid.x_min + edge * grid.step));
    }
    default: {
      const double value = grid.x_min + (random->uniform() * 1.2 - 0.1) * range;
      return static_cast<float>(std::max(-double(kMax), std::min(double(kMax), value)));
    }
  }
}

// Calls action(values, n, shift) for all small sizes, at several alignments, and a large one.
template <class Action>
void for_each_size(const GridParams& grid, const Action& action) {
  test::Random random(41);
  for (std::size_t n = 0; n <= 71; ++n) {
    const std::size_t size = n == 71 ? 1000 : n;
    const std::size_t shift = n % 9;
    test::ExactArray<float> values(size, shift);
    for (std::size_t i = 0; i < size; ++i) values[i] = random_value(grid, &random);
    const test::Note note("K ", grid.num_levels, ", narrow ", grid.narrow, ", n ", size, ", shift ",
                          shift);
    action(values.data(), size, shift);
  }
}

DOCOFL_TEST(levels_of_values) {
  test::for_each_isa([](const std::string& isa) {
    const test::Note note("isa ", isa);
    for (const GridParams& grid : grids()) {
      for_each_size(grid, [&](const float* x, std::size_t n, std::size_t shift) {
        test::ExactArray<std::int32_t> levels(n, shift);
        kernels().quantize(grid, x, n, levels.data());
        for (std::size_t i = 0; i < n; ++i) {
          DOCOFL_CHECK(levels[i] >= 0 && levels[i] < grid.num_levels);
          DOCOFL_CHECK_EQUAL(levels[i], level_of(grid, x[i]));
        }
      });
    }
  });
}

DOCOFL_TEST(places_in_a_window) {
  test::for_each_isa([](const std::string& isa) {
    const test::Note note("isa ", isa);
    test::Random random(42);
    for (const GridParams& grid : grids()) {
      for (int round = 0; round < 4; ++round) {
        // The whole grid where it fits, then parts of it; the last may end beyond the grid.
        std::int32_t span = 1 + static_cast<std::int32_t>(random.below(256));
        auto base = static_cast<std::int32_t>(random.uniform() * grid.num_levels);
        if (round == 0) {
          span = std::min(256, grid.num_levels);
          base = 0;
        } else if (round == 1) {
          base = std::max(0, grid.num_levels / 2 - span / 2);
        } else if (round == 2) {
          base = std::max(0, grid.num_levels - span);
        }
        const WindowParams window = {base, span};
        const test::Note window_note("base ", base, ", span ", span);
        for_each_size(grid, [&](const float* x, std::size_t n, std::size_t shift) {
          test::ExactArray<std::uint8_t> coded(n, shift);
          const std::size_t outside = kernels().quantize_window(grid, window, x, n, coded.data());
          std::size_t expected_outside = 0;
          for (std::size_t i = 0; i < n; ++i) {
            const std::int32_t place = level_of(grid, x[i]) - base;
            const std::int32_t nearest = std::max(0, std::min(span - 1, place));
            if (nearest != place) ++expected_outside;
            DOCOFL_CHECK_EQUAL(coded[i], nearest);
          }
          DOCOFL_CHECK_EQUAL(outside, expected_outside);
        });
      }
    }
  });
}

DOCOFL_TEST(levels_split_into_high_and_raw_bits) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(43);
    for (unsigned raw_bits = 0; raw_bits <= kMaxRawBits; ++raw_bits) {
      const std::size_t most = std::min<std::size_t>(256, std::size_t(kMaxLevels) >> raw_bits);
      const std::size_t high = 1 + random.below(most);
      const auto span = static_cast<std::int32_t>(high << raw_bits);
      const auto base = static_cast<std::int32_t>(random.uniform() * (kMaxLevels - span));
      const WindowParams window = {base, span};
      for (std::size_t n = 0; n <= 70; ++n) {
        const test::Note note("isa ", isa, ", raw bits ", raw_bits, ", n ", n);
        test::ExactArray<std::int32_t> levels(n, n % 9);
        for (std::size_t i = 0; i < n; ++i) {
          const double place = random.uniform() * 1.5 - 0.25;
          const double level = std::floor(base + place * span);
          levels[i] =
              static_cast<std::int32_t>(std::max(0.0, std::min(double(kMaxLevels - 1), level)));
        }
        test::ExactArray<std::uint8_t> coded(n, n % 5);
        test::ExactArray<std::uint32_t> raw(n, n % 7);
        const std::size_t outside =
            kernels().split_levels(window, raw_bits, levels.data(), n, coded.data(), raw.data());
        std::size_t expected_outside = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const std::int32_t place = levels[i] - base;
          const bool inside = place >= 0 && place < span;
          if (!inside) ++expected_outside;
          const auto kept = static_cast<std::uint32_t>(inside ? place : place < 0 ? 0 : span - 1);
          DOCOFL_CHECK_EQUAL(coded[i], kept >> raw_bits);
          DOCOFL_CHECK_EQUAL(raw[i], kept & ((1u << raw_bits) - 1));
        }
        DOCOFL_CHECK_EQUAL(outside, expected_outside);
      }
    }
  });
}

DOCOFL_TEST(values_of_levels) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(44);
    for (const GridParams& grid : grids()) {
      const std::int32_t span = std::min(256, grid.num_levels);
      const std::int32_t base =
          static_cast<std::int32_t>(random.uniform() * (grid.num_levels - span + 1));
      for (std::size_t n = 0; n <= 71; ++n) {
        const std::size_t size = n == 71 ? 3000 : n;
        test::ExactArray<std::uint8_t> coded(size, n % 5);
        for (std::size_t i = 0; i < size; ++i) {
          coded[i] = static_cast<std::uint8_t>(random.below(static_cast<std::size_t>(span)));
        }
        for (const bool past_caches : {false, true}) {
          const test::Note note("isa ", isa, ", K ", grid.num_levels, ", base ", base, ", n ", size,
                                ", past caches ", past_caches);
          test::ExactArray<float> out(size, n % 9);
          Reconstruction work{};
          work.grid = grid;
          work.base = base;
          work.past_caches = past_caches;
          work.coded = coded.data();
          work.out = out.data();
          work.count = size;
          kernels().reconstruct(&work);
          DOCOFL_CHECK_EQUAL(work.count, 0u);
          for (std::size_t i = 0; i < size; ++i) {
            const float expected = value_of(grid, base + coded[i]);
            DOCOFL_CHECK(std::isfinite(out[i]));
            DOCOFL_CHECK_SAME(&out[i], &expected, 1);
          }
        }
      }
    }
  });
}

DOCOFL_TEST(values_of_displaced_levels) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(48);
    for (const GridParams& grid : grids()) {
      if (!grid.narrow) continue;
      const auto num_coded = std::min<std::size_t>(256, static_cast<std::size_t>(grid.num_levels));
      const auto base = static_cast<std::int32_t>(
          random.below(static_cast<std::size_t>(grid.num_levels) - num_coded + 1));
      for (std::size_t n = 0; n <= 140; ++n) {
        const test::Note note("isa ", isa, ", K ", grid.num_levels, ", base ", base, ", n ", n);
        const auto first = static_cast<unsigned>(random.below(256));
        std::int8_t displacements[kMaxDisplaced] = {};
        for (unsigned i = 0; i < kMaxDisplaced && first + i < 256; ++i) {
          displacements[i] = static_cast<std::int8_t>(static_cast<int>(random.below(65)) - 32);
        }
        test::ExactArray<std::uint8_t> coded(n, n % 5);
        test::ExactArray<float> out(n, n % 9);
        for (std::size_t i = 0; i < n; ++i) {
          coded[i] = static_cast<std::uint8_t>(random.below(num_coded));
        }
        Reconstruction work{};
        work.grid = grid;
        work.base = base;
        work.displacements = displacements;
        work.first_displaced = first;
        work.past_caches = n % 2 == 1;
        work.coded = coded.data();
        work.out = out.data();
        work.count = n;
        kernels().reconstruct(&work);
        DOCOFL_CHECK_EQUAL(work.count, 0u);
        for (std::size_t i = 0; i < n; ++i) {
          const unsigned place = coded[i] - first;
          const double shift = place < kMaxDisplaced ? displacements[place] / 64.0 : 0;
          const float step = static_cast<float>(grid.step);
          const float offset = static_cast<float>(base + coded[i] + 0.5 + shift) * step;
          const float expected = static_cast<float>(grid.x_min) + offset;
          DOCOFL_CHECK_SAME(&out[i], &expected, 1);
        }
      }
    }
  });
}

DOCOFL_TEST(values_of_levels_with_raw_bits) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(45);
    for (const GridParams& grid : grids()) {
      for (unsigned raw_bits = 1; raw_bits <= kMaxRawBits; ++raw_bits) {
        // The last coded level starts inside the grid and may end beyond it.
        const std::int32_t last_high = std::min(255, (grid.num_levels - 1) >> raw_bits);
        const std::int32_t room = grid.num_levels - 1 - (last_high << raw_bits);
        const auto base = static_cast<std::int32_t>(random.uniform() * (room + 1));
        const std::size_t n = random.below(71);
        const test::Note note("isa ", isa, ", K ", grid.num_levels, ", base ", base, ", raw bits ",
                              raw_bits, ", n ", n);
        test::ExactArray<std::uint8_t> coded(n, n % 5);
        test::ExactArray<std::uint32_t> raw(n, n % 3);
        test::ExactArray<float> out(n, n % 9);
        for (std::size_t i = 0; i < n; ++i) {
          coded[i] = static_cast<std::uint8_t>(random.below(std::size_t(last_high) + 1));
          raw[i] = static_cast<std::uint32_t>(random.below(std::size_t(1) << raw_bits));
        }
        kernels().reconstruct_raw(grid, base, raw_bits, coded.data(), raw.data(), n, out.data());
        for (std::size_t i = 0; i < n; ++i) {
          const std::int64_t level = base + (std::int64_t(coded[i]) << raw_bits) + raw[i];
          const auto kept = std::min<std::int64_t>(level, grid.num_levels - 1);
          const float expected = value_of(grid, static_cast<std::int32_t>(kept));
          DOCOFL_CHECK_SAME(&out[i], &expected, 1);
        }
      }
    }
  });
}

DOCOFL_TEST(values_from_a_table) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(46);
    for (const std::size_t num_values : {1, 2, 8, 9, 16, 17, 256}) {
      test::ExactArray<float> values(256);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = test::float_of(static_cast<std::uint32_t>(random.next()));
      }
      for (std::size_t n = 0; n <= 140; ++n) {
        std::vector<std::size_t> levels(n);
        for (std::size_t& level : levels) level = random.below(num_values);
        for (const bool pairs : {false, true}) {
          if (pairs && num_values > 16) continue;
          test::ExactArray<std::uint8_t> coded(pairs ? (n + 1) / 2 : n, n % 5);
          std::fill(coded.data(), coded.data() + coded.size(), std::uint8_t(0));
          for (std::size_t i = 0; i < n; ++i) {
            const auto level = static_cast<std::uint8_t>(levels[i]);
            if (!pairs) {
              coded[i] = level;
            } else {
              coded[i / 2] |= static_cast<std::uint8_t>(i % 2 == 0 ? level << 4 : level);
            }
          }
          for (const bool past_caches : {false, true}) {
            const test::Note note("isa ", isa, ", values ", num_values, ", n ", n, ", pairs ",
                                  pairs, ", past caches ", past_caches);
            test::ExactArray<float> out(n, n % 9);
            Reconstruction work{};
            work.table = values.data();
            work.table_size = static_cast<unsigned>(num_values);
            work.pairs = pairs;
            work.past_caches = past_caches;
            work.coded = coded.data();
            work.out = out.data();
            work.count = n;
            kernels().reconstruct(&work);
            for (std::size_t i = 0; i < n; ++i) DOCOFL_CHECK_SAME(&out[i], &values[levels[i]], 1);
          }
        }
      }
    }
  });
}

DOCOFL_TEST(deviations_add_up_in_the_same_order) {
  test::Random random(47);
  const DeviationParams deviation = {0.25f, 1.5f};
  for (const std::size_t runs : {0, 1, 2, 33}) {
    for (const std::size_t stride : {64, 100, 128}) {
      test::ExactArray<float> x(runs == 0 ? 0 : (runs - 1) * stride + 64, 1);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(random.uniform() * 8 - 4);
      }
      float sums[64] = {};
      for (std::size_t run = 0; run < runs; ++run) {
        for (std::size_t k = 0; k < 64; ++k) {
          sums[k] += std::min(std::fabs(x[run * stride + k] - 0.25f), 1.5f);
        }
      }
      double expected = 0;
      for (const float sum : sums) expected += sum;
      test::for_each_isa([&](const std::string& isa) {
        const test::Note note("isa ", isa, ", runs ", runs, ", stride ", stride);
        const double found = kernels().sum_deviations(deviation, x.data(), runs, stride);
        DOCOFL_CHECK_SAME(&found, &expected, 1);
      });
    }
  }
}

// Keys have the order of the floats, and those of NaN and infinities lie outside the finite ones.
DOCOFL_TEST(ranges_by_order_key) {
  const auto key_of = [](float x) {
    std::int32_t lo = INT32_MAX;
    std::int32_t hi = INT32_MIN;
    kernels().key_range(&x, 1, &lo, &hi);
    DOCOFL_CHECK_EQUAL(lo, hi);
    return lo;
  };
  test::for_each_isa([&](const std::string& isa) {
    test::Random random(47);
    for (std::size_t n = 0; n <= 70; ++n) {
      const test::Note note("isa ", isa, ", n ", n);
      test::ExactArray<float> values(n, n % 9);
      std::int32_t expected_lo = INT32_MAX;
      std::int32_t expected_hi = INT32_MIN;
      for (std::size_t i = 0; i < n; ++i) {
        values[i] = random_value(make_grid(-1.0f, 1.0f, 8), &random);
        expected_lo = std::min(expected_lo, key_of(values[i]));
        expected_hi = std::max(expected_hi, key_of(values[i]));
      }
      std::int32_t lo = INT32_MAX;
      std::int32_t hi = INT32_MIN;
      kernels().key_range(values.data(), n, &lo, &hi);
      DOCOFL_CHECK_EQUAL(lo, expected_lo);
      DOCOFL_CHECK_EQUAL(hi, expected_hi);
    }
    for (int i = 0; i < 20000; ++i) {
      const float a = test::float_of(static_cast<std::uint32_t>(random.next()));
      const float b = test::float_of(static_cast<std::uint32_t>(random.next()));
      const std::int32_t key = key_of(a);
      DOCOFL_CHECK_EQUAL(std::isfinite(a), key >= key_of(-kMax) && key <= key_of(kMax));
      if (a < b) DOCOFL_CHECK(key < key_of(b));
    }
    DOCOFL_CHECK(key_of(-0.0f) < key_of(0.0f));
  });
}

// docs/format.md, section 3.9.
DOCOFL_TEST(runs_come_back_from_their_coefficients) {
  test::Random random(91);
  const std::size_t run = kTransformRun;
  for (const std::size_t runs : {1, 7, 8, 9, 40}) {
    const std::size_t stride = runs + random.below(20);
    test::ExactArray<float> coefficients(stride * (run - 1) + runs);
    for (std::size_t i = 0; i < coefficients.size(); ++i) {
      coefficients[i] = static_cast<float>(random.uniform() - 0.5);
    }
    std::vector<float> first;
    test::for_each_isa([&](const std::string& isa) {
      const test::Note note("isa ", isa, ", runs ", runs);
      test::ExactArray<float> out(run * runs);
      kernels().inverse_transform(coefficients.data(), stride, runs, out.data());
      if (first.empty()) first.assign(out.data(), out.data() + out.size());
      DOCOFL_CHECK_SAME(out.data(), first.data(), first.size());
      for (std::size_t j = 0; j < runs; ++j) {
        for (std::size_t t = 0; t < run; ++t) {
          double sum = 0;
          for (std::size_t k = 0; k < run; ++k) {
            const double angle = 3.14159265358979 * static_cast<double>(k * (2 * t + 1)) / 32;
            sum += (k == 0 ? 0.25 : std::sqrt(0.125) * std::cos(angle)) *
                   static_cast<double>(coefficients[k * stride + j]);
          }
          DOCOFL_CHECK(std::fabs(sum - static_cast<double>(out[run * j + t])) < 1e-6);
        }
      }
    });
  }
}

}  // namespace
}  // namespace docofl
