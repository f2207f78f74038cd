#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "common/counter_rng.h"
#include "docofl/eden.h"
#include "docofl/frame.h"
#include "eden/codebooks.h"
#include "harness.h"
#include "test_codes.h"
#include "test_data.h"
#include "test_eden.h"
#include "test_frames.h"

namespace {

std::atomic<std::size_t> largest_request{0};  // of memory, since it was set to 0

}  // namespace

// Not inlined, or compilers take malloc and delete for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (size > largest_request) largest_request = size;
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// The MUSTs of docs/format.md, section 4: payloads are written field by field, decoded by the
// section's own words, and refused when a field breaks its rule.
namespace docofl {
namespace {

using test::append;
using test::Bytes;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

struct Payload {
  std::uint64_t size = 0;
  DType dtype = DType::kFloat32;
  std::uint8_t mode = 0;
  std::uint8_t width = 0;
  std::uint32_t wide_fraction = 0;
  float bits = 1;
  std::uint64_t seed = 0;
  std::vector<float> scales;
  std::vector<float> tail;
  Bytes words;

  std::size_t header_bytes() const { return 18 + 4 * (scales.size() + tail.size()); }

  Bytes bytes() const {
    Bytes out = {mode, width};
    append(&out, wide_fraction);
    append(&out, bits);
    append(&out, seed);
    for (const float scale : scales) append(&out, scale);
    for (const float value : tail) append(&out, value);
    out.insert(out.end(), words.begin(), words.end());
    return out;
  }
};

Bytes frame_of(std::uint64_t size, DType dtype, const Bytes& payload) {
  FrameHeader header;
  header.codec = CodecId::kEden;
  header.dtype = dtype;
  header.shape = {size};
  return test::frame_around(header, payload);
}

std::vector<float> decode(const Payload& payload) {
  const Bytes frame = frame_of(payload.size, payload.dtype, payload.bytes());
  return test::decode(frame, DType::kFloat32, 1).values();
}

// --- section 4, one coordinate at a time -------------------------------------------------------

// The sizes of the rotation blocks.
std::vector<std::size_t> block_sizes(std::size_t size) {
  std::vector<std::size_t> sizes;
  for (std::size_t block = 32768; block >= 16;) {
    if (size >= block) {
      sizes.push_back(block);
      size -= block;
    }
    if (size < block) block /= 2;
  }
  return sizes;
}

std::size_t num_wide(std::size_t chunks, unsigned width, std::uint32_t wide_fraction) {
  if (width == 0 && chunks < 16) return chunks;
  const double share = static_cast<double>(wide_fraction) / 4294967296.0;
  return static_cast<std::size_t>(std::ceil(static_cast<double>(chunks) * share));
}

// The levels of one block, whose words start at `words`.
std::vector<float> levels_of(const Payload& payload, std::size_t number, std::size_t size,
                             const std::uint8_t* words) {
  const std::size_t chunks = size / 16;
  const std::size_t wide = num_wide(chunks, payload.width, payload.wide_fraction);
  const std::uint64_t random = counter_random(counter_random(payload.seed, 3), number);
  const std::uint64_t a = (random & 0xffffffff) | 1;
  const std::uint64_t o = random >> 32;
  std::vector<float> levels(size, 0.0f);
  for (std::size_t j = 0; j < chunks; ++j) {
    const unsigned width = payload.width + (j < wide ? 1u : 0u);
    const std::size_t place = payload.wide_fraction == 0 ? j : (a * j + o) % chunks;
    for (std::size_t i = 0; i < 16 && width > 0; ++i) {
      unsigned word = 0;
      for (unsigned p = 0; p < width; ++p) {
        word |= ((words[2 * p + i / 8] >> (i % 8)) & 1u) << p;
      }
      const unsigned sign = 1u << (width - 1);
      const float magnitude = eden_codebook(width).magnitudes[word & (sign - 1)];
      levels[16 * place + i] = (word & sign) != 0 ? -magnitude : magnitude;
    }
    words += 2 * width;
  }
  return levels;
}

// Section 4.4 up to step 3, for the levels of all blocks.
std::vector<float> estimates(const Payload& payload, const std::vector<float>& levels) {
  std::vector<float> values;
  const std::vector<std::size_t> sizes = block_sizes(payload.size);
  for (std::size_t number = 0; number < sizes.size(); ++number) {
    const std::size_t size = sizes[number];
    const std::size_t begin = values.size();
    std::vector<std::uint64_t> signs[2];
    for (std::uint64_t r = 1; r <= 2; ++r) {
      std::vector<std::uint64_t>& mine = signs[r - 1];
      mine.resize((size + 63) / 64, 0);
      const std::uint64_t key = counter_random(payload.seed, r);
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint64_t bit = (counter_random(key, (begin + i) / 64) >> ((begin + i) % 64)) & 1;
        mine[i / 64] |= bit << (i % 64);
      }
    }
    const auto first = levels.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto norm = static_cast<float>(
        1 / std::sqrt(static_cast<double>(test::inner_size(size)) * static_cast<double>(size)));
    const std::vector<float> block =
        test::rotated_back({first, first + static_cast<std::ptrdiff_t>(size)},
                           {signs[0].data(), signs[1].data()}, norm, payload.scales[number]);
    values.insert(values.end(), block.begin(), block.end());
  }
  values.insert(values.end(), payload.tail.begin(), payload.tail.end());
  return values;
}

// The whole section for words of fixed width.
std::vector<float> expected_values(const Payload& payload) {
  std::vector<float> levels;
  const std::uint8_t* words = payload.words.data();
  const std::vector<std::size_t> sizes = block_sizes(payload.size);
  for (std::size_t number = 0; number < sizes.size(); ++number) {
    const std::vector<float> mine = levels_of(payload, number, sizes[number], words);
    levels.insert(levels.end(), mine.begin(), mine.end());
    const std::size_t chunks = sizes[number] / 16;
    words += 2 * (chunks * payload.width + num_wide(chunks, payload.width, payload.wide_fraction));
  }
  return estimates(payload, levels);
}

// --- payloads ----------------------------------------------------------------------------------

// Random words of fixed width for `size` coordinates.
Payload fixed_payload(std::uint64_t size, std::uint8_t width, std::uint32_t wide_fraction,
                      std::uint64_t seed = 5) {
  test::Random random(131 + size + width);
  Payload payload;
  payload.size = size;
  payload.width = width;
  payload.wide_fraction = wide_fraction;
  payload.seed = seed;
  std::size_t bytes = 0;
  for (const std::size_t block : block_sizes(size)) {
    payload.scales.push_back(static_cast<float>(0.5 + random.uniform()));
    bytes += 2 * (block / 16 * width + num_wide(block / 16, width, wide_fraction));
  }
  for (std::size_t i = 0; i < size % 16; ++i) {
    payload.tail.push_back(static_cast<float>(random.normal()));
  }
  payload.words.resize(bytes);
  for (std::uint8_t& byte : payload.words) byte = static_cast<std::uint8_t>(random.next());
  return payload;
}

// The fields of an ECUQ payload of explicit levels, four of them.
struct InnerPayload {
  std::uint8_t coder = 0;
  std::uint8_t mode = 1;
  std::vector<float> levels = {-1.5f, -0.5f, 0.25f, 2.0f};
  std::vector<unsigned> symbols;
  Bytes after;

