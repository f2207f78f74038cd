#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "docofl/eden.h"
#include "eden/codebooks.h"
#include "eden/rotation.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

namespace docofl {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

EdenOptions with_bits(double bits, EdenScale scale = EdenScale::kUnbiased) {
  EdenOptions options;
  options.bits = bits;
  options.seed = 17;
  options.scale = scale;
  options.threads = 1;
  return options;
}

EdenOptions coded_with_bits(double bits, EdenScale scale = EdenScale::kUnbiased) {
  EdenOptions options = with_bits(bits, scale);
  options.entropy_coded = true;
  return options;
}

// Every budget, of fixed width and entropy-coded, with each scale.
std::vector<EdenOptions> all_options() {
  std::vector<EdenOptions> all;
  for (const EdenScale scale : {EdenScale::kUnbiased, EdenScale::kMse}) {
    for (const double bits : {0.1, 0.5, 1.0, 1.5, 2.0, 3.3, 4.0, 7.9, 8.0}) {
      all.push_back(with_bits(bits, scale));
    }
    for (const double bits : {1.5, 2.0, 4.0, 16.0}) all.push_back(coded_with_bits(bits, scale));
  }
  return all;
}

struct Products {
  double original = 0, mixed = 0, restored = 0;  // <x, x>, <x, x^>, <x^, x^>
};

Products products(const std::vector<float>& x, const std::vector<float>& restored,
                  std::size_t begin, std::size_t end) {
  Products sums;
  for (std::size_t i = begin; i < end; ++i) {
    sums.original += double(x[i]) * x[i];
    sums.mixed += double(x[i]) * restored[i];
    sums.restored += double(restored[i]) * restored[i];
  }
  return sums;
}

double nmse(const std::vector<float>& x, const std::vector<float>& restored) {
  const Products sums = products(x, restored, 0, x.size());
  return (sums.original - 2 * sums.mixed + sums.restored) / sums.original;
}

// What the scale of a block is for: the estimate's part along x is x itself, or what it misses is
// orthogonal to it.
void check_scales(const std::vector<float>& x, const std::vector<float>& restored, EdenScale scale,
                  DType dtype) {
  // Roundings of values to the dtype, and of the rotation.
  const double unit = dtype == DType::kFloat16    ? 0x1p-11
                      : dtype == DType::kBFloat16 ? 0x1p-8
                                                  : 0x1p-24;
  for (std::size_t number = 0; number < num_rotation_blocks(x.size()); ++number) {
    const RotationBlock block = rotation_block(x.size(), number);
    const Products sums = products(x, restored, block.begin, block.begin + block.size);
    const double bound = (2 * unit + 0x1p-19) * (sums.original + sums.restored);
    const double aim = scale == EdenScale::kUnbiased ? sums.original : sums.restored;
    const test::Note note("block ", number, " of ", block.size, ", <x, x> ", sums.original,
                          ", <x, x^> ", sums.mixed, ", <x^, x^> ", sums.restored);
    DOCOFL_CHECK(std::fabs(sums.mixed - aim) <= bound);
  }
}

// Encodes and decodes, checks all that is promised whatever the values, and returns the result.
std::vector<float> check_round_trip(const test::Tensor& tensor, const EdenOptions& options) {
  const test::Bytes bytes = test::encode(tensor, options);
  const std::size_t size = tensor.view().size;
  const DType dtype = tensor.view().dtype;
  // docs/format.md, section 6.
  const double blocks = std::floor(double(size) / 32768) + 11;
  DOCOFL_CHECK(8.0 * double(bytes.size()) <=
               options.bits * double(size) + 8 * (176 + 10 + 6 * blocks));

  const Frame frame = parse_frame({bytes.data(), bytes.size()});
  DOCOFL_CHECK(frame.header.codec == CodecId::kEden);
  DOCOFL_CHECK(frame.header.dtype == dtype);
  DOCOFL_CHECK_EQUAL(frame.size, size);
  const EdenInfo info = eden_inspect(frame);
  if (size > 0) {
    DOCOFL_CHECK_EQUAL(info.entropy_coded, options.entropy_coded);
    DOCOFL_CHECK_EQUAL(info.bits, static_cast<double>(static_cast<float>(options.bits)));
    DOCOFL_CHECK_EQUAL(info.seed, options.seed);
    const double width = info.width + double(info.wide_fraction) / 4294967296.0;
    DOCOFL_CHECK(options.entropy_coded ? width == 0 : std::fabs(width - options.bits) <= 0x1p-32);
  }

  const std::vector<float> original = tensor.values();
  const std::vector<float> restored = test::decode(bytes, DType::kFloat32, 1).values();
  for (const float value : restored) DOCOFL_CHECK(std::isfinite(value));
  const std::size_t rotated = size - size % 16;
  DOCOFL_CHECK_SAME(restored.data() + rotated, original.data() + rotated, size - rotated);

  // In the frame's own dtype: the same values.
  const test::Tensor own = test::decode(bytes, dtype, options.threads);
  const test::Tensor expected(restored, dtype);
  DOCOFL_CHECK_SAME(own.bytes(), expected.bytes(), expected.num_bytes());
  return restored;
}

void check_values(const std::vector<float>& values, DType dtype, EdenOptions options) {
  const test::Note note("size ", values.size(), ", dtype ", dtype, ", bits ", options.bits,
                        ", coded ", options.entropy_coded, ", scale ", options.scale);
  if (values.size() > 100000) options.threads = 2;
  const test::Tensor tensor(values, dtype);
  const std::vector<float> restored = check_round_trip(tensor, options);
  check_scales(tensor.values(), restored, options.scale, dtype);
}

// Each of the options with each dtype in turn.
DOCOFL_TEST(small_sizes) {
  for (std::size_t size = 0; size <= 100; ++size) {
    const std::vector<float> values = test::normal_values(size);
    std::size_t turn = size;
    for (const EdenOptions& options : all_options()) {
      check_values(values, kDTypes[turn++ % 4], options);
    }
  }
}

DOCOFL_TEST(sizes_around_blocks) {
  std::size_t first_turn = 0;
  for (const std::size_t size : {4095, 4096, 32767, 32768, 65535, 65536, 65537, 100003}) {
    const std::vector<float> values = test::normal_values(size);
    std::size_t turn = first_turn++;
    for (const EdenOptions& options : all_options()) {
      check_values(values, kDTypes[turn++ % 4], options);
    }
  }
}

// --- error -------------------------------------------------------------------------------------

// The mean squared error of the codebook for N(0, 1): its levels are the means of their cells.
double distortion(unsigned width) {
  const EdenCodebook& codebook = eden_codebook(width);
  if (width == 0) return 1;
  double error = 1;
  const std::size_t count = std::size_t(1) << (width - 1);
  const auto above = [](double x) { return std::erfc(x / std::sqrt(2.0)); };  // in magnitude
  for (std::size_t i = 0; i < count; ++i) {
    const double low = i == 0 ? 0 : double(codebook.thresholds[i - 1]);
    const double mass = above(low) - (i + 1 < count ? above(double(codebook.thresholds[i])) : 0);
    error -= mass * double(codebook.magnitudes[i]) * double(codebook.magnitudes[i]);
  }
  return error;
}

DOCOFL_TEST(errors_of_normal_values_are_those_of_the_theory) {
  const test::Tensor tensor(test::normal_values(100003), DType::kFloat32);
  for (const double bits : {0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 3.3, 4.0, 5.0, 6.0, 7.0, 7.9, 8.0}) {
    const auto width = static_cast<unsigned>(bits);
    const double share = bits - width;
    double error = (1 - share) * distortion(width);
    if (share > 0) error += share * distortion(width + 1);
    for (const EdenScale scale : {EdenScale::kUnbiased, EdenScale::kMse}) {
      const double expected = scale == EdenScale::kUnbiased ? 1 / (1 - error) - 1 : error;
      const double found = nmse(tensor.values(), check_round_trip(tensor, with_bits(bits, scale)));
      const test::Note note("bits ", bits, ", scale ", scale, ", found ", found, ", expected ",
                            expected);
      DOCOFL_CHECK(std::fabs(found / expected - 1) <= 0.03);
    }
  }
}

// An ideal code for a fine grid of normal values takes log2(sqrt(2 pi e) / step) bits, and the
// error is step^2 / 12, that is, pi e / 6 * 4^-bits. A few levels more or less are a tenth of a
// bit.
DOCOFL_TEST(errors_of_entropy_coded_values_are_those_of_the_theory) {
  const test::Tensor tensor(test::normal_values(100003), DType::kFloat32);
  for (const double bits : {1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 16.0}) {
    const double ideal = 1.4233 * std::exp2(-2 * bits);
    const double least =
        nmse(tensor.values(), check_round_trip(tensor, coded_with_bits(bits, EdenScale::kMse)));
    const double unbiased = nmse(tensor.values(), check_round_trip(tensor, coded_with_bits(bits)));
    const test::Note note("bits ", bits, ", least ", least, ", unbiased ", unbiased, ", ideal ",
                          ideal);
    DOCOFL_CHECK(least >= ideal * 0.98 && least <= ideal * 1.25);
    // For the same levels, by the definition of the scales.
    DOCOFL_CHECK(std::fabs((1 + unbiased) * (1 - least) - 1) <= 1e-5);
  }
}

// A rotation makes all vectors alike: the error is that of normal values.
DOCOFL_TEST(errors_of_other_values) {
  for (const test::Distribution& distribution : test::distributions()) {
    if (std::string(distribution.name) == "largest") continue;  // estimates of them are cut off
    const test::Tensor tensor(distribution.make(70000), DType::kFloat32);
    for (const EdenOptions& options : {with_bits(1), with_bits(4), coded_with_bits(4)}) {
      const double found = nmse(tensor.values(), check_round_trip(tensor, options));
      const double error = distortion(static_cast<unsigned>(options.bits));
      const test::Note note(distribution.name, ", bits ", options.bits, ", coded ",
                            options.entropy_coded, ", found ", found);
      DOCOFL_CHECK(found <= 1.25 * (1 / (1 - error) - 1));
    }
  }
}

// --- values at the edges -----------------------------------------------------------------------

DOCOFL_TEST(zeros_stay_zeros) {
  for (const float zero : {0.0f, -0.0f}) {
    for (const std::size_t size : {1, 16, 31, 100, 4096, 70000}) {
      const test::Tensor tensor(std::vector<float>(size, zero), DType::kFloat32);
      for (const EdenOptions& options : all_options()) {
        const test::Note note("size ", size, ", bits ", options.bits, ", coded ",
                              options.entropy_coded);
        for (const float value : check_round_trip(tensor, options)) DOCOFL_CHECK_EQUAL(value, 0.0f);
      }
    }
  }
}

// Blocks of zeros among others.
DOCOFL_TEST(blocks_of_zeros) {
  std::vector<float> values(3 * 32768 + 16 + 5, 0.0f);
  const std::vector<float> normal = test::normal_values(32768);
  std::copy(normal.begin(), normal.end(), values.begin() + 32768);
  const test::Tensor tensor(values, DType::kFloat32);
  for (const EdenOptions& options : all_options()) {
    const test::Note note("bits ", options.bits, ", coded ", options.entropy_coded);
    const std::vector<float> restored = check_round_trip(tensor, options);
    check_scales(values, restored, options.scale, DType::kFloat32);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i / 32768 != 1) DOCOFL_CHECK_EQUAL(restored[i], 0.0f);
    }
  }
}

