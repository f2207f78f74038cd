#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/checked.h"
#include "docofl/frame.h"
#include "ecuq/levels.h"
#include "entropy/rans.h"

// The payload of ECUQ with the rANS coder (docs/format.md, sections 3.5 to 3.9).
namespace docofl {

constexpr std::size_t kRansBlock = 131072;  // coordinates that are coded together
constexpr std::size_t kRansSegment = 4096;  // coordinates that share a table
constexpr std::size_t kTrellisRun = 16384;  // coordinates from state 0 to the next state 0
constexpr std::size_t kMaxRansTables = 16;
constexpr unsigned kMaxDependentLevels = 128;
constexpr unsigned kMaxPairLevels = 16;
constexpr std::size_t kRansOutlierBytes = 7;
constexpr float kMaxCoefficient = 0x1p120f;  // so that sums stay finite

inline std::size_t num_rans_blocks(std::size_t size) { return divide_up(size, kRansBlock); }

inline std::size_t rans_block_length(std::size_t size, std::size_t block) {
  const std::size_t left = size - block * kRansBlock;
  return left < kRansBlock ? left : kRansBlock;
}

inline std::size_t num_segments(std::size_t length) { return divide_up(length, kRansSegment); }

// A short block cannot pay for the states of many lanes.
inline unsigned rans_lanes(std::size_t block_length) {
  return block_length >= kRansBlock / 2 ? kRansLanes : block_length >= kRansSegment ? 4 : 1;
}

// The levels and the code.
struct RansCode {
  bool dependent = false;  // two quantizers, by a state machine
  bool mirrored = false;   // the second quantizer's levels are the first one's, mirrored
  bool displaced = false;  // levels are off the grid, where the values' means are
  bool has_outliers = false;
  bool transformed = false;  // what levels give are coefficients of runs of neighbours
  unsigned tuple = 1;        // coordinates a symbol, 1 or 2
  unsigned num_coded = 2;    // W
  float entropy = 0;
  float origin = 0;
  float step = 1;
  std::int32_t base = 0;  // coded level j has the index base + j; even if dependent
  std::array<std::int8_t, kMaxAlphabet> displacements[2] = {};  // in units of step / 64
  std::vector<RansFrequencies> tables;

  std::size_t alphabet() const { return tuple == 2 ? num_coded * num_coded : num_coded; }
  int num_quantizers() const { return dependent ? 2 : 1; }

  // Where the grid has a coded level, in steps from the origin.
  std::int32_t position(int quantizer, unsigned coded) const;
  // The same with its displacement.
  float place(int quantizer, unsigned coded) const;
  // The value that it stands for; an infinity where it is beyond float32.
  float value(int quantizer, unsigned coded) const;
};

// A value that is kept as it is.
struct RansOutlier {
  std::uint32_t position;  // in its block, < 2^17
  float value;
};

// Bytes that every payload has, and that are not charged to the budget.
std::size_t rans_free_bytes(const RansCode& code, std::size_t size);

// Bytes before the blocks.
std::size_t rans_header_size(const RansCode& code, std::size_t size);

// What the directory says of a block.
struct RansBlock {
  std::uint32_t stream_bytes = 0;
  std::uint32_t num_outliers = 0;
  std::uint32_t num_spikes = 0;  // values that were no part of the transform
  std::array<std::uint8_t, kRansBlock / kRansSegment> choices{};

  std::size_t bytes() const {
    return stream_bytes + kRansOutlierBytes * (std::size_t(num_outliers) + num_spikes);
  }
};

std::uint8_t* write_rans_header(const RansCode& code, std::size_t size,
                                const std::vector<RansBlock>& blocks, std::uint8_t* out);

struct RansHeader {
  RansCode code;
  std::vector<RansBlock> blocks;
  std::vector<std::size_t> block_offsets;  // in the payload, and the end of the last
};

// True when the frame's payload is of this kind.
bool has_rans_payload(const Frame& frame);

// Throws Error. Memory is bounded by the size of the payload.
RansHeader read_rans_header(const Frame& frame);

}  // namespace docofl
