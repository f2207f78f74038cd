#pragma once

#include <cstdint>

#include "docofl/ecuq.h"
#include "ecuq/levels.h"
#include "ecuq/measure.h"

namespace docofl {

// Levels, layout and code for a tensor: all that its payload needs.
struct CodingPlan {
  Levels levels;
  Layout layout;
  Measurement measurement;
  Coding coding;
};

// Finds the number of levels for the budget and plans the payload. The tensor is not empty.
CodingPlan plan_coding(const TensorView& tensor, const EcuqOptions& options);

}  // namespace docofl
