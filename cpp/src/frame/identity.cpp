#include "docofl/identity.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "common/endian.h"
#include "common/float_mode.h"
#include "common/source.h"
#include "docofl/error.h"

namespace docofl {
namespace {

// Copies values to or from little-endian bytes.
void copy_values(const void* from, std::size_t size, std::size_t item, void* to) {
  if (size == 0) return;
  std::memcpy(to, from, size * item);
  if (!kBigEndian) return;
  std::uint8_t* bytes = static_cast<std::uint8_t*>(to);
  for (std::size_t i = 0; i < size * item; i += item) {
    for (std::size_t a = 0, b = item - 1; a < b; ++a, --b) std::swap(bytes[i + a], bytes[i + b]);
  }
}

// By way of float32, from a copy that is aligned.
void convert_values(const Frame& frame, const MutableTensorView& out) {
  constexpr std::size_t kPiece = 1024;
  double aligned[kPiece];
  float values[kPiece];
  const DType dtype = frame.header.dtype;
  const std::size_t item = item_size(dtype);
  for (std::size_t begin = 0; begin < frame.size; begin += kPiece) {
    const std::size_t count = std::min(kPiece, frame.size - begin);
    copy_values(frame.payload.data + begin * item, count, item, aligned);
    store_values(load_values({aligned, count, dtype}, 0, count, values), count, out, begin);
  }
}

}  // namespace

void identity_encode(const FrameHeader& header, const TensorView& tensor, int threads,
                     std::uint8_t* out) {
  const std::size_t bytes = tensor.size * item_size(tensor.dtype);
  check_finite(tensor, threads);
  std::uint8_t* payload = write_frame_header(header, bytes, out);
  copy_values(tensor.data, tensor.size, item_size(tensor.dtype), payload);
  seal_frame(out, frame_size(header, bytes), threads);
}

void identity_decode(const Frame& frame, const MutableTensorView& out, int threads) {
  const DefaultFloatMode float_mode;
  if (out.dtype == frame.header.dtype) {
    copy_values(frame.payload.data, frame.size, item_size(frame.header.dtype), out.data);
  } else {
    convert_values(frame, out);
  }
  try {
    check_finite({out.data, out.size, out.dtype}, threads);
  } catch (const Error& error) {
    throw Error(ErrorKind::kCorruptFrame, std::string("identity payload: ") + error.what());
  }
}

}  // namespace docofl
