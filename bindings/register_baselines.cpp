#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "docofl/baselines.h"
#include "docofl/eden.h"
#include "docofl/frame.h"
#include "register.h"
#include "support.h"

namespace py = pybind11;
using namespace binding;

namespace {

template <class T>
std::size_t count_of(const Buffer& buffer) {
  return buffer.size() / sizeof(T);
}

template <class T>
const T* items(const Buffer& buffer) {
  return static_cast<const T*>(buffer.data());
}

py::bytes wrap_payload(int codec, int dtype, const Shape& shape, int flags, const py::object& data,
                       int threads) {
  const Buffer payload(data, PyBUF_SIMPLE);
  const docofl::FrameHeader header =
      make_header(static_cast<docofl::CodecId>(codec), dtype, shape, flags);
  docofl::checked_size(header.shape, header.dtype);
  py::bytes out = new_bytes(docofl::frame_size(header, payload.size()));
  {
    const LongCall call;
    docofl::write_frame(header, payload.bytes(), threads, bytes_data(out));
  }
  return out;
}

void load_tensor(const py::object& data, int dtype, const Shape& shape, const py::object& out) {
  const Buffer source(data, PyBUF_SIMPLE);
  const Buffer target(out, PyBUF_WRITABLE);
  const docofl::FrameHeader header = make_header(docofl::CodecId::kIdentity, dtype, shape, 0);
  const docofl::TensorView tensor = tensor_view(source, header);
  if (count_of<float>(target) != tensor.size) throw py::value_error("buffers differ in size");
  const LongCall call;
  docofl::load_tensor(tensor, static_cast<float*>(target.data()));
}

void eden_rotate_back(const py::object& data, const py::object& out, std::uint64_t seed,
                      int threads) {
  const Buffer source(data, PyBUF_WRITABLE);
  const Buffer target(out, PyBUF_WRITABLE);
  if (source.size() != target.size()) throw py::value_error("buffers differ in size");
  const LongCall call;
  docofl::eden_rotate_back(static_cast<float*>(source.data()), count_of<float>(source), seed,
                           static_cast<float*>(target.data()), threads);
}

double euclidean_norm(const py::object& data) {
  const Buffer x(data, PyBUF_SIMPLE);
  const LongCall call;
  return docofl::euclidean_norm(items<float>(x), count_of<float>(x));
}

docofl::QsgdGrid make_grid(double norm, std::uint32_t levels) {
  docofl::QsgdGrid grid;
  grid.norm = norm;
  grid.levels = levels;
  return grid;
}

// (dense bits, sparse bits, variance)
py::tuple qsgd_cost(const py::object& data, double norm, std::uint32_t levels, std::uint64_t key) {
  const Buffer x(data, PyBUF_SIMPLE);
  docofl::QsgdCost cost;
  {
    const LongCall call;
    cost = docofl::qsgd_cost(make_grid(norm, levels), items<float>(x), count_of<float>(x), key);
  }
  return py::make_tuple(cost.dense, cost.sparse, cost.variance);
}

void qsgd_quantize(const py::object& data, double norm, std::uint32_t levels, std::uint64_t key,
                   const py::object& out) {
  const Buffer x(data, PyBUF_SIMPLE);
  const Buffer target(out, PyBUF_WRITABLE);
  if (x.size() != target.size()) throw py::value_error("buffers differ in size");
  const LongCall call;
  docofl::qsgd_quantize(make_grid(norm, levels), items<float>(x), count_of<float>(x), key,
                        static_cast<std::int32_t*>(target.data()));
}

py::bytes gamma_encode(const py::object& multiples, bool sparse) {
  const Buffer source(multiples, PyBUF_SIMPLE);
  std::vector<std::uint8_t> stream;
  {
    const LongCall call;
    stream =
        docofl::gamma_encode(items<std::int32_t>(source), count_of<std::int32_t>(source), sparse);
  }
  return {reinterpret_cast<const char*>(stream.data()), stream.size()};
}

std::size_t gamma_decode(const py::object& stream, bool sparse, const py::object& out) {
  const Buffer source(stream, PyBUF_SIMPLE);
  const Buffer target(out, PyBUF_WRITABLE);
  const LongCall call;
  return docofl::gamma_decode(source.bytes(), count_of<std::int32_t>(target), sparse,
                              static_cast<std::int32_t*>(target.data()));
}

}  // namespace

void register_baselines(py::module_& module) {
  module.def("wrap_payload", &wrap_payload, py::arg("codec"), py::arg("dtype"), py::arg("shape"),
             py::arg("flags"), py::arg("payload"), py::arg("threads"));
  module.def("load_tensor", &load_tensor, py::arg("data"), py::arg("dtype"), py::arg("shape"),
             py::arg("out"));
  module.def("eden_rotate_back", &eden_rotate_back, py::arg("data"), py::arg("out"),
             py::arg("seed"), py::arg("threads"));
  module.def("euclidean_norm", &euclidean_norm, py::arg("data"));
  module.def("qsgd_cost", &qsgd_cost, py::arg("data"), py::arg("norm"), py::arg("levels"),
             py::arg("key"));
  module.def("qsgd_quantize", &qsgd_quantize, py::arg("data"), py::arg("norm"), py::arg("levels"),
             py::arg("key"), py::arg("out"));
  module.def("gamma_encode", &gamma_encode, py::arg("multiples"), py::arg("sparse"));
  module.def("gamma_decode", &gamma_decode, py::arg("stream"), py::arg("sparse"), py::arg("out"));
}
