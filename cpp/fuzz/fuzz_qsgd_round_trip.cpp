#include <cmath>
#include <cstring>
#include <vector>

#include "docofl/baselines.h"
#include "docofl/error.h"
#include "fuzz_input.h"
#include "fuzz_tensor.h"

namespace docofl {
namespace {

constexpr std::size_t kMaxVarintBits = 80;

// The stream has the bits that the cost says, up to the byte, and holds the multiples.
void check_stream(const std::vector<std::int32_t>& multiples, bool sparse, double bits) {
  const std::size_t n = multiples.size();
  const fuzz::Bytes stream = gamma_encode(multiples.data(), n, sparse);
  const double found = 8 * static_cast<double>(stream.size());
  DOCOFL_REQUIRE(found >= bits && found < bits + 8 + (sparse ? kMaxVarintBits : 0));
  std::vector<std::int32_t> restored(n);
  DOCOFL_REQUIRE(gamma_decode(fuzz::view_of(stream), n, sparse, restored.data()) == stream.size());
  DOCOFL_REQUIRE(restored == multiples);
}

}  // namespace
}  // namespace docofl

// QSGD's quantizer and its streams: the grid's norm and levels, the key, the dtype, values.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  QsgdGrid grid;
  grid.norm = std::fabs(input.take<double>());
  grid.levels = 1 + input.take<std::uint32_t>() % kMaxQsgdLevels;
  const auto key = input.take<std::uint64_t>();
  const DType dtype = fuzz::dtype_of(input.take<std::uint8_t>());
  const auto extent = input.take<std::uint8_t>();
  const fuzz::FuzzTensor tensor = fuzz::take_tensor(&input, dtype, extent);
  std::vector<float> x(tensor.size());
  try {
    load_tensor(tensor.view(), x.data());
  } catch (const Error&) {
    DOCOFL_REQUIRE(!fuzz::is_float32(tensor));
    return 0;
  }
  DOCOFL_REQUIRE(fuzz::is_float32(tensor));
  const double norm = euclidean_norm(x.data(), x.size());
  DOCOFL_REQUIRE(std::isfinite(norm));
  if (!std::isfinite(grid.norm)) grid.norm = norm;

  std::vector<std::int32_t> multiples(x.size());
  qsgd_quantize(grid, x.data(), x.size(), key, multiples.data());
  const QsgdCost cost = qsgd_cost(grid, x.data(), x.size(), key);
  DOCOFL_REQUIRE(cost.variance >= 0);
  check_stream(multiples, false, cost.dense);
  check_stream(multiples, true, cost.sparse);
  if (grid.norm < norm) return 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    // One of the two multiples around it.
    const double steps = static_cast<double>(x[i]) * grid.levels / (grid.norm > 0 ? grid.norm : 1);
    DOCOFL_REQUIRE(std::fabs(multiples[i] - steps) <= 1 + 1e-6 * std::fabs(steps));
  }
  return 0;
}
