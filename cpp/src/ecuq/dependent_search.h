#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/source.h"
#include "ecuq/payload_plan.h"

namespace docofl {

// A payload with dependent quantization for the request's budget or step (quality "best"), or
// nothing where it would not pay or has no room: tensors of few values, steps beyond float32, and
// budgets that take more than 128 levels. The tensor holds different values, all of `range`.
std::optional<std::vector<std::uint8_t>> search_dependent(const PlanRequest& request,
                                                          const ValueRange& range);

}  // namespace docofl
