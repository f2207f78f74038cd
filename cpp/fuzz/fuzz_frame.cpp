#include <cstring>

#include "docofl/error.h"
#include "docofl/frame.h"
#include "fuzz_input.h"
#include "fuzz_payload.h"

// Whole frames, as the bindings read them: header, parameters, values. The checksum is made valid,
// or not looked at (FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::Bytes bytes(data, data + size);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  if (size >= kChecksumBytes) seal_frame(bytes.data(), size, 1);
#endif
  try {
    const Frame frame = parse_frame(fuzz::view_of(bytes));
    DOCOFL_REQUIRE(frame.payload.data >= bytes.data());
    DOCOFL_REQUIRE(frame.payload.data + frame.payload.size + kChecksumBytes == bytes.data() + size);
    DOCOFL_REQUIRE(checked_size(frame.header.shape, frame.header.dtype) == frame.size);
    // There is one way to write a header.
    fuzz::Bytes again(frame_size(frame.header, frame.payload.size));
    DOCOFL_REQUIRE(again.size() == size);
    const std::uint8_t* payload =
        write_frame_header(frame.header, frame.payload.size, again.data());
    DOCOFL_REQUIRE(std::memcmp(again.data(), bytes.data(),
                               static_cast<std::size_t>(payload - again.data())) == 0);
    if (!has_foreign_payload(frame.header.codec)) fuzz::check_decoder(frame, frame.header.dtype);
  } catch (const Error& error) {
    DOCOFL_REQUIRE(error.kind() != ErrorKind::kInvalidInput);
    DOCOFL_REQUIRE(error.kind() != ErrorKind::kLimitExceeded);
  }
  return 0;
}
