#include "eden/eden_payload.h"

#include <cmath>
#include <string>

#include "common/byte_io.h"
#include "docofl/error.h"
#include "eden/codebooks.h"
#include "eden/rotation.h"

namespace docofl {
namespace {

constexpr std::uint8_t kModeFixed = 0;
constexpr std::uint8_t kModeEntropy = 1;
constexpr std::size_t kFixedBytes = 18;
constexpr std::size_t kMinDroppingChunks = 16;

[[noreturn]] void corrupt(const std::string& message) {
  throw Error(ErrorKind::kCorruptFrame, "EDEN " + message);
}

float read_value(ByteReader* reader, const char* field) {
  const float value = reader->read<float>(field);
  if (!std::isfinite(value)) {
    throw Error(ErrorKind::kCorruptFrame, std::string(field) + " before payload byte " +
                                              std::to_string(reader->position()) +
                                              ": expected a finite number");
  }
  return value;
}

}  // namespace

std::size_t EdenWidths::wide_chunks(std::size_t num_chunks) const {
  // Estimates from a part of a small block would be biased.
  if (width == 0 && num_chunks < kMinDroppingChunks) return num_chunks;
  const std::uint64_t scaled = static_cast<std::uint64_t>(num_chunks) * wide_fraction;
  return static_cast<std::size_t>((scaled + 0xffffffffu) >> 32);
}

std::size_t EdenWidths::word_bytes(std::size_t num_chunks) const {
  return kEdenChunk / 8 * (num_chunks * width + wide_chunks(num_chunks));
}

std::size_t eden_header_size(std::size_t size) {
  return kFixedBytes + sizeof(float) * (num_rotation_blocks(size) + size - rotated_size(size));
}

std::vector<std::size_t> eden_block_offsets(const EdenWidths& widths, std::size_t size) {
  const std::size_t blocks = num_rotation_blocks(size);
  std::vector<std::size_t> offsets(blocks + 1, 0);
  for (std::size_t number = 0; number < blocks; ++number) {
    const std::size_t num_chunks = rotation_block(size, number).size / kEdenChunk;
    offsets[number + 1] = offsets[number] + widths.word_bytes(num_chunks);
  }
  return offsets;
}

std::uint8_t* write_eden_header(const EdenPayload& payload, std::uint8_t* out) {
  *out++ = payload.entropy_coded ? kModeEntropy : kModeFixed;
  *out++ = static_cast<std::uint8_t>(payload.widths.width);
  out = write_le(out, payload.widths.wide_fraction);
  out = write_le(out, payload.bits);
  out = write_le(out, payload.seed);
  for (const float scale : payload.scales) out = write_le(out, scale);
  for (const float value : payload.tail) out = write_le(out, value);
  return out;
}

EdenPayload read_eden_payload(const Frame& frame) {
  EdenPayload payload;
  if (frame.size == 0) {
    if (frame.payload.size != 0) corrupt("payload: expected none for an empty tensor");
    return payload;
  }
  // 1. Parameters.
  ByteReader reader(frame.payload);
  const auto mode = reader.read<std::uint8_t>("EDEN mode");
  if (mode > kModeEntropy) {
    throw Error(ErrorKind::kUnsupportedFrame,
                "EDEN mode: found " + std::to_string(mode) + ", expected 0 or 1");
  }
  payload.entropy_coded = mode == kModeEntropy;
  EdenWidths& widths = payload.widths;
  widths.width = reader.read<std::uint8_t>("EDEN width");
  widths.wide_fraction = reader.read<std::uint32_t>("EDEN wide fraction");
  const bool is_none = widths.width == 0 && widths.wide_fraction == 0;
  if (widths.width > kMaxEdenWidth || is_none != payload.entropy_coded ||
      (widths.width == kMaxEdenWidth && widths.wide_fraction != 0)) {
    corrupt("width and wide fraction: found " + std::to_string(widths.width) + " and " +
            std::to_string(widths.wide_fraction) +
            ", expected more than 0 and at most 8 bits, or none when entropy-coded");
  }
  payload.bits = read_value(&reader, "EDEN bits");
  if (!(payload.bits > 0)) corrupt("bits: expected a positive number");
  payload.seed = reader.read<std::uint64_t>("EDEN seed");

  // 2. The size of the rest, before memory is taken for it.
  const std::size_t blocks = num_rotation_blocks(frame.size);
  const std::size_t tail = frame.size - rotated_size(frame.size);
  if (blocks + tail > reader.remaining() / sizeof(float)) {
    throw Error(ErrorKind::kTruncatedFrame,
                "EDEN scales: " + std::to_string(frame.size) + " coordinates need " +
                    std::to_string(blocks + tail) + " scales and exact values, found " +
                    std::to_string(reader.remaining()) + " bytes");
  }
  payload.scales.reserve(blocks);
  for (std::size_t i = 0; i < blocks; ++i) {
    payload.scales.push_back(read_value(&reader, "EDEN scale"));
    if (std::signbit(payload.scales.back())) corrupt("scale: expected no negative number");
  }
  payload.tail.reserve(tail);
  for (std::size_t i = 0; i < tail; ++i) {
    payload.tail.push_back(read_value(&reader, "EDEN exact value"));
  }
  payload.words = {frame.payload.data + reader.position(), reader.remaining()};
  std::size_t expected = payload.words.size;
  if (!payload.entropy_coded) {
    payload.block_offsets = eden_block_offsets(widths, frame.size);
    expected = payload.block_offsets.back();
  } else if (blocks == 0) {
    expected = 0;
  }
  if (payload.words.size != expected) {
    corrupt("words: found " + std::to_string(payload.words.size) + " bytes, expected " +
            std::to_string(expected));
  }
  return payload;
}

}  // namespace docofl
