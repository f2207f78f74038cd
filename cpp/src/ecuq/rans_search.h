#pragma once

#include <optional>

#include "common/source.h"
#include "ecuq/payload_plan.h"
#include "ecuq/rans_write.h"

namespace docofl {

// A payload coded with rANS for the request's budget or step, with dependent quantization (quality
// "best") or without, or nothing where it would not pay or has no room: tensors of few values,
// steps beyond float32, and budgets that take far more than 128 levels. The tensor holds different
// values, of this range. Whatever was in the request's room may be overwritten.
std::optional<RansPlan> search_rans(const PlanRequest& request, const ValueRange& range,
                                    bool dependent);

}  // namespace docofl
