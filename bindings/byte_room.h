#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "support.h"

namespace binding {

// Python bytes in the making: they grow at their end, and become an object without a copy.
class ByteRoom {
 public:
  std::size_t size() const { return size_; }
  std::uint8_t* end() const { return bytes_data(bytes_) + size_; }
  std::size_t left() const { return capacity() - size_; }

  // Room for so many bytes in all; pages that are never touched cost nothing. Where there is no
  // such memory, the room is empty.
  void reserve(std::size_t wanted) {
    if (wanted <= capacity()) return;
    const std::size_t size = std::exchange(size_, 0);
    bytes_ = cut_bytes(std::exchange(bytes_, new_bytes(0)), wanted);
    use_large_pages(bytes_data(bytes_), wanted);
    size_ = size;
  }

  // Makes `count` bytes at the end part of it. They must be within what is left.
  void grow(std::size_t count) { size_ += count; }

  void write(const py::object& data) {
    const Buffer buffer(data, PyBUF_SIMPLE);
    if (buffer.size() > left()) reserve(std::max(2 * capacity(), size_ + buffer.size()));
    // SAFETY: there are at least so many bytes left.
    if (buffer.size() > 0) std::memcpy(end(), buffer.data(), buffer.size());
    grow(buffer.size());
  }

  void cut(std::size_t size) { size_ = std::min(size_, size); }

  // All bytes; the room is empty afterwards.
  py::bytes take() {
    const std::size_t size = std::exchange(size_, 0);
    return cut_bytes(std::exchange(bytes_, new_bytes(0)), size);
  }

 private:
  std::size_t capacity() const { return static_cast<std::size_t>(PyBytes_GET_SIZE(bytes_.ptr())); }

  py::bytes bytes_ = new_bytes(0);
  std::size_t size_ = 0;
};

}  // namespace binding
