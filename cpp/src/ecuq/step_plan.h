#pragma once

#include <optional>

#include "common/source.h"
#include "ecuq/payload_plan.h"
#include "ecuq/sample.h"

// Payloads with Huffman codes whose step is given: there is no budget to meet.
namespace docofl {

// How many values the code and the means of levels are made from.
std::size_t step_sample_size(std::size_t tensor_size);

// Levels at the multiples of the step, so that zero is one of them and tensors coded with one step
// agree on them. Where that cannot be, as few levels as the step allows between the ends of the
// range. Few different values stay exact where that takes no more bits.
PayloadPlan plan_step(const PlanRequest& request, const Sample& sample, const ValueRange& range);

// Levels that go on far beyond those of a sample, and the sample's code for them.
struct OpenCode {
  Levels levels;
  SymbolCode code;
};

// Such levels for the step of the options, without a pass over the tensor. None for small tensors,
// steps whose multiples are not all float32 numbers, few different values, and samples whose values
// are not finite.
std::optional<OpenCode> fit_open_grid(const TensorView& tensor, const EcuqOptions& options);

// What plan_step does, in one pass over the tensor. None where there is no open grid, or a value
// lies beyond it.
std::optional<PayloadPlan> plan_step_in_one_pass(const PlanRequest& request);

}  // namespace docofl
