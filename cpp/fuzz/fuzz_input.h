#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/endian.h"
#include "docofl/tensor.h"

// What a fuzz target defines; libFuzzer or replay_main.cpp calls it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Ends the process where a promise is broken, whatever the build type.
#define DOCOFL_REQUIRE(condition)                                                   \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                 \
    }                                                                               \
  } while (false)

namespace docofl {
namespace fuzz {

// In memory that ends where the bytes end, so that a sanitizer sees every access beyond them.
using Bytes = std::vector<std::uint8_t>;

inline ByteView view_of(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

// Takes fields off the front of an input, which goes on with zeros where it ends.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  template <class T>
  T take() {
    std::uint8_t bytes[sizeof(T)] = {};
    const std::size_t count = std::min(sizeof(T), size_);
    std::copy(data_, data_ + count, bytes);
    skip(count);
    return load_le<T>(bytes);
  }

  // At most `count` bytes.
  Bytes take_bytes(std::size_t count) {
    Bytes bytes(data_, data_ + std::min(count, size_));
    skip(bytes.size());
    return bytes;
  }

  Bytes take_rest() { return take_bytes(size_); }

 private:
  void skip(std::size_t count) {
    data_ += count;
    size_ -= count;
  }

  const std::uint8_t* data_;
  std::size_t size_;
};

// Writes the fields that FuzzInput takes.
template <class T>
void put(Bytes* bytes, T value) {
  bytes->resize(bytes->size() + sizeof(T));
  store_le(bytes->data() + bytes->size() - sizeof(T), value);
}

}  // namespace fuzz
}  // namespace docofl
