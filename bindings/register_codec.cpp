#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "common/parallel.h"
#include "docofl/build_info.h"
#include "docofl/ecuq.h"
#include "docofl/error.h"
#include "docofl/frame.h"
#include "docofl/identity.h"
#include "register.h"

namespace py = pybind11;

namespace {

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

docofl::DType dtype_from_id(int id) {
  if (id < 0 || id >= docofl::kNumDTypes) throw py::value_error("dtype id out of range");
  return static_cast<docofl::DType>(id);
}

// The tensor in a buffer of bytes, checked against its shape.
docofl::TensorView tensor_view(const Buffer& buffer, const docofl::FrameHeader& header) {
  const std::size_t size = docofl::checked_size(header.shape, header.dtype);
  if (buffer.size() != size * docofl::item_size(header.dtype)) {
    throw py::value_error("buffer does not match its shape");
  }
  return {buffer.data(), size, header.dtype};
}

docofl::FrameHeader make_header(docofl::CodecId codec, int dtype, const Shape& shape, int flags) {
  docofl::FrameHeader header;
  header.codec = codec;
  header.dtype = dtype_from_id(dtype);
  header.shape = shape;
  header.flags = static_cast<std::uint8_t>(flags & 0x0f);
  return header;
}

py::bytes new_bytes(std::size_t size) {
  PyObject* object = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(object);
}

// The first `size` bytes, in place where the allocator can.
py::bytes cut_bytes(py::bytes bytes, std::size_t size) {
  if (size == static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))) return bytes;
  PyObject* object = bytes.release().ptr();
  if (_PyBytes_Resize(&object, static_cast<Py_ssize_t>(size)) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(object);
}

std::uint8_t* bytes_data(const py::bytes& bytes) {
  return reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(bytes.ptr()));
}

// Lets Ctrl-C end a long call: runs on the calling thread, which gave up the GIL.
void check_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// The GIL is free and Ctrl-C is heard while this lives.
class LongCall {
 private:
  py::gil_scoped_release release_;
  docofl::InterruptCheck check_{check_signals};
};

py::bytes ecuq_encode(const py::handle& data, int dtype, const Shape& shape, int flags, double bits,
                      double tolerance, bool entropy_budget, int threads) {
  const Buffer buffer(data, PyBUF_SIMPLE);
  const docofl::FrameHeader header = make_header(docofl::CodecId::kEcuq, dtype, shape, flags);
  const docofl::TensorView tensor = tensor_view(buffer, header);
  docofl::EcuqOptions options;
  options.bits = bits;
  options.tolerance = tolerance;
  options.budget = entropy_budget ? docofl::Budget::kEntropy : docofl::Budget::kBytes;
  options.threads = threads;
  // With a bound on the size the frame is made in one pass, in memory that is cut to size later.
  const std::size_t capacity = docofl::encoded_capacity(header, options);
  py::bytes out = new_bytes(capacity);
  const docofl::EcuqPlan plan = [&] {
    const LongCall call;
    return docofl::ecuq_plan(header, tensor, options, {bytes_data(out), capacity});
  }();
  const std::size_t size = docofl::encoded_size(plan);
  if (size > capacity) out = new_bytes(size);
  {
    const LongCall call;
    docofl::ecuq_encode(plan, tensor, threads, bytes_data(out));
  }
  return cut_bytes(std::move(out), size);
}

py::bytes identity_encode(const py::handle& data, int dtype, const Shape& shape, int flags,
                          int threads) {
  const Buffer buffer(data, PyBUF_SIMPLE);
  const docofl::FrameHeader header = make_header(docofl::CodecId::kIdentity, dtype, shape, flags);
  const docofl::TensorView tensor = tensor_view(buffer, header);
  py::bytes out = new_bytes(docofl::frame_size(header, buffer.size()));
  {
    const LongCall call;
    docofl::identity_encode(header, tensor, threads, bytes_data(out));
  }
  return out;
}

