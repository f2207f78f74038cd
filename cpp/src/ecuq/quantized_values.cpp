#include "ecuq/quantized_values.h"

#include <algorithm>
#include <cstring>

namespace docofl {

void quantized_values(const Levels& levels, const float* x, std::size_t n, float* out) {
  if (levels.is_explicit()) {
    std::copy(x, x + n, out);
    return;
  }
  constexpr std::size_t kPiece = 2048;
  const GridParams grid = make_grid(levels);
  const std::uint8_t no_coded[kPiece] = {};
  std::int32_t signed_levels[kPiece];
  std::uint32_t found[kPiece];
  for (std::size_t begin = 0; begin < n; begin += kPiece) {
    const std::size_t count = std::min(kPiece, n - begin);
    kernels().quantize(grid, x + begin, count, signed_levels);
    std::memcpy(found, signed_levels, count * sizeof(found[0]));  // they are not negative
    kernels().reconstruct_raw(grid, 0, 0, no_coded, found, count, out + begin);
  }
}

}  // namespace docofl
