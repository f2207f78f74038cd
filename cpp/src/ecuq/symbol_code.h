#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecuq/blocks.h"
#include "ecuq/levels.h"
#include "ecuq/sample.h"
#include "entropy/huffman.h"

namespace docofl {

// A layout of code words, and a code for them.
struct CodeTable {
  Layout layout;
  CodeLengths lengths{};
};

constexpr std::size_t kMaxCodeTables = 16;

// Code words made for a sample, and what it says that they take in bits a coordinate, everything
// that counts against the budget included.
struct SymbolCode {
  // One table for all blocks, or several, and which of them each block has.
  std::vector<CodeTable> tables = std::vector<CodeTable>(1);
  std::vector<std::uint8_t> choices;
  unsigned block_exponent = kMaxBlockExponent;
  bool has_outliers = false;  // in the sample
  double entropy = 0;         // the frame's field
  double bits = 0;

  bool is_local() const { return !choices.empty(); }
  Blocks blocks(std::size_t size) const { return Blocks(size, std::size_t(1) << block_exponent); }
  const CodeTable& table_of(std::size_t block) const {
    return tables[is_local() ? choices[block] : 0];
  }
};

// The cheapest code with one table that was found for the levels, for coordinates in `blocks` of
// which `sample` was taken. Explicit levels have the tuple size to choose alone.
SymbolCode choose_code(const Sample& sample, const Levels& levels, const Blocks& blocks,
                       int threads);

// The covariance of a value's bits at their ideal and its deviation, for uniform levels.
double bits_covariance(const Sample& sample, const DeviationParams& deviation, const Levels& levels,
                       int threads);

// A grid of 2^raw_bits levels without code words: raw bits alone.
SymbolCode fixed_width_code(unsigned raw_bits);

}  // namespace docofl
