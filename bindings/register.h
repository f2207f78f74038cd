#pragma once

#include <pybind11/pybind11.h>

// One function a file; module.cpp calls them in order.
void register_errors(pybind11::module_& module);
void register_codec(pybind11::module_& module);
void register_eden(pybind11::module_& module);
void register_baselines(pybind11::module_& module);
void register_state_dict(pybind11::module_& module);
