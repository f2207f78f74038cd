#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecuq/rans_fit.h"
#include "ecuq/rans_payload.h"
#include "ecuq/trellis.h"

namespace docofl {

// What a block of values has become.
struct RansLevels {
  const std::uint8_t* coded;                 // levels, one a value
  const std::uint8_t* choices;               // tables, one for every kRansSegment values
  const std::vector<RansOutlier>* outliers;  // values that are listed, by position
};

// Quantizes blocks with a model and a code that were fitted to a part of their tensor. Symbols that
// occurred in no part of it have no place in the tables: their values are listed as outliers, and
// symbols of the same parities stand for them, as those decide where the trellis goes on.
class RansQuantizer {
 public:
  // Of a tensor of `size` values. Keeps a reference to the fit.
  RansQuantizer(const RansFit& fit, std::size_t size);

  // The fit's, with a symbol for all parities.
  const std::vector<RansFrequencies>& tables() const { return tables_; }

  struct Scratch {
    TrellisScratch trellis;
    std::vector<std::uint8_t> coded;
    std::array<std::uint8_t, kRansBlock / kRansSegment> likely, choices;
  };
  struct Result {
    TrellisResult trellis;
    double symbol_bits = 0;
  };
  // Quantizes `length` values, at most kRansBlock. The levels are valid as long as `result`, and
  // until the next call with the same scratch.
  RansLevels run(const float* values, std::size_t length, Scratch* scratch, Result* result) const;

 private:
  struct Costs {
    std::array<float, kMaxAlphabet> bits;         // a symbol; kMissingBits where it has no place
    std::array<std::uint8_t, 4> representatives;  // a symbol of the table, by parities
  };

  std::size_t parities(std::size_t symbol) const;
  void list_missing(const float* values, std::size_t begin, std::size_t count, const Costs& costs,
                    std::uint8_t* coded, std::vector<RansOutlier>* outliers) const;

  const RansFit& fit_;
  unsigned num_coded_;
  std::vector<RansFrequencies> tables_;
  std::vector<Costs> costs_;
};

}  // namespace docofl
