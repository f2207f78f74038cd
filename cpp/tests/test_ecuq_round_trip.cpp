#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "docofl/ecuq.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

namespace docofl {
namespace {

// How far a value may be restored from where it was: half a step, or a step where levels lie at the
// means of their values, and what rounding adds
// (docs/format.md, section 3.1), in the grid's arithmetic and to the frame's dtype.
double error_bound(const EcuqInfo& info, DType dtype, float restored) {
  const double range = static_cast<double>(info.x_max) - info.x_min;
  const double largest = std::max(std::fabs(double(info.x_min)), std::fabs(double(info.x_max)));
  const double magnitude = std::fabs(double(restored));
  const bool narrow = info.num_levels <= 1 << 14 && range >= 0x1p-96 && range <= 0x1p96;
  double bound = info.step * ((info.centroids ? 1 : 0.5) + 0x1p-20) + 0x1p-149;
  bound += narrow ? 0x1p-24 * (6 * range + largest) : 0x1p-24 * magnitude + 0x1p-50 * largest;
  if (dtype == DType::kFloat16) bound += 0x1p-11 * magnitude + 0x1p-25;
  if (dtype == DType::kBFloat16) bound += 0x1p-8 * magnitude + 0x1p-134;
  return bound;
}

// Encodes and decodes, checks all that is promised, and returns what the frame says.
EcuqInfo check_round_trip(const test::Tensor& tensor, const EcuqOptions& options) {
  const test::Bytes bytes = test::encode(tensor, options);
  const std::size_t size = tensor.view().size;
  const Frame frame = parse_frame({bytes.data(), bytes.size()});
  DOCOFL_CHECK_EQUAL(frame.size, size);
  DOCOFL_CHECK(frame.header.dtype == tensor.view().dtype);
  const EcuqInfo info = ecuq_inspect(frame);
  if (options.budget == Budget::kBytes) {
    // docs/format.md, section 6.
    DOCOFL_CHECK(8.0 * double(bytes.size()) <= options.bits * double(size) + 8 * (64 + 10));
  } else if (options.budget == Budget::kEntropy) {
    DOCOFL_CHECK(info.entropy <= options.bits + 1e-6);
  } else {
    DOCOFL_CHECK(info.step <= options.step * (1 + 0x1p-16));
  }

  const std::vector<float> original = tensor.values();
  const std::vector<float> restored = test::decode(bytes, DType::kFloat32, 1).values();
  for (std::size_t i = 0; i < size; ++i) {
    if (info.explicit_levels) {
      DOCOFL_CHECK_EQUAL(restored[i], original[i]);
      continue;
    }
    const double error = std::fabs(double(restored[i]) - double(original[i]));
    const double bound = error_bound(info, tensor.view().dtype, restored[i]);
    if (std::isfinite(restored[i]) && error <= bound) continue;
    const test::Note note("index ", i, ", original ", original[i], ", restored ", restored[i],
                          ", step ", info.step, ", levels ", info.num_levels);
    DOCOFL_CHECK(error <= bound);
    DOCOFL_CHECK(std::isfinite(restored[i]));
  }

  // In the frame's own dtype: the same values.
  const test::Tensor own = test::decode(bytes, tensor.view().dtype, 2);
  const test::Tensor expected(restored, tensor.view().dtype);
  DOCOFL_CHECK_SAME(own.bytes(), expected.bytes(), expected.num_bytes());
  return info;
}

EcuqOptions with_bits(double bits) {
  EcuqOptions options;
  options.bits = bits;
  options.threads = 2;
  return options;
}

DOCOFL_TEST(small_tensors_of_all_kinds) {
  for (const test::Distribution& distribution : test::distributions()) {
    for (const std::size_t size : {0, 1, 2, 3, 5, 64, 1000}) {
      const test::Tensor tensor(distribution.make(size), DType::kFloat32);
      for (const double bits : {0.05, 0.5, 1.0, 1.5, 2.0, 3.0, 6.5, 11.0, 16.0, 24.0, 32.0}) {
        const test::Note note(distribution.name, ", size ", size, ", bits ", bits);
        check_round_trip(tensor, with_bits(bits));
      }
    }
  }
}

DOCOFL_TEST(sizes_around_streams_and_blocks) {
  for (const std::size_t size : {4095, 4096, 4097, 65535, 65536, 65537, 69631, 69632, 200001}) {
    for (const double bits : {0.3, 1.0, 2.0, 3.7, 12.0}) {
      const test::Note note("size ", size, ", bits ", bits);
      check_round_trip(test::Tensor(test::normal_values(size), DType::kFloat32), with_bits(bits));
    }
  }
}

DOCOFL_TEST(large_tensors_of_all_kinds) {
  for (const test::Distribution& distribution : test::distributions()) {
    const test::Tensor tensor(distribution.make(150000), DType::kFloat32);
    for (const double bits : {0.2, 1.5, 4.0, 9.0}) {
      const test::Note note(distribution.name, ", bits ", bits);
      check_round_trip(tensor, with_bits(bits));
    }
  }
}

// Values whose spread changes from part to part, by powers of four.
std::vector<float> parts_of_different_spread(std::size_t size) {
  std::vector<float> values = test::normal_values(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t part = i / 20000;
    values[i] = std::ldexp(values[i], -2 * static_cast<int>(part * part % 4));
  }
  return values;
}

DOCOFL_TEST(codes_for_parts_of_a_tensor) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const std::size_t size : {262144, 300001}) {
      const test::Tensor tensor(parts_of_different_spread(size), dtype);
      for (const double bits : {0.3, 2.0, 3.0, 4.0}) {
        const test::Note note("dtype ", dtype, ", size ", size, ", bits ", bits);
        DOCOFL_CHECK_EQUAL(check_round_trip(tensor, with_bits(bits)).num_tables, 2u);
        EcuqOptions one = with_bits(bits);
        one.local_tables = false;
        DOCOFL_CHECK_EQUAL(check_round_trip(tensor, one).num_tables, 1u);
      }
    }
  }
  for (const test::Distribution& distribution : test::distributions()) {
    const test::Tensor tensor(distribution.make(270000), DType::kFloat32);
    for (const double bits : {0.2, 2.0, 4.0}) {
      const test::Note note(distribution.name, ", bits ", bits);
      const EcuqInfo info = check_round_trip(tensor, with_bits(bits));
      if (std::string(distribution.name) == "normal") DOCOFL_CHECK_EQUAL(info.num_tables, 1u);
    }
  }
}

