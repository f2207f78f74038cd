#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/tensor.h"
#include "ecuq/levels.h"
#include "entropy/huffman.h"

namespace docofl {

// How often each code symbol occurs, in all and in each stream, and how many outliers there are.
struct Measurement {
  SymbolCounts counts{};
  std::vector<std::uint16_t> stream_counts;  // alphabet entries a stream
  std::vector<std::uint32_t> block_outliers;
  std::uint64_t num_outliers = 0;
};

// One pass over the tensor. Memory: 2 * alphabet bytes for every stream of up to 16,384 words.
Measurement measure(const TensorView& tensor, const Levels& levels, const Layout& layout,
                    int threads);

// The code for a measurement, and the exact size of what it makes of the tensor.
struct Coding {
  CodeLengths lengths{};
  std::vector<std::uint16_t> stream_sizes;
  double entropy = 0;             // the frame's field
  std::uint64_t charged_bytes = 0;  // bytes of the payload that count against the budget
};

Coding make_coding(const Measurement& measurement, const Levels& levels, const Layout& layout,
                   std::size_t size);

// Code lengths for the counts: the short limit where it costs next to nothing (the encoder then
// joins more words a store), otherwise the format's.
CodeLengths choose_lengths(SymbolCounts counts, std::size_t alphabet);

}  // namespace docofl
