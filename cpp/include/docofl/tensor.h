#pragma once

#include <cstddef>
#include <cstdint>

namespace docofl {

// Values are those of the frame's dtype field.
enum class DType : std::uint8_t { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kBFloat16 = 3 };

constexpr std::uint8_t kNumDTypes = 4;

constexpr std::size_t item_size(DType dtype) {
  return dtype == DType::kFloat64 ? 8 : dtype == DType::kFloat32 ? 4 : 2;
}

// Contiguous values in native byte order, aligned to their item size.
struct TensorView {
  const void* data = nullptr;
  std::size_t size = 0;
  DType dtype = DType::kFloat32;
};

struct MutableTensorView {
  void* data = nullptr;
  std::size_t size = 0;
  DType dtype = DType::kFloat32;
};

struct MutableByteView {
  std::uint8_t* data = nullptr;
  std::size_t size = 0;
};

struct ByteView {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
};

}  // namespace docofl
