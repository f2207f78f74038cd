#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "byte_room.h"
#include "docofl/ecuq.h"
#include "docofl/rate_model.h"
#include "register.h"
#include "support.h"

namespace py = pybind11;
using namespace binding;

namespace {

docofl::EcuqOptions step_options(double step, bool best, int coder, int threads) {
  docofl::EcuqOptions options;
  options.budget = docofl::Budget::kNone;
  options.step = step;
  options.coder = coder_of(coder);
  options.quality = best ? docofl::Quality::kBest : docofl::Quality::kFast;
  options.threads = threads;
  return options;
}

docofl::EcuqInput flat_input(const Buffer& buffer, int dtype) {
  const Shape shape{buffer.size() / docofl::item_size(dtype_from_id(dtype))};
  docofl::FrameHeader header = make_header(docofl::CodecId::kEcuq, dtype, shape, 0);
  const docofl::TensorView tensor = tensor_view(buffer, header);
  return {std::move(header), tensor};
}

void add_to_model(docofl::RateModel& model, std::size_t frame, const py::object& data, int dtype,
                  std::size_t count) {
  const Buffer buffer(data, PyBUF_SIMPLE);
  model.add(frame, flat_input(buffer, dtype).tensor, count);
}

void finish_model(docofl::RateModel& model) {
  const LongCall call;
  model.finish();
}

double find_step(docofl::RateModel& model, double bits) {
  const LongCall call;
  return model.find_step(bits);
}

// Appends the frames of flat tensors to the room, unless they take more than `most` bytes.
std::vector<std::size_t> ecuq_encode_frames(const std::vector<std::pair<py::object, int>>& tensors,
                                            double step, bool best, int coder, int threads,
                                            ByteRoom& out, std::size_t most) {
  const docofl::EcuqOptions options = step_options(step, best, coder, threads);
  std::deque<Buffer> buffers;
  std::vector<docofl::EcuqInput> inputs;
  std::size_t capacity = 0;
  for (const auto& [data, dtype] : tensors) {
    inputs.push_back(flat_input(buffers.emplace_back(data, PyBUF_SIMPLE), dtype));
    capacity += docofl::encoded_capacity(inputs.back().header, options);
  }
  out.reserve(out.size() + std::min(capacity, most));
  while (true) {
    std::vector<std::size_t> sizes;
    {
      const LongCall call;
      sizes = docofl::ecuq_encode_frames(inputs, options, {out.end(), std::min(out.left(), most)});
    }
    const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    if (total > most) return sizes;
    if (total <= out.left()) {
      out.grow(total);
      return sizes;
    }
    out.reserve(out.size() + total);
  }
}

}  // namespace

void register_state_dict(py::module_& module) {
  py::class_<ByteRoom>(module, "ByteRoom")
      .def(py::init<>())
      .def_property_readonly("size", &ByteRoom::size)
      .def("reserve", &ByteRoom::reserve, py::arg("capacity"))
      .def("write", &ByteRoom::write, py::arg("data"))
      .def("cut", &ByteRoom::cut, py::arg("size"))
      .def("take", &ByteRoom::take);
  py::class_<docofl::RateModel>(module, "RateModel")
      .def(py::init([](bool best, int coder, int threads) {
             return docofl::RateModel(step_options(0, best, coder, threads));
           }),
           py::arg("best"), py::arg("coder"), py::arg("threads"))
      .def("add", &add_to_model, py::arg("frame"), py::arg("data"), py::arg("dtype"),
           py::arg("count"))
      .def("finish", &finish_model)
      .def_property_readonly("has_range", &docofl::RateModel::has_range)
      .def("find_step", &find_step, py::arg("bits"))
      .def("bits", py::overload_cast<double>(&docofl::RateModel::bits, py::const_), py::arg("step"))
      .def("clamp", &docofl::RateModel::clamp, py::arg("exponent"))
      .def_property_readonly("coarsest", &docofl::RateModel::coarsest);
  module.def("ecuq_encode_frames", &ecuq_encode_frames, py::arg("tensors"), py::arg("step"),
             py::arg("best"), py::arg("coder"), py::arg("threads"), py::arg("out"),
             py::arg("most"));
}
