#pragma once

#include <cstdint>

namespace docofl {

// Counter-based random bits: a pure function of (key, counter), so that any position of the
// stream is had without the ones before it. The finalizer of SplitMix64 (Steele et al., 2014).
inline std::uint64_t counter_random(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = key + (counter + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace docofl
