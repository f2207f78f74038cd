#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecuq/segment_groups.h"
#include "entropy/rans.h"

namespace docofl {

// A few code tables of rANS, and which of them each segment uses.
struct LocalTables {
  std::vector<RansFrequencies> tables;
  std::vector<std::uint8_t> choices;
  double symbol_bits = 0;  // what all symbols take
  double table_bits = 0;   // what tables and choices take
};

// As many tables as save more than they take, for segments whose symbols are alike. `scale` is how
// many segments each one stands for.
LocalTables choose_tables(const std::vector<SegmentCounts>& segments, std::size_t alphabet,
                          double scale);

}  // namespace docofl
