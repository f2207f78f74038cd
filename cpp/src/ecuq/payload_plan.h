#pragma once

#include "docofl/ecuq.h"
#include "ecuq/payload.h"

namespace docofl {

// What is planned, and for what. `room` is where the payload will probably be written, or empty.
struct PlanRequest {
  TensorView tensor;
  EcuqOptions options;
  MutableByteView room;
};

// Codes a tensor for its exact size, its blocks at their place in the room if that is large enough.
PayloadPlan make_plan(const PlanRequest& request, const Levels& levels, const SymbolCode& code);

// Finds the number of levels for the budget and plans the payload. The tensor is not empty.
PayloadPlan plan_payload(const PlanRequest& request);

}  // namespace docofl
