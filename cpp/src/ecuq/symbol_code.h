#pragma once

#include <cstddef>
#include <cstdint>

#include "ecuq/levels.h"
#include "ecuq/sample.h"
#include "entropy/huffman.h"

namespace docofl {

// A layout of code words with a code for them, both made for a sample, and what the sample says
// that they take in bits a coordinate, everything that counts against the budget included.
struct SymbolCode {
  Layout layout;
  CodeLengths lengths{};
  double entropy = 0;  // the frame's field
  double bits = 0;
};

// The cheapest code found for the levels, for a tensor of `size` coordinates of which `sample` was
// taken. Explicit levels have the tuple size to choose alone.
SymbolCode choose_code(const Sample& sample, const Levels& levels, std::size_t size, int threads);

// The covariance of a value's bits at their ideal and its deviation, for uniform levels.
double bits_covariance(const Sample& sample, const DeviationParams& deviation, const Levels& levels,
                       int threads);

// A grid of 2^raw_bits levels without code words: raw bits alone.
SymbolCode fixed_width_code(unsigned raw_bits);

}  // namespace docofl