DOCOFL_TEST(more_parts_have_more_tables) {
  const test::Tensor tensor(parts_of_different_spread(std::size_t(1) << 20), DType::kFloat32);
  const EcuqInfo info = check_round_trip(tensor, with_bits(3.0));
  DOCOFL_CHECK(info.num_tables > 2 && info.num_tables <= 8);
}

DOCOFL_TEST(all_dtypes) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const test::Distribution& distribution : test::distributions()) {
      std::vector<float> values = distribution.make(9000);
      for (float& value : values) {
        // Within float16 and bfloat16.
        if (dtype != DType::kFloat64) value = std::max(-60000.0f, std::min(60000.0f, value));
      }
      const test::Tensor tensor(values, dtype);
      for (const double bits : {0.4, 2.0, 5.0}) {
        const test::Note note(distribution.name, ", dtype ", dtype, ", bits ", bits);
        check_round_trip(tensor, with_bits(bits));
      }
    }
  }
}

DOCOFL_TEST(the_paper_rule) {
  for (const test::Distribution& distribution : test::distributions()) {
    for (const std::size_t size : {1, 2, 700, 150000}) {
      const test::Tensor tensor(distribution.make(size), DType::kFloat32);
      for (const double bits : {0.7, 1.5, 2.0, 4.0}) {
        EcuqOptions options = with_bits(bits);
        options.budget = Budget::kEntropy;
        const test::Note note(distribution.name, ", size ", size, ", bits ", bits);
        check_round_trip(tensor, options);
      }
    }
  }
}

