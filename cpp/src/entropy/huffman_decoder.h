#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/tensor.h"
#include "entropy/huffman.h"

namespace docofl {

// Decodes streams of code words to coded levels, `tuple` of them a word.
//
// A table indexed by the next bits of a stream gives up to six levels a look-up; words that are longer than
// its index are found by comparing with the first word of each length.
class HuffmanDecoder {
 public:
  // `lengths` must be a complete code over num_levels^tuple symbols. `expected_words` only sets how much
  // table is worth building.
  HuffmanDecoder(const CodeLengths& lengths, unsigned num_levels, unsigned tuple,
                 std::size_t expected_words);

  // Decodes words[i] code words of each of `count` (1 or 4) streams, one after the other in memory, to
  // consecutive places of `out`, which has room for 8 bytes more. The bytes of each stream must be
  // used up exactly and its padding must be zero, otherwise returns false.
  bool decode(const ByteView* streams, const std::size_t* words, int count, std::uint8_t* out) const;

 private:
  struct Word {
    std::uint32_t symbol;
    unsigned length;
  };
  Word find_word(std::uint64_t bits) const;
  void finish_stream(HuffmanStream* stream) const;
  void put_word(std::uint64_t bits, HuffmanStream* stream) const;

  unsigned tuple_;
  unsigned table_bits_;
  std::vector<std::uint64_t> table_;
  // The levels of each symbol in the low bytes, the first lowest.
  std::array<std::uint64_t, kMaxAlphabet> levels_{};
  // Words of length l, seen as 16-bit fractions, lie below limit_[l] and, if not shorter, at or above limit_[l - 1];
  // their symbols start at first_symbol_[l] of ordered_.
  std::array<std::uint32_t, kMaxCodeLength + 1> limit_{};
  std::array<std::uint32_t, kMaxCodeLength + 1> first_symbol_{};
  std::array<std::uint8_t, kMaxAlphabet> ordered_{};
};

}  // namespace docofl
