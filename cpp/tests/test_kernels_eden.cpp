#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "eden/codebooks.h"
#include "eden/rotation.h"
#include "harness.h"
#include "kernels/kernels.h"
#include "test_data.h"
#include "test_eden.h"

// The loops of EDEN, at every ISA level, bit for bit against loops over one value at a time.
namespace docofl {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr std::size_t kLargestTransform = std::size_t(1) << 16;

float random_normal(test::Random* random) { return static_cast<float>(random->normal()); }

// Mostly normal; the others are zeros of both signs, tiny or large, but no sum of them overflows.
float random_value(test::Random* random) {
  switch (random->below(10)) {
    case 0: return random->below(2) == 0 ? 0.0f : -0.0f;
    case 1: return test::float_of(static_cast<std::uint32_t>(random->below(1 << 24)));
    case 2: return random_normal(random) * 1e20f;
    default: return random_normal(random);
  }
}

std::vector<float> random_values(std::size_t n, test::Random* random) {
  std::vector<float> values(n);
  for (float& value : values) value = random_value(random);
  return values;
}

// The same values in memory that ends where they end.
test::ExactArray<float> exact_copy(const std::vector<float>& values, std::size_t shift) {
  test::ExactArray<float> copy(values.size(), shift);
  std::copy(values.begin(), values.end(), copy.data());
  return copy;
}

// Random signs for n coordinates, in whole words.
class Signs {
 public:
  Signs(std::size_t n, test::Random* random)
      : first_(std::max<std::size_t>(1, n / 64)), second_(std::max<std::size_t>(1, n / 64)) {
    for (std::size_t i = 0; i < first_.size(); ++i) {
      first_[i] = random->next();
      second_[i] = random->next();
    }
  }
  RotationSigns get() const { return {first_.data(), second_.data()}; }

 private:
  test::ExactArray<std::uint64_t> first_;
  test::ExactArray<std::uint64_t> second_;
};

// --- transforms --------------------------------------------------------------------------------

DOCOFL_TEST(hadamard_stage_by_stage) {
  test::Random random(91);
  for (std::size_t n = 1; n <= kLargestTransform; n *= 2) {
    const std::vector<float> values = random_values(n, &random);
    std::vector<float> expected = values;
    test::hadamard_up(expected.data(), n, n);
    test::for_each_isa([&](const std::string& isa) {
      for (const std::size_t shift : {0, 1, 5}) {
        const test::Note note("isa ", isa, ", n ", n, ", shift ", shift);
        test::ExactArray<float> x = exact_copy(values, shift);
        kernels().hadamard(x.data(), n);
        DOCOFL_CHECK_SAME(x.data(), expected.data(), n);
      }
    });
  }
}

// Row i of the matrix is (-1)^popcount(i & j); sums of small whole numbers are exact.
DOCOFL_TEST(hadamard_by_its_matrix) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(92);
    for (std::size_t n = 1; n <= kLargestTransform; n *= 2) {
      const test::Note note("isa ", isa, ", n ", n);
      std::vector<int> values(n);
      test::ExactArray<float> x(n);
      for (std::size_t i = 0; i < n; ++i) {
        values[i] = static_cast<int>(random.below(201)) - 100;
        x[i] = static_cast<float>(values[i]);
      }
      kernels().hadamard(x.data(), n);
      for (std::size_t row = 0; row < std::min<std::size_t>(n, 64); ++row) {
        const std::size_t i = n <= 64 ? row : random.below(n);
        int expected = 0;
        for (std::size_t j = 0; j < n; ++j) {
          bool minus = false;
          for (std::size_t bits = i & j; bits != 0; bits &= bits - 1) minus = !minus;
          expected += minus ? -values[j] : values[j];
        }
        DOCOFL_CHECK_EQUAL(x[i], static_cast<float>(expected));
      }
    }
  });
}

DOCOFL_TEST(hadamard_twice_is_n_times_the_identity) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(93);
    for (std::size_t n = 1; n <= kLargestTransform; n *= 2) {
      const test::Note note("isa ", isa, ", n ", n);
      test::ExactArray<float> x(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = random_normal(&random);
      const std::vector<float> before(x.data(), x.data() + n);
      kernels().hadamard(x.data(), n);
      kernels().hadamard(x.data(), n);
      for (std::size_t i = 0; i < n; ++i) {
        DOCOFL_CHECK(std::fabs(x[i] / static_cast<float>(n) - before[i]) <= 1e-5f);
      }
    }
  });
}