  Bytes bytes() const {
    const CodeLengths lengths = {2, 2, 2, 2};
    Bytes out = {coder, mode, 1, 0, 3};
    append(&out, 2.0f);
    for (const float level : levels) append(&out, level);
    const std::size_t table = out.size();
    out.resize(table + code_table_size(lengths, 4));
    write_code_table(lengths, 4, out.data() + table);
    std::string bits;
    for (const unsigned symbol : symbols) bits += test::canonical_words(lengths, 4)[symbol];
    const Bytes stream = test::bytes_of_bits(bits);
    append(&out, static_cast<std::uint16_t>(stream.size()));
    out.insert(out.end(), stream.begin(), stream.end());
    out.insert(out.end(), after.begin(), after.end());
    return out;
  }
};

InnerPayload inner_payload(std::size_t size) {
  test::Random random(132);
  InnerPayload inner;
  for (std::size_t i = 0; i < size; ++i) {
    inner.symbols.push_back(static_cast<unsigned>(random.below(4)));
  }
  return inner;
}

// 117 coordinates: blocks of 64, 32 and 16, and a tail of 5.
constexpr std::uint64_t kSize = 117;

Payload entropy_payload(const InnerPayload& inner = inner_payload(kSize - 5)) {
  Payload payload = fixed_payload(kSize, 1, 0);
  payload.mode = 1;
  payload.width = 0;
  payload.words = inner.bytes();
  return payload;
}

constexpr std::uint32_t kHalf = std::uint32_t(1) << 31;

Payload good_payload() { return fixed_payload(kSize, 2, kHalf); }

// --- what is refused ---------------------------------------------------------------------------

constexpr std::size_t kFewBytes = 65536;  // more than a thread's scratch, less than any block

// Checks that a payload is refused by everything that reads it, and that memory stays small.
void check_refused(std::uint64_t size, DType dtype, const Bytes& payload, ErrorKind kind,
                   bool when_inspected = true) {
  const Bytes bytes = frame_of(size, dtype, payload);
  const Frame frame = parse_frame({bytes.data(), bytes.size()});
  test::Tensor out(kSize, DType::kFloat32);
  test::Tensor sum(std::vector<float>(kSize, 7.0f), DType::kFloat32);
  largest_request = 0;
  if (when_inspected) DOCOFL_CHECK_ERROR(kind, eden_inspect(frame));
  DOCOFL_CHECK_ERROR(kind, eden_decode(frame, out.mutable_view(), 1));
  auto* const values = static_cast<float*>(sum.mutable_view().data);
  for (const bool add : {false, true}) {
    DOCOFL_CHECK_ERROR(kind, eden_decode_sum({frame}, {1.0}, add, values, 1));
  }
  DOCOFL_CHECK(largest_request <= kFewBytes);
  for (const float value : sum.values()) DOCOFL_CHECK_EQUAL(value, 7.0f);
}

// Changes one thing and checks that it is refused.
void check_refused(Payload payload, ErrorKind kind, const std::function<void(Payload*)>& change,
                   const char* what) {
  const test::Note note(what);
  change(&payload);
  check_refused(payload.size, payload.dtype, payload.bytes(), kind);
}

#define DOCOFL_CHECK_REFUSED(payload, change) \
  check_refused(payload, ErrorKind::kCorruptFrame, [&](Payload* p) { change; }, #change)

DOCOFL_TEST(values_by_the_rules) {
  struct Recipe {
    std::uint64_t size;
    unsigned width;
    std::uint32_t wide_fraction;
  };
  const std::vector<Recipe> recipes = {
      {1, 1, 0},
      {15, 8, 0},
      {16, 0, 1},
      {16, 1, 0},
      {kSize, 0, kHalf},
      {kSize, 0, 1},
      {kSize, 0, 4294967295u},
      {kSize, 2, kHalf},
      {kSize, 3, 0},
      {kSize, 7, 12345},
      {kSize, 7, 4294967295u},
      {kSize, 8, 0},
      {4095, 1, kHalf},
      {4096, 4, 0},
      {8192 + 7, 3, kHalf / 3},
      {65536 + 48, 2, kHalf},
      {98304 + 64, 0, 5},
      {128 + 7, 0, kHalf},
      {256, 0, 1},
      {256 + 128, 0, kHalf},
  };
  for (const Recipe& recipe : recipes) {
    for (const std::uint64_t seed : {std::uint64_t(0), UINT64_MAX}) {
      const Payload payload = fixed_payload(recipe.size, static_cast<std::uint8_t>(recipe.width),
                                            recipe.wide_fraction, seed);
      const std::vector<float> expected = expected_values(payload);
      DOCOFL_CHECK_EQUAL(expected.size(), recipe.size);
      test::for_each_isa([&](const std::string& isa) {
        const test::Note note("isa ", isa, ", size ", recipe.size, ", width ", recipe.width,
                              ", wide fraction ", recipe.wide_fraction, ", seed ", seed);
        const std::vector<float> found = decode(payload);
        DOCOFL_CHECK_SAME(found.data(), expected.data(), expected.size());
      });
    }
  }
}

DOCOFL_TEST(entropy_coded_values_by_the_rules) {
  const InnerPayload inner = inner_payload(kSize - 5);
  std::vector<float> levels;
  for (const unsigned symbol : inner.symbols) levels.push_back(inner.levels[symbol]);
  const Payload payload = entropy_payload(inner);
  const std::vector<float> expected = estimates(payload, levels);
  test::for_each_isa([&](const std::string& isa) {
    const test::Note note("isa ", isa);
    const std::vector<float> found = decode(payload);
    DOCOFL_CHECK_SAME(found.data(), expected.data(), expected.size());
  });
}

// Step 4: to the frame's dtype, and to its largest value where that would be infinite.
DOCOFL_TEST(values_in_other_dtypes) {
  const auto largest = [](DType dtype) {
    return dtype == DType::kFloat16 ? 65504.0f : dtype == DType::kBFloat16 ? 0x1.fep127f : kMax;
  };
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    for (const float scale : {1.0f, 30000.0f, 2e38f, kMax}) {
      const test::Note note("dtype ", dtype, ", scale ", scale);
      Payload payload = good_payload();
      payload.dtype = dtype;
      payload.scales = {scale, 0.0f, scale};
      payload.tail = {1 / 3.0f, -65519.0f, 65520.0f, -kMax, 0x1p-149f};
      std::vector<float> expected = expected_values(payload);
      for (float& value : expected) {
        value = std::max(-largest(dtype), std::min(largest(dtype), value));
      }
      const test::Tensor rounded(expected, dtype);
      const Bytes frame = frame_of(payload.size, dtype, payload.bytes());
      test::for_each_isa([&](const std::string& isa) {
        const test::Note isa_note("isa ", isa);
        const test::Tensor own = test::decode(frame, dtype, 1);
        DOCOFL_CHECK_SAME(own.bytes(), rounded.bytes(), rounded.num_bytes());
        // Other dtypes get the values that the frame's would.
        const std::vector<float> as_float = test::decode(frame, DType::kFloat32, 1).values();
        const std::vector<float> as_double = test::decode(frame, DType::kFloat64, 1).values();
        const std::vector<float> values = rounded.values();
        for (std::size_t i = 0; i < kSize; ++i) {
          DOCOFL_CHECK(std::isfinite(values[i]));
          DOCOFL_CHECK_SAME(&as_float[i], &values[i], 1);
          DOCOFL_CHECK_SAME(&as_double[i], &values[i], 1);
        }
      });
    }
  }
}

DOCOFL_TEST(fields_are_inspected) {
  const Payload payload = fixed_payload(kSize, 2, kHalf, 77);
  const Bytes bytes = frame_of(kSize, DType::kFloat32, payload.bytes());
  const EdenInfo info = eden_inspect(parse_frame({bytes.data(), bytes.size()}));
  DOCOFL_CHECK(!info.entropy_coded);
  DOCOFL_CHECK_EQUAL(info.width, 2u);
  DOCOFL_CHECK_EQUAL(info.wide_fraction, kHalf);
  DOCOFL_CHECK_EQUAL(info.bits, 1.0);
  DOCOFL_CHECK_EQUAL(info.seed, 77u);
  const Bytes coded = frame_of(kSize, DType::kFloat32, entropy_payload().bytes());
  DOCOFL_CHECK(eden_inspect(parse_frame({coded.data(), coded.size()})).entropy_coded);
}

DOCOFL_TEST(modes_and_widths) {
  const Payload good = good_payload();
  const Payload coded = entropy_payload();
  for (const int mode : {2, 3, 128, 255}) {
    for (const Payload& payload : {good, coded}) {
      check_refused(
          payload, ErrorKind::kUnsupportedFrame,
          [&](Payload* p) { p->mode = static_cast<std::uint8_t>(mode); }, "mode");
    }
  }
  for (const int width : {9, 10, 127, 128, 255}) {
    DOCOFL_CHECK_REFUSED(good, p->width = static_cast<std::uint8_t>(width));
    DOCOFL_CHECK_REFUSED(coded, p->width = static_cast<std::uint8_t>(width));
  }
  // Neither bits nor wide chunks, and wide chunks of nine bits.
  DOCOFL_CHECK_REFUSED(good, p->width = 0; p->wide_fraction = 0; p->words.clear());
  for (const std::uint32_t fraction : {1u, kHalf, 4294967295u}) {
    DOCOFL_CHECK_REFUSED(good, *p = fixed_payload(kSize, 8, fraction));
    DOCOFL_CHECK_REFUSED(coded, p->wide_fraction = fraction);
  }
  for (const int width : {1, 8}) {
    DOCOFL_CHECK_REFUSED(coded, p->width = static_cast<std::uint8_t>(width));
  }
  DOCOFL_CHECK_REFUSED(good, p->mode = 1);
  DOCOFL_CHECK_REFUSED(coded, p->mode = 0);
}

DOCOFL_TEST(numbers_of_a_payload) {
  for (const Payload& good : {good_payload(), entropy_payload()}) {
    for (const float bits : {kNan, kInfinity, -kInfinity, 0.0f, -0.0f, -1.0f}) {
      DOCOFL_CHECK_REFUSED(good, p->bits = bits);
    }
    for (const float scale : {kNan, -kNan, kInfinity, -kInfinity, -0.0f, -1.0f, -0x1p-149f}) {
      for (std::size_t i = 0; i < good.scales.size(); ++i) {
        DOCOFL_CHECK_REFUSED(good, p->scales[i] = scale);
      }
    }
    for (const float value : {kNan, -kNan, kInfinity, -kInfinity}) {
      for (std::size_t i = 0; i < good.tail.size(); ++i) {
        DOCOFL_CHECK_REFUSED(good, p->tail[i] = value);
      }
    }
    // What is allowed at the edges.
    Payload edge = good;
    edge.bits = 0x1p-149f;
    edge.scales = {0.0f, kMax, 0x1p-149f};
    edge.tail = {kMax, -kMax, 0.0f, -0.0f, -0x1p-149f};
    const std::vector<float> found = decode(edge);
    for (const float value : found) DOCOFL_CHECK(std::isfinite(value));
    DOCOFL_CHECK_SAME(found.data() + kSize - 5, edge.tail.data(), 5);
  }
}

DOCOFL_TEST(payloads_have_their_size) {
  for (const Payload& good :
       {good_payload(), fixed_payload(kSize, 3, 0), fixed_payload(kSize, 0, 1)}) {
    const Bytes bytes = good.bytes();
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const test::Note note("width ", good.width, ", cut to ", size, " bytes of ", bytes.size());
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      const bool has_all_fields = size >= good.header_bytes();
      check_refused(kSize, good.dtype, cut,
                    has_all_fields ? ErrorKind::kCorruptFrame : ErrorKind::kTruncatedFrame);
    }
    for (const std::size_t more : {1, 2, 4, 100}) {
      DOCOFL_CHECK_REFUSED(good, p->words.resize(p->words.size() + more));
    }
    // A coordinate more or less changes the tail, or the blocks.
    for (const std::uint64_t size : {kSize - 1, kSize + 1}) {
      check_refused(size, good.dtype, bytes, ErrorKind::kCorruptFrame);
    }
  }
  // An entropy-coded one that ends early, or late.
  const Payload coded = entropy_payload();
  const Bytes bytes = coded.bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const test::Note note("cut to ", size, " bytes of ", bytes.size());
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const bool has_directory = size >= bytes.size() - (kSize - 5) / 4;
    check_refused(kSize, coded.dtype, cut,
                  has_directory ? ErrorKind::kCorruptFrame : ErrorKind::kTruncatedFrame);
  }
  DOCOFL_CHECK_REFUSED(coded, p->words.push_back(0));
}

