#include <algorithm>
#include <limits>

#include "common/float_mode.h"
#include "common/source.h"
#include "docofl/baselines.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 1024;

float largest_value(DType dtype) {
  if (dtype == DType::kFloat16) return 65504.0f;
  if (dtype == DType::kBFloat16) return 0x1.fep127f;
  return std::numeric_limits<float>::max();
}

}  // namespace

void load_tensor(const TensorView& tensor, float* out) {
  const DefaultFloatMode float_mode;
  if (tensor.size == 0) return;
  value_range(tensor, 1);
  const float* values = load_values(tensor, 0, tensor.size, out);
  if (values != out) std::copy(values, values + tensor.size, out);
}

void store_decoded(const float* values, DType dtype, const MutableTensorView& out) {
  const DefaultFloatMode float_mode;
  const float largest = largest_value(dtype);
  float piece[kPiece];
  for (std::size_t begin = 0; begin < out.size; begin += kPiece) {
    const std::size_t count = std::min(kPiece, out.size - begin);
    for (std::size_t i = 0; i < count; ++i) {
      piece[i] = std::min(largest, std::max(-largest, values[begin + i]));
    }
    store_frame_values(piece, count, dtype, out, begin);
  }
}

}  // namespace docofl
