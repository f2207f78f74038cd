#pragma once

#include "docofl/ecuq.h"
#include "ecuq/payload.h"

namespace docofl {

// Finds the number of levels for the budget and plans the payload. The tensor is not empty.
PayloadPlan plan_payload(const TensorView& tensor, const EcuqOptions& options);

}  // namespace docofl