DOCOFL_TEST(small_tensors_have_no_words) {
  // None at all, and an empty payload.
  check_refused(0, DType::kFloat32, Bytes(1), ErrorKind::kCorruptFrame);
  check_refused(0, DType::kFloat32, good_payload().bytes(), ErrorKind::kCorruptFrame);
  check_refused(1, DType::kFloat32, {}, ErrorKind::kTruncatedFrame);
  const Bytes empty = frame_of(0, DType::kFloat32, {});
  DOCOFL_CHECK_EQUAL(test::decode(empty, DType::kFloat32, 1).view().size, 0u);
  // Fewer than 16 are a tail alone.
  for (const std::uint64_t size : {1, 7, 15}) {
    for (const bool coded : {false, true}) {
      const test::Note note("size ", size, ", coded ", coded);
      Payload tail = fixed_payload(size, 1, 0);
      if (coded) {
        tail.mode = 1;
        tail.width = 0;
      }
      const std::vector<float> found = decode(tail);
      DOCOFL_CHECK_SAME(found.data(), tail.tail.data(), tail.tail.size());
      DOCOFL_CHECK_REFUSED(tail, p->words = Bytes(1));
      DOCOFL_CHECK_REFUSED(tail, p->words = inner_payload(size).bytes());
    }
  }
}

