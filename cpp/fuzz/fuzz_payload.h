#pragma once

#include <cstddef>
#include <cstdint>

#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/error.h"
#include "docofl/frame.h"
#include "docofl/identity.h"
#include "fuzz_input.h"
#include "fuzz_tensor.h"

// Payloads without the frame around them, so that no mutation is lost on the size of the payload
// or the checksum: a byte for the dtypes, three for the number of coordinates, the payload.
namespace docofl {
namespace fuzz {

// Enough for several blocks and streams; what claims more is inspected alone.
constexpr std::size_t kMaxDecoded = 200000;

class PayloadInput {
 public:
  PayloadInput(FuzzInput* input, CodecId codec, std::uint8_t version) {
    const auto dtypes = input->take<std::uint8_t>();
    const auto low = input->take<std::uint16_t>();
    const auto high = input->take<std::uint8_t>();
    payload_ = input->take_rest();
    frame_.header.version = version;
    frame_.header.codec = codec;
    frame_.header.dtype = dtype_of(dtypes);
    frame_.size = low | std::size_t(high) << 16;
    frame_.header.shape = {frame_.size};
    frame_.payload = view_of(payload_);
    // Decoders write the frame's dtype, float32 or float64.
    const unsigned choice = (dtypes >> 2) % 3;
    out_dtype_ = choice == 0   ? frame_.header.dtype
                 : choice == 1 ? DType::kFloat32
                               : DType::kFloat64;
  }
  PayloadInput(const PayloadInput&) = delete;
  PayloadInput& operator=(const PayloadInput&) = delete;

  const Frame& frame() const { return frame_; }
  DType out_dtype() const { return out_dtype_; }

  // The input that gives the frame, decoded to its own dtype.
  static Bytes from_frame(const Frame& frame) {
    Bytes bytes;
    put(&bytes, static_cast<std::uint8_t>(frame.header.dtype));
    put(&bytes, static_cast<std::uint16_t>(frame.size));
    put(&bytes, static_cast<std::uint8_t>(frame.size >> 16));
    bytes.insert(bytes.end(), frame.payload.data, frame.payload.data + frame.payload.size);
    return bytes;
  }

 private:
  Bytes payload_;
  Frame frame_;
  DType out_dtype_ = DType::kFloat32;
};

// Checks the parameters of the core's payloads.
inline void inspect(const Frame& frame) {
  if (has_ecuq_payload(frame.header.codec)) ecuq_inspect(frame);
  if (frame.header.codec == CodecId::kEden) eden_inspect(frame);
}

inline void decode(const Frame& frame, int threads, FuzzTensor* out) {
  if (frame.header.codec == CodecId::kEden) {
    eden_decode(frame, out->mutable_view(), threads);
  } else if (frame.header.codec == CodecId::kIdentity) {
    identity_decode(frame, out->mutable_view(), threads);
  } else {
    ecuq_decode(frame, out->mutable_view(), threads);
  }
}

// An Error, or finite values. A payload that does not pass inspection does not decode.
inline void check_decoder(const Frame& frame, DType out_dtype) {
  bool inspected = false;
  try {
    inspect(frame);
    inspected = true;
    if (frame.size > kMaxDecoded) return;
    FuzzTensor out(frame.size, out_dtype);
    decode(frame, 1, &out);
    DOCOFL_REQUIRE(is_finite(out));
  } catch (const Error& error) {
    DOCOFL_REQUIRE(error.kind() != ErrorKind::kInvalidInput);
    if (inspected || frame.size > kMaxDecoded) return;
    try {
      FuzzTensor out(frame.size, out_dtype);
      decode(frame, 1, &out);
    } catch (const Error&) {
      return;
    }
    DOCOFL_REQUIRE(inspected);
  }
}

}  // namespace fuzz
}  // namespace docofl