DOCOFL_TEST(rotations_by_their_definition) {
  test::Random random(94);
  for (std::size_t n = 16; n <= kLargestTransform; n *= 2) {
    const std::vector<float> values = random_values(n, &random);
    const Signs signs(n, &random);
    for (const float scale : {1.0f, 0x1p-20f, 0.3f}) {
      const std::vector<float> expected = test::rotated(values, scale, signs.get());
      test::for_each_isa([&](const std::string& isa) {
        for (const std::size_t shift : {0, 3}) {
          const test::Note note("isa ", isa, ", n ", n, ", scale ", scale, ", shift ", shift);
          const test::ExactArray<float> x = exact_copy(values, shift);
          test::ExactArray<float> out(n, 4 - shift);
          kernels().rotate(x.data(), scale, signs.get(), n, out.data());
          DOCOFL_CHECK_SAME(out.data(), expected.data(), n);
          DOCOFL_CHECK_SAME(x.data(), values.data(), n);
        }
      });
    }
  }
}

// Stored, stored past the caches and added, at every alignment.
DOCOFL_TEST(rotations_back_by_their_definition) {
  test::Random random(95);
  for (std::size_t n = 16; n <= kLargestTransform; n *= 2) {
    const std::vector<float> values = random_values(n, &random);
    const std::vector<float> before = random_values(n, &random);
    const Signs signs(n, &random);
    const float norm = rotation_norm(n);
    for (const float scale : {1.0f, 0.0f, 0.37f}) {
      const std::vector<float> expected = test::rotated_back(values, signs.get(), norm, scale);
      test::for_each_isa([&](const std::string& isa) {
        for (const Put how : {Put::kStore, Put::kPastCaches, Put::kAdd}) {
          for (std::size_t shift = 0; shift <= 4; ++shift) {
            const test::Note note("isa ", isa, ", n ", n, ", scale ", scale, ", put ", how,
                                  ", shift ", shift);
            test::ExactArray<float> v = exact_copy(values, (shift + 2) % 5);
            test::ExactArray<float> out = exact_copy(before, shift);
            kernels().rotate_back(v.data(), signs.get(), n, norm, scale, how, out.data());
            for (std::size_t i = 0; i < n; ++i) {
              const float sum = before[i] + expected[i];
              DOCOFL_CHECK_SAME(&out[i], how == Put::kAdd ? &sum : &expected[i], 1);
            }
          }
        }
      });
    }
  }
}

DOCOFL_TEST(results_beyond_float32_become_the_largest) {
  test::Random random(96);
  for (const std::size_t n : {16, 32, 64, 128, 4096, 8192, 32768}) {
    std::vector<float> values(n);
    for (float& value : values) value = 3 * random_normal(&random);
    const Signs signs(n, &random);
    const float norm = rotation_norm(n);
    const std::vector<float> expected = test::rotated_back(values, signs.get(), norm, kMax);
    DOCOFL_CHECK(std::count(expected.begin(), expected.end(), kMax) > 0);
    DOCOFL_CHECK(std::count(expected.begin(), expected.end(), -kMax) > 0);
    // Butterflies overflow as well, and differences of infinities are not numbers.
    std::vector<float> huge = values;
    for (float& value : huge) value *= kMax / 8;
    std::vector<float> first;
    test::for_each_isa([&](const std::string& isa) {
      for (const Put how : {Put::kStore, Put::kPastCaches, Put::kAdd}) {
        const test::Note note("isa ", isa, ", n ", n, ", put ", how);
        test::ExactArray<float> v = exact_copy(values, 1);
        test::ExactArray<float> out(n);
        kernels().rotate_back(v.data(), signs.get(), n, norm, kMax, how, out.data());
        DOCOFL_CHECK_SAME(out.data(), expected.data(), n);

        v = exact_copy(huge, 1);
        std::fill_n(out.data(), n, 0.0f);
        kernels().rotate_back(v.data(), signs.get(), n, norm, 1.0f, how, out.data());
        for (std::size_t i = 0; i < n; ++i) DOCOFL_CHECK(std::isfinite(out[i]));
        if (first.empty()) first.assign(out.data(), out.data() + n);
        DOCOFL_CHECK_SAME(out.data(), first.data(), n);
      }
    });
  }
}