DOCOFL_TEST(entropy_coded_words_follow_the_rules_of_ecuq) {
  const auto with = [](const std::function<void(InnerPayload*)>& change) {
    InnerPayload inner = inner_payload(kSize - 5);
    change(&inner);
    return entropy_payload(inner);
  };
  const auto refused = [&](ErrorKind kind, bool when_inspected,
                           const std::function<void(InnerPayload*)>& change) {
    const Payload payload = with(change);
    check_refused(payload.size, payload.dtype, payload.bytes(), kind, when_inspected);
  };
  refused(ErrorKind::kUnsupportedFrame, true, [](InnerPayload* p) { p->coder = 1; });
  refused(ErrorKind::kCorruptFrame, true, [](InnerPayload* p) { p->mode = 4; });
  refused(ErrorKind::kCorruptFrame, true, [](InnerPayload* p) { p->levels[3] = -9; });
  refused(ErrorKind::kCorruptFrame, true, [](InnerPayload* p) { p->levels[3] = kNan; });
  refused(ErrorKind::kCorruptFrame, true, [](InnerPayload* p) { p->after = {0}; });
  // For all rotated coordinates, and no others: a code word less or more is found when decoded.
  refused(ErrorKind::kCorruptFrame, false, [](InnerPayload* p) { p->symbols.resize(kSize - 9); });
  refused(ErrorKind::kCorruptFrame, false, [](InnerPayload* p) { p->symbols.resize(kSize, 0); });

  // Levels are below 2^64, so that no sum of them is infinite.
  const float large = std::nextafterf(0x1p64f, 0.0f);
  refused(ErrorKind::kCorruptFrame, true, [](InnerPayload* p) { p->levels[3] = 0x1p64f; });
  refused(ErrorKind::kCorruptFrame, true, [](InnerPayload* p) { p->levels[3] = kMax; });
  refused(ErrorKind::kCorruptFrame, true, [](InnerPayload* p) { p->levels[0] = -0x1p64f; });
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    // Whatever the dtype of the frame.
    Payload payload = with([&](InnerPayload* p) { p->levels = {-large, -65520.0f, 3e9f, large}; });
    payload.dtype = dtype;
    for (const float scale : {1.0f, kMax}) {
      const test::Note note("dtype ", dtype, ", scale ", scale);
      payload.scales.assign(payload.scales.size(), scale);
      for (const float value : decode(payload)) DOCOFL_CHECK(std::isfinite(value));
    }
  }
}

