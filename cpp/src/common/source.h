#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "docofl/tensor.h"

namespace docofl {

// Reading and writing tensors of any dtype as float32, a piece at a time.

// Values [begin, begin + count) as float32: the tensor's own memory where it is float32 already,
// otherwise converted into `scratch` (room for `count`).
const float* load_values(const TensorView& tensor, std::size_t begin, std::size_t count,
                         float* scratch);

// Converts `count` finite float32 values to out.dtype at [begin, begin + count).
void store_values(const float* values, std::size_t count, const MutableTensorView& out,
                  std::size_t begin);

// The same for values of a frame of `dtype`: out.dtype is that, or float32 or float64, which get
// the values that `dtype` would. `values` may be changed.
void store_frame_values(float* values, std::size_t count, DType dtype, const MutableTensorView& out,
                        std::size_t begin);

// The smallest and largest value. Throws Error(kInvalidInput), with the number of bad values and
// the first one's place, where a value is not finite or not within float32.
struct ValueRange {
  float x_min;
  float x_max;
};
// `visit`, if given, is called with each part [begin, end) of the tensor while it is in the cache,
// by several threads at once.
ValueRange value_range(
    const TensorView& tensor, int threads,
    const std::function<void(std::size_t begin, std::size_t end)>& visit = nullptr);

// The same of a few values; none where one is not finite.
std::optional<ValueRange> finite_range(const float* values, std::size_t count);

// Throws the same error for NaN and infinities alone, whatever the dtype's range.
void check_finite(const TensorView& tensor, int threads);

}  // namespace docofl
