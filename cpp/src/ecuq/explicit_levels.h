#pragma once

#include <optional>

#include "docofl/tensor.h"
#include "ecuq/levels.h"
#include "ecuq/sample.h"

namespace docofl {

// The different values of the tensor as explicit levels, where there are at most 256. Usually the
// sample already shows that there are more.
std::optional<Levels> distinct_values(const TensorView& tensor, const Sample& sample, int threads);

// Whether a sample has at most 256 different values.
bool has_few_values(const Sample& sample);

// Entropy of a tensor that has no other values than these, exactly.
double explicit_entropy(const TensorView& tensor, const Levels& levels, int threads);

}  // namespace docofl