DOCOFL_TEST(sums_beyond_float32_become_the_largest) {
  test::Random random(96);
  for (const std::size_t n : {16, 32, 64, 4096, 8192}) {
    std::vector<float> values(n);
    for (float& value : values) value = random_normal(&random);
    const Signs signs(n, &random);
    const float norm = rotation_norm(n);
    const std::vector<float> added = test::rotated_back(values, signs.get(), norm, kMax / 2);
    for (const float before : {kMax, -kMax, kMax / 2}) {
      std::vector<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        const double sum = static_cast<double>(before) + static_cast<double>(added[i]);
        expected[i] = static_cast<float>(std::max(-double(kMax), std::min(double(kMax), sum)));
      }
      test::for_each_isa([&](const std::string& isa) {
        const test::Note note("isa ", isa, ", n ", n, ", before ", before);
        test::ExactArray<float> v = exact_copy(values, 1);
        test::ExactArray<float> out(n, 1);
        std::fill_n(out.data(), n, before);
        kernels().rotate_back(v.data(), signs.get(), n, norm, kMax / 2, Put::kAdd, out.data());
        DOCOFL_CHECK_SAME(out.data(), expected.data(), n);
      });
    }
  }
}

DOCOFL_TEST(a_rotation_back_undoes_a_rotation) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(97);
    for (std::size_t n = 16; n <= kLargestTransform; n *= 2) {
      const test::Note note("isa ", isa, ", n ", n);
      test::ExactArray<float> x(n), u(n), out(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = random_normal(&random);
      const Signs signs(n, &random);
      const float norm = rotation_norm(n);
      kernels().rotate(x.data(), norm, signs.get(), n, u.data());
      double before = 0, after = 0;
      for (std::size_t i = 0; i < n; ++i) {
        before += double(x[i]) * x[i];
        after += double(u[i]) * u[i];
      }
      DOCOFL_CHECK(std::fabs(after / before - 1) <= 1e-5);
      kernels().rotate_back(u.data(), signs.get(), n, norm, 1.0f, Put::kStore, out.data());
      for (std::size_t i = 0; i < n; ++i) DOCOFL_CHECK(std::fabs(out[i] - x[i]) <= 1e-5f);
    }
  });
}

// --- sums --------------------------------------------------------------------------------------

// 16 sums of floats, which are added to a double after 64 rows of 16 and at the end.
class LaneSums {
 public:
  explicit LaneSums(double start) : total_(start) {}

  void add(std::size_t lane, float value) {
    lanes_[lane] += value;
    if (lane == 15 && ++rows_ == 64) flush();
  }
  double total() {
    if (rows_ > 0) flush();
    return total_;
  }

 private:
  void flush() {
    double sum = 0;
    for (float& lane : lanes_) {
      sum += static_cast<double>(lane);
      lane = 0;
    }
    total_ += sum;
    rows_ = 0;
  }

  double total_;
  float lanes_[16] = {};
  int rows_ = 0;
};

DOCOFL_TEST(sums_in_their_order) {
  test::Random random(98);
  for (const std::size_t n : {0, 16, 32, 992, 1008, 1024, 1040, 2048, 4096, 5008, 32768}) {
    std::vector<float> a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = random_normal(&random) * (random.below(50) == 0 ? 300.0f : 1.0f);
      b[i] = random_value(&random) * 0x1p-10f;
    }
    for (const float scale : {1.0f, 0.37f, 0x1p-60f}) {
      LaneSums sum(0);
      for (std::size_t i = 0; i < n; ++i) {
        const float value = a[i] * scale;
        sum.add(i % 16, value * value);
      }
      const double expected = sum.total();
      test::for_each_isa([&](const std::string& isa) {
        const test::Note note("isa ", isa, ", n ", n, ", scale ", scale);
        const test::ExactArray<float> x = exact_copy(a, n / 16 % 5);
        const double found = kernels().sum_squares(x.data(), n, scale);
        DOCOFL_CHECK_SAME(&found, &expected, 1);
      });
    }
    LaneSums products(0.1), squares(-7.3);
    for (std::size_t i = 0; i < n; ++i) {
      products.add(i % 16, a[i] * b[i]);
      squares.add(i % 16, b[i] * b[i]);
    }
    const double expected[2] = {products.total(), squares.total()};
    test::for_each_isa([&](const std::string& isa) {
      const test::Note note("isa ", isa, ", n ", n);
      const test::ExactArray<float> x = exact_copy(a, n / 16 % 5);
      const test::ExactArray<float> y = exact_copy(b, n / 16 % 3);
      double found[2] = {0.1, -7.3};
      kernels().dot_products(x.data(), y.data(), n, found);
      DOCOFL_CHECK_SAME(found, expected, 2);
    });
  }
}

