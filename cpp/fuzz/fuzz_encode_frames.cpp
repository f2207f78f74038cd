#include <optional>
#include <vector>

#include "docofl/ecuq.h"
#include "docofl/error.h"
#include "fuzz_options.h"

namespace docofl {
namespace {

constexpr std::size_t kMaxTensors = 4;

// One frame after the other; none where a tensor is refused.
std::optional<fuzz::Bytes> one_by_one(const std::vector<fuzz::FuzzTensor>& tensors,
                                      const EcuqOptions& options) {
  fuzz::Bytes all;
  for (const fuzz::FuzzTensor& tensor : tensors) {
    try {
      const fuzz::Bytes frame = fuzz::encode(tensor, options);
      all.insert(all.end(), frame.begin(), frame.end());
    } catch (const Error& error) {
      DOCOFL_REQUIRE(error.kind() == ErrorKind::kInvalidInput);
      return std::nullopt;
    }
  }
  return all;
}

// Any room: too small is told, and in all others are the same frames.
void check_room(const std::vector<EcuqInput>& inputs, const EcuqOptions& options,
                const std::optional<fuzz::Bytes>& expected, std::size_t room_size) {
  fuzz::Bytes room(room_size);
  std::vector<std::size_t> sizes;
  try {
    sizes = ecuq_encode_frames(inputs, options, {room.data(), room.size()});
  } catch (const Error& error) {
    DOCOFL_REQUIRE(error.kind() == ErrorKind::kInvalidInput);
    DOCOFL_REQUIRE(!expected);
    return;
  }
  DOCOFL_REQUIRE(expected && sizes.size() == inputs.size());
  std::size_t total = 0;
  for (const std::size_t size : sizes) total += size;
  DOCOFL_REQUIRE(total == expected->size());
  if (total > room.size()) return;
  room.resize(total);
  DOCOFL_REQUIRE(room == *expected);
}

}  // namespace
}  // namespace docofl

// Several tensors with any options, side by side on three threads: what they give one by one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const std::size_t count = 1 + input.take<std::uint8_t>() % kMaxTensors;
  fuzz::EncodeInput with(&input);
  with.ask_for_step();
  EcuqOptions options = fuzz::take_ecuq_options(&input, with);
  std::vector<fuzz::FuzzTensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    const fuzz::EncodeInput own = i == 0 ? with : fuzz::EncodeInput(&input);
    const fuzz::Bytes pattern =
        i + 1 < count ? input.take_bytes(fuzz::kSharedPattern) : input.take_rest();
    fuzz::FuzzInput values(pattern.data(), pattern.size());
    tensors.push_back(fuzz::take_tensor(&values, own.dtype(), own.extent));
  }
  const std::optional<fuzz::Bytes> expected = one_by_one(tensors, options);
  std::vector<EcuqInput> inputs;
  for (const fuzz::FuzzTensor& tensor : tensors) {
    inputs.push_back({fuzz::header_of(tensor, CodecId::kEcuq), tensor.view()});
  }
  options.threads = 3;
  const std::size_t total = expected ? expected->size() : 0;
  check_room(inputs, options, expected, total);
  check_room(inputs, options, expected, total / 2);
  check_room(inputs, options, expected, total + 100);
  return 0;
}
