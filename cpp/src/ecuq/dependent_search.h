#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ecuq/payload_plan.h"

namespace docofl {

struct DependentPlan {
  std::vector<std::uint8_t> payload;
  double mean_squared_error = 0;
};

// A payload with dependent quantization for the request's budget or step (quality "best"), or
// nothing where it would not pay or has no room: tensors of few values, steps beyond float32, and
// budgets that take far more than 128 levels. The tensor holds different values.
std::optional<DependentPlan> search_dependent(const PlanRequest& request);

}  // namespace docofl
