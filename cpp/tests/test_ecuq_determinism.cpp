#include <string>
#include <vector>

#include "docofl/ecuq.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

// The same bytes, and the same values from them, on any number of threads and at any ISA level.
namespace docofl {
namespace {

void check_determinism(const test::Tensor& tensor, EcuqOptions options) {
  test::Bytes first_bytes;
  std::vector<std::uint8_t> first_values;
  test::for_each_isa([&](const std::string& isa) {
    for (const int threads : {1, 2, 3, 8}) {
      const test::Note note("isa ", isa, ", threads ", threads);
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

DOCOFL_TEST(bytes_rule) {
  for (const test::Distribution& distribution : test::distributions()) {
    const test::Tensor tensor(distribution.make(140000), DType::kFloat32);
    for (const double bits : {0.4, 2.0, 5.0}) {
      const test::Note note(distribution.name, ", bits ", bits);
      EcuqOptions options;
      options.bits = bits;
      check_determinism(tensor, options);
    }
  }
}

DOCOFL_TEST(codes_for_parts_of_a_tensor) {
  for (const test::Distribution& distribution : test::distributions()) {
    if (std::string(distribution.name) != "layered") continue;
    const test::Tensor tensor(distribution.make(400000), DType::kFloat32);
    for (const double bits : {1.0, 3.0}) {
      const test::Note note("bits ", bits);
      EcuqOptions options;
      options.bits = bits;
      const test::Bytes bytes = test::encode(tensor, options);
      DOCOFL_CHECK(ecuq_inspect(parse_frame({bytes.data(), bytes.size()})).num_tables > 1);
      check_determinism(tensor, options);
    }
  }
}

DOCOFL_TEST(entropy_rule) {
  for (const test::Distribution& distribution : test::distributions()) {
    const test::Note note(distribution.name);
    const test::Tensor tensor(distribution.make(140000), DType::kFloat32);
    EcuqOptions options;
    options.bits = 2.0;
    options.budget = Budget::kEntropy;
    check_determinism(tensor, options);
  }
}

DOCOFL_TEST(best_quality_and_rans) {
  for (const test::Distribution& distribution : test::distributions()) {
    const std::string name = distribution.name;
    if (name != "normal" && name != "layered") continue;
    const test::Note note(name);
    EcuqOptions options;
    options.bits = name == "normal" ? 0.4 : 3.0;
    options.quality = Quality::kBest;
    const test::Tensor tensor(distribution.make(140000), DType::kFloat32);
    check_determinism(tensor, options);
    options.quality = Quality::kFast;
    options.coder = Coder::kRans;
    check_determinism(tensor, options);
  }
}

// Large enough that decoded values are written past the caches.
DOCOFL_TEST(an_output_beyond_the_caches) {
  const test::Tensor tensor(test::normal_values((1 << 21) + 4321), DType::kFloat32);
  EcuqOptions options;
  options.bits = 3.0;
  check_determinism(tensor, options);
}

DOCOFL_TEST(other_dtypes) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const test::Note note("dtype ", dtype);
    EcuqOptions options;
    options.bits = 2.5;
    check_determinism(test::Tensor(test::normal_values(140000), dtype), options);
  }
}

}  // namespace
}  // namespace docofl
