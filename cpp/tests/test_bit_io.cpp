#include <vector>

#include "common/bit_io.h"
#include "harness.h"
#include "test_data.h"

namespace docofl {
namespace {

struct Field {
  std::uint32_t value;
  unsigned count;
};

std::vector<Field> random_fields(std::size_t count, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<Field> fields;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<unsigned>(random.below(33));
    const std::uint64_t mask = (std::uint64_t(1) << bits) - 1;
    fields.push_back({static_cast<std::uint32_t>(random.next() & mask), bits});
  }
  return fields;
}

DOCOFL_TEST(fields_round_trip) {
  for (std::size_t count = 0; count < 40; ++count) {
    const test::Note note("fields ", count);
    const std::vector<Field> fields = random_fields(count, count);
    std::size_t bits = 0;
    for (const Field& field : fields) bits += field.count;
    test::ExactArray<std::uint8_t> bytes((bits + 7) / 8);

    BitWriter writer(bytes.data());
    for (const Field& field : fields) writer.write(field.value, field.count);
    DOCOFL_CHECK_EQUAL(writer.finish() - bytes.data(), static_cast<long>(bytes.size()));

    BitReader reader(bytes.data(), bytes.size());
    for (const Field& field : fields) {
      std::uint32_t value = 0;
      for (unsigned i = 0; i < field.count; ++i) {
        const int bit = reader.read_bit();
        DOCOFL_CHECK(bit >= 0);
        value |= static_cast<std::uint32_t>(bit) << i;
      }
      DOCOFL_CHECK_EQUAL(value, field.value);
    }
    DOCOFL_CHECK_EQUAL(reader.bytes_read(), bytes.size());
    DOCOFL_CHECK(reader.padding_is_zero());
    for (std::size_t i = bits; i < 8 * bytes.size(); ++i) DOCOFL_CHECK_EQUAL(reader.read_bit(), 0);
    DOCOFL_CHECK_EQUAL(reader.read_bit(), -1);
    DOCOFL_CHECK_EQUAL(reader.read_bit(), -1);
  }
}

DOCOFL_TEST(first_bit_is_the_least_significant) {
  std::uint8_t bytes[2] = {0xff, 0xff};
  BitWriter writer(bytes);
  writer.write(1, 1);
  writer.write(0, 3);
  writer.write(0x1f, 5);
  DOCOFL_CHECK_EQUAL(writer.finish() - bytes, 2);
  DOCOFL_CHECK_EQUAL(bytes[0], 0xf1);
  DOCOFL_CHECK_EQUAL(bytes[1], 0x01);
}

DOCOFL_TEST(padding_is_seen_bit_by_bit) {
  for (unsigned used = 0; used <= 8; ++used) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto bits = static_cast<std::uint8_t>(byte);
      BitReader reader(&bits, 1);
      for (unsigned i = 0; i < used; ++i) reader.read_bit();
      // Before the first bit of a byte there is no padding in it.
      const bool expected = used == 0 || byte >> used == 0;
      DOCOFL_CHECK_EQUAL(reader.padding_is_zero(), expected);
      DOCOFL_CHECK_EQUAL(reader.bytes_read(), used > 0 ? 1u : 0u);
    }
  }
}

DOCOFL_TEST(empty_input_has_no_bits) {
  BitReader reader(nullptr, 0);
  DOCOFL_CHECK_EQUAL(reader.read_bit(), -1);
  DOCOFL_CHECK_EQUAL(reader.bytes_read(), 0u);
  DOCOFL_CHECK(reader.padding_is_zero());
}

}  // namespace
}  // namespace docofl