DOCOFL_TEST(largest_magnitudes) {
  const std::vector<float> specials = test::special_floats();
  test::for_each_isa([&](const std::string& isa) {
    test::Random random(99);
    for (std::size_t n = 0; n <= 71; ++n) {
      const std::size_t size = n == 71 ? 5000 : n;
      const test::Note note("isa ", isa, ", n ", size);
      test::ExactArray<float> x(size, n % 9);
      for (std::size_t i = 0; i < size; ++i) x[i] = random_value(&random);
      const auto check = [&] {
        std::uint32_t expected = 0;
        for (std::size_t i = 0; i < size; ++i) {
          expected = std::max(expected, test::bits_of(x[i]) & 0x7fffffff);
        }
        DOCOFL_CHECK_EQUAL(kernels().max_magnitude(x.data(), size), expected);
      };
      check();
      // A special value anywhere, among others and among zeros.
      for (const float special : specials) {
        if (size == 0) continue;
        const std::size_t place = random.below(size);
        const float before = x[place];
        x[place] = special;
        check();
        x[place] = before;
        test::ExactArray<float> alone(size, n % 9);
        alone[place] = special;
        DOCOFL_CHECK_EQUAL(kernels().max_magnitude(alone.data(), size),
                           test::bits_of(special) & 0x7fffffff);
      }
    }
  });
}

// --- codebooks ---------------------------------------------------------------------------------

// The natural order of `chunks` chunks, and permutations of them.
std::vector<ChunkOrder> orders(std::size_t chunks, test::Random* random) {
  const auto mask = static_cast<std::uint32_t>(chunks - 1);
  std::vector<ChunkOrder> all = {{1, 0, mask}, {UINT32_MAX, UINT32_MAX, mask}};
  for (int i = 0; i < 2; ++i) {
    all.push_back({static_cast<std::uint32_t>(random->next()) | 1,
                   static_cast<std::uint32_t>(random->next()), mask});
  }
  return all;
}

std::size_t place_of(const ChunkOrder& order, std::size_t j) {
  const std::uint64_t place = std::uint64_t(order.multiplier) * j + order.offset;
  return kEdenChunk * static_cast<std::size_t>(place % (std::uint64_t(order.mask) + 1));
}

// Parts of `chunks` chunks: all of them, none, some at the start, in the middle and at the end.
std::vector<std::pair<std::size_t, std::size_t>> parts(std::size_t chunks) {
  std::vector<std::pair<std::size_t, std::size_t>> all = {{0, chunks}, {chunks, chunks}};
  if (chunks > 1) all.insert(all.end(), {{0, chunks / 3 + 1}, {chunks / 3, chunks}});
  if (chunks > 100) all.insert(all.end(), {{3, 67}, {1, 66}, {7, 72}});
  return all;
}

// By comparison with every threshold.
unsigned rank_of(const EdenCodebook& codebook, float magnitude) {
  unsigned rank = 0;
  for (unsigned i = 0; i + 1 < 1u << (codebook.width - 1); ++i) {
    if (magnitude >= codebook.thresholds[i]) ++rank;
  }
  return rank;
}

// Values around the codebook: thresholds and levels, their neighbours, and any others.
float random_coordinate(const EdenCodebook& codebook, test::Random* random) {
  const std::size_t count = codebook.width == 0 ? 1 : std::size_t(1) << (codebook.width - 1);
  const float sign = random->below(2) == 0 ? 1.0f : -1.0f;
  float value = 0;
  switch (random->below(8)) {
    case 0: value = codebook.magnitudes[random->below(count)]; break;
    case 1:
    case 2:
    case 3:
      if (count > 1) value = codebook.thresholds[random->below(count - 1)];
      value = std::nextafterf(value, random->below(2) == 0 ? value : kMax);
      if (random->below(3) == 0) value = std::nextafterf(value, 0.0f);
      break;
    case 4: value = std::fabs(random_value(random)); break;
    case 5: value = kMax / static_cast<float>(1 + random->below(1000)); break;
    default: value = static_cast<float>(random->normal());
  }
  return sign * value;
}

