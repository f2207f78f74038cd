#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/frame.h"
#include "docofl/identity.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

// Bytes that nobody vouches for: each gives an Error or a finite tensor, and no access outside of
// the frame (sanitizer builds see those).
namespace docofl {
namespace {

// Frames of EDEN: of fixed width with and without wide chunks, entropy-coded, a tail alone.
void add_eden_frames(std::vector<test::Bytes>* all) {
  struct Recipe {
    std::size_t size;
    double bits;
    bool entropy_coded;
  };
  const Recipe recipes[] = {
      {0, 2, false},     {5, 2, false},   {117, 0.1, false}, {117, 1, false},
      {117, 3.5, false}, {100, 8, false}, {5000, 1, false},  {5, 2, true},
      {117, 2, true},    {117, 12, true}, {4500, 2, true},
  };
  for (const Recipe& recipe : recipes) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      EdenOptions options;
      options.bits = recipe.bits;
      options.seed = 5;
      options.entropy_coded = recipe.entropy_coded;
      options.threads = 1;
      all->push_back(test::encode(test::Tensor(test::normal_values(recipe.size), dtype), options));
    }
  }
}

// Frames of version 2: of one symbol a coordinate and of pairs, with outliers.
void add_best_frames(std::vector<test::Bytes>* all) {
  EcuqOptions options;
  options.threads = 1;
  options.coder = Coder::kRans;
  for (const Quality quality : {Quality::kBest, Quality::kFast}) {
    options.quality = quality;
    for (const double bits : {0.4, 3.0}) {
      options.bits = bits;
      std::vector<float> values = test::normal_values(1100);
      all->push_back(test::encode(test::Tensor(values, DType::kFloat32), options));
      values[500] = 1e30f;
      all->push_back(test::encode(test::Tensor(values, DType::kFloat32), options));
    }
  }
}

// Frames of every mode: raw bits, tuples, explicit levels, outliers, one and several streams; then
// those of EDEN.
std::vector<test::Bytes> frames() {
  struct Recipe {
    const char* distribution;
    std::size_t size;
    double bits;
  };
  const Recipe recipes[] = {
      {"normal", 0, 2},          {"normal", 1, 2},        {"normal", 100, 0.5},
      {"normal", 300, 2},        {"normal", 200, 12},     {"normal", 4100, 1},
      {"normal", 4096, 2.3},     {"normal", 4200, 4},     {"layered", 5000, 2},
      {"layered", 9000, 1},      {"three values", 77, 2}, {"three values", 5001, 1},
      {"hundred values", 90, 9}, {"constant", 70000, 1},  {"one outlier", 500, 3},
  };
  std::vector<test::Bytes> all;
  for (const Recipe& recipe : recipes) {
    for (const test::Distribution& distribution : test::distributions()) {
      if (std::string(distribution.name) != recipe.distribution) continue;
      for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
        std::vector<float> values = distribution.make(recipe.size);
        for (float& value : values) value = std::min(60000.0f, value);
        EcuqOptions options;
        options.bits = recipe.bits;
        options.threads = 1;
        all.push_back(test::encode(test::Tensor(values, dtype), options));
      }
    }
  }
  add_best_frames(&all);
  add_eden_frames(&all);
  return all;
}

// Decodes whatever it can; an Error is an answer too. Returns true where a tensor came out.
bool survives(const test::Bytes& bytes) {
  test::ExactArray<std::uint8_t> exact(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.data());
  try {
    const Frame frame = parse_frame({exact.data(), exact.size()});
    if (has_foreign_payload(frame.header.codec)) return false;
    if (has_ecuq_payload(frame.header.codec)) ecuq_inspect(frame);
    if (frame.header.codec == CodecId::kEden) eden_inspect(frame);
    if (frame.size > std::size_t(1) << 24) return false;
    test::Tensor out(frame.size, frame.header.dtype);
    if (has_ecuq_payload(frame.header.codec)) {
      ecuq_decode(frame, out.mutable_view(), 1);
    } else if (frame.header.codec == CodecId::kEden) {
      eden_decode(frame, out.mutable_view(), 1);
    } else {
      identity_decode(frame, out.mutable_view(), 1);
    }
    for (const float value : out.values()) {
      // float64 beyond float32 is finite all the same.
      if (frame.header.dtype != DType::kFloat64) DOCOFL_CHECK(std::isfinite(value));
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

void reseal(test::Bytes* bytes) { seal_frame(bytes->data(), bytes->size(), 1); }

DOCOFL_TEST(good_frames_survive) {
  for (const test::Bytes& bytes : frames()) DOCOFL_CHECK(survives(bytes));
}

DOCOFL_TEST(truncation_at_every_byte) {
  for (const test::Bytes& bytes : frames()) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const test::Note note("frame of ", bytes.size(), " bytes, cut to ", size);
      test::ExactArray<std::uint8_t> cut(size);
      std::copy(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size), cut.data());
      DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame, parse_frame({cut.data(), size}));
    }
    test::Bytes longer = bytes;
    longer.push_back(0);
    DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, parse_frame({longer.data(), longer.size()}));
  }
}

