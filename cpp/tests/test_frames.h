#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/byte_io.h"
#include "common/source.h"
#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/frame.h"
#include "harness.h"
#include "test_data.h"

// Tensors, and frames of them, through the public C++ API.
namespace docofl {
namespace test {

using Bytes = std::vector<std::uint8_t>;

// A flat tensor of any dtype in memory that ends where it ends.
class Tensor {
 public:
  Tensor(std::size_t size, DType dtype)
      : size_(size), dtype_(dtype), memory_(size * item_size(dtype)) {}
  // Converts float32 values, which must be within the dtype's range.
  Tensor(const std::vector<float>& values, DType dtype) : Tensor(values.size(), dtype) {
    if (size_ > 0) store_values(values.data(), size_, mutable_view(), 0);
  }

  TensorView view() const { return {memory_.data(), size_, dtype_}; }
  MutableTensorView mutable_view() { return {memory_.data(), size_, dtype_}; }
  const std::uint8_t* bytes() const { return memory_.data(); }
  std::size_t num_bytes() const { return memory_.size(); }
  std::vector<float> values() const {
    std::vector<float> converted(size_);
    if (size_ == 0) return converted;
    const float* from = load_values(view(), 0, size_, converted.data());
    if (from != converted.data()) std::copy(from, from + size_, converted.begin());
    return converted;
  }

