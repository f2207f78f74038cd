#include <cfenv>
#include <string>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "docofl/ecuq.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

// Bytes and values do not depend on the floating-point mode of the calling thread, and calls leave
// it as it was.
namespace docofl {
namespace {

// Sets a mode while alive.
class Rounding {
 public:
  explicit Rounding(int mode) : before_(std::fegetround()) { std::fesetround(mode); }
  ~Rounding() { std::fesetround(before_); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  int before_;
};

#if defined(__SSE2__)
// Subnormals are zero, as operands and as results.
class FlushToZero {
 public:
  FlushToZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlags); }
  ~FlushToZero() { _mm_setcsr(before_); }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;
  static bool is_on() { return (_mm_getcsr() & kFlags) == kFlags; }

 private:
  static constexpr unsigned kFlags = 0x8040;
  unsigned before_;
};
#endif

// Encodes and decodes in the default mode, then again inside `in_mode`, and compares.
template <class InMode>
void check_independence(const InMode& in_mode) {
  for (const test::Distribution& distribution : test::distributions()) {
    const test::Tensor tensor(distribution.make(20000), DType::kFloat32);
    for (const int threads : {1, 2}) {
      for (const Budget budget : {Budget::kBytes, Budget::kEntropy}) {
        const test::Note note(distribution.name, ", threads ", threads, ", budget ", budget);
        EcuqOptions options;
        options.bits = 2.5;
        options.threads = threads;
        options.budget = budget;
        const test::Bytes expected = test::encode(tensor, options);
        const test::Tensor expected_values = test::decode(expected, DType::kFloat32, threads);
        in_mode([&] {
          const test::Bytes found = test::encode(tensor, options);
          DOCOFL_CHECK_EQUAL(found.size(), expected.size());
          DOCOFL_CHECK_SAME(found.data(), expected.data(), expected.size());
          const test::Tensor values = test::decode(expected, DType::kFloat32, threads);
          DOCOFL_CHECK_SAME(values.bytes(), expected_values.bytes(), values.num_bytes());
        });
      }
    }
  }
}

DOCOFL_TEST(rounding_modes) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    const test::Note note("mode ", mode);
    check_independence([&](const auto& check) {
      const Rounding rounding(mode);
      check();
      DOCOFL_CHECK_EQUAL(std::fegetround(), mode);
    });
  }
  DOCOFL_CHECK_EQUAL(std::fegetround(), FE_TONEAREST);
}

#if defined(__SSE2__)
DOCOFL_TEST(flushed_subnormals) {
  check_independence([](const auto& check) {
    const FlushToZero flush;
    check();
    DOCOFL_CHECK(FlushToZero::is_on());
  });
  DOCOFL_CHECK(!FlushToZero::is_on());
}
#endif

}  // namespace
}  // namespace docofl
