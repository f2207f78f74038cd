#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "docofl/eden.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

// Weighted sums of frames of EDEN, against tensors that are decoded one by one.
namespace docofl {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();

EdenOptions with_bits(double bits, EdenScale scale = EdenScale::kUnbiased) {
  EdenOptions options;
  options.bits = bits;
  options.seed = 17;
  options.scale = scale;
  options.threads = 1;
  return options;
}

EdenOptions coded_with_bits(double bits, EdenScale scale = EdenScale::kUnbiased) {
  EdenOptions options = with_bits(bits, scale);
  options.entropy_coded = true;
  return options;
}

// Frames of tensors that differ, all of one size.
class Frames {
 public:
  explicit Frames(std::size_t size) : size_(size) {}

  void add(EdenOptions options, std::uint64_t seed, double weight, DType dtype = DType::kFloat32) {
    options.seed = seed;
    const test::Tensor tensor(test::normal_values(size_, 200 + bytes_.size()), dtype);
    bytes_.push_back(test::encode(tensor, options));
    weights_.push_back(weight);
  }

  std::vector<Frame> parsed() const {
    std::vector<Frame> frames;
    for (const test::Bytes& bytes : bytes_) {
      frames.push_back(parse_frame({bytes.data(), bytes.size()}));
    }
    return frames;
  }

  // Starts with the values that `out` has before the sum is written or added to it.
  std::vector<float> sum(bool add, int threads) const {
    test::ExactArray<float> out(size_, 1);
    std::fill_n(out.data(), size_, kBefore);
    eden_decode_sum(parsed(), weights_, add, out.data(), threads);
    return {out.data(), out.data() + size_};
  }

  // Checks it against decoded tensors that are added up one by one.
  void check_sum() const {
    std::vector<double> expected(size_, 0.0);
    double bound = 1e-6;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const test::Tensor decoded = test::decode(bytes_[i], DType::kFloat32, 1);
      float largest = 0;
      const std::vector<float> values = decoded.values();
      for (std::size_t k = 0; k < size_; ++k) {
        expected[k] += weights_[i] * double(values[k]);
        largest = std::max(largest, std::fabs(values[k]));
      }
      // float16 and bfloat16 frames are not rounded before they are added.
      const DType dtype = parsed()[i].header.dtype;
      const double unit = dtype == DType::kFloat16    ? 0x1p-11
                          : dtype == DType::kBFloat16 ? 0x1p-8
                                                      : 4e-6;
      bound += unit * std::fabs(weights_[i]) * double(largest);
    }
    for (const bool add : {false, true}) {
      std::vector<float> first;
      test::for_each_isa([&](const std::string& isa) {
        for (const int threads : {1, 3}) {
          const test::Note note("size ", size_, ", frames ", bytes_.size(), ", add ", add, ", isa ",
                                isa, ", threads ", threads);
          const std::vector<float> found = sum(add, threads);
          if (first.empty()) first = found;
          DOCOFL_CHECK_SAME(found.data(), first.data(), size_);
        }
      });
      for (std::size_t k = 0; k < size_; ++k) {
        const test::Note note("size ", size_, ", frames ", bytes_.size(), ", add ", add, ", index ",
                              k, ", found ", first[k], ", expected ", expected[k]);
        const double before = add ? double(kBefore) : 0.0;
        DOCOFL_CHECK(std::fabs(double(first[k]) - before - expected[k]) <= bound);
      }
    }
  }

  // Damages the last frame so that its fields are in order but its code words are not.
  void damage_code_words() {
    test::Bytes& bytes = bytes_.back();
    for (std::size_t place = bytes.size() - kChecksumBytes - 1;; --place) {
      DOCOFL_CHECK(place > 100);
      const test::Bytes good = bytes;
      bytes[place] ^= 0x81;
      seal_frame(bytes.data(), bytes.size(), 1);
      const Frame frame = parse_frame({bytes.data(), bytes.size()});
      eden_inspect(frame);
      try {
        test::decode(bytes, DType::kFloat32, 1);
      } catch (const Error&) {
        return;
      }
      bytes = good;
    }
  }

  static constexpr float kBefore = 0.75f;

 private:
  std::size_t size_;
  std::vector<test::Bytes> bytes_;
  std::vector<double> weights_;
};

// Alone, a frame gives what it is decoded to.
DOCOFL_TEST(a_sum_of_one_frame) {
  for (const std::size_t size : {0, 5, 16, 117, 70000}) {
    for (const EdenOptions& options :
         {with_bits(0.5), with_bits(1), with_bits(3.3, EdenScale::kMse), with_bits(8),
          coded_with_bits(2), coded_with_bits(6, EdenScale::kMse)}) {
      const test::Note note("size ", size, ", bits ", options.bits, ", coded ",
                            options.entropy_coded);
      const test::Tensor tensor(test::normal_values(size), DType::kFloat32);
      const test::Bytes bytes = test::encode(tensor, options);
      const Frame frame = parse_frame({bytes.data(), bytes.size()});
      const std::vector<float> expected = test::decode(bytes, DType::kFloat32, 1).values();
      test::ExactArray<float> out(size, 3);
      eden_decode_sum({frame}, {1.0}, false, out.data(), 1);
      for (std::size_t i = 0; i < size; ++i) DOCOFL_CHECK_EQUAL(out[i], expected[i]);
    }
  }
}