 private:
  std::size_t size_;
  DType dtype_;
  ExactArray<std::uint8_t> memory_;
};

inline FrameHeader header_of(const Tensor& tensor) {
  FrameHeader header;
  header.codec = CodecId::kEcuq;
  header.dtype = tensor.view().dtype;
  header.shape = {tensor.view().size};
  return header;
}

// Encodes and checks that the promised size is the exact one: a byte more would be noticed.
inline Bytes encode(const Tensor& tensor, const EcuqOptions& options) {
  const EcuqPlan plan = ecuq_plan(header_of(tensor), tensor.view(), options);
  const std::size_t size = encoded_size(plan);
  constexpr std::size_t kGuard = 64;
  Bytes bytes(size + kGuard, 0xa5);
  ecuq_encode(plan, tensor.view(), options.threads, bytes.data());
  for (std::size_t i = size; i < bytes.size(); ++i) DOCOFL_CHECK_EQUAL(bytes[i], 0xa5);
  bytes.resize(size);

  // The same in one pass, into room of the promised capacity.
  const std::size_t capacity = encoded_capacity(header_of(tensor), options);
  if (options.budget == Budget::kBytes) DOCOFL_CHECK(size <= capacity);
  if (size <= capacity) {
    ExactArray<std::uint8_t> room(capacity);
    const EcuqPlan again =
        ecuq_plan(header_of(tensor), tensor.view(), options, {room.data(), capacity});
    DOCOFL_CHECK_EQUAL(encoded_size(again), size);
    ecuq_encode(again, tensor.view(), options.threads, room.data());
    DOCOFL_CHECK_SAME(room.data(), bytes.data(), size);
  }
  return bytes;
}

// The same for EDEN, whose frames fit the promised capacity, on one thread and on those asked for.
inline Bytes encode(const Tensor& tensor, const EdenOptions& options) {
  const FrameHeader header = header_of(tensor);
  const std::size_t capacity = eden_capacity(header, options);
  constexpr std::size_t kGuard = 64;
  Bytes bytes(capacity + kGuard, 0xa5);
  EdenOptions serial = options;
  serial.threads = 1;
  const std::size_t size = eden_encode(header, tensor.view(), serial, bytes.data());
  DOCOFL_CHECK(size <= capacity);
  for (std::size_t i = capacity; i < bytes.size(); ++i) DOCOFL_CHECK_EQUAL(bytes[i], 0xa5);
  bytes.resize(size);

  ExactArray<std::uint8_t> room(capacity);
  DOCOFL_CHECK_EQUAL(eden_encode(header, tensor.view(), options, room.data()), size);
  DOCOFL_CHECK_SAME(room.data(), bytes.data(), size);
  return bytes;
}

// Decodes a frame of ECUQ or EDEN.
inline Tensor decode(const Bytes& bytes, DType dtype, int threads) {
  // From memory that ends where the frame ends.
  ExactArray<std::uint8_t> exact(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.data());
  const Frame frame = parse_frame({exact.data(), exact.size()}, threads);
  Tensor out(frame.size, dtype);
  if (frame.header.codec == CodecId::kEden) {
    eden_decode(frame, out.mutable_view(), threads);
  } else {
    ecuq_decode(frame, out.mutable_view(), threads);
  }
  return out;
}

// --- frames field by field -----------------------------------------------------------------------

template <class T>
void append(Bytes* bytes, T value) {
  bytes->resize(bytes->size() + sizeof(T));
  store_le(bytes->data() + bytes->size() - sizeof(T), value);
}

inline Bytes frame_around(const FrameHeader& header, const Bytes& payload) {
  Bytes frame(frame_size(header, payload.size()));
  std::copy(payload.begin(), payload.end(),
            write_frame_header(header, payload.size(), frame.data()));
  seal_frame(frame.data(), frame.size(), 1);
  return frame;
}

// --- values ------------------------------------------------------------------------------------

inline std::vector<float> normal_values(std::size_t size, std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

inline std::vector<float> lognormal_values(std::size_t size) {
  Random random(2);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(std::exp(1.5 * random.normal()));
  return values;
}

// Like the parameters of a network: parts of different spread, and a few very large values.
inline std::vector<float> layered_values(std::size_t size) {
  Random random(3);
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t part = i * 8 / size;
    const double spread = std::exp2(-static_cast<double>(part));
    values[i] = static_cast<float>(0.1 * spread * random.normal());
    if (random.below(3000) == 0) values[i] = static_cast<float>(50000 * random.uniform());
  }
  return values;
}

struct Distribution {
  const char* name;
  std::vector<float> (*make)(std::size_t size);
};

inline const std::vector<Distribution>& distributions() {
  static const std::vector<Distribution> all = {
      {"normal", [](std::size_t size) { return normal_values(size); }},
      {"lognormal", lognormal_values},
      {"layered", layered_values},
      {"uniform",
       [](std::size_t size) {
         Random random(4);
         std::vector<float> values(size);
         for (float& value : values) value = static_cast<float>(random.uniform());
         return values;
       }},
      {"one outlier",
       [](std::size_t size) {
         std::vector<float> values = normal_values(size);
         if (size > 0) values[size / 2] = 1e30f;
         return values;
       }},
      {"constant", [](std::size_t size) { return std::vector<float>(size, -0.37f); }},
      {"three values",
       [](std::size_t size) {
         Random random(5);
         std::vector<float> values(size);
         for (float& value : values)
           value = random.below(20) == 0 ? 1.5f : random.below(3) == 0 ? -0.0f : 0.0f;
         return values;
       }},
      {"hundred values",
       [](std::size_t size) {
         Random random(6);
         std::vector<float> values(size);
         for (float& value : values)
           value = static_cast<float>(random.below(10) * random.below(12));
         return values;
       }},
      {"largest",
       [](std::size_t size) {
         Random random(7);
         std::vector<float> values(size);
         for (float& value : values) {
           const float magnitude =
               static_cast<float>(1 - random.uniform() * 0.25) * std::numeric_limits<float>::max();
           value = random.below(2) == 0 ? magnitude : -magnitude;
         }
         return values;
       }},
      {"denormal",
       [](std::size_t size) {
         Random random(8);
         std::vector<float> values(size);
         for (float& value : values)
           value = float_of(static_cast<std::uint32_t>(random.below(1 << 20)));
         return values;
       }},
      {"far from zero",
       [](std::size_t size) {
         std::vector<float> values = normal_values(size);
         for (float& value : values) value = value * 0.01f + 1000.0f;
         return values;
       }},
      {"mostly zero",
       [](std::size_t size) {
         Random random(9);
         std::vector<float> values(size, 0.0f);
         for (float& value : values) {
           if (random.below(50) == 0) value = static_cast<float>(random.normal());
         }
         return values;
       }},
  };
  return all;
}

}  // namespace test
}  // namespace docofl
