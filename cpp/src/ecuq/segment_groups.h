#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "entropy/huffman.h"

namespace docofl {

// How often each symbol occurs in a segment.
using SegmentCounts = std::array<std::uint32_t, kMaxAlphabet>;

// Bits of each symbol.
using SymbolBits = std::array<float, kMaxAlphabet>;

// Bits that a segment takes with a table. Symbols beyond the alphabet must not occur.
float cost_of(const SegmentCounts& segment, const SymbolBits& bits, std::size_t alphabet);

// The counts of all segments that chose a group.
SymbolCounts total_counts(const std::vector<SegmentCounts>& segments,
                          const std::vector<std::uint8_t>& choices, std::uint8_t group,
                          std::size_t alphabet);

// Groups segments whose symbols are alike, for a code table each. The segments must outlive it.
class SegmentGroups {
 public:
  SegmentGroups(const std::vector<SegmentCounts>& segments, std::size_t alphabet);

  // Whether some segments take more or less than others, beyond what chance does.
  bool differ() const;

  // How much: the variance of the bits that a symbol takes, between segments.
  double variance() const;

  // The group of each segment, by Lloyd's algorithm on code lengths. Some may be empty.
  std::vector<std::uint8_t> choose(std::size_t num_groups) const;

 private:
  void choose_again(std::size_t num_groups, std::vector<std::uint8_t>* choices) const;

  const std::vector<SegmentCounts>& segments_;
  std::size_t alphabet_;
  SymbolBits bits_;            // with one table for all ...
  std::vector<float> costs_;   // ... what segments take, ...
  std::vector<double> sizes_;  // ... and how many symbols they have
  double num_symbols_ = 0, num_bits_ = 0;
};

}  // namespace docofl
