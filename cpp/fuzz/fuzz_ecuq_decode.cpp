#include "ecuq/payload_fields.h"
#include "fuzz_payload.h"

// ECUQ payloads with the Huffman coder, of version 2, which has all that version 1 has.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  docofl::fuzz::FuzzInput input(data, size);
  const docofl::fuzz::PayloadInput payload(&input, docofl::CodecId::kEcuq, docofl::kSecondVersion);
  docofl::fuzz::check_decoder(payload.frame(), payload.out_dtype());
  return 0;
}
