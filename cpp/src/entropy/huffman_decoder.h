#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/tensor.h"
#include "entropy/huffman.h"

namespace docofl {

// Decodes streams of code words. Each word leaves the coded levels of its coordinates: one byte
// when `tuple` is 1, otherwise tuple / 2 bytes with two levels each, the first in the high half.
//
// A table indexed by the next bits of a stream gives up to six bytes a look-up.
class HuffmanDecoder {
 public:
  // `lengths` must be a complete code over num_levels^tuple symbols, `tuple` 1 or even (then
  // num_levels <= 16). A small table is enough, and quicker to build, where no block has four
  // streams.
  HuffmanDecoder(const CodeLengths& lengths, unsigned num_levels, unsigned tuple,
                 bool multi_stream);

  // Bytes that a word leaves.
  std::size_t word_bytes() const { return word_bytes_; }

  // Decodes words[i] code words of each of `count` streams (1, or 4 if multi_stream) to consecutive
  // places of `out`. The bytes of each stream must be used up exactly and its padding must be zero,
  // otherwise returns false. Some values of `beside` may be written meanwhile.
  bool decode(const ByteView* streams, const std::size_t* words, int count, std::uint8_t* out,
              Reconstruction* beside) const;

 private:
  void finish_stream(HuffmanStream* stream) const;
  std::uint64_t find_word(std::uint64_t bits) const;

  std::size_t word_bytes_;
  unsigned index_bits_;
  std::vector<std::uint64_t> entries_;
  HuffmanTable table_{};
};

}  // namespace docofl
