#pragma once

#include <cstdint>

#include "docofl/tensor.h"
#include "ecuq/payload.h"

namespace docofl {

// Writes the payload_size(plan, tensor.size) bytes of a payload. Blocks that the plan left near
// their place are moved there, others are coded again. Throws Error(kInvalidInput) when the tensor
// is no longer the one that was planned for.
void write_payload(const PayloadPlan& plan, const TensorView& tensor, int threads,
                   std::uint8_t* out);

}  // namespace docofl
