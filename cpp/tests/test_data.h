#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/counter_rng.h"
#include "docofl/build_info.h"

// Inputs that several tests share.
namespace docofl {
namespace test {

// Random numbers that are the same in every run.
class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t next() { return counter_random(seed_, counter_++); }
  // Below `bound`, which is positive and less than 2^32.
  std::size_t below(std::size_t bound) { return ((next() >> 32) * bound) >> 32; }
  // In (0, 1).
  double uniform() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }
  double normal() {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
};

// `count` values that start `shift` items after an allocation's begin and end where it ends, so
// that a sanitizer sees every access beyond them and `shift` sets the alignment.
template <class T>
class ExactArray {
 public:
  explicit ExactArray(std::size_t count, std::size_t shift = 0)
      : count_(count), shift_(shift), items_(new T[shift + count]) {
    std::fill_n(items_.get(), shift + count, T());
  }
  T* data() { return items_.get() + shift_; }
  const T* data() const { return items_.get() + shift_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }

 private:
  std::size_t count_;
  std::size_t shift_;
  std::unique_ptr<T[]> items_;
};

// Calls `action(name)` with each ISA level of this machine in use, and restores the one before.
template <class Action>
void for_each_isa(const Action& action) {
  const BuildInfo before = build_info();
  for (const std::string& level : before.isa_levels) {
    set_isa(level);
    action(level);
  }
  set_isa(before.isa);
}

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Values at the edges of float32: zeros, the smallest, the largest, infinities, NaN.
inline std::vector<float> special_floats() {
  std::vector<float> values;
  for (const float value :
       {0.0f, std::numeric_limits<float>::denorm_min(), 0x1p-130f,
        std::numeric_limits<float>::min(), 1.0f, 65504.0f, 0x1p96f,
        std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    values.push_back(value);
    values.push_back(-value);
  }
  return values;
}

}  // namespace test
}  // namespace docofl
