#include <optional>

#include "docofl/error.h"
#include "fuzz_payload.h"
#include "fuzz_variants.h"

namespace docofl {
namespace {

std::optional<fuzz::FuzzTensor> decoded(const fuzz::PayloadInput& payload, int threads) {
  try {
    fuzz::FuzzTensor out(payload.frame().size, payload.out_dtype());
    fuzz::decode(payload.frame(), threads, &out);
    return out;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace
}  // namespace docofl

// Payloads of every decoder: the same values, or an Error, at every ISA level and thread count.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const auto choice = input.take<std::uint8_t>() % 4;
  constexpr CodecId kCodecs[] = {CodecId::kEcuq, CodecId::kEcuq, CodecId::kEden, CodecId::kEcq};
  constexpr std::uint8_t kVersions[] = {1, 2, 1, 2};
  const fuzz::PayloadInput payload(&input, kCodecs[choice], kVersions[choice]);
  if (payload.frame().size > fuzz::kMaxDecoded) return 0;
  bool is_first = true;
  std::optional<fuzz::FuzzTensor> first;
  fuzz::for_each_variant([&](int threads) {
    std::optional<fuzz::FuzzTensor> now = decoded(payload, threads);
    if (is_first) {
      first = std::move(now);
      is_first = false;
    } else {
      DOCOFL_REQUIRE(first == now);
    }
  });
  return 0;
}
