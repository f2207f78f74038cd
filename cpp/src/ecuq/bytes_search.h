#pragma once

#include "common/source.h"
#include "docofl/ecuq.h"
#include "ecuq/payload.h"
#include "ecuq/sample.h"

namespace docofl {

// The payload with the most levels, among those tried, whose bytes meet the budget. The sample
// proposes, a pass over the tensor confirms, and what the pass found corrects the next proposal.
PayloadPlan search_bytes(const TensorView& tensor, const Sample& sample, const ValueRange& range,
                         const EcuqOptions& options);

}  // namespace docofl