// A finite result or, where values are near the largest, an error that blames the input.
void check_extremes(const std::vector<float>& values, DType dtype) {
  const test::Tensor tensor(values, dtype);
  const bool is_large = std::any_of(values.begin(), values.end(),
                                    [](float value) { return std::fabs(value) > 1e36f; });
  for (const EdenOptions& options :
       {with_bits(0.1), with_bits(1), with_bits(3.3, EdenScale::kMse), with_bits(8),
        coded_with_bits(1.5), coded_with_bits(16, EdenScale::kMse)}) {
    const test::Note note("size ", values.size(), ", dtype ", dtype, ", bits ", options.bits,
                          ", coded ", options.entropy_coded);
    try {
      check_round_trip(tensor, options);
    } catch (const Error& error) {
      DOCOFL_CHECK(error.kind() == ErrorKind::kInvalidInput);
      DOCOFL_CHECK(is_large);
    }
  }
}

DOCOFL_TEST(extreme_values) {
  const float smallest = std::numeric_limits<float>::denorm_min();
  for (const std::size_t size : {1, 16, 17, 32, 100, 5001}) {
    for (const float value : {-0.37f, smallest, 0x1p-130f, 0x1p-126f, 0x1p127f, kMax}) {
      const test::Note note("value ", value);
      check_extremes(std::vector<float>(size, value), DType::kFloat32);
      for (const std::size_t place : {std::size_t(0), size - 1}) {
        std::vector<float> spike(size, 0.0f);
        spike[place] = -value;
        check_extremes(spike, DType::kFloat32);
        spike = test::normal_values(size);
        spike[place] = value;
        check_extremes(spike, DType::kFloat32);
      }
    }
    for (const test::Distribution& distribution : test::distributions()) {
      const test::Note note(distribution.name);
      check_extremes(distribution.make(size), DType::kFloat32);
    }
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      const float largest = dtype == DType::kFloat16 ? 65504.0f : 0x1.fep127f;
      std::vector<float> values(size, largest);
      check_extremes(values, dtype);
      for (std::size_t i = 0; i < size; i += 2) values[i] = -largest;
      check_extremes(values, dtype);
      values.assign(size, dtype == DType::kFloat16 ? 0x1p-24f : 0x1p-133f);
      check_extremes(values, dtype);
    }
  }
}

