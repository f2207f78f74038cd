#pragma once

#include <pybind11/stl.h>

#include <stdexcept>

#include "docofl/baselines.h"
#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/identity.h"
#include "support.h"

namespace binding {

// A frame whose header, checksum and parameters have been checked, tied to the caller's bytes.
class FrameHandle {
 public:
  FrameHandle(const py::object& blob, int threads) : buffer_(blob, PyBUF_SIMPLE) {
    const LongCall call;
    frame_ = docofl::parse_frame(buffer_.bytes(), threads);
    if (docofl::has_ecuq_payload(frame_.header.codec)) ecuq_ = docofl::ecuq_inspect(frame_);
    if (frame_.header.codec == docofl::CodecId::kEden) eden_ = docofl::eden_inspect(frame_);
  }

  const docofl::Frame& frame() const { return frame_; }
  std::size_t frame_bytes() const { return buffer_.size(); }

  py::dict ecuq_info() const {
    py::dict info;
    info["num_levels"] = ecuq_.num_levels;
    info["explicit_levels"] = ecuq_.explicit_levels;
    info["coder"] = ecuq_.rans ? "rans" : "huffman";
    info["dependent"] = ecuq_.dependent;
    info["transformed"] = ecuq_.transformed;
    info["centroids"] = ecuq_.centroids;
    info["num_tables"] = ecuq_.num_tables;
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

  py::dict eden_info() const {
    py::dict info;
    info["bits"] = eden_.bits;
    info["seed"] = eden_.seed;
    info["entropy_coded"] = eden_.entropy_coded;
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
    const docofl::CodecId codec = frame_.header.codec;
    if (codec == docofl::CodecId::kIdentity) return docofl::identity_decode(frame_, view, threads);
    if (codec == docofl::CodecId::kEden) return docofl::eden_decode(frame_, view, threads);
    if (docofl::has_ecuq_payload(codec)) return docofl::ecuq_decode(frame_, view, threads);
    throw std::logic_error("a foreign payload is for its own decoder");
  }

  py::bytes payload() const {
    return {reinterpret_cast<const char*>(frame_.payload.data), frame_.payload.size};
  }

  // Writes values that a foreign payload's decoder has found.
  void store_values(const py::object& values, const py::object& out, int out_dtype) const {
    const Buffer source(values, PyBUF_SIMPLE);
    const Buffer target(out, PyBUF_WRITABLE);
    const docofl::MutableTensorView view{target.data(), frame_.size, dtype_from_id(out_dtype)};
    if (source.size() != frame_.size * sizeof(float) ||
        target.size() != frame_.size * docofl::item_size(view.dtype)) {
      throw py::value_error("buffer does not match its shape");
    }
    const LongCall call;
    docofl::store_decoded(static_cast<const float*>(source.data()), frame_.header.dtype, view);
  }

 private:
  Buffer buffer_;
  docofl::Frame frame_;
  docofl::EcuqInfo ecuq_;
  docofl::EdenInfo eden_;
};

}  // namespace binding
