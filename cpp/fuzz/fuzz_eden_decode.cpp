#include <vector>

#include "docofl/eden.h"
#include "docofl/error.h"
#include "fuzz_payload.h"

// EDEN payloads of both kinds, alone and in a weighted sum.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const fuzz::PayloadInput payload(&input, CodecId::kEden, 1);
  const Frame& frame = payload.frame();
  fuzz::check_decoder(frame, payload.out_dtype());
  if (frame.size > fuzz::kMaxDecoded) return 0;
  try {
    std::vector<float> sum(frame.size);
    eden_decode_sum({frame, frame}, {0.25, -3.0}, false, sum.data(), 1);
    eden_decode_sum({frame}, {0.5}, true, sum.data(), 1);
  } catch (const Error&) {
  }
  return 0;
}
