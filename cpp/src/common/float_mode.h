#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#include <cfenv>
#include <cstdint>

namespace docofl {

// While alive, this thread computes with IEEE 754's defaults: to nearest, subnormals kept. Callers
// may have set other modes (torch.set_flush_denormal, libraries built with -ffast-math), on which
// bytes must not depend. The caller's mode comes back afterwards.
class DefaultFloatMode {
 public:
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

#if defined(__SSE2__)
  DefaultFloatMode() : saved_(_mm_getcsr()) {
    if (saved_ != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloatMode() {
    if (saved_ != kDefault) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kDefault = 0x1f80;  // all exceptions masked, no flushing
  unsigned saved_;
#elif defined(__aarch64__)
  DefaultFloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t(0)));
  }
  ~DefaultFloatMode() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
  std::uint64_t saved_;
#else
  // The rounding is all that the language knows.
  DefaultFloatMode() : saved_(std::fegetround()) { std::fesetround(FE_TONEAREST); }
  ~DefaultFloatMode() { std::fesetround(saved_); }

 private:
  int saved_;
#endif
};

}  // namespace docofl