DOCOFL_TEST(a_step_instead_of_a_budget) {
  for (const test::Distribution& distribution : test::distributions()) {
    for (const std::size_t size : {1, 2, 700, 150000}) {
      const test::Tensor tensor(distribution.make(size), DType::kFloat32);
      const std::vector<float> values = tensor.values();
      const auto ends = std::minmax_element(values.begin(), values.end());
      const double range = static_cast<double>(*ends.second) - *ends.first;
      for (const double levels : {0.1, 1.0, 2.5, 300.0, 40000.5, 1e9}) {
        EcuqOptions options = with_bits(2);
        options.budget = Budget::kNone;
        options.step = range > 0 ? range / levels : 1.0;
        const test::Note note(distribution.name, ", size ", size, ", levels ", levels);
        const EcuqInfo info = check_round_trip(tensor, options);
        if (info.explicit_levels) continue;
        DOCOFL_CHECK(info.num_levels >= std::ceil(levels));
        // In one pass over a large tensor, with a step of few bits, the grid goes on. One of many
        // levels has as many on both sides of zero.
        const double most = std::max(std::fabs(*ends.first), std::fabs(*ends.second));
        const double open = 16 * (most / options.step + 1) + 129;
        const double both = 2 * (most / options.step + 33);
        const double least = std::ceil(levels) + 1;
        const bool narrow = levels < 16000 && range >= 0x1p-96 && range <= 0x1p96;
        DOCOFL_CHECK(info.num_levels <= (size >= 49152 ? open : narrow ? least : both));
      }
    }
  }
}

DOCOFL_TEST(constants_and_few_values_are_exact) {
  for (const float value : {0.0f, -0.0f, 1.5f, std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min()}) {
    for (const std::size_t size : {1, 2, 5000, 70000}) {
      const test::Tensor tensor(std::vector<float>(size, value), DType::kFloat32);
      const test::Bytes bytes = test::encode(tensor, with_bits(0.05));
      const test::Tensor restored = test::decode(bytes, DType::kFloat32, 1);
      DOCOFL_CHECK_SAME(restored.bytes(), tensor.bytes(), tensor.num_bytes());
    }
  }
  std::vector<float> values = test::normal_values(20000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = values[i % 200];
  const test::Tensor tensor(values, DType::kFloat32);
  DOCOFL_CHECK(check_round_trip(tensor, with_bits(9)).explicit_levels);
}

// Up to the tolerance, or to less than what one level more would take where levels are few.
DOCOFL_TEST(the_budget_is_used) {
  constexpr std::size_t kSize = 300000;
  const test::Tensor tensor(test::normal_values(kSize), DType::kFloat32);
  for (const double bits : {0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0}) {
    const test::Note note("bits ", bits);
    const test::Bytes bytes = test::encode(tensor, with_bits(bits));
    const double real = 8.0 * double(bytes.size()) / double(kSize);
    const double levels = ecuq_inspect(parse_frame({bytes.data(), bytes.size()})).num_levels;
    DOCOFL_CHECK(bits - real <= 0.011 + 1.15 * std::log2((levels + 1) / levels));
  }
}

DOCOFL_TEST(bad_values_are_named) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, -nan, HUGE_VALF, -HUGE_VALF}) {
    for (const std::size_t place : {0, 1, 4095, 4096, 70000, 99999}) {
      std::vector<float> values = test::normal_values(100000);
      values[place] = bad;
      const test::Tensor tensor(values, DType::kFloat32);
      try {
        ecuq_plan(test::header_of(tensor), tensor.view(), with_bits(2));
        test::fail(__FILE__, __LINE__, "expected an error");
      } catch (const Error& error) {
        DOCOFL_CHECK(error.kind() == ErrorKind::kInvalidInput);
        const std::string message = error.what();
        DOCOFL_CHECK(message.find("index " + std::to_string(place)) != std::string::npos);
        DOCOFL_CHECK(message.find("found 1 value") != std::string::npos);
      }
    }
  }
  test::Tensor beyond(std::vector<float>(10, 1.0f), DType::kFloat64);
  static_cast<double*>(beyond.mutable_view().data)[7] = 1e39;
  DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, test::encode(beyond, with_bits(2)));
}

