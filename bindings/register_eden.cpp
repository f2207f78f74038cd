#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "docofl/eden.h"
#include "frame_handle.h"
#include "register.h"
#include "support.h"

namespace py = pybind11;
using namespace binding;

namespace {

py::bytes eden_encode(const py::handle& data, int dtype, const Shape& shape, int flags, double bits,
                      std::uint64_t seed, bool mse_scale, bool entropy_coded, int threads) {
  const Buffer buffer(data, PyBUF_SIMPLE);
  const docofl::FrameHeader header = make_header(docofl::CodecId::kEden, dtype, shape, flags);
  const docofl::TensorView tensor = tensor_view(buffer, header);
  docofl::EdenOptions options;
  options.bits = bits;
  options.seed = seed;
  options.scale = mse_scale ? docofl::EdenScale::kMse : docofl::EdenScale::kUnbiased;
  options.entropy_coded = entropy_coded;
  options.threads = threads;
  py::bytes out = new_bytes(docofl::eden_capacity(header, options));
  const std::size_t size = [&] {
    const LongCall call;
    return docofl::eden_encode(header, tensor, options, bytes_data(out));
  }();
  return cut_bytes(std::move(out), size);
}

// Writes, or adds, the weighted sum of frames to float32 memory.
void eden_decode_sum(const std::vector<const FrameHandle*>& handles,
                     const std::vector<double>& weights, bool add, const py::object& out,
                     int threads) {
  const Buffer target(out, PyBUF_WRITABLE);
  std::vector<docofl::Frame> frames;
  for (const FrameHandle* handle : handles) {
    frames.push_back(handle->frame());
    if (target.size() != frames.back().size * sizeof(float)) {
      throw py::value_error("buffer does not match its shape");
    }
  }
  if (weights.size() != frames.size()) throw py::value_error("one weight a frame");
  const LongCall call;
  docofl::eden_decode_sum(frames, weights, add, static_cast<float*>(target.data()), threads);
}

void hadamard(const py::object& data) {
  const Buffer buffer(data, PyBUF_WRITABLE);
  const std::size_t n = buffer.size() / sizeof(float);
  if (n == 0 || (n & (n - 1)) != 0) throw py::value_error("size: expected a power of two");
  const LongCall call;
  docofl::hadamard_transform(static_cast<float*>(buffer.data()), n);
}

void eden_rotate(const py::object& data, const py::object& out, std::uint64_t seed, int threads) {
  const Buffer source(data, PyBUF_SIMPLE);
  const Buffer target(out, PyBUF_WRITABLE);
  if (source.size() != target.size()) throw py::value_error("buffers differ in size");
  const LongCall call;
  docofl::eden_rotate(static_cast<const float*>(source.data()), source.size() / sizeof(float), seed,
                      static_cast<float*>(target.data()), threads);
}

}  // namespace

void register_eden(py::module_& module) {
  module.def("eden_encode", &eden_encode, py::arg("data"), py::arg("dtype"), py::arg("shape"),
             py::arg("flags"), py::arg("bits"), py::arg("seed"), py::arg("mse_scale"),
             py::arg("entropy_coded"), py::arg("threads"));
  module.def("eden_decode_sum", &eden_decode_sum, py::arg("frames"), py::arg("weights"),
             py::arg("add"), py::arg("out"), py::arg("threads"));
  module.def("eden_rotate", &eden_rotate, py::arg("data"), py::arg("out"), py::arg("seed"),
             py::arg("threads"));
  module.def("hadamard", &hadamard, py::arg("data"));
}
