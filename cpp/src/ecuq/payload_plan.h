#pragma once

#include "docofl/ecuq.h"
#include "ecuq/payload.h"

namespace docofl {

// Codes a tensor for its exact size. The blocks are kept for the encoder where memory allows.
PayloadPlan make_plan(const TensorView& tensor, const Levels& levels, const SymbolCode& code,
                      const EcuqOptions& options);

// Finds the number of levels for the budget and plans the payload. The tensor is not empty.
PayloadPlan plan_payload(const TensorView& tensor, const EcuqOptions& options);

}  // namespace docofl
