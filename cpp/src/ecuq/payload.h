#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "docofl/frame.h"
#include "ecuq/block_encoder.h"
#include "ecuq/blocks.h"
#include "ecuq/levels.h"
#include "ecuq/rans_write.h"
#include "ecuq/symbol_code.h"
#include "entropy/huffman.h"

// The fields of an ECUQ payload before its blocks (docs/format.md, sections 3.1 to 3.3).
namespace docofl {

constexpr std::size_t kOutlierBytes = 6;

// Everything that makes a payload.
struct PayloadPlan {
  Levels levels;
  SymbolCode code;
  EncodedBlocks blocks;
  double mean_squared_error = 0;  // estimated; 0 where nobody asked for it
  std::optional<RansPlan> rans;   // then it is this, of the rANS coder, and nothing else
};

// The least version of a frame that can have it.
std::uint8_t payload_version(const PayloadPlan& plan);

// Bytes before the blocks.
std::size_t payload_header_size(const Levels& levels, const SymbolCode& code, std::size_t size);

// Bytes of the whole payload.
std::size_t payload_size(const PayloadPlan& plan, std::size_t size);

// Bytes of it that count against the budget: all but the parameters and the first directory entry.
std::size_t charged_bytes(const PayloadPlan& plan, std::size_t size);

// Bytes of one block.
std::size_t block_bytes(const PayloadPlan& plan, std::size_t size, std::size_t block);

// Writes everything before the blocks and returns where they start.
std::uint8_t* write_payload_header(const PayloadPlan& plan, std::size_t size, std::uint8_t* out);

// The same fields, read and checked: a copy, so that later changes of the caller's bytes cannot
// reach it.
struct PayloadHeader {
  Levels levels;
  bool has_outliers = false;
  SymbolCode code;
  Blocks blocks{0};
  std::vector<std::uint16_t> stream_sizes;
  std::vector<std::uint32_t> block_outliers;  // empty without outliers
  std::vector<std::size_t> block_offsets;     // in the payload, and the end of the last
};

// Throws Error. Memory is bounded by the size of the payload.
PayloadHeader read_payload_header(const Frame& frame);

}  // namespace docofl
