#include "docofl/error.h"

#include "register.h"

namespace py = pybind11;

namespace {

// The Python class of each kind, from docofl_codec.errors.
const char* class_name(docofl::ErrorKind kind) {
  switch (kind) {
    case docofl::ErrorKind::kInvalidInput: return "InvalidInputError";
    case docofl::ErrorKind::kUnsupportedFrame: return "UnsupportedFrameError";
    case docofl::ErrorKind::kTruncatedFrame: return "TruncatedFrameError";
    case docofl::ErrorKind::kLimitExceeded: return "LimitExceededError";
    case docofl::ErrorKind::kCorruptFrame: break;
  }
  return "CorruptFrameError";
}

}  // namespace

void register_errors(py::module_& /*module*/) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const docofl::Error& error) {
      const py::object type =
          py::module_::import("docofl_codec.errors").attr(class_name(error.kind()));
      PyErr_SetString(type.ptr(), error.what());
    }
  });
}