DOCOFL_TEST(bad_options_are_refused) {
  const test::Tensor tensor(test::normal_values(1000), DType::kFloat32);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bits : {nan, 0.0, -1.0, 0.009, 32.5, HUGE_VAL}) {
    DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, test::encode(tensor, with_bits(bits)));
  }
  for (const double tolerance : {nan, -0.1, HUGE_VAL}) {
    EcuqOptions options = with_bits(2);
    options.tolerance = tolerance;
    DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, test::encode(tensor, options));
  }
  for (const double step : {nan, 0.0, -1.0, HUGE_VAL, 1e-12}) {
    EcuqOptions options = with_bits(2);
    options.budget = Budget::kNone;
    options.step = step;
    DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, test::encode(tensor, options));
  }
  FrameHeader header = test::header_of(tensor);
  header.shape = {1001};
  DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, ecuq_plan(header, tensor.view(), with_bits(2)));
}

// Another thread may write to the tensor between the two calls: an error or a frame, and nothing
// written beyond it (test::encode's guard, done by hand here).
DOCOFL_TEST(a_tensor_that_changes_after_planning) {
  for (const double bits : {1.0, 3.0, 8.0, 20.0}) {
    for (int change = 0; change < 3; ++change) {
      const test::Note note("bits ", bits, ", change ", change);
      test::Tensor tensor(test::layered_values(100000), DType::kFloat32);
      const EcuqPlan plan = ecuq_plan(test::header_of(tensor), tensor.view(), with_bits(bits));
      auto* const values = static_cast<float*>(tensor.mutable_view().data);
      for (std::size_t i = 0; i < 100000; i += 7) {
        values[i] = change == 0   ? 1e20f
                    : change == 1 ? 0.0f
                                  : std::numeric_limits<float>::quiet_NaN();
      }
      test::ExactArray<std::uint8_t> out(encoded_size(plan));
      try {
        ecuq_encode(plan, tensor.view(), 2, out.data());
        parse_frame({out.data(), out.size()});
      } catch (const Error& error) {
        DOCOFL_CHECK(error.kind() == ErrorKind::kInvalidInput);
      }
    }
  }
}

DOCOFL_TEST(shapes_are_kept) {
  const std::vector<std::vector<std::uint64_t>> shapes = {
      {}, {1}, {0, 3}, {2, 3, 5}, std::vector<std::uint64_t>(32, 1), {1000, 1, 7}};
  for (const std::vector<std::uint64_t>& shape : shapes) {
    const std::size_t size = checked_size(shape, DType::kFloat32);
    const test::Tensor tensor(test::normal_values(size), DType::kFloat32);
    FrameHeader header = test::header_of(tensor);
    header.shape = shape;
    header.flags = kFlagTorch;
    const EcuqPlan plan = ecuq_plan(header, tensor.view(), with_bits(3));
    test::ExactArray<std::uint8_t> bytes(encoded_size(plan));
    ecuq_encode(plan, tensor.view(), 1, bytes.data());
    const Frame frame = parse_frame({bytes.data(), bytes.size()});
    DOCOFL_CHECK(frame.header.shape == shape);
    DOCOFL_CHECK_EQUAL(frame.header.flags, kFlagTorch);
    DOCOFL_CHECK_EQUAL(frame.size, size);
    const double header_bits = 8.0 * (64 + 10 * static_cast<double>(shape.size()));
    DOCOFL_CHECK(8.0 * double(bytes.size()) <= 3.0 * double(size) + header_bits);
  }
}

}  // namespace
}  // namespace docofl
