#include "common/float_mode.h"
#include "docofl/eden.h"
#include "kernels/kernels.h"

namespace docofl {

void hadamard_transform(float* x, std::size_t n) {
  const DefaultFloatMode float_mode;
  kernels().hadamard(x, n);
}

}  // namespace docofl
