#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "docofl/baselines.h"
#include "docofl/eden.h"
#include "docofl/frame.h"
#include "harness.h"
#include "test_data.h"

namespace docofl {
namespace {

std::vector<std::int32_t> random_multiples(std::size_t n, unsigned zeros, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<std::int32_t> multiples(n);
  for (std::int32_t& multiple : multiples) {
    if (random.below(100) < zeros) continue;
    const auto magnitude = static_cast<std::int32_t>(random.next() >> (34 + random.below(30)));
    multiple = random.below(2) ? -magnitude : magnitude;
  }
  return multiples;
}

std::vector<float> normal_values(std::size_t n, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

// A copy without a byte to spare behind it, so that sanitizers notice a read past its end.
test::ExactArray<std::uint8_t> exact_copy(const std::vector<std::uint8_t>& bytes,
                                          std::size_t size) {
  test::ExactArray<std::uint8_t> copy(size);
  std::copy_n(bytes.begin(), size, copy.data());
  return copy;
}

DOCOFL_TEST(gamma_words_round_trip) {
  for (const std::size_t n : {0, 1, 2, 63, 64, 1000}) {
    for (const unsigned zeros : {0u, 50u, 99u, 100u}) {
      for (const bool sparse : {false, true}) {
        const test::Note note("n = ", n, ", zeros ", zeros, ", sparse ", sparse);
        const std::vector<std::int32_t> multiples = random_multiples(n, zeros, n + zeros);
        const std::vector<std::uint8_t> stream = gamma_encode(multiples.data(), n, sparse);
        std::vector<std::int32_t> decoded(n, 7);
        const test::ExactArray<std::uint8_t> exact = exact_copy(stream, stream.size());
        const std::size_t used =
            gamma_decode({exact.data(), exact.size()}, n, sparse, decoded.data());
        DOCOFL_CHECK_EQUAL(used, stream.size());
        DOCOFL_CHECK(decoded == multiples);
      }
    }
  }
}

DOCOFL_TEST(largest_multiples) {
  const std::vector<std::int32_t> multiples = {1 << 30, -(1 << 30), (1 << 30) + 1, 0, 1, -1};
  for (const bool sparse : {false, true}) {
    const std::vector<std::uint8_t> stream = gamma_encode(multiples.data(), 6, sparse);
    std::vector<std::int32_t> decoded(6);
    gamma_decode({stream.data(), stream.size()}, 6, sparse, decoded.data());
    DOCOFL_CHECK(decoded == multiples);
  }
}

DOCOFL_TEST(gamma_words_are_those_of_the_format) {
  // m + 1 = 1, 3 and 2 with signs: 1, 011 0, 010 1 (lowest bit first), and zeros.
  const std::int32_t multiples[] = {0, 2, -1};
  const std::vector<std::uint8_t> stream = gamma_encode(multiples, 3, false);
  DOCOFL_CHECK_EQUAL(stream.size(), std::size_t(2));
  DOCOFL_CHECK_EQUAL(stream[0], 0b01001101);
  DOCOFL_CHECK_EQUAL(stream[1], 0b00000001);
}

DOCOFL_TEST(every_prefix_of_a_gamma_stream_is_refused) {
  for (const bool sparse : {false, true}) {
    const std::vector<std::int32_t> multiples = random_multiples(200, 50, 3);
    const std::vector<std::uint8_t> stream = gamma_encode(multiples.data(), 200, sparse);
    std::vector<std::int32_t> decoded(200);
    for (std::size_t size = 0; size < stream.size(); ++size) {
      const test::ExactArray<std::uint8_t> prefix = exact_copy(stream, size);
      bool refused = false;
      try {
        gamma_decode({prefix.data(), size}, 200, sparse, decoded.data());
      } catch (const Error&) {
        refused = true;
      }
      DOCOFL_CHECK(refused);
    }
  }
}

DOCOFL_TEST(cost_of_a_draw_is_its_length) {
  const std::vector<float> x = normal_values(5000, 1);
  for (const std::uint32_t levels : {1u, 10u, 300u, 100000u}) {
    const QsgdGrid grid{euclidean_norm(x.data(), x.size()), levels};
    std::vector<std::int32_t> multiples(x.size());
    qsgd_quantize(grid, x.data(), x.size(), 9, multiples.data());
    const QsgdCost cost = qsgd_cost(grid, x.data(), x.size(), 9);
    const std::size_t dense = gamma_encode(multiples.data(), x.size(), false).size();
    const std::size_t sparse = gamma_encode(multiples.data(), x.size(), true).size();
    DOCOFL_CHECK_EQUAL(static_cast<std::size_t>(std::ceil(cost.dense / 8)), dense);
    DOCOFL_CHECK(std::ceil(cost.sparse / 8) < static_cast<double>(sparse));
    DOCOFL_CHECK(cost.sparse / 8 + 3 > static_cast<double>(sparse));
  }
}

// Found by fuzz_qsgd_round_trip: levels / norm was infinite, and times 0 no number.
DOCOFL_TEST(a_norm_that_is_next_to_nothing) {
  const float x[] = {0.0f, -0.0f, 1.0f, -1e-40f};
  std::int32_t multiples[4];
  qsgd_quantize({std::numeric_limits<double>::denorm_min(), 5}, x, 4, 1, multiples);
  DOCOFL_CHECK_EQUAL(multiples[0], 0);
  DOCOFL_CHECK_EQUAL(multiples[1], 0);
  DOCOFL_CHECK_EQUAL(multiples[2], static_cast<std::int32_t>(kMaxQsgdLevels));
  DOCOFL_CHECK_EQUAL(multiples[3], -static_cast<std::int32_t>(kMaxQsgdLevels));
}

DOCOFL_TEST(rotating_back_undoes_the_rotation) {
  for (const std::size_t n : {0, 5, 16, 100, 4096, 40000, 100001}) {
    const std::vector<float> x = normal_values(n, n);
    std::vector<float> rotated(n), back(n), twice(n);
    eden_rotate(x.data(), n, 7, rotated.data(), 2);
    std::vector<float> again = rotated;
    eden_rotate_back(rotated.data(), n, 7, back.data(), 2);
    eden_rotate_back(again.data(), n, 7, twice.data(), 1);
    DOCOFL_CHECK(back == twice);
    for (std::size_t i = 0; i < n; ++i) DOCOFL_CHECK(std::fabs(back[i] - x[i]) < 1e-4f);
  }
}

DOCOFL_TEST(values_beyond_a_dtype_become_its_largest) {
  const float values[] = {1e30f, -70000.0f, 1.5f};
  std::uint16_t halves[3];
  store_decoded(values, DType::kFloat16, {halves, 3, DType::kFloat16});
  DOCOFL_CHECK_EQUAL(halves[0], 0x7bff);
  DOCOFL_CHECK_EQUAL(halves[1], 0xfbff);
  DOCOFL_CHECK_EQUAL(halves[2], 0x3e00);
  float floats[3];
  store_decoded(values, DType::kFloat16, {floats, 3, DType::kFloat32});
  DOCOFL_CHECK_EQUAL(floats[0], 65504.0f);
}

DOCOFL_TEST(a_foreign_payload_has_a_byte_for_8192_coordinates) {
  for (const std::size_t n : {0, 1, 8192, 8193, 100000}) {
    FrameHeader header;
    header.codec = CodecId::kTopK;
    header.shape = {n};
    const std::size_t least = (n + kCoordinatesPerByte - 1) / kCoordinatesPerByte;
    for (std::size_t size = 0; size <= least + 1; ++size) {
      const std::vector<std::uint8_t> payload(size);
      std::vector<std::uint8_t> frame(frame_size(header, size));
      write_frame(header, {payload.data(), size}, 1, frame.data());
      bool refused = false;
      try {
        const Frame parsed = parse_frame({frame.data(), frame.size()});
        DOCOFL_CHECK_EQUAL(parsed.payload.size, size);
      } catch (const Error&) {
        refused = true;
      }
      DOCOFL_CHECK_EQUAL(refused, size < least || (n == 0 && size > 0));
    }
  }
}

}  // namespace
}  // namespace docofl
