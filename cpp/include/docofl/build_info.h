#pragma once

#include <string>
#include <vector>

namespace docofl {

struct BuildInfo {
  std::string version;
  std::string compiler;
  std::string isa;                      // the level in use
  std::vector<std::string> isa_levels;  // the levels that this machine could use
  bool openmp = false;
};

BuildInfo build_info();

// Chooses another level by name ("baseline", "v3"). Throws Error(kInvalidInput) for one that was
// not built or that this CPU lacks. Must not run while other threads encode or decode.
void set_isa(const std::string& name);

}  // namespace docofl