// What a rotation of few coordinates makes of two spikes may be nearly nothing in some of its
// chunks: were the others dropped, scales would have to be huge. The first seeds do that to blocks
// of 32, 64 and 128.
DOCOFL_TEST(spikes_that_nearly_cancel) {
  std::vector<std::uint64_t> seeds = {3886, 4713, 11283, 14299, 4651};
  for (std::uint64_t seed = 0; seed < 50; ++seed) seeds.push_back(seed);
  for (const std::size_t size : {16, 32, 64, 128, 256, 512}) {
    for (const float second : {1.0f, 1.0000001f, 0.9f}) {
      std::vector<float> values(size, 0.0f);
      values[1] = 1;
      values[3] = second;
      const test::Tensor tensor(values, DType::kFloat32);
      for (EdenOptions options : {with_bits(0.1), with_bits(0.5)}) {
        for (const std::uint64_t seed : seeds) {
          const test::Note note("size ", size, ", second ", second, ", bits ", options.bits,
                                ", seed ", seed);
          options.seed = seed;
          const test::Bytes bytes = test::encode(tensor, options);
          DOCOFL_CHECK(nmse(values, test::decode(bytes, DType::kFloat32, 1).values()) <= 200);
        }
      }
    }
  }
}

// --- what is refused ---------------------------------------------------------------------------

