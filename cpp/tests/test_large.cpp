#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "docofl/ecuq.h"
#include "docofl/frame.h"
#include "harness.h"
#include "kernels/kernels.h"
#include "test_data.h"

// Tensors of more than 2^32 coordinates and bit offsets beyond 2^35, in a gigabyte of memory:
// tensors are the same few pages, mapped over and over. Linux only; built with DOCOFL_LARGE_TESTS.
namespace docofl {
namespace {

// Addresses for `size` bytes, all of which are backed by the same 24 MiB. That is no power of two,
// so that an offset which lost its high bits leads to other bytes.
class RepeatedMemory {
 public:
  static constexpr std::size_t kPeriod = std::size_t(3) << 23;

  explicit RepeatedMemory(std::size_t size) : size_((size + kPeriod - 1) / kPeriod * kPeriod) {
    const int file = memfd_create("docofl_test", 0);
    DOCOFL_CHECK(file >= 0);
    DOCOFL_CHECK_EQUAL(ftruncate(file, kPeriod), 0);
    void* start =
        mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DOCOFL_CHECK(start != MAP_FAILED);
    start_ = static_cast<std::uint8_t*>(start);
    for (std::size_t offset = 0; offset < size_; offset += kPeriod) {
      const void* piece =
          mmap(start_ + offset, kPeriod, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
      DOCOFL_CHECK(piece == start_ + offset);
    }
    close(file);
  }
  ~RepeatedMemory() { munmap(start_, size_); }
  RepeatedMemory(const RepeatedMemory&) = delete;
  RepeatedMemory& operator=(const RepeatedMemory&) = delete;

  std::uint8_t* data() const { return start_; }

 private:
  std::size_t size_;
  std::uint8_t* start_;
};

// A bit position of 32 bits would wrap around at 2^32 and read the wrong fields.
DOCOFL_TEST(raw_bits_beyond_offset_2_to_the_35) {
  constexpr unsigned kWidth = 23;
  constexpr std::size_t kCount = (std::size_t(1) << 35) / kWidth + 1000;
  const RepeatedMemory packed(kCount * kWidth / 8 + 16);
  const RepeatedMemory raw(kCount * sizeof(std::uint32_t));
  test::Random random(81);
  for (std::size_t i = 0; i < RepeatedMemory::kPeriod; ++i) {
    packed.data()[i] = static_cast<std::uint8_t>(random.next());
  }
  test::for_each_isa([&](const std::string& isa) {
    const test::Note note("isa ", isa);
    auto* const values = reinterpret_cast<std::uint32_t*>(raw.data());
    kernels().unpack_raw(packed.data(), kCount, kWidth, values);
    // What was written last to memory that many values share is there.
    for (std::size_t i = kCount - 900; i < kCount; ++i) {
      std::uint32_t expected = 0;
      for (unsigned k = 0; k < kWidth; ++k) {
        const std::size_t bit = i * kWidth + k;
        const unsigned value = (packed.data()[bit / 8] >> (bit % 8)) & 1;
        expected |= value << k;
      }
      DOCOFL_CHECK_EQUAL(values[i], expected);
    }
  });
}

DOCOFL_TEST(a_tensor_of_more_than_2_to_the_32_coordinates) {
  constexpr std::size_t kSize = (std::size_t(1) << 32) + 70001;
  constexpr std::size_t kPeriod = RepeatedMemory::kPeriod / 2;  // in coordinates
  const RepeatedMemory input(kSize * 2);
  auto* const values = reinterpret_cast<std::uint16_t*>(input.data());
  test::Random random(82);
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const auto value = static_cast<float>(random.normal());
    values[i] = static_cast<std::uint16_t>(test::bits_of(value) >> 16);
  }
  FrameHeader header;
  header.dtype = DType::kBFloat16;
  header.shape = {kSize};
  EcuqOptions options;
  options.bits = 0.7;
  const TensorView tensor = {input.data(), kSize, DType::kBFloat16};
  const EcuqPlan plan = ecuq_plan(header, tensor, options);
  const std::size_t bytes = encoded_size(plan);
  DOCOFL_CHECK(8.0 * static_cast<double>(bytes) <= 0.7 * double(kSize) + 8 * 74);
  std::vector<std::uint8_t> frame_bytes(bytes);
  ecuq_encode(plan, tensor, 0, frame_bytes.data());

  const Frame frame = parse_frame({frame_bytes.data(), bytes}, 0);
  DOCOFL_CHECK_EQUAL(frame.size, kSize);
  const RepeatedMemory output(kSize * 2);
  ecuq_decode(frame, {output.data(), kSize, DType::kBFloat16}, 0);
  // Whole blocks repeat, so it does not matter which of them was decoded last.
  static_assert(kPeriod % 65536 == 0, "blocks must repeat");
  const EcuqInfo info = ecuq_inspect(frame);
  const auto* const restored = reinterpret_cast<const std::uint16_t*>(output.data());
  for (std::size_t i = kSize - 4000; i < kSize; ++i) {
    const float original = test::float_of(std::uint32_t(values[i]) << 16);
    const float found = test::float_of(std::uint32_t(restored[i]) << 16);
    DOCOFL_CHECK(std::fabs(double(original) - double(found)) <= info.step * 0.51 + 0.02);
  }
}

}  // namespace
}  // namespace docofl
