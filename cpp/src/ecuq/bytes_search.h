#pragma once

#include "common/source.h"
#include "docofl/ecuq.h"
#include "ecuq/payload_plan.h"
#include "ecuq/sample.h"

namespace docofl {

// The payload with the most levels, among those tried, whose bytes meet the budget. The sample
// proposes, a pass over the tensor confirms, and what the pass found corrects the next proposal.
PayloadPlan search_bytes(const PlanRequest& request, const Sample& sample, const ValueRange& range);

}  // namespace docofl