// A NaN or an infinity of the dtype; conversions are for finite values.
void put_bad_value(test::Tensor* tensor, std::size_t place, float bad) {
  void* const data = tensor->mutable_view().data;
  const std::uint32_t bits = test::bits_of(bad);
  const std::uint32_t half = (bits >> 16 & 0x8000) | 0x7c00 | (std::isnan(bad) ? 0x200 : 0);
  switch (tensor->view().dtype) {
    case DType::kFloat32: static_cast<float*>(data)[place] = bad; break;
    case DType::kFloat64: static_cast<double*>(data)[place] = static_cast<double>(bad); break;
    case DType::kFloat16:
      static_cast<std::uint16_t*>(data)[place] = static_cast<std::uint16_t>(half);
      break;
    case DType::kBFloat16:
      static_cast<std::uint16_t*>(data)[place] = static_cast<std::uint16_t>(bits >> 16);
      break;
  }
}

DOCOFL_TEST(bad_values_are_named) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = test::normal_values(40005);
  for (const EdenOptions& options : {with_bits(0.5), with_bits(2), coded_with_bits(2)}) {
    for (const DType dtype : kDTypes) {
      for (const float bad : {nan, -nan, HUGE_VALF, -HUGE_VALF}) {
        for (const std::size_t place : {0, 4095, 32768, 39999, 40000, 40004}) {
          const test::Note note("bits ", options.bits, ", coded ", options.entropy_coded,
                                ", dtype ", dtype, ", value ", bad, ", place ", place);
          test::Tensor tensor(values, dtype);
          put_bad_value(&tensor, place, bad);
          const FrameHeader header = test::header_of(tensor);
          test::ExactArray<std::uint8_t> out(eden_capacity(header, options));
          try {
            eden_encode(header, tensor.view(), options, out.data());
            test::fail(__FILE__, __LINE__, "expected an error");
          } catch (const Error& error) {
            DOCOFL_CHECK(error.kind() == ErrorKind::kInvalidInput);
            const std::string message = error.what();
            const std::string index = "index " + std::to_string(place) + ",";
            DOCOFL_CHECK(message.find(index) != std::string::npos);
            DOCOFL_CHECK(message.find("found 1 value") != std::string::npos);
          }
        }
      }
    }
  }
  for (const std::size_t place : {7, 17}) {
    test::Tensor beyond(std::vector<float>(20, 1.0f), DType::kFloat64);
    static_cast<double*>(beyond.mutable_view().data)[place] = 1e39;
    DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, test::encode(beyond, with_bits(2)));
    DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, test::encode(beyond, coded_with_bits(2)));
  }
}

