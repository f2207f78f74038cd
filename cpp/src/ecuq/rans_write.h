#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecuq/rans_payload.h"

namespace docofl {

// Coded levels two a symbol, an odd last one with level 0 after it; returns how many symbols.
std::size_t pack_pairs(const std::uint8_t* coded, std::size_t count, unsigned num_coded,
                       std::uint8_t* pairs);

// What a tensor of `size` values has become.
struct RansSymbols {
  std::size_t size;
  const std::uint8_t* coded;                 // levels, one a value
  const std::uint8_t* choices;               // tables, one for every kRansSegment values
  const std::vector<RansOutlier>* outliers;  // one list for every kRansBlock values
  const std::vector<RansOutlier>* spikes;    // the same, of a tensor that was transformed
};

// The whole payload. Throws Error(kInvalidInput) for outliers that are not finite.
std::vector<std::uint8_t> write_rans_payload(const RansCode& code, const RansSymbols& symbols,
                                             int threads);

}  // namespace docofl