// Quantizes chunks [first, last) one value at a time.
std::vector<std::uint8_t> quantized(const std::vector<float>& u, float inverse,
                                    const EdenCodebook& codebook, const ChunkOrder& order,
                                    std::size_t first, std::size_t last, double sums[2]) {
  const unsigned width = codebook.width;
  std::vector<std::uint8_t> words(2 * width * (last - first), 0);
  if (width == 0) return words;
  LaneSums products(sums[0]), squares(sums[1]);
  for (std::size_t j = first; j < last; ++j) {
    std::uint8_t* const planes = words.data() + 2 * width * (j - first);
    for (std::size_t i = 0; i < kEdenChunk; ++i) {
      const float t = u[place_of(order, j) + i] * inverse;
      const float magnitude = std::fabs(t);
      const unsigned rank = rank_of(codebook, magnitude);
      const float level = codebook.magnitudes[rank];
      products.add(i, magnitude * level);
      squares.add(i, level * level);
      const unsigned word = rank | (std::signbit(t) ? 1u << (width - 1) : 0);
      for (unsigned p = 0; p < width; ++p) {
        const unsigned bit = (word >> p) & 1;
        planes[2 * p + i / 8] = static_cast<std::uint8_t>(planes[2 * p + i / 8] | bit << (i % 8));
      }
    }
  }
  sums[0] = products.total();
  sums[1] = squares.total();
  return words;
}

DOCOFL_TEST(words_and_sums_of_values) {
  test::Random random(100);
  for (unsigned width = 0; width <= kMaxEdenWidth; ++width) {
    const EdenCodebook& codebook = eden_codebook(width);
    for (const std::size_t chunks : {1, 2, 8, 128, 2048}) {
      for (const ChunkOrder& order : orders(chunks, &random)) {
        const float inverse = random.below(2) == 0 ? 1.0f : 0.7f;
        std::vector<float> values(kEdenChunk * chunks);
        for (float& value : values) value = random_coordinate(codebook, &random);
        const test::ExactArray<float> u = exact_copy(values, chunks % 3);
        for (const auto& [first, last] : parts(chunks)) {
          double expected_sums[2] = {0.3, 11.7};
          const std::vector<std::uint8_t> expected =
              quantized(values, inverse, codebook, order, first, last, expected_sums);
          test::for_each_isa([&, from = first, to = last](const std::string& isa) {
            const test::Note note("isa ", isa, ", width ", width, ", chunks ", from, " to ", to,
                                  " of ", chunks, ", multiplier ", order.multiplier);
            test::ExactArray<std::uint8_t> words(expected.size(), 1);
            double sums[2] = {0.3, 11.7};
            kernels().eden_quantize(u.data(), inverse, codebook, order, from, to, words.data(),
                                    sums);
            DOCOFL_CHECK_SAME(words.data(), expected.data(), expected.size());
            DOCOFL_CHECK_SAME(sums, expected_sums, 2);
          });
        }
      }
    }
  }
}

// Not only on average: every threshold of every codebook, and its neighbours.
DOCOFL_TEST(values_on_thresholds_belong_to_the_level_above) {
  for (unsigned width = 2; width <= kMaxEdenWidth; ++width) {
    const EdenCodebook& codebook = eden_codebook(width);
    const unsigned count = 1u << (width - 1);
    test::for_each_isa([&](const std::string& isa) {
      for (unsigned i = 0; i + 1 < count; ++i) {
        const test::Note note("isa ", isa, ", width ", width, ", threshold ", i);
        const float threshold = codebook.thresholds[i];
        test::ExactArray<float> u(kEdenChunk);
        for (std::size_t k = 0; k < kEdenChunk; ++k) {
          u[k] = k % 4 < 2 ? threshold : std::nextafterf(threshold, 0.0f);
          if (k % 2 == 1) u[k] = -u[k];
        }
        test::ExactArray<std::uint8_t> words(2 * width);
        double sums[2] = {};
        kernels().eden_quantize(u.data(), 1.0f, codebook, {1, 0, 0}, 0, 1, words.data(), sums);
        for (std::size_t k = 0; k < kEdenChunk; ++k) {
          unsigned word = 0;
          for (unsigned p = 0; p < width; ++p) {
            word |= ((words[2 * p + k / 8] >> (k % 8)) & 1u) << p;
          }
          DOCOFL_CHECK_EQUAL(word, (k % 4 < 2 ? i + 1 : i) | (k % 2 == 1 ? count : 0));
        }
      }
    });
  }
}