DOCOFL_TEST(bad_options_are_refused) {
  const test::Tensor tensor(test::normal_values(20), DType::kFloat32);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bits : {nan, 0.0, -1.0, 0.0999, 8.0001, 16.0, HUGE_VAL}) {
    DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, test::encode(tensor, with_bits(bits)));
  }
  for (const double bits : {nan, 0.0, -1.0, 1.4999, 16.0001, HUGE_VAL}) {
    DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, test::encode(tensor, coded_with_bits(bits)));
  }
  FrameHeader header = test::header_of(tensor);
  test::ExactArray<std::uint8_t> out(eden_capacity(header, with_bits(2)));
  header.shape = {21};
  DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput,
                     eden_encode(header, tensor.view(), with_bits(2), out.data()));
  header.shape = {20};
  header.dtype = DType::kFloat64;
  DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput,
                     eden_encode(header, tensor.view(), with_bits(2), out.data()));
}

DOCOFL_TEST(shapes_are_kept) {
  const std::vector<std::vector<std::uint64_t>> shapes = {
      {}, {1}, {0, 3}, {2, 3, 5}, std::vector<std::uint64_t>(32, 1), {1000, 1, 7}};
  for (const std::vector<std::uint64_t>& shape : shapes) {
    for (const EdenOptions& options : {with_bits(3), coded_with_bits(3)}) {
      const std::size_t size = checked_size(shape, DType::kFloat32);
      const test::Tensor tensor(test::normal_values(size), DType::kFloat32);
      FrameHeader header = test::header_of(tensor);
      header.shape = shape;
      header.flags = kFlagTorch;
      test::ExactArray<std::uint8_t> bytes(eden_capacity(header, options));
      const std::size_t used = eden_encode(header, tensor.view(), options, bytes.data());
      const Frame frame = parse_frame({bytes.data(), used});
      DOCOFL_CHECK(frame.header.shape == shape);
      DOCOFL_CHECK_EQUAL(frame.header.flags, kFlagTorch);
      DOCOFL_CHECK_EQUAL(frame.size, size);
    }
  }
}

// --- determinism -------------------------------------------------------------------------------