// The same limit for a grid. One word of no bits stands for all: level 0 of one.
DOCOFL_TEST(limits_of_uniform_levels) {
  const auto payload_of = [](float x_min, float x_max) {
    Bytes inner = {0, 0, 1, 0, 0};
    append(&inner, 0.0f);
    append(&inner, x_min);
    append(&inner, x_max);
    append(&inner, std::uint32_t(1));
    append(&inner, std::uint32_t(0));
    append(&inner, std::uint16_t(0));
    Payload payload = entropy_payload();
    payload.words = inner;
    return payload;
  };
  const float large = std::nextafterf(0x1p64f, 0.0f);
  for (const float value : decode(payload_of(-large, large))) DOCOFL_CHECK(std::isfinite(value));
  const Payload good = entropy_payload();
  DOCOFL_CHECK_REFUSED(good, *p = payload_of(-large, 0x1p64f));
  DOCOFL_CHECK_REFUSED(good, *p = payload_of(-0x1p64f, large));
  DOCOFL_CHECK_REFUSED(good, *p = payload_of(-kMax, kMax));
  DOCOFL_CHECK_REFUSED(good, *p = payload_of(1.0f, 1.0f));
}

// Sizes that the frame's length cannot bear out are refused before memory is taken for them.
DOCOFL_TEST(declared_sizes_are_bounded_by_the_frame) {
  for (const Payload& good : {good_payload(), entropy_payload()}) {
    // Frames of 60 bytes, and whole ones.
    for (const std::size_t bytes : {std::size_t(38), good.bytes().size()}) {
      Bytes payload = good.bytes();
      payload.resize(bytes);
      for (unsigned bit = 20; bit <= 60; ++bit) {
        const test::Note note("mode ", good.mode, ", bytes ", bytes, ", 2^", bit, " coordinates");
        check_refused(std::uint64_t(1) << bit, DType::kFloat16, payload,
                      ErrorKind::kTruncatedFrame);
      }
    }
  }
  DOCOFL_CHECK(frame_of(std::uint64_t(1) << 60, DType::kFloat16, Bytes(38)).size() <= 60);
}

}  // namespace
}  // namespace docofl
