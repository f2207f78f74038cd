#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/tensor.h"
#include "entropy/huffman.h"
#include "kernels/kernels.h"

// Range asymmetric numeral systems (Duda, 2013) over at most 256 symbols: static tables, several
// interleaved states, 16 bits at a time (docs/format.md, section 3.7).
namespace docofl {

constexpr std::uint32_t kRansTotal = std::uint32_t(1) << kRansBits;

using RansFrequencies = std::array<std::uint16_t, kMaxAlphabet>;  // 0: the symbol has no place

// Frequencies that add up to kRansTotal and code the counts in nearly the fewest bits. Symbols that
// do not occur get none; at least two must occur. Deterministic.
RansFrequencies rans_frequencies(const SymbolCounts& counts, std::size_t alphabet);

// Bits that a symbol of this frequency takes.
double rans_cost(std::uint16_t frequency);

// The table on the wire.
std::size_t rans_table_size(const RansFrequencies& frequencies, std::size_t alphabet);
std::uint8_t* write_rans_table(const RansFrequencies& frequencies, std::size_t alphabet,
                               std::uint8_t* out);

// Reads a table from the start of `bytes`, checks its sum, and sets `size` to its bytes. Throws
// Error(kCorruptFrame / kTruncatedFrame).
RansFrequencies read_rans_table(ByteView bytes, std::size_t alphabet, std::size_t* size);

// How the symbols of a block are shared out: symbol i belongs to state i % lanes, and to the table
// that choices[i / segment] names.
struct RansLayout {
  unsigned lanes;       // 1 to kRansLanes
  std::size_t segment;  // symbols that share a table, a multiple of kRansLanes
  const std::uint8_t* choices;
};

class RansEncoder {
 public:
  explicit RansEncoder(const std::vector<RansFrequencies>& tables);

  // The most bytes that `count` symbols can take.
  static std::size_t max_bytes(std::size_t count, unsigned lanes);

  // Writes states and words so that they end at `end` and returns where they start. Every symbol
  // must have a frequency in its table. Needs max_bytes of room before `end`.
  std::uint8_t* encode(const RansLayout& layout, const std::uint8_t* symbols, std::size_t count,
                       std::uint8_t* end) const;

 private:
  struct Entry {
    std::uint64_t reciprocal;  // floor(2^44 / frequency) + 1
    std::uint32_t limit;       // states from here on give 16 bits away first
    std::uint32_t frequency;
    std::uint32_t start;
  };
  std::vector<std::array<Entry, kMaxAlphabet>> tables_;
};

class RansDecoder {
 public:
  // `names[a]` is what symbol a becomes.
  RansDecoder(const std::vector<RansFrequencies>& tables,
              const std::array<std::uint8_t, kMaxAlphabet>& names);

  // Decodes `count` symbols. Returns false unless the stream ends with them, every state in its
  // initial value.
  bool decode(const RansLayout& layout, ByteView stream, std::size_t count,
              std::uint8_t* symbols) const;

 private:
  std::vector<std::array<std::uint32_t, kRansTotal>> tables_;
};

}  // namespace docofl
