#include <vector>

#include "common/byte_io.h"
#include "common/checked.h"
#include "harness.h"
#include "test_data.h"

namespace docofl {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint64_t read_varint(const Bytes& bytes) {
  ByteReader reader({bytes.data(), bytes.size()});
  return reader.read_varint("field");
}

DOCOFL_TEST(varints_round_trip) {
  std::vector<std::uint64_t> values = {0, 1, UINT64_MAX, UINT64_MAX - 1};
  for (unsigned bit = 1; bit < 64; ++bit) {
    for (const int off : {-1, 0, 1}) values.push_back((std::uint64_t(1) << bit) + off);
  }
  for (const std::uint64_t value : values) {
    const test::Note note("value ", value);
    Bytes bytes(kMaxVarintBytes);
    const auto size = static_cast<std::size_t>(write_varint(bytes.data(), value) - bytes.data());
    DOCOFL_CHECK_EQUAL(size, varint_size(value));
    bytes.resize(size);
    ByteReader reader({bytes.data(), bytes.size()});
    DOCOFL_CHECK_EQUAL(reader.read_varint("field"), value);
    DOCOFL_CHECK_EQUAL(reader.remaining(), 0u);
    // Cut short, and with a zero group added.
    Bytes cut(bytes.begin(), bytes.end() - 1);
    DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame, read_varint(cut));
    Bytes longer = bytes;
    longer.back() |= 0x80;
    longer.push_back(0);
    DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_varint(longer));
  }
}

// Each value has one spelling: of two bytes, only those with a second group are taken.
DOCOFL_TEST(all_varints_of_two_bytes) {
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      const Bytes bytes = {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(second)};
      const test::Note note("bytes ", first, " ", second);
      if (first < 128) {
        DOCOFL_CHECK_EQUAL(read_varint(bytes), first);
      } else if (second >= 128) {
        DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame, read_varint(bytes));
      } else if (second == 0) {
        DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_varint(bytes));
      } else {
        DOCOFL_CHECK_EQUAL(read_varint(bytes), (first & 127) + (second << 7));
      }
    }
  }
}

DOCOFL_TEST(varints_beyond_64_bits_are_refused) {
  Bytes bytes(9, 0xff);
  bytes.push_back(0x01);
  DOCOFL_CHECK_EQUAL(read_varint(bytes), UINT64_MAX);
  for (unsigned last = 0; last < 256; ++last) {
    if (last == 1) continue;
    const test::Note note("last byte ", last);
    bytes.back() = static_cast<std::uint8_t>(last);
    DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_varint(bytes));
  }
  DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_varint(Bytes(11, 0x80)));
}

DOCOFL_TEST(reader_checks_every_field) {
  const Bytes bytes = {1, 2, 3, 4, 5};
  ByteReader reader({bytes.data(), bytes.size()});
  DOCOFL_CHECK_EQUAL(reader.read<std::uint32_t>("field"), 0x04030201u);
  DOCOFL_CHECK_EQUAL(reader.position(), 4u);
  DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame, reader.read<std::uint16_t>("field"));
  DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame, reader.take(SIZE_MAX, "field"));
  DOCOFL_CHECK_EQUAL(reader.position(), 4u);
  DOCOFL_CHECK_EQUAL(reader.take(1, "field") - bytes.data(), 4);
  DOCOFL_CHECK_EQUAL(reader.take(0, "field") - bytes.data(), 5);
}

DOCOFL_TEST(fields_are_little_endian) {
  Bytes bytes(8);
  DOCOFL_CHECK_EQUAL(write_le(bytes.data(), std::uint32_t(0x04030201)) - bytes.data(), 4);
  for (std::size_t i = 0; i < 4; ++i) DOCOFL_CHECK_EQUAL(bytes[i], i + 1);
  write_le(bytes.data(), 1.0);
  const Bytes one = {0, 0, 0, 0, 0, 0, 0xf0, 0x3f};
  DOCOFL_CHECK_SAME(bytes.data(), one.data(), one.size());
  DOCOFL_CHECK_EQUAL(load_le<double>(bytes.data()), 1.0);
  DOCOFL_CHECK_EQUAL(byteswap(std::uint64_t(0x0102030405060708)), 0x0807060504030201u);
}

DOCOFL_TEST(checked_arithmetic_at_the_limits) {
  std::uint64_t product = 7;
  DOCOFL_CHECK(checked_multiply(UINT64_MAX, 1, &product) && product == UINT64_MAX);
  DOCOFL_CHECK(checked_multiply(0, UINT64_MAX, &product) && product == 0);
  DOCOFL_CHECK(checked_multiply(0xFFFFFFFFu, 0x100000001u, &product) && product == UINT64_MAX);
  DOCOFL_CHECK(!checked_multiply(std::uint64_t(1) << 32, std::uint64_t(1) << 32, &product));
  DOCOFL_CHECK(!checked_multiply(2, (std::uint64_t(1) << 63) + 1, &product));
  DOCOFL_CHECK_EQUAL(divide_up(0, 8), 0u);
  DOCOFL_CHECK_EQUAL(divide_up(9, 8), 2u);
  DOCOFL_CHECK_EQUAL(divide_up(SIZE_MAX, 8), SIZE_MAX / 8 + 1);
}

}  // namespace
}  // namespace docofl
