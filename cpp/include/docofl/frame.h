#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/tensor.h"

namespace docofl {

// Versions of the format. A frame states the least one that has all it uses.
constexpr std::uint8_t kFormatVersion = 2;
constexpr std::size_t kMaxDims = 32;
constexpr std::size_t kChecksumBytes = 4;

// The flag bits that a reader may ignore.
constexpr std::uint8_t kFlagTorch = 0x01;

enum class CodecId : std::uint8_t {
  kIdentity = 0,
  kEcuq = 1,
  kEden = 2,
  // The baselines, in a range of their own (docs/format.md, section 9).
  kHadamardSq = 16,
  kKashinSq = 17,
  kQsgd = 18,
  kRandK = 19,
  kTopK = 20,
  kCountSketch = 21,
  kEcq = 22,
  kEcKMeans = 23,
};

// The payload is ECUQ's.
constexpr bool has_ecuq_payload(CodecId codec) {
  return codec == CodecId::kEcuq || codec == CodecId::kEcq || codec == CodecId::kEcKMeans;
}

// The payload is read by the caller; parse_frame checks its size alone.
constexpr bool has_foreign_payload(CodecId codec) {
  return codec >= CodecId::kHadamardSq && codec <= CodecId::kCountSketch;
}

// A foreign payload has a byte for each so many coordinates, which bounds what a frame can claim.
constexpr std::size_t kCoordinatesPerByte = 8192;

// What the first section of docs/format.md holds.
struct FrameHeader {
  std::uint8_t version = 1;
  CodecId codec = CodecId::kIdentity;
  DType dtype = DType::kFloat32;
  std::uint8_t flags = 0;
  std::vector<std::uint64_t> shape;
};

// A parsed frame: the header and where the payload lies in the caller's bytes.
struct Frame {
  FrameHeader header;
  std::size_t size = 0;  // number of coordinates, the product of the shape
  ByteView payload;
};

// Parses and checks everything before the payload and verifies the checksum. Time is linear in
// the bytes given, memory does not depend on them. Throws Error.
Frame parse_frame(ByteView bytes, int threads = 1);

// Number of coordinates. Throws Error(kInvalidInput) where the format cannot hold the shape.
std::size_t checked_size(const std::vector<std::uint64_t>& shape, DType dtype);

// Exact size of a whole frame around a payload.
std::size_t frame_size(const FrameHeader& header, std::size_t payload_size);

// Writes everything before the payload and returns where the payload starts.
// `out` must have room for frame_size(header, payload_size) bytes.
std::uint8_t* write_frame_header(const FrameHeader& header, std::size_t payload_size,
                                 std::uint8_t* out);

// Writes a whole frame of frame_size(header, payload.size) bytes around a payload.
void write_frame(const FrameHeader& header, ByteView payload, int threads, std::uint8_t* out);

// Writes the checksum into the last bytes of a frame that is complete otherwise.
void seal_frame(std::uint8_t* frame, std::size_t size, int threads);

}  // namespace docofl
