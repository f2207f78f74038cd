#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/counter_rng.h"
#include "common/source.h"
#include "docofl/tensor.h"
#include "fuzz_input.h"

namespace docofl {
namespace fuzz {

// A flat tensor of any dtype, aligned, in memory that ends where it ends.
class FuzzTensor {
 public:
  FuzzTensor(std::size_t size, DType dtype)
      : size_(size), dtype_(dtype), memory_(size * item_size(dtype)) {}

  TensorView view() const { return {memory_.data(), size_, dtype_}; }
  MutableTensorView mutable_view() { return {memory_.data(), size_, dtype_}; }
  std::size_t size() const { return size_; }
  DType dtype() const { return dtype_; }
  Bytes* bytes() { return &memory_; }

  std::vector<double> values() const {
    std::vector<double> values(size_);
    for (std::size_t i = 0; i < size_; ++i) values[i] = value(i);
    return values;
  }

  bool operator==(const FuzzTensor& other) const {
    return dtype_ == other.dtype_ && memory_ == other.memory_;
  }

 private:
  double value(std::size_t i) const {
    if (dtype_ == DType::kFloat64) {
      double value;
      std::memcpy(&value, memory_.data() + i * sizeof value, sizeof value);
      return value;
    }
    float scratch;
    return *load_values(view(), i, 1, &scratch);
  }

  std::size_t size_;
  DType dtype_;
  Bytes memory_;  // operator new aligns it for all dtypes
};

inline DType dtype_of(unsigned number) { return static_cast<DType>(number % kNumDTypes); }

// Every value is finite.
inline bool is_finite(const FuzzTensor& tensor) {
  for (const double value : tensor.values()) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Every value is finite and rounds to a float32 that is.
inline bool is_float32(const FuzzTensor& tensor) {
  constexpr double kOverflow = 0x1.ffffffp127;
  for (const double value : tensor.values()) {
    if (!(std::fabs(value) < kOverflow)) return false;
  }
  return true;
}

// What is left of an input as a tensor: bit patterns of the dtype, as many as there are or, where
// `extent` says so, repeated up to a size with several streams or blocks. Copies differ in
// sign and a few bits, so that they are no period.
inline FuzzTensor take_tensor(FuzzInput* input, DType dtype, std::uint8_t extent) {
  const Bytes pattern = input->take_rest();
  const std::size_t item = item_size(dtype);
  const std::size_t given = pattern.size() / item;
  std::size_t size = given;
  if (extent == 0x51) size = 1100;
  if (extent == 0x52) size = 5001;
  if (extent == 0x53) size = 66000;
  if (extent == 0x54) size = 132000;
  const bool keeps_signs = extent == 0x55;  // neighbours may resemble each other
  if (keeps_signs) size = 20000;
  const bool has_parts = extent == 0x56;  // which have some of the patterns, and codes of their own
  if (has_parts) size = 270000;
  if (given == 0) size = 0;
  FuzzTensor tensor(size, dtype);
  Bytes& memory = *tensor.bytes();
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t patterns = has_parts ? 1 + i / 20000 % given : given;
    std::memcpy(memory.data() + i * item, pattern.data() + i % patterns * item, item);
    if (i < given) continue;
    const std::uint64_t random = counter_random(extent, i);
    // The least significant byte, and the sign, of the native byte order.
    std::uint8_t* const low = memory.data() + i * item + (kBigEndian ? item - 1 : 0);
    std::uint8_t* const high = memory.data() + i * item + (kBigEndian ? 0 : item - 1);
    *low = static_cast<std::uint8_t>(*low ^ (random & 0x0f));
    if (!keeps_signs) *high = static_cast<std::uint8_t>(*high ^ (random & 0x80));
  }
  return tensor;
}

}  // namespace fuzz
}  // namespace docofl
