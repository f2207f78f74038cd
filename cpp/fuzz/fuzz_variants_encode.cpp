#include <optional>

#include "docofl/error.h"
#include "fuzz_options.h"
#include "fuzz_variants.h"

namespace docofl {
namespace {

template <class Options>
void check_variants(const fuzz::FuzzTensor& tensor, Options options) {
  bool is_first = true;
  std::optional<fuzz::Bytes> first;
  fuzz::for_each_variant([&](int threads) {
    options.threads = threads;
    std::optional<fuzz::Bytes> now;
    try {
      now = fuzz::encode(tensor, options);
    } catch (const Error&) {
    }
    if (is_first) {
      first = std::move(now);
      is_first = false;
    } else {
      DOCOFL_REQUIRE(first == now);
    }
  });
}

}  // namespace
}  // namespace docofl

// Any values with any options: the same frame, or an Error, at every ISA level and thread count.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const bool is_eden = input.take<std::uint8_t>() % 2 == 1;
  const fuzz::EncodeInput with(&input);
  if (is_eden) {
    const EdenOptions options = fuzz::take_eden_options(&input, with);
    check_variants(fuzz::take_tensor(&input, with.dtype(), with.extent), options);
  } else {
    const EcuqOptions options = fuzz::take_ecuq_options(&input, with);
    check_variants(fuzz::take_tensor(&input, with.dtype(), with.extent), options);
  }
  return 0;
}