// The same bytes, and the same values from them, on any number of threads and at any ISA level.
void check_determinism(const test::Tensor& tensor, EdenOptions options) {
  test::Bytes first_bytes;
  std::vector<std::uint8_t> first_values;
  test::for_each_isa([&](const std::string& isa) {
    for (const int threads : {1, 2, 3}) {
      const test::Note note("isa ", isa, ", threads ", threads, ", bits ", options.bits, ", coded ",
                            options.entropy_coded, ", size ", tensor.view().size);
      options.threads = threads;
      const test::Bytes bytes = test::encode(tensor, options);
      if (first_bytes.empty()) first_bytes = bytes;
      DOCOFL_CHECK_EQUAL(bytes.size(), first_bytes.size());
      DOCOFL_CHECK_SAME(bytes.data(), first_bytes.data(), bytes.size());

      const test::Tensor values = test::decode(bytes, tensor.view().dtype, threads);
      if (first_values.empty()) {
        first_values.assign(values.bytes(), values.bytes() + values.num_bytes());
      }
      DOCOFL_CHECK_SAME(values.bytes(), first_values.data(), first_values.size());
    }
  });
}

DOCOFL_TEST(threads_and_isa_levels_change_nothing) {
  for (const std::size_t size : {117, 131072 + 4095}) {
    for (const EdenOptions& options :
         {with_bits(0.5), with_bits(2, EdenScale::kMse), with_bits(3.3), with_bits(8),
          coded_with_bits(1.5), coded_with_bits(4, EdenScale::kMse)}) {
      check_determinism(test::Tensor(test::normal_values(size), DType::kFloat32), options);
    }
  }
  for (const test::Distribution& distribution : test::distributions()) {
    if (std::string(distribution.name) == "largest") continue;
    const test::Note note(distribution.name);
    const test::Tensor tensor(distribution.make(34000), DType::kFloat32);
    check_determinism(tensor, with_bits(2.5));
    check_determinism(tensor, coded_with_bits(2.5));
  }
  for (const DType dtype : {DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const test::Note note("dtype ", dtype);
    check_determinism(test::Tensor(test::normal_values(34000), dtype), with_bits(2.5));
    check_determinism(test::Tensor(test::normal_values(34000), dtype), coded_with_bits(2.5));
  }
}

// Large enough that decoded values are written past the caches, where alignment allows it.
DOCOFL_TEST(an_output_beyond_the_caches) {
  constexpr std::size_t kSize = (1 << 21) + 4321;
  std::vector<float> values = test::normal_values(1 << 16);
  values.resize(kSize);
  for (std::size_t i = 1 << 16; i < kSize; ++i) values[i] = values[i - (1 << 16)];
  const test::Bytes bytes = test::encode(test::Tensor(values, DType::kFloat32), with_bits(1));
  const Frame frame = parse_frame({bytes.data(), bytes.size()});
  // As float64, which is written like any small output.
  test::ExactArray<double> expected(kSize);
  eden_decode(frame, {expected.data(), kSize, DType::kFloat64}, 2);
  test::for_each_isa([&](const std::string& isa) {
    for (const std::size_t shift : {0, 1, 4}) {
      const test::Note note("isa ", isa, ", shift ", shift);
      test::ExactArray<float> out(kSize, shift);
      eden_decode(frame, {out.data(), kSize, DType::kFloat32}, 2);
      for (std::size_t i = 0; i < kSize; ++i) {
        DOCOFL_CHECK_EQUAL(static_cast<double>(out[i]), expected[i]);
      }
    }
  });
}

DOCOFL_TEST(seeds_make_a_difference) {
  const test::Tensor tensor(test::normal_values(1000), DType::kFloat32);
  EdenOptions options = with_bits(2);
  const test::Bytes first = test::encode(tensor, options);
  for (const std::uint64_t seed : {std::uint64_t(0), std::uint64_t(18), UINT64_MAX}) {
    options.seed = seed;
    DOCOFL_CHECK(test::encode(tensor, options) != first);
    check_round_trip(tensor, options);
  }
}

}  // namespace
}  // namespace docofl
