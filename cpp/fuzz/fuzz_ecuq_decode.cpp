#include "fuzz_payload.h"

// ECUQ payloads of version 1: the Huffman coder.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  docofl::fuzz::FuzzInput input(data, size);
  const docofl::fuzz::PayloadInput payload(&input, docofl::CodecId::kEcuq, 1);
  docofl::fuzz::check_decoder(payload.frame(), payload.out_dtype());
  return 0;
}
