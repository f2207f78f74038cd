#include <algorithm>
#include <string>

#include "common/bit_io.h"
#include "common/byte_io.h"
#include "docofl/baselines.h"
#include "docofl/error.h"

namespace docofl {
namespace {

constexpr unsigned kMaxLog = 31;  // of the largest number that has a word
constexpr std::uint64_t kMaxGap = (std::uint64_t(1) << 32) - 2;

[[noreturn]] void corrupt(const std::string& message) {
  throw Error(ErrorKind::kCorruptFrame, "gamma code: " + message);
}

// Appends bits to a vector that grows.
class GammaWriter {
 public:
  explicit GammaWriter(std::size_t expected_bytes) { bytes_.reserve(expected_bytes); }

  // The word of value >= 1: as many zeros as value has bits below its highest, a one, those bits.
  void word(std::uint32_t value) {
    const unsigned log = 31 - static_cast<unsigned>(__builtin_clz(value));
    bits(std::uint64_t(1) << log, log + 1);
    bits(value ^ (std::uint32_t(1) << log), log);
  }

  // The low `count` <= 32 bits of value; higher ones are zero.
  void bits(std::uint64_t value, unsigned count) {
    pending_ |= value << pending_bits_;
    pending_bits_ += count;
    while (pending_bits_ >= 8) {
      bytes_.push_back(static_cast<std::uint8_t>(pending_));
      pending_ >>= 8;
      pending_bits_ -= 8;
    }
  }

  std::vector<std::uint8_t> finish() {
    if (pending_bits_ > 0) bytes_.push_back(static_cast<std::uint8_t>(pending_));
    return std::move(bytes_);
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::uint64_t pending_ = 0;
  unsigned pending_bits_ = 0;
};

class GammaReader {
 public:
  explicit GammaReader(ByteView bytes) : bytes_(bytes) {}

  std::uint32_t word() {
    refill();
    if (pending_ == 0) corrupt("expected a word, found the end or more than 31 zeros");
    const auto log = static_cast<unsigned>(__builtin_ctzll(pending_));
    if (log > kMaxLog) corrupt("expected at most 31 zeros before a one");
    skip(log + 1);
    return (std::uint32_t(1) << log) | bits(log);
  }

  // `count` <= 31 bits.
  std::uint32_t bits(unsigned count) {
    refill();
    const auto value = static_cast<std::uint32_t>(pending_ & ((std::uint64_t(1) << count) - 1));
    skip(count);
    return value;
  }

  // Checks the zero bits up to the byte and returns the number of bytes read.
  std::size_t finish() const {
    const unsigned padding = pending_bits_ % 8;
    if ((pending_ & ((1u << padding) - 1)) != 0) corrupt("expected zeros up to the byte");
    return position_ - pending_bits_ / 8;
  }

 private:
  // At least 56 bits are there afterwards, or all that are left.
  void refill() {
    while (pending_bits_ <= 56 && position_ < bytes_.size) {
      // SAFETY: position_ < bytes_.size.
      pending_ |= std::uint64_t(bytes_.data[position_++]) << pending_bits_;
      pending_bits_ += 8;
    }
  }

  void skip(unsigned count) {
    if (count > pending_bits_) corrupt("expected more bits, found the end");
    pending_ = count == 64 ? 0 : pending_ >> count;
    pending_bits_ -= count;
  }

  ByteView bytes_;
  std::size_t position_ = 0;
  std::uint64_t pending_ = 0;
  unsigned pending_bits_ = 0;
};

std::uint32_t magnitude(std::int32_t multiple) {
  return multiple < 0 ? 0u - static_cast<std::uint32_t>(multiple)
                      : static_cast<std::uint32_t>(multiple);
}

std::int32_t with_sign(std::uint32_t magnitude, std::uint32_t negative) {
  if (magnitude > kMaxQsgdLevels + 1) corrupt("expected a multiple of at most 2^30 + 1");
  const auto value = static_cast<std::int32_t>(magnitude);
  return negative != 0 ? -value : value;
}

}  // namespace

std::vector<std::uint8_t> gamma_encode(const std::int32_t* multiples, std::size_t n, bool sparse) {
  GammaWriter writer(sparse ? 0 : n / 4);
  if (!sparse) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t value = magnitude(multiples[i]);
      writer.word(value + 1);
      if (value != 0) writer.bits(multiples[i] < 0, 1);
    }
    return writer.finish();
  }
  const std::size_t count = n - static_cast<std::size_t>(std::count(multiples, multiples + n, 0));
  std::uint8_t number[kMaxVarintBytes];
  const std::uint8_t* const end = write_varint(number, count);
  for (const std::uint8_t* byte = number; byte < end; ++byte) writer.bits(*byte, 8);
  std::size_t next = 0;  // the first coordinate after the last that is not 0
  for (std::size_t i = 0; i < n; ++i) {
    if (multiples[i] == 0) continue;
    if (i - next > kMaxGap) {
      throw Error(ErrorKind::kInvalidInput, "tensor: found 2^32 zeros in a row, expected fewer");
    }
    writer.word(static_cast<std::uint32_t>(i - next + 1));
    writer.word(magnitude(multiples[i]));
    writer.bits(multiples[i] < 0, 1);
    next = i + 1;
  }
  return writer.finish();
}

std::size_t gamma_decode(ByteView stream, std::size_t n, bool sparse, std::int32_t* multiples) {
  if (!sparse) {
    GammaReader reader(stream);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t value = reader.word() - 1;
      multiples[i] = value == 0 ? 0 : with_sign(value, reader.bits(1));
    }
    return reader.finish();
  }
  std::fill(multiples, multiples + n, 0);
  ByteReader header(stream);
  const std::uint64_t count = header.read_varint("nonzero coordinates");
  if (count > n) corrupt("expected at most as many words as coordinates");
  const std::size_t start = header.position();
  GammaReader reader({stream.data + start, stream.size - start});
  std::size_t next = 0;
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::size_t gap = reader.word() - 1;
    if (gap >= n - next) corrupt("expected a place inside the tensor");
    const std::uint32_t value = reader.word();
    // SAFETY: next + gap < n by the check above.
    multiples[next + gap] = with_sign(value, reader.bits(1));
    next += gap + 1;
  }
  return start + reader.finish();
}

}  // namespace docofl
