#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "docofl/build_info.h"
#include "docofl/ecuq.h"
#include "docofl/frame.h"
#include "docofl/identity.h"
#include "frame_handle.h"
#include "register.h"
#include "support.h"

namespace py = pybind11;
using namespace binding;

namespace {

py::bytes ecuq_encode(const py::handle& data, int dtype, const Shape& shape, int flags, double bits,
                      double tolerance, bool entropy_budget, int threads, double step, bool best,
                      bool centroids, int coder) {
  const Buffer buffer(data, PyBUF_SIMPLE);
  const docofl::FrameHeader header = make_header(docofl::CodecId::kEcuq, dtype, shape, flags);
  const docofl::TensorView tensor = tensor_view(buffer, header);
  docofl::EcuqOptions options;
  options.bits = bits;
  options.tolerance = tolerance;
  options.budget = entropy_budget ? docofl::Budget::kEntropy : docofl::Budget::kBytes;
  if (step != 0) options.budget = docofl::Budget::kNone;
  options.step = step;
  options.centroids = centroids;
  options.coder = coder_of(coder);
  options.quality = best ? docofl::Quality::kBest : docofl::Quality::kFast;
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
             py::arg("threads"), py::arg("step") = 0.0, py::arg("best") = false,
             py::arg("centroids") = true, py::arg("coder") = 0);
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
      .def("eden_info", &FrameHandle::eden_info)
      .def("decode_into", &FrameHandle::decode_into, py::arg("out"), py::arg("out_dtype"),
           py::arg("threads"))
      .def_property_readonly("payload", &FrameHandle::payload)
      .def("store_values", &FrameHandle::store_values, py::arg("values"), py::arg("out"),
           py::arg("out_dtype"));
  module.def("build_info", &build_info);
  module.def("set_isa", &docofl::set_isa, py::arg("name"));
}
