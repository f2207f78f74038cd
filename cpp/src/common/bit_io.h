#pragma once

#include <cstddef>
#include <cstdint>

#include "docofl/tensor.h"

// Bit fields filled from the least significant bit, for tables; the hot streams are in kernels/.
namespace docofl {

class BitWriter {
 public:
  explicit BitWriter(std::uint8_t* out) : out_(out) {}

  // Appends the low `count` <= 32 bits of `value`; higher bits must be zero.
  void write(std::uint32_t value, unsigned count) {
    pending_ |= static_cast<std::uint64_t>(value) << pending_bits_;
    pending_bits_ += count;
    while (pending_bits_ >= 8) {
      *out_++ = static_cast<std::uint8_t>(pending_);
      pending_ >>= 8;
      pending_bits_ -= 8;
    }
  }

  // Pads with zero bits and returns the first byte after the field.
  std::uint8_t* finish() {
    if (pending_bits_ > 0) *out_++ = static_cast<std::uint8_t>(pending_);
    return out_;
  }

 private:
  std::uint8_t* out_;
  std::uint64_t pending_ = 0;
  unsigned pending_bits_ = 0;
};

class BitReader {
 public:
  BitReader(const std::uint8_t* data, std::size_t size) : data_(data), bits_(size * 8) {}

  // Returns -1 at the end of the data.
  int read_bit() {
    if (position_ >= bits_) return -1;
    const int bit = (data_[position_ >> 3] >> (position_ & 7)) & 1;
    ++position_;
    return bit;
  }

  // Bytes touched so far.
  std::size_t bytes_read() const { return (position_ + 7) / 8; }

  // True when the bits after the position, up to the byte, are zero.
  bool padding_is_zero() const {
    return (position_ & 7) == 0 || (data_[position_ >> 3] >> (position_ & 7)) == 0;
  }

 private:
  const std::uint8_t* data_;
  std::size_t bits_;
  std::size_t position_ = 0;
};

}  // namespace docofl
