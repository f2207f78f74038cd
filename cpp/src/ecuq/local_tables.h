#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "entropy/rans.h"

namespace docofl {

// How often each symbol occurs in a segment.
using SegmentCounts = std::array<std::uint32_t, kMaxAlphabet>;

// Bits that a segment takes with a table. Symbols beyond the alphabet must not occur.
float cost_of(const SegmentCounts& segment, const std::array<float, kMaxAlphabet>& bits,
              std::size_t alphabet);

// A few code tables, and which of them each segment uses.
struct LocalTables {
  std::vector<RansFrequencies> tables;
  std::vector<std::uint8_t> choices;
  double symbol_bits = 0;  // what all symbols take
  double table_bits = 0;   // what tables and choices take
};

// Groups segments whose symbols are alike (Lloyd's algorithm on code lengths), with as many tables
// as save more than they take. `scale` is how many segments each one stands for.
LocalTables choose_tables(const std::vector<SegmentCounts>& segments, std::size_t alphabet,
                          double scale);

}  // namespace docofl
