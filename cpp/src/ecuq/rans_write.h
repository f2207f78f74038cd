#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecuq/rans_fit.h"
#include "ecuq/rans_payload.h"
#include "ecuq/rans_source.h"

namespace docofl {

// Coded levels two a symbol, an odd last one with level 0 after it; returns how many symbols.
std::size_t pack_pairs(const std::uint8_t* coded, std::size_t count, unsigned num_coded,
                       std::uint8_t* pairs);

// Throws Error(kInvalidInput): what was found in one pass is not what there is in another.
[[noreturn]] void tensor_changed();

// A payload but for its header, and what became of the values.
struct RansPlan {
  RansCode code;
  std::vector<RansBlock> blocks;
  std::size_t block_bytes = 0;        // of all blocks
  std::uint64_t num_outliers = 0;     // of all values
  std::uint8_t* in_room = nullptr;    // where they are, one after the other, ...
  std::vector<std::uint8_t> outside;  // ... or here, where there was no room
  TrellisCounts counts;               // of all values
  double mean_squared_error = 0;
};

std::size_t payload_size(const RansPlan& plan, std::size_t size);

// Bytes of it that count against the budget.
std::size_t charged_bytes(const RansPlan& plan, std::size_t size);

// Copies blocks out of the room, which may be gone afterwards.
void leave_room(RansPlan* plan);

// Writes the payload. `out` may overlap the room.
void write_rans_payload(const RansPlan& plan, std::size_t size, std::uint8_t* out);

// Where blocks go, and how many bytes they may be charged for.
struct RansRoom {
  MutableByteView room;
  std::size_t most_charged;
};

// Codes a source with what was fitted to it, or to a part of it, its blocks in the room if they
// fit. They are nowhere where that would be charged too much. A whole source's levels are the
// fitter's; others are found again. Throws Error(kInvalidInput) for outliers that are not finite.
RansPlan code_rans(const RansSource& source, const RansFit& fit, const RansFitter& fitter,
                   const RansRoom& room, int threads);

}  // namespace docofl
