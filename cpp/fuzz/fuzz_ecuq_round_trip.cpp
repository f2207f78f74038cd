#include <algorithm>
#include <cmath>
#include <vector>

#include "docofl/ecuq.h"
#include "docofl/error.h"
#include "docofl/frame.h"
#include "fuzz_options.h"
#include "fuzz_payload.h"

namespace docofl {
namespace {

// How many steps a value may be off with dependent levels: a path through the quantizers is chosen
// for all values together.
constexpr double kDependentSteps = 8;

double dtype_rounding(DType dtype, double value) {
  const double magnitude = std::fabs(value);
  if (dtype == DType::kFloat16) return 0x1p-11 * magnitude + 0x1p-25;
  if (dtype == DType::kBFloat16) return 0x1p-8 * magnitude + 0x1p-134;
  return 0;
}

// How far a value may be restored from where it was: half a step, or a step where levels lie at the
// means of their values, and what rounding adds
// (docs/format.md, section 3.1), in the grid's arithmetic and to the frame's dtype.
double error_bound(const EcuqInfo& info, double restored, double largest_value) {
  const double x_min = info.x_min, x_max = info.x_max;
  const double range = x_max - x_min;
  const double largest = std::max(std::fabs(x_min), std::fabs(x_max));
  const double magnitude = std::fabs(restored);
  if (info.transformed) {
    // Errors of a run's coefficients may add up, as those of 16 orthogonal vectors do.
    return 4 * kDependentSteps * info.step + 0x1p-18 * largest_value + 0x1p-149;
  }
  if (info.rans) {
    return (info.dependent ? kDependentSteps : 1) * info.step + 0x1p-23 * magnitude + 0x1p-149;
  }
  const bool narrow = info.num_levels <= 1 << 14 && range >= 0x1p-96 && range <= 0x1p96;
  const double bound = info.step * ((info.centroids ? 1 : 0.5) + 0x1p-20) + 0x1p-149;
  return bound +
         (narrow ? 0x1p-24 * (6 * range + largest) : 0x1p-24 * magnitude + 0x1p-50 * largest);
}

// What the encoder may refuse.
bool is_refusable(const fuzz::FuzzTensor& tensor, const EcuqOptions& options) {
  return !fuzz::is_float32(tensor) || options.budget == Budget::kNone ||
         (options.budget == Budget::kEntropy && options.quality == Quality::kBest);
}

void check_frame(const fuzz::FuzzTensor& tensor, const EcuqOptions& options,
                 const fuzz::Bytes& bytes) {
  const Frame frame = parse_frame(fuzz::view_of(bytes));
  DOCOFL_REQUIRE(frame.size == tensor.size() && frame.header.dtype == tensor.dtype());
  const EcuqInfo info = ecuq_inspect(frame);
  if (options.budget == Budget::kBytes) {
    // docs/format.md, section 6.
    DOCOFL_REQUIRE(8.0 * static_cast<double>(bytes.size()) <=
                   options.bits * static_cast<double>(tensor.size()) + 8 * (64 + 10));
  }
  if (options.budget == Budget::kEntropy) DOCOFL_REQUIRE(info.entropy <= options.bits + 1e-6);

  fuzz::FuzzTensor restored(tensor.size(), tensor.dtype());
  fuzz::decode(frame, 1, &restored);
  const std::vector<double> before = tensor.values();
  const std::vector<double> after = restored.values();
  double largest = 0;
  for (const double value : before) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < before.size(); ++i) {
    DOCOFL_REQUIRE(std::isfinite(after[i]));
    // float64 is coded as float32.
    const double exact = static_cast<double>(static_cast<float>(before[i]));
    if (info.explicit_levels) {
      DOCOFL_REQUIRE(after[i] == exact);
    } else {
      DOCOFL_REQUIRE(std::fabs(after[i] - exact) <= error_bound(info, after[i], largest) +
                                                        dtype_rounding(tensor.dtype(), after[i]));
    }
  }
}

}  // namespace
}  // namespace docofl

// Any values with any options: an Error for a reason, or a frame within its budget, with values
// within their bound.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const fuzz::EncodeInput with(&input);
  const EcuqOptions options = fuzz::take_ecuq_options(&input, with);
  const fuzz::FuzzTensor tensor = fuzz::take_tensor(&input, with.dtype(), with.extent);
  fuzz::Bytes bytes;
  try {
    bytes = fuzz::encode(tensor, options);
  } catch (const Error& error) {
    DOCOFL_REQUIRE(error.kind() == ErrorKind::kInvalidInput);
    DOCOFL_REQUIRE(is_refusable(tensor, options));
    return 0;
  }
  DOCOFL_REQUIRE(fuzz::is_float32(tensor));
  check_frame(tensor, options, bytes);
  return 0;
}
