#pragma once

#include <cstddef>
#include <cstdint>

#include "docofl/tensor.h"
#include "kernels/kernels.h"

namespace docofl {

// Empirical entropy in bits a value, from `size` counts; the order of the sum is that of the
// counts.
double entropy_of_counts(const std::uint64_t* counts, std::size_t size);

// Entropy of the levels that `grid` gives a tensor, exactly, for any number of levels: memory grows
// with the levels that occur, not with those that could. `occupied` is set to their number.
double level_entropy(const TensorView& tensor, const GridParams& grid, int threads,
                     std::size_t* occupied);

}  // namespace docofl
