#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

#include "docofl/baselines.h"
#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/frame.h"
#include "docofl/identity.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

// Row 10: whichever allocation fails, std::bad_alloc comes out, and nothing is left behind.

namespace {

std::atomic<long> countdown{0};  // to the allocation that fails; none does from 0 on down
std::atomic<long> alive{0};      // allocations that have not been given back
std::atomic<bool> is_optional{
    false};  // whether the one that failed was such that one can do without

// Null where it fails.
void* try_to_allocate(std::size_t size) noexcept {
  if (countdown.load() > 0 && countdown.fetch_sub(1) == 1) return nullptr;
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory != nullptr) ++alive;
  return memory;
}

void* allocate(std::size_t size) {
  void* memory = try_to_allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// As std::stable_sort asks for a buffer.
void* allocate_if_possible(std::size_t size) noexcept {
  void* memory = try_to_allocate(size);
  if (memory == nullptr) is_optional.store(true);
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  --alive;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate_if_possible(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate_if_possible(size);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }

namespace docofl {
namespace {

constexpr int kThreads[] = {1, 2};

// Runs `action` with the first, the second, ... allocation failing until it succeeds. Returns how
// many failed.
long check_every_failure(const std::function<void()>& action) {
  action();  // makes what is made once and kept
  for (long failing = 1;; ++failing) {
    const test::Note note("allocation ", failing);
    const long before = alive.load();
    bool failed = false;
    is_optional.store(false);
    countdown.store(failing);
    try {
      action();
    } catch (const std::bad_alloc&) {
      failed = true;
    } catch (...) {
      countdown.store(0);
      throw;
    }
    const long left = countdown.exchange(0);
    DOCOFL_CHECK_EQUAL(alive.load(), before);
    if (!failed && left > 0) return failing - 1;
    DOCOFL_CHECK(failed || is_optional.load());
  }
}

void decode_any(const test::Bytes& bytes, const MutableTensorView& out, int threads) {
  const Frame frame = parse_frame({bytes.data(), bytes.size()}, threads);
  switch (frame.header.codec) {
    case CodecId::kEden: eden_decode(frame, out, threads); break;
    case CodecId::kIdentity: identity_decode(frame, out, threads); break;
    default: ecuq_decode(frame, out, threads); break;
  }
}

void check_decoding(const test::Bytes& bytes, std::size_t size) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    test::Tensor out(size, dtype);
    for (const int threads : kThreads) {
      const test::Note note("threads ", threads, ", dtype ", dtype);
      const long failures =
          check_every_failure([&] { decode_any(bytes, out.mutable_view(), threads); });
      DOCOFL_CHECK(failures > 0);
    }
  }
}

EcuqOptions with_quality(Quality quality, double bits) {
  EcuqOptions options;
  options.bits = bits;
  options.quality = quality;
  return options;
}

void check_ecuq(const test::Tensor& tensor, EcuqOptions options) {
  std::vector<std::uint8_t> room(encoded_capacity(test::header_of(tensor), options) +
                                 tensor.num_bytes() + 1000);
  for (const int threads : kThreads) {
    const test::Note note("threads ", threads);
    options.threads = threads;
    const long failures = check_every_failure([&] {
      const EcuqPlan plan = ecuq_plan(test::header_of(tensor), tensor.view(), options);
      ecuq_encode(plan, tensor.view(), threads, room.data());
    });
    DOCOFL_CHECK(failures > 10);
  }
}

DOCOFL_TEST(encoding_with_ecuq) {
  check_ecuq(test::Tensor(test::normal_values(70000), DType::kFloat32),
             with_quality(Quality::kFast, 2));
  check_ecuq(test::Tensor(test::layered_values(5000), DType::kFloat64),
             with_quality(Quality::kFast, 6));
}

DOCOFL_TEST(encoding_few_values_with_ecuq) {
  std::vector<float> values = test::normal_values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = values[i % 7];
  check_ecuq(test::Tensor(values, DType::kFloat32), with_quality(Quality::kFast, 4));
}

DOCOFL_TEST(encoding_with_ecuq_best) {
  check_ecuq(test::Tensor(test::normal_values(1500), DType::kFloat32),
             with_quality(Quality::kBest, 2));
}

DOCOFL_TEST(encoding_with_ecuq_and_either_coder) {
  EcuqOptions options = with_quality(Quality::kFast, 2);
  options.coder = Coder::kEither;
  check_ecuq(test::Tensor(test::normal_values(1500), DType::kFloat32), options);
}

DOCOFL_TEST(encoding_with_the_entropy_rule) {
  EcuqOptions options = with_quality(Quality::kFast, 3);
  options.budget = Budget::kEntropy;
  check_ecuq(test::Tensor(test::normal_values(3000), DType::kFloat32), options);
}

DOCOFL_TEST(decoding_ecuq) {
  for (const Quality quality : {Quality::kFast, Quality::kBest}) {
    for (const double bits : {0.4, 2.0, 12.0}) {
      const test::Note note("quality ", quality, ", bits ", bits);
      constexpr std::size_t kSize = 140000;
      const test::Tensor tensor(test::normal_values(kSize), DType::kFloat32);
      check_decoding(test::encode(tensor, with_quality(quality, bits)), kSize);
    }
  }
}

DOCOFL_TEST(eden) {
  for (const bool entropy_coded : {false, true}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      const test::Note note("entropy-coded ", entropy_coded, ", dtype ", dtype);
      const test::Tensor tensor(test::normal_values(100003), dtype);
      EdenOptions options;
      options.bits = 2;
      options.entropy_coded = entropy_coded;
      const FrameHeader header = test::header_of(tensor);
      test::Bytes room(eden_capacity(header, options));
      std::size_t size = 0;
      for (const int threads : kThreads) {
        options.threads = threads;
        const long failures = check_every_failure(
            [&] { size = eden_encode(header, tensor.view(), options, room.data()); });
        DOCOFL_CHECK(failures > 0);
      }
      room.resize(size);
      check_decoding(room, tensor.view().size);
    }
  }
}

DOCOFL_TEST(sums_of_eden) {
  const test::Tensor tensor(test::normal_values(50000), DType::kFloat32);
  EdenOptions options;
  options.bits = 1;
  const test::Bytes bytes = test::encode(tensor, options);
  const std::vector<Frame> frames(3, parse_frame({bytes.data(), bytes.size()}));
  const std::vector<double> weights = {0.5, 0.25, 0.25};
  std::vector<float> out(tensor.view().size);
  for (const int threads : kThreads) {
    const long failures =
        check_every_failure([&] { eden_decode_sum(frames, weights, false, out.data(), threads); });
    DOCOFL_CHECK(failures > 0);
  }
}

DOCOFL_TEST(identity) {
  const test::Tensor tensor(test::normal_values(3000), DType::kFloat32);
  FrameHeader header = test::header_of(tensor);
  header.codec = CodecId::kIdentity;
  test::Bytes bytes(frame_size(header, tensor.num_bytes()));
  identity_encode(header, tensor.view(), 1, bytes.data());
  check_decoding(bytes, tensor.view().size);
}

DOCOFL_TEST(gamma_words) {
  std::vector<std::int32_t> multiples(5000);
  for (std::size_t i = 0; i < multiples.size(); ++i) multiples[i] = static_cast<int>(i % 9) - 4;
  for (const bool sparse : {false, true}) {
    const long failures =
        check_every_failure([&] { gamma_encode(multiples.data(), multiples.size(), sparse); });
    DOCOFL_CHECK(failures > 0);
  }
}

// The message of an Error needs memory too.
DOCOFL_TEST(refusing_a_frame) {
  const test::Tensor tensor(test::normal_values(3000), DType::kFloat32);
  test::Bytes bytes = test::encode(tensor, with_quality(Quality::kFast, 2));
  bytes[20] ^= 1;
  const long failures = check_every_failure([&] {
    try {
      parse_frame({bytes.data(), bytes.size()});
      test::fail(__FILE__, __LINE__, "expected an error");
    } catch (const Error&) {
    }
  });
  DOCOFL_CHECK(failures > 0);
}

}  // namespace
}  // namespace docofl
