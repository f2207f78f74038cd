#include "register.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "Native core of docofl_codec.";
  register_errors(module);
  register_codec(module);
  register_eden(module);
  register_baselines(module);
  register_state_dict(module);
}
