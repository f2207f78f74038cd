#pragma once

#include <pybind11/pybind11.h>

#ifdef __linux__
#include <sys/mman.h>
#endif
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/parallel.h"
#include "docofl/ecuq.h"
#include "docofl/frame.h"
#include "docofl/tensor.h"

// What all bindings need: Python's buffers and bytes as the core's views, and long calls.
namespace binding {

namespace py = pybind11;

using Shape = std::vector<std::uint64_t>;

// A contiguous view of a Python buffer; the export keeps its memory in place while this lives.
class Buffer {
 public:
  Buffer(const py::handle& object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw py::error_already_set();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return view_.buf; }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }
  docofl::ByteView bytes() const { return {static_cast<const std::uint8_t*>(view_.buf), size()}; }

 private:
  Py_buffer view_{};
};

inline docofl::DType dtype_from_id(int id) {
  if (id < 0 || id >= docofl::kNumDTypes) throw py::value_error("dtype id out of range");
  return static_cast<docofl::DType>(id);
}

inline docofl::Coder coder_of(int number) {
  constexpr docofl::Coder kCoders[] = {docofl::Coder::kHuffman, docofl::Coder::kRans,
                                       docofl::Coder::kEither};
  if (number < 0 || number >= 3) throw py::value_error("coder: expected 0, 1 or 2");
  return kCoders[number];
}

// The tensor in a buffer of bytes, checked against its shape.
inline docofl::TensorView tensor_view(const Buffer& buffer, const docofl::FrameHeader& header) {
  const std::size_t size = docofl::checked_size(header.shape, header.dtype);
  if (buffer.size() != size * docofl::item_size(header.dtype)) {
    throw py::value_error("buffer does not match its shape");
  }
  return {buffer.data(), size, header.dtype};
}

inline docofl::FrameHeader make_header(docofl::CodecId codec, int dtype, const Shape& shape,
                                       int flags) {
  docofl::FrameHeader header;
  header.codec = codec;
  header.dtype = dtype_from_id(dtype);
  header.shape = shape;
  header.flags = static_cast<std::uint8_t>(flags & 0x0f);
  return header;
}

// Asks for large pages where there is much new memory, as NumPy does for arrays: to get it page by
// page takes a quarter as long as to fill it with code words.
inline void use_large_pages(void* data, std::size_t size) {
#ifdef MADV_HUGEPAGE
  constexpr std::size_t kLarge = std::size_t(1) << 22;
  constexpr std::size_t kPage = 4096;
  if (size < kLarge) return;
  const std::size_t skipped = kPage - reinterpret_cast<std::uintptr_t>(data) % kPage;
  madvise(static_cast<char*>(data) + skipped, size - skipped, MADV_HUGEPAGE);
#else
  (void)data, (void)size;
#endif
}

inline py::bytes new_bytes(std::size_t size) {
  PyObject* object = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
  if (object == nullptr) throw py::error_already_set();
  use_large_pages(PyBytes_AS_STRING(object), size);
  return py::reinterpret_steal<py::bytes>(object);
}

// The first `size` bytes, in place where the allocator can.
inline py::bytes cut_bytes(py::bytes bytes, std::size_t size) {
  if (size == static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))) return bytes;
  PyObject* object = bytes.release().ptr();
  if (_PyBytes_Resize(&object, static_cast<Py_ssize_t>(size)) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(object);
}

inline std::uint8_t* bytes_data(const py::bytes& bytes) {
  return reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(bytes.ptr()));
}

// Lets Ctrl-C end a long call: runs on the calling thread, which gave up the GIL.
inline void check_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// The GIL is free and Ctrl-C is heard while this lives.
class LongCall {
 private:
  py::gil_scoped_release release_;
  docofl::InterruptCheck check_{check_signals};
};

}  // namespace binding