// A frame whose header, checksum and parameters have been checked, tied to the caller's bytes.
class FrameHandle {
 public:
  FrameHandle(const py::object& blob, int threads) : buffer_(blob, PyBUF_SIMPLE) {
    const LongCall call;
    frame_ = docofl::parse_frame(buffer_.bytes(), threads);
    if (frame_.header.codec == docofl::CodecId::kEcuq) ecuq_ = docofl::ecuq_inspect(frame_);
  }

  const docofl::Frame& frame() const { return frame_; }
  std::size_t frame_bytes() const { return buffer_.size(); }

  py::dict ecuq_info() const {
    py::dict info;
    info["num_levels"] = ecuq_.num_levels;
    info["explicit_levels"] = ecuq_.explicit_levels;
    info["coded_levels"] = ecuq_.coded_levels;
    info["tuple_size"] = ecuq_.tuple_size;
    info["raw_bits"] = ecuq_.raw_bits;
    info["num_outliers"] = ecuq_.num_outliers;
    info["x_min"] = ecuq_.x_min;
    info["x_max"] = ecuq_.x_max;
    info["step"] = ecuq_.step;
    info["entropy"] = ecuq_.entropy;
    return info;
  }

  // Decodes into `out`, whose dtype may differ from the frame's.
  void decode_into(const py::object& out, int out_dtype, int threads) const {
    const Buffer target(out, PyBUF_WRITABLE);
    const docofl::MutableTensorView view{target.data(), frame_.size, dtype_from_id(out_dtype)};
    if (target.size() != frame_.size * docofl::item_size(view.dtype)) {
      throw py::value_error("buffer does not match its shape");
    }
    const LongCall call;
    if (frame_.header.codec == docofl::CodecId::kEcuq) {
      docofl::ecuq_decode(frame_, view, threads);
    } else {
      docofl::identity_decode(frame_, view, threads);
    }
  }

 private:
  Buffer buffer_;
  docofl::Frame frame_;
  docofl::EcuqInfo ecuq_;
};

py::dict build_info() {
  const docofl::BuildInfo build = docofl::build_info();
  py::dict info;
  info["version"] = build.version;
  info["compiler"] = build.compiler;
  info["isa"] = build.isa;
  info["isa_levels"] = py::tuple(py::cast(build.isa_levels));
  info["openmp"] = build.openmp;
  return info;
}

}  // namespace

void register_codec(py::module_& module) {
  module.def("ecuq_encode", &ecuq_encode, py::arg("data"), py::arg("dtype"), py::arg("shape"),
             py::arg("flags"), py::arg("bits"), py::arg("tolerance"), py::arg("entropy_budget"),
             py::arg("threads"));
  module.def("identity_encode", &identity_encode, py::arg("data"), py::arg("dtype"),
             py::arg("shape"), py::arg("flags"), py::arg("threads"));
  py::class_<FrameHandle>(module, "Frame")
      .def(py::init<const py::object&, int>(), py::arg("blob"), py::arg("threads"))
      .def_property_readonly(
          "codec", [](const FrameHandle& f) { return static_cast<int>(f.frame().header.codec); })
      .def_property_readonly(
          "dtype", [](const FrameHandle& f) { return static_cast<int>(f.frame().header.dtype); })
      .def_property_readonly(
          "flags", [](const FrameHandle& f) { return static_cast<int>(f.frame().header.flags); })
      .def_property_readonly(
          "shape", [](const FrameHandle& f) { return py::tuple(py::cast(f.frame().header.shape)); })
      .def_property_readonly("size", [](const FrameHandle& f) { return f.frame().size; })
      .def_property_readonly("frame_bytes", &FrameHandle::frame_bytes)
      .def("ecuq_info", &FrameHandle::ecuq_info)
      .def("decode_into", &FrameHandle::decode_into, py::arg("out"), py::arg("out_dtype"),
           py::arg("threads"));
  module.def("build_info", &build_info);
  module.def("set_isa", &docofl::set_isa, py::arg("name"));
}
