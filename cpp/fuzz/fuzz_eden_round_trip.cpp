#include <cmath>
#include <vector>

#include "docofl/eden.h"
#include "docofl/error.h"
#include "docofl/frame.h"
#include "fuzz_options.h"
#include "fuzz_payload.h"

namespace docofl {
namespace {

constexpr std::size_t kChunk = 16;  // what is left over of whole ones is kept as it is

// Squares of values of this magnitude add up far from the ends of double and float32: roundings
// are relative to the values.
bool is_moderate(const std::vector<double>& values) {
  for (const double value : values) {
    const double magnitude = std::fabs(value);
    if (magnitude != 0 && !(magnitude > 0x1p-60 && magnitude < 0x1p60)) return false;
  }
  return true;
}

void check_frame(const fuzz::FuzzTensor& tensor, const EdenOptions& options,
                 const fuzz::Bytes& bytes) {
  const std::size_t size = tensor.size();
  // docs/format.md, section 6.
  const double blocks = std::floor(static_cast<double>(size) / 32768) + 11;
  DOCOFL_REQUIRE(8.0 * static_cast<double>(bytes.size()) <=
                 options.bits * static_cast<double>(size) + 8 * (176 + 10 + 6 * blocks));
  const Frame frame = parse_frame(fuzz::view_of(bytes));
  DOCOFL_REQUIRE(frame.size == size && frame.header.dtype == tensor.dtype());
  if (size > 0) DOCOFL_REQUIRE(eden_inspect(frame).seed == options.seed);

  fuzz::FuzzTensor restored(size, tensor.dtype());
  fuzz::decode(frame, 1, &restored);
  DOCOFL_REQUIRE(fuzz::is_finite(restored));
  const std::vector<double> before = tensor.values();
  const std::vector<double> after = restored.values();
  for (std::size_t i = size - size % kChunk; i < size; ++i) {
    DOCOFL_REQUIRE(after[i] == static_cast<double>(static_cast<float>(before[i])));
  }
  // The scale of least error gives no more than that of zeros.
  if (options.scale != EdenScale::kMse || !is_moderate(before)) return;
  double error = 0, energy = 0;
  for (std::size_t i = 0; i < size; ++i) {
    error += (before[i] - after[i]) * (before[i] - after[i]);
    energy += before[i] * before[i];
  }
  DOCOFL_REQUIRE(error <= 1.001 * energy);
}

}  // namespace
}  // namespace docofl

// Any values with any options: an Error for a reason, or a frame within its budget that gives
// finite values.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const fuzz::EncodeInput with(&input);
  const EdenOptions options = fuzz::take_eden_options(&input, with);
  const fuzz::FuzzTensor tensor = fuzz::take_tensor(&input, with.dtype(), with.extent);
  fuzz::Bytes bytes;
  try {
    bytes = fuzz::encode(tensor, options);
  } catch (const Error& error) {
    DOCOFL_REQUIRE(error.kind() == ErrorKind::kInvalidInput);
    DOCOFL_REQUIRE(!is_moderate(tensor.values()));
    return 0;
  }
  DOCOFL_REQUIRE(fuzz::is_float32(tensor));
  check_frame(tensor, options, bytes);
  return 0;
}
