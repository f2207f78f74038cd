#pragma once

#include <string>
#include <vector>

#include "docofl/build_info.h"

namespace docofl {
namespace fuzz {

// Calls `action(threads)` for every ISA level of this machine, each with one thread and with
// several.
template <class Action>
void for_each_variant(const Action& action) {
  static const std::vector<std::string> levels = build_info().isa_levels;
  for (const std::string& level : levels) {
    set_isa(level);
    for (const int threads : {1, 3}) action(threads);
  }
}

}  // namespace fuzz
}  // namespace docofl