// All bits of the first bytes, which hold the parameters, and one in eleven of the others.
template <class Action>
void for_each_flip(const test::Bytes& bytes, std::size_t end, const Action& action) {
  for (std::size_t bit = 0; bit < 8 * end; bit += bit < 8 * 300 ? 1 : 11) {
    const test::Note note("frame of ", bytes.size(), " bytes, bit ", bit);
    test::Bytes flipped = bytes;
    flipped[bit / 8] = static_cast<std::uint8_t>(flipped[bit / 8] ^ 1 << (bit % 8));
    action(&flipped);
  }
}

DOCOFL_TEST(a_bit_flip_is_noticed) {
  for (const test::Bytes& bytes : frames()) {
    for_each_flip(bytes, bytes.size(),
                  [](test::Bytes* flipped) { DOCOFL_CHECK(!survives(*flipped)); });
  }
}

DOCOFL_TEST(a_bit_flip_with_a_new_checksum) {
  std::size_t survived = 0;
  for (const test::Bytes& bytes : frames()) {
    for_each_flip(bytes, bytes.size() - kChecksumBytes, [&](test::Bytes* flipped) {
      reseal(flipped);
      if (survives(*flipped)) ++survived;
    });
  }
  DOCOFL_CHECK(survived > 0);
}

DOCOFL_TEST(random_changes_with_a_new_checksum) {
  test::Random random(71);
  for (const test::Bytes& bytes : frames()) {
    for (int round = 0; round < 200; ++round) {
      test::Bytes changed = bytes;
      // Most changes near the start, where the parameters are.
      const std::size_t changes = 1 + random.below(4);
      for (std::size_t i = 0; i < changes; ++i) {
        const std::size_t reach =
            random.below(3) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 60);
        const std::uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff};
        changed[random.below(reach)] = random.below(2) == 0
                                           ? extremes[random.below(5)]
                                           : static_cast<std::uint8_t>(random.next());
      }
      reseal(&changed);
      const test::Note note("frame of ", bytes.size(), " bytes, round ", round);
      survives(changed);
    }
  }
}

// Sizes that the frame's length cannot bear out are refused before memory is taken for them.
DOCOFL_TEST(declared_sizes_are_bounded_by_the_frame) {
  EcuqOptions options;
  options.threads = 1;
  const test::Tensor tensor(std::vector<float>(100, 1.0f), DType::kFloat32);
  const test::Bytes bytes = test::encode(tensor, options);
  const Frame parsed = parse_frame({bytes.data(), bytes.size()});
  for (unsigned bit = 20; bit < 60; ++bit) {
    const test::Note note("2^", bit, " coordinates");
    FrameHeader header = parsed.header;
    header.shape = {std::uint64_t(1) << (bit / 2), std::uint64_t(1) << (bit - bit / 2)};
    test::Bytes forged(frame_size(header, parsed.payload.size));
    std::uint8_t* payload = write_frame_header(header, parsed.payload.size, forged.data());
    std::copy(parsed.payload.data, parsed.payload.data + parsed.payload.size, payload);
    reseal(&forged);
    const Frame frame = parse_frame({forged.data(), forged.size()});
    DOCOFL_CHECK_EQUAL(frame.size, std::size_t(1) << bit);
    DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame, ecuq_inspect(frame));
  }
}

DOCOFL_TEST(identity_frames) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const test::Tensor tensor(test::normal_values(33), dtype);
    FrameHeader header = test::header_of(tensor);
    header.codec = CodecId::kIdentity;
    test::Bytes bytes(frame_size(header, tensor.num_bytes()));
    identity_encode(header, tensor.view(), 1, bytes.data());
    const Frame frame = parse_frame({bytes.data(), bytes.size()});
    test::Tensor out(frame.size, dtype);
    identity_decode(frame, out.mutable_view(), 1);
    DOCOFL_CHECK_SAME(out.bytes(), tensor.bytes(), tensor.num_bytes());
    const test::Note note("dtype ", dtype);
    for_each_flip(bytes, bytes.size() - kChecksumBytes, [](test::Bytes* flipped) {
      DOCOFL_CHECK(!survives(*flipped));
      reseal(flipped);
      survives(*flipped);
    });
  }
}

}  // namespace
}  // namespace docofl
