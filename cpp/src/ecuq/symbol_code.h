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

// The cheapest code found for a uniform grid of `num_levels` over [x_min, x_max], for a tensor of
// `size` coordinates of which `sample` was taken.
SymbolCode choose_code(const Sample& sample, float x_min, float x_max, std::int32_t num_levels,
                       std::size_t size, int threads);

// The same for explicit levels, where the tuple size is all there is to choose.
SymbolCode choose_code(const Sample& sample, const Levels& explicit_levels, std::size_t size,
                       int threads);

// The covariance of a value's bits at their ideal and its deviation.
double bits_covariance(const Sample& sample, const DeviationParams& deviation, float x_min,
                       float x_max, std::int32_t num_levels, int threads);

// A grid of 2^raw_bits levels without code words: raw bits alone.
SymbolCode fixed_width_code(unsigned raw_bits);

}  // namespace docofl
