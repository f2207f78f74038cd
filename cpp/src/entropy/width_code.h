#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/bit_io.h"
#include "docofl/error.h"

// How tables write a list of small numbers, the lengths of code words or the widths of frequencies:
// differences to the number before, 0, +1, -1, +2, -2, ... as 0, 1, 2, 3, 4, ... in the Exp-Golomb
// code of order 0 (docs/format.md, section 3.2).
namespace docofl {

inline std::uint32_t mapped_difference(int width, int previous) {
  const int difference = width - previous;
  return static_cast<std::uint32_t>(difference > 0 ? 2 * difference - 1 : -2 * difference);
}

inline unsigned exp_golomb_zeros(std::uint32_t mapped) {
  unsigned zeros = 0;
  while ((mapped + 1) >> (zeros + 1) != 0) ++zeros;
  return zeros;
}

inline std::size_t width_code_bits(int width, int previous) {
  return 2 * exp_golomb_zeros(mapped_difference(width, previous)) + 1;
}

inline void write_width(BitWriter* writer, int width, int previous) {
  const std::uint32_t mapped = mapped_difference(width, previous);
  const unsigned zeros = exp_golomb_zeros(mapped);
  writer->write(0, zeros);
  writer->write(1, 1);
  writer->write(mapped + 1 - (1u << zeros), zeros);
}

// Reads the fields of a table; its messages say which table and symbol.
class WidthReader {
 public:
  WidthReader(BitReader* bits, const char* table, std::size_t alphabet, int first_previous,
              int max_width)
      : bits_(bits),
        table_(table),
        alphabet_(alphabet),
        width_(first_previous),
        max_width_(max_width) {}

  std::uint32_t read_bit() {
    const int bit = bits_->read_bit();
    if (bit < 0) {
      throw Error(ErrorKind::kTruncatedFrame, table_ + ": ends at symbol " +
                                                  std::to_string(symbol_) + ", expected " +
                                                  std::to_string(alphabet_));
    }
    return static_cast<std::uint32_t>(bit);
  }

  // The width of symbol 0, 1, ...
  int next(std::size_t symbol) {
    symbol_ = symbol;
    unsigned zeros = 0;
    while (read_bit() == 0) {
      // Differences reach 16 either way: mapped values below 2^6.
      if (++zeros > 5)
        throw Error(ErrorKind::kCorruptFrame, table_ + ": a difference is too large");
    }
    std::uint32_t value = 0;
    for (unsigned i = 0; i < zeros; ++i) value |= read_bit() << i;
    const int mapped = static_cast<int>((1u << zeros) + value - 1);
    width_ += mapped % 2 == 1 ? (mapped + 1) / 2 : -(mapped / 2);
    if (width_ < 0 || width_ > max_width_) {
      throw Error(ErrorKind::kCorruptFrame,
                  table_ + ": length of symbol " + std::to_string(symbol) + " is " +
                      std::to_string(width_) + ", expected 0 to " + std::to_string(max_width_));
    }
    return width_;
  }

  void check_padding() const {
    if (!bits_->padding_is_zero()) {
      throw Error(ErrorKind::kCorruptFrame, table_ + ": expected zero bits up to the byte");
    }
  }

 private:
  BitReader* bits_;
  std::string table_;
  std::size_t alphabet_;
  std::size_t symbol_ = 0;
  int width_;
  int max_width_;
};

}  // namespace docofl
