#pragma once

#include <cstddef>
#include <cstdint>

#include "docofl/tensor.h"
#include "ecuq/trellis.h"

namespace docofl {

// The counterpart of run_trellis for levels that are not dependent: each of values [begin, begin +
// count), at most kTrellisRun of them, gets the level whose place on the grid is nearest; those
// beyond half a step from the outermost ones are outliers. Their places in the model must be those
// of the grid.
void run_scalar(const TrellisModel& model, const TensorView& tensor, std::size_t begin,
                std::size_t count, std::size_t block_begin, TrellisScratch* scratch,
                std::uint8_t* coded, TrellisResult* result);

}  // namespace docofl
