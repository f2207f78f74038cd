#pragma once

#include <cstddef>
#include <cstdint>

namespace docofl {

// Sets `result` to a * b and returns true, or returns false where that overflows.
inline bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t* result) {
  if (a != 0 && b > UINT64_MAX / a) return false;
  *result = a * b;
  return true;
}

inline std::size_t divide_up(std::size_t a, std::size_t b) { return a / b + (a % b != 0); }

}  // namespace docofl