DOCOFL_TEST(sums_of_frames_with_one_seed) {
  for (const std::size_t size : {5, 117, 70001}) {
    Frames frames(size);
    frames.add(with_bits(1), 3, 0.5);
    frames.add(with_bits(1), 3, -0.25);
    frames.add(with_bits(3.3), 3, 2);
    frames.add(with_bits(8, EdenScale::kMse), 3, 0);
    frames.add(with_bits(0.5), 3, 1e-3);
    frames.check_sum();
  }
}

DOCOFL_TEST(sums_of_frames_with_other_seeds) {
  for (const std::size_t size : {5, 117, 70001}) {
    Frames frames(size);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      frames.add(with_bits(2), seed % 4, 1.0 / double(1 + seed));
    }
    frames.add(with_bits(2.5), 1, 1, DType::kFloat64);
    frames.check_sum();
  }
}

DOCOFL_TEST(sums_with_entropy_coded_frames) {
  for (const std::size_t size : {5, 117, 70001}) {
    Frames frames(size);
    frames.add(coded_with_bits(2), 3, 0.5);
    frames.check_sum();
    frames.add(with_bits(1), 3, -0.25);
    frames.add(coded_with_bits(4, EdenScale::kMse), 3, -1.5);
    frames.add(with_bits(2), 9, 0.125);
    frames.check_sum();
  }
}

DOCOFL_TEST(sums_of_frames_of_other_dtypes) {
  Frames frames(5003);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    frames.add(with_bits(3), 3, 0.5, dtype);
    frames.add(coded_with_bits(3), 4, 0.5, dtype);
  }
  frames.check_sum();
}

DOCOFL_TEST(sums_of_nothing) {
  float out = 3;
  eden_decode_sum({}, {}, true, &out, 1);
  DOCOFL_CHECK_EQUAL(out, 3.0f);
  // Frames of zeros, and frames that do not count.
  const test::Tensor zeros(std::vector<float>(117, 0.0f), DType::kFloat32);
  const test::Tensor normal(test::normal_values(117), DType::kFloat32);
  for (const EdenOptions& options : {with_bits(1), coded_with_bits(2)}) {
    for (const bool is_zero : {false, true}) {
      const test::Bytes bytes = test::encode(is_zero ? zeros : normal, options);
      const Frame frame = parse_frame({bytes.data(), bytes.size()});
      std::vector<float> sum(117, 3.0f);
      eden_decode_sum({frame, frame}, {is_zero ? 1.0 : 0.0, 0.0}, true, sum.data(), 1);
      for (const float value : sum) DOCOFL_CHECK_EQUAL(value, 3.0f);
    }
  }
}

// Estimates near the largest value, whose sum is beyond it, in blocks and in the tail.
DOCOFL_TEST(sums_beyond_float32_are_finite) {
  constexpr std::size_t kSize = 117;
  std::vector<float> values(kSize, 1e38f);
  for (std::size_t i = 0; i < kSize; i += 2) values[i] = -values[i];
  const test::Tensor tensor(values, DType::kFloat32);
  for (const EdenOptions& options : {with_bits(8), coded_with_bits(8)}) {
    for (const bool same_seed : {false, true}) {
      std::vector<test::Bytes> bytes;
      for (std::uint64_t i = 0; i < 8; ++i) {
        EdenOptions mine = options;
        mine.seed = same_seed ? 1 : i;
        bytes.push_back(test::encode(tensor, mine));
      }
      std::vector<Frame> frames;
      for (const test::Bytes& frame : bytes) {
        frames.push_back(parse_frame({frame.data(), frame.size()}));
      }
      test::for_each_isa([&](const std::string& isa) {
        const test::Note note("isa ", isa, ", coded ", options.entropy_coded, ", same seed ",
                              same_seed);
        std::vector<float> out(kSize, 0.0f);
        eden_decode_sum(frames, std::vector<double>(8, 1.0), true, out.data(), 1);
        for (std::size_t i = 0; i < kSize; ++i) {
          DOCOFL_CHECK_EQUAL(out[i], i % 2 == 0 ? -kMax : kMax);
        }
      });
    }
  }
}

// A frame that cannot be decoded is found before anything is written.
DOCOFL_TEST(a_damaged_frame_leaves_the_sum_as_it_was) {
  for (const std::size_t size : {4096, 140000}) {
    Frames frames(size);
    frames.add(with_bits(1), 3, 1);
    frames.add(coded_with_bits(2), 3, 1);
    frames.add(coded_with_bits(2), 4, 1);
    frames.damage_code_words();
    Frames other_sizes(size);
    other_sizes.add(with_bits(1), 3, 1);
    const test::Bytes other =
        test::encode(test::Tensor(test::normal_values(size + 1), DType::kFloat32), with_bits(1));
    std::vector<Frame> mixed = other_sizes.parsed();
    mixed.push_back(parse_frame({other.data(), other.size()}));
    for (const bool add : {false, true}) {
      for (const int threads : {1, 2}) {
        const test::Note note("size ", size, ", add ", add, ", threads ", threads);
        std::vector<float> out(size, 7.0f);
        DOCOFL_CHECK_ERROR(
            ErrorKind::kCorruptFrame,
            eden_decode_sum(frames.parsed(), {1.0, 1.0, 1.0}, add, out.data(), threads));
        DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput,
                           eden_decode_sum(mixed, {1.0, 1.0}, add, out.data(), threads));
        for (const float value : out) DOCOFL_CHECK_EQUAL(value, 7.0f);
      }
    }
  }
}

}  // namespace
}  // namespace docofl
