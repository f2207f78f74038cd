#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/source.h"
#include "ecuq/payload_plan.h"

namespace docofl {

struct RansPlan {
  std::vector<std::uint8_t> payload;
  double mean_squared_error = 0;
};

// A payload coded with rANS for the request's budget or step, with dependent quantization (quality
// "best") or without, or nothing where it would not pay or has no room: tensors of few values,
// steps beyond float32, and budgets that take far more than 128 levels. The tensor holds different
// values, of this range.
std::optional<RansPlan> search_rans(const PlanRequest& request, const ValueRange& range,
                                    bool dependent);

}  // namespace docofl
