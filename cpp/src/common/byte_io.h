#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/endian.h"
#include "docofl/error.h"
#include "docofl/tensor.h"

// Bounds-checked reading and plain writing of the fields of a frame.
namespace docofl {

constexpr std::size_t kMaxVarintBytes = 10;

inline std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  while (value >>= 7) ++size;
  return size;
}

inline std::uint8_t* write_varint(std::uint8_t* out, std::uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

template <class T>
inline std::uint8_t* write_le(std::uint8_t* out, T value) {
  store_le(out, value);
  return out + sizeof(T);
}

// Reads fields in order; every read is checked and names its field when it fails.
class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size - position_; }

  // Returns where `count` bytes start and moves past them.
  const std::uint8_t* take(std::size_t count, const char* field) {
    if (count > remaining()) {
      throw Error(ErrorKind::kTruncatedFrame,
                  std::string(field) + " at byte " + std::to_string(position_) + " needs " +
                      std::to_string(count) + " bytes, found " + std::to_string(remaining()));
    }
    const std::uint8_t* start = bytes_.data + position_;
    position_ += count;
    return start;
  }

  template <class T>
  T read(const char* field) {
    return load_le<T>(take(sizeof(T), field));
  }

  std::uint64_t read_varint(const char* field) {
    const std::size_t start = position_;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < kMaxVarintBytes; ++i) {
      const std::uint8_t byte = *take(1, field);
      const std::uint64_t group = byte & 0x7f;
      if (i == kMaxVarintBytes - 1 && group > 1) break;
      value |= group << (7 * i);
      if (!(byte & 0x80)) {
        if (i > 0 && group == 0) break;
        return value;
      }
    }
    throw Error(ErrorKind::kCorruptFrame, std::string(field) + " at byte " + std::to_string(start) +
                                              ": expected a minimal varint of at most 64 bits");
  }

 private:
  ByteView bytes_;
  std::size_t position_ = 0;
};

}  // namespace docofl