DOCOFL_TEST(levels_of_words) {
  test::Random random(101);
  for (unsigned width = 0; width <= kMaxEdenWidth; ++width) {
    const EdenCodebook& codebook = eden_codebook(width);
    for (const std::size_t chunks : {1, 2, 8, 128, 2048}) {
      for (const ChunkOrder& order : orders(chunks, &random)) {
        for (const auto& [first, last] : parts(chunks)) {
          test::ExactArray<std::uint8_t> words(2 * width * (last - first), 1);
          for (std::size_t i = 0; i < words.size(); ++i) {
            words[i] = static_cast<std::uint8_t>(random.next());
          }
          const std::vector<float> before = random_values(kEdenChunk * chunks, &random);
          const float weight = random_normal(&random);
          std::vector<float> stored = before;
          std::vector<float> added = before;
          for (std::size_t j = first; j < last; ++j) {
            const std::uint8_t* const planes = words.data() + 2 * width * (j - first);
            for (std::size_t i = 0; i < kEdenChunk; ++i) {
              float level = 0;
              if (width > 0) {
                unsigned rank = 0;
                for (unsigned p = 0; p + 1 < width; ++p) {
                  rank |= ((planes[2 * p + i / 8] >> (i % 8)) & 1u) << p;
                }
                level = codebook.magnitudes[rank];
                if (((planes[2 * (width - 1) + i / 8] >> (i % 8)) & 1) != 0) level = -level;
                const float product = weight * level;
                added[place_of(order, j) + i] += product;
              }
              stored[place_of(order, j) + i] = level;
            }
          }
          test::for_each_isa([&, from = first, to = last](const std::string& isa) {
            const test::Note note("isa ", isa, ", width ", width, ", chunks ", from, " to ", to,
                                  " of ", chunks, ", multiplier ", order.multiplier);
            test::ExactArray<float> q = exact_copy(before, chunks % 3);
            kernels().eden_levels(words.data(), codebook, order, from, to, q.data());
            DOCOFL_CHECK_SAME(q.data(), stored.data(), stored.size());
            q = exact_copy(before, chunks % 5);
            kernels().eden_levels_and_add(words.data(), codebook, order, from, to, weight,
                                          q.data());
            DOCOFL_CHECK_SAME(q.data(), added.data(), added.size());
          });
        }
      }
    }
  }
}

// What is quantized and read back is the level whose cell the magnitude is in, with the sign.
DOCOFL_TEST(levels_of_words_of_values) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(102);
    for (unsigned width = 1; width <= kMaxEdenWidth; ++width) {
      const test::Note note("isa ", isa, ", width ", width);
      const EdenCodebook& codebook = eden_codebook(width);
      constexpr std::size_t kChunks = 256;
      test::ExactArray<float> u(kEdenChunk * kChunks), q(kEdenChunk * kChunks);
      for (std::size_t i = 0; i < u.size(); ++i) u[i] = random_coordinate(codebook, &random);
      const ChunkOrder order = {12345u | 1, 678, kChunks - 1};
      test::ExactArray<std::uint8_t> words(2 * width * kChunks);
      double sums[2] = {};
      kernels().eden_quantize(u.data(), 1.0f, codebook, order, 0, kChunks, words.data(), sums);
      kernels().eden_levels(words.data(), codebook, order, 0, kChunks, q.data());
      for (std::size_t i = 0; i < u.size(); ++i) {
        const float level = codebook.magnitudes[rank_of(codebook, std::fabs(u[i]))];
        DOCOFL_CHECK_EQUAL(q[i], std::signbit(u[i]) ? -level : level);
      }
    }
  });
}

}  // namespace
}  // namespace docofl
