#include <cstring>
#include <string>

#include "common/byte_io.h"
#include "common/checked.h"
#include "common/checksum.h"
#include "docofl/error.h"
#include "docofl/frame.h"

namespace docofl {
namespace {

constexpr std::uint8_t kMagic[3] = {0xD0, 0xC0, 0xF1};
constexpr std::uint8_t kCriticalFlags = 0xF0;
constexpr std::size_t kFixedHeaderBytes = 8;
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t(1) << 62;

[[noreturn]] void unsupported(const std::string& message) {
  throw Error(ErrorKind::kUnsupportedFrame, message);
}

bool is_codec(std::uint8_t id) {
  return id <= static_cast<std::uint8_t>(CodecId::kEden) ||
         (id >= static_cast<std::uint8_t>(CodecId::kHadamardSq) &&
          id <= static_cast<std::uint8_t>(CodecId::kEcKMeans));
}

// Sets `size` to the product of the shape and returns true, or returns false where the format
// cannot hold it. Zero dimensions do not hide an overflow of the others.
bool shape_size(const std::vector<std::uint64_t>& shape, DType dtype, std::size_t* size) {
  std::uint64_t bytes = item_size(dtype);
  bool empty = false;
  for (const std::uint64_t dim : shape) {
    if (dim == 0) {
      empty = true;
    } else if (!checked_multiply(bytes, dim, &bytes) || bytes >= kMaxTensorBytes) {
      return false;
    }
  }
  *size = empty ? 0 : static_cast<std::size_t>(bytes / item_size(dtype));
  return true;
}

}  // namespace

std::size_t checked_size(const std::vector<std::uint64_t>& shape, DType dtype) {
  std::size_t size = 0;
  if (shape.size() > kMaxDims || !shape_size(shape, dtype, &size)) {
    throw Error(ErrorKind::kInvalidInput,
                "shape: found " + std::to_string(shape.size()) +
                    " dimensions, expected at most 32 and fewer than 2^62 bytes");
  }
  return size;
}

Frame parse_frame(ByteView bytes, int threads) {
  ByteReader reader(bytes);
  if (std::memcmp(reader.take(3, "magic"), kMagic, 3) != 0) {
    throw Error(ErrorKind::kCorruptFrame,
                "magic at byte 0: expected D0 C0 F1, found other bytes; "
                "this is not a docofl frame");
  }
  const auto version = reader.read<std::uint8_t>("version");
  if (version == 0 || version > kFormatVersion) {
    unsupported("version at byte 3: found " + std::to_string(version) + ", expected 1 to " +
                std::to_string(kFormatVersion));
  }
  const auto codec = reader.read<std::uint8_t>("codec");
  if (!is_codec(codec)) {
    unsupported("codec at byte 4: found id " + std::to_string(codec) +
                ", expected 0 to 2 or 16 to 23");
  }
  const auto dtype = reader.read<std::uint8_t>("dtype");
  if (dtype >= kNumDTypes) {
    unsupported("dtype at byte 5: found id " + std::to_string(dtype) + ", expected 0 to 3");
  }
  Frame frame;
  frame.header.version = version;
  frame.header.codec = static_cast<CodecId>(codec);
  frame.header.dtype = static_cast<DType>(dtype);
  frame.header.flags = reader.read<std::uint8_t>("flags");
  if (frame.header.flags & kCriticalFlags) {
    unsupported("flags at byte 6: found the critical bits " +
                std::to_string(frame.header.flags & kCriticalFlags) + ", expected none");
  }
  const auto ndim = reader.read<std::uint8_t>("ndim");
  if (ndim > kMaxDims) {
    throw Error(ErrorKind::kCorruptFrame,
                "ndim at byte 7: found " + std::to_string(ndim) + ", expected at most 32");
  }
  for (std::uint8_t i = 0; i < ndim; ++i) frame.header.shape.push_back(reader.read_varint("shape"));
  if (!shape_size(frame.header.shape, frame.header.dtype, &frame.size)) {
    throw Error(ErrorKind::kCorruptFrame, "shape: expected fewer than 2^62 bytes of values");
  }
  const std::uint64_t payload_size = reader.read_varint("payload size");
  if (payload_size > reader.remaining() || reader.remaining() - payload_size < kChecksumBytes) {
    throw Error(ErrorKind::kTruncatedFrame, "payload: expected " + std::to_string(payload_size) +
                                                " bytes and a checksum of 4, found " +
                                                std::to_string(reader.remaining()));
  }
  frame.payload = {reader.take(static_cast<std::size_t>(payload_size), "payload"),
                   static_cast<std::size_t>(payload_size)};
  if (reader.remaining() != kChecksumBytes) {
    throw Error(ErrorKind::kCorruptFrame, "end of frame: found " +
                                              std::to_string(reader.remaining() - kChecksumBytes) +
                                              " bytes after the checksum, expected none");
  }
  if (frame.header.codec == CodecId::kIdentity) {
    const std::size_t expected = frame.size * item_size(frame.header.dtype);
    if (frame.payload.size != expected) {
      throw Error(ErrorKind::kCorruptFrame, "identity payload: found " +
                                                std::to_string(frame.payload.size) +
                                                " bytes, expected " + std::to_string(expected));
    }
  }
  if (has_foreign_payload(frame.header.codec)) {
    const std::size_t least = divide_up(frame.size, kCoordinatesPerByte);
    if (frame.payload.size < least || (frame.size == 0 && frame.payload.size > 0)) {
      throw Error(ErrorKind::kCorruptFrame,
                  "payload: found " + std::to_string(frame.payload.size) + " bytes for " +
                      std::to_string(frame.size) + " coordinates, expected " +
                      (frame.size == 0 ? "none" : "at least " + std::to_string(least)));
    }
  }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  const std::uint32_t computed = frame_checksum(bytes.data, reader.position(), threads);
  const auto stored = reader.read<std::uint32_t>("checksum");
  if (computed != stored) {
    throw Error(ErrorKind::kCorruptFrame, "checksum: found " + std::to_string(stored) +
                                              ", expected " + std::to_string(computed) +
                                              "; the bytes were damaged on their way");
  }
#endif
  return frame;
}

std::size_t frame_size(const FrameHeader& header, std::size_t payload_size) {
  std::size_t size = kFixedHeaderBytes + varint_size(payload_size) + payload_size + kChecksumBytes;
  for (const std::uint64_t dim : header.shape) size += varint_size(dim);
  return size;
}

std::uint8_t* write_frame_header(const FrameHeader& header, std::size_t payload_size,
                                 std::uint8_t* out) {
  std::memcpy(out, kMagic, 3);
  out[3] = header.version;
  out[4] = static_cast<std::uint8_t>(header.codec);
  out[5] = static_cast<std::uint8_t>(header.dtype);
  out[6] = header.flags;
  out[7] = static_cast<std::uint8_t>(header.shape.size());
  out += kFixedHeaderBytes;
  for (const std::uint64_t dim : header.shape) out = write_varint(out, dim);
  return write_varint(out, payload_size);
}

void write_frame(const FrameHeader& header, ByteView payload, int threads, std::uint8_t* out) {
  std::uint8_t* place = write_frame_header(header, payload.size, out);
  if (payload.size > 0) std::memcpy(place, payload.data, payload.size);
  seal_frame(out, frame_size(header, payload.size), threads);
}

void seal_frame(std::uint8_t* frame, std::size_t size, int threads) {
  const std::size_t body = size - kChecksumBytes;
  store_le(frame + body, frame_checksum(frame, body, threads));
}

}  // namespace docofl
