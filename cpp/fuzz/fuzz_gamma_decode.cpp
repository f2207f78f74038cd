#include <vector>

#include "docofl/baselines.h"
#include "docofl/error.h"
#include "fuzz_input.h"

// Streams of Elias gamma words: a byte that is odd for a sparse one, the number of coordinates, the
// stream.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const bool sparse = input.take<std::uint8_t>() % 2 == 1;
  const std::size_t n = input.take<std::uint16_t>();
  const fuzz::Bytes stream = input.take_rest();
  std::vector<std::int32_t> multiples(n, -1);
  std::size_t used = 0;
  try {
    used = gamma_decode(fuzz::view_of(stream), n, sparse, multiples.data());
  } catch (const Error& error) {
    DOCOFL_REQUIRE(error.kind() == ErrorKind::kCorruptFrame ||
                   error.kind() == ErrorKind::kTruncatedFrame);
    return 0;
  }
  // There is one way to write a stream.
  DOCOFL_REQUIRE(used <= stream.size());
  const fuzz::Bytes again = gamma_encode(multiples.data(), n, sparse);
  DOCOFL_REQUIRE(again ==
                 fuzz::Bytes(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(used)));
  return 0;
}
