#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/parallel.h"
#include "docofl/build_info.h"
#include "docofl/error.h"
#include "kernels/kernels.h"

namespace docofl {

namespace baseline {
extern const Kernels kTable;
}
#ifdef DOCOFL_HAS_V3
namespace v3 {
extern const Kernels kTable;
}
#endif

namespace {

// From the plainest to the best.
std::vector<const Kernels*> usable_kernels() {
  std::vector<const Kernels*> usable = {&baseline::kTable};
#ifdef DOCOFL_HAS_V3
  // What kernels_v3.cpp is built with; every CPU with these has LZCNT too.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("popcnt")) {
    usable.push_back(&v3::kTable);
  }
#endif
  return usable;
}

const Kernels* find_kernels(const std::string& name) {
  for (const Kernels* candidate : usable_kernels()) {
    if (name == candidate->name) return candidate;
  }
  return nullptr;
}

const Kernels* initial_kernels() {
  // A name that is not usable here falls back to the plainest level: whoever sets the variable
  // wants less, not more.
  const char* name = std::getenv("DOCOFL_CODEC_ISA");
  if (name != nullptr && *name != '\0') {
    const Kernels* named = find_kernels(name);
    return named != nullptr ? named : &baseline::kTable;
  }
  return usable_kernels().back();
}

std::atomic<const Kernels*>& current() {
  static std::atomic<const Kernels*> table{initial_kernels()};
  return table;
}

}  // namespace

const Kernels& kernels() { return *current().load(std::memory_order_relaxed); }

void set_isa(const std::string& name) {
  const Kernels* table = find_kernels(name);
  if (table == nullptr) {
    std::string known;
    for (const Kernels* candidate : usable_kernels()) {
      known += known.empty() ? candidate->name : std::string(", ") + candidate->name;
    }
    throw Error(ErrorKind::kInvalidInput,
                "ISA level: found '" + name + "', expected one of: " + known);
  }
  current().store(table);
}

BuildInfo build_info() {
  BuildInfo info;
  info.version = DOCOFL_VERSION;
  info.compiler = DOCOFL_COMPILER;
  info.isa = kernels().name;
  for (const Kernels* candidate : usable_kernels()) info.isa_levels.emplace_back(candidate->name);
  info.openmp = built_with_openmp();
  return info;
}

}  // namespace docofl
