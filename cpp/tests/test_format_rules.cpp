#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/byte_io.h"
#include "docofl/ecuq.h"
#include "docofl/frame.h"
#include "docofl/identity.h"
#include "harness.h"
#include "test_codes.h"
#include "test_data.h"
#include "test_frames.h"

// The MUSTs of docs/format.md: frames are written field by field, decoded, and refused when a field
// breaks its rule.
namespace docofl {
namespace {

using test::append;
using test::Bytes;
using test::frame_around;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct OutlierField {
  std::uint16_t position;
  std::uint32_t level;
};

// A payload of one block with one stream, as its fields.
struct Payload {
  std::uint64_t size = 0;
  DType dtype = DType::kFloat32;
  std::uint8_t coder = 0;
  std::uint8_t mode = 0;
  std::uint8_t tuple = 1;
  std::uint8_t raw_bits = 0;
  std::uint8_t coded_levels_less_one = 0;
  float entropy = 1;
  float x_min = -1;
  float x_max = 1;
  std::uint32_t num_levels = 0;
  std::uint32_t base = 0;
  std::vector<float> explicit_levels;
  Bytes code_table;
  std::uint16_t stream_bytes = 0;
  std::uint32_t num_outliers = 0;
  Bytes stream;
  Bytes raw;
  std::vector<OutlierField> outliers;
  Bytes after;

  Bytes bytes() const {
    Bytes out = {coder, mode, tuple, raw_bits, coded_levels_less_one};
    append(&out, entropy);
    if ((mode & 1) != 0) {
      for (const float level : explicit_levels) append(&out, level);
    } else {
      append(&out, x_min);
      append(&out, x_max);
      append(&out, num_levels);
      append(&out, base);
    }
    out.insert(out.end(), code_table.begin(), code_table.end());
    append(&out, stream_bytes);
    if ((mode & 2) != 0) append(&out, num_outliers);
    out.insert(out.end(), stream.begin(), stream.end());
    out.insert(out.end(), raw.begin(), raw.end());
    for (const OutlierField& outlier : outliers) {
      append(&out, outlier.position);
      append(&out, outlier.level);
    }
    out.insert(out.end(), after.begin(), after.end());
    return out;
  }
};

std::vector<float> decode(const Payload& payload) {
  FrameHeader header;
  header.codec = CodecId::kEcuq;
  header.dtype = payload.dtype;
  header.shape = {payload.size};
  return test::decode(frame_around(header, payload.bytes()), DType::kFloat32, 1).values();
}

// Changes one thing and checks that it is refused.
void check_refused(Payload payload, ErrorKind kind, const std::function<void(Payload*)>& change,
                   const char* what) {
  const test::Note note(what);
  change(&payload);
  DOCOFL_CHECK_ERROR(kind, decode(payload));
}

#define DOCOFL_CHECK_REFUSED(payload, change) \
  check_refused(payload, ErrorKind::kCorruptFrame, [&](Payload* p) { change; }, #change)

void set_code(Payload* payload, const CodeLengths& lengths, const std::vector<unsigned>& symbols) {
  std::size_t alphabet = 1;
  for (unsigned k = 0; k < payload->tuple; ++k) alphabet *= payload->coded_levels_less_one + 1u;
  payload->code_table.resize(code_table_size(lengths, alphabet));
  write_code_table(lengths, alphabet, payload->code_table.data());
  const std::vector<std::string> words = test::canonical_words(lengths, alphabet);
  std::string bits;
  for (const unsigned symbol : symbols) bits += words[symbol];
  payload->stream = test::bytes_of_bits(bits);
  payload->stream_bytes = static_cast<std::uint16_t>(payload->stream.size());
}

// Five coordinates, levels 10 to 25 of 100 with code words and two raw bits, two outliers.
Payload raw_payload() {
  Payload payload;
  payload.size = 5;
  payload.mode = 2;
  payload.raw_bits = 2;
  payload.coded_levels_less_one = 3;
  payload.x_max = 99;
  payload.num_levels = 100;
  payload.base = 10;
  set_code(&payload, {2, 2, 2, 2}, {0, 3, 1, 0, 2});
  payload.raw = test::bytes_of_bits(
      "10"
      "11"
      "00"
      "00"
      "01");
  payload.num_outliers = 2;
  payload.outliers = {{2, 99}, {3, 9}};
  return payload;
}

// Three coordinates in pairs of three levels.
Payload tuple_payload(unsigned last_symbol) {
  Payload payload;
  payload.size = 3;
  payload.tuple = 2;
  payload.coded_levels_less_one = 2;
  payload.x_max = 2;
  payload.num_levels = 3;
  set_code(&payload, {3, 3, 3, 3, 3, 3, 3, 4, 4}, {5, last_symbol});
  return payload;
}

Payload explicit_payload() {
  Payload payload;
  payload.size = 4;
  payload.mode = 1;
  payload.coded_levels_less_one = 3;
  payload.explicit_levels = {-2.5f, -0.0f, 0.0f, 7.0f};
  set_code(&payload, {2, 2, 2, 2}, {3, 1, 2, 0});
  return payload;
}

DOCOFL_TEST(values_by_the_formula) {
  // x_min = -1 and a step of 1: level k is at k - 0.5. Raw bits come least significant first.
  const std::vector<float> raw = decode(raw_payload());
  const std::vector<float> expected_raw = {10.5f, 24.5f, 98.5f, 8.5f, 19.5f};
  DOCOFL_CHECK_SAME(raw.data(), expected_raw.data(), expected_raw.size());
  // Symbol 5 is the pair (1, 2), symbol 6 is (2, 0).
  const std::vector<float> pairs = decode(tuple_payload(6));
  const std::vector<float> expected_pairs = {0.5f, 1.5f, 1.5f};
  DOCOFL_CHECK_SAME(pairs.data(), expected_pairs.data(), expected_pairs.size());
  const std::vector<float> listed = decode(explicit_payload());
  const std::vector<float> expected_listed = {7.0f, -0.0f, 0.0f, -2.5f};
  DOCOFL_CHECK_SAME(listed.data(), expected_listed.data(), expected_listed.size());
}

DOCOFL_TEST(fields_of_a_payload) {
  const Payload good = raw_payload();
  check_refused(good, ErrorKind::kUnsupportedFrame, [](Payload* p) { p->coder = 1; }, "coder");
  DOCOFL_CHECK_REFUSED(good, p->mode = 6);
  DOCOFL_CHECK_REFUSED(good, p->mode = 0x82);
  DOCOFL_CHECK_REFUSED(explicit_payload(), p->mode = 3);
  for (const int tuple : {0, 3, 5, 7, 255}) {
    DOCOFL_CHECK_REFUSED(good, p->tuple = static_cast<std::uint8_t>(tuple));
  }
  DOCOFL_CHECK_REFUSED(good, p->raw_bits = 25);
  DOCOFL_CHECK_REFUSED(tuple_payload(6), p->raw_bits = 1);
  DOCOFL_CHECK_REFUSED(explicit_payload(), p->raw_bits = 1);
  DOCOFL_CHECK_REFUSED(tuple_payload(6), p->coded_levels_less_one = 16);
  DOCOFL_CHECK_REFUSED(tuple_payload(6), p->coded_levels_less_one = 0);
  for (const float entropy : {kNan, kInfinity, -1.0f}) {
    DOCOFL_CHECK_REFUSED(good, p->entropy = entropy);
  }
}

DOCOFL_TEST(uniform_levels) {
  const Payload good = raw_payload();
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    DOCOFL_CHECK_REFUSED(good, p->x_min = bad);
    DOCOFL_CHECK_REFUSED(good, p->x_max = bad);
  }
  DOCOFL_CHECK_REFUSED(good, p->x_max = p->x_min);
  DOCOFL_CHECK_REFUSED(good, std::swap(p->x_min, p->x_max));
  DOCOFL_CHECK_REFUSED(good, p->num_levels = 0);
  DOCOFL_CHECK_REFUSED(good, p->num_levels = (1u << 30) + 1);
  DOCOFL_CHECK_REFUSED(good, p->num_levels = UINT32_MAX);
  // The last coded level starts at base + 12.
  Payload edge = good;
  edge.outliers = {{2, 99}, {3, 87}};
  edge.base = 88;
  DOCOFL_CHECK_REFUSED(edge, p->base = 88);
  edge.base = 87;
  edge.outliers = {{2, 86}, {3, 0}};
  DOCOFL_CHECK_EQUAL(decode(edge).size(), 5u);
  DOCOFL_CHECK_REFUSED(good, p->base = UINT32_MAX - 5);
}

// A level of the window that lies beyond the grid is read as the last one.
DOCOFL_TEST(levels_beyond_the_grid_are_the_last_one) {
  Payload payload = raw_payload();
  payload.base = 87;
  payload.num_levels = 100;
  payload.outliers = {{0, 0}, {3, 1}};
  payload.raw = test::bytes_of_bits(
      "00"
      "11"
      "00"
      "00"
      "00");
  // Coordinate 1 is at 87 + (3 << 2) + 3 = 102.
  DOCOFL_CHECK_EQUAL(decode(payload)[1], 98.5f);
}

DOCOFL_TEST(explicit_levels) {
  const Payload good = explicit_payload();
  for (const float bad : {kNan, kInfinity, 0.0f, -2.5f, -3.0f}) {
    DOCOFL_CHECK_REFUSED(good, p->explicit_levels[3] = bad);
  }
  DOCOFL_CHECK_REFUSED(good, std::swap(p->explicit_levels[1], p->explicit_levels[2]));
  DOCOFL_CHECK_REFUSED(good, p->explicit_levels[1] = 0.0f);
}

DOCOFL_TEST(levels_within_the_dtype) {
  Payload payload = explicit_payload();
  payload.dtype = DType::kFloat16;
  payload.explicit_levels[3] = 65519.0f;
  DOCOFL_CHECK_EQUAL(decode(payload)[0], 65504.0f);
  DOCOFL_CHECK_REFUSED(payload, p->explicit_levels[3] = 65520.0f);
  DOCOFL_CHECK_REFUSED(payload, p->explicit_levels[0] = -65520.0f);
  payload.dtype = DType::kBFloat16;
  payload.explicit_levels[3] = 0x1.fefffep127f;
  DOCOFL_CHECK_EQUAL(decode(payload)[0], 0x1.fep127f);
  DOCOFL_CHECK_REFUSED(payload, p->explicit_levels[3] = 0x1.ffp127f);
  Payload uniform = raw_payload();
  uniform.dtype = DType::kFloat16;
  DOCOFL_CHECK_REFUSED(uniform, p->x_max = 65520.0f);
  DOCOFL_CHECK_REFUSED(uniform, p->x_min = -65520.0f);
}

DOCOFL_TEST(streams_and_padding) {
  const Payload good = raw_payload();
  DOCOFL_CHECK_REFUSED(good, p->stream.back() |= 0x80);
  DOCOFL_CHECK_REFUSED(good, p->stream.push_back(0); ++p->stream_bytes);
  DOCOFL_CHECK_REFUSED(good, p->stream.pop_back(); --p->stream_bytes);
  DOCOFL_CHECK_REFUSED(good, p->raw.back() |= 0x80);
  DOCOFL_CHECK_REFUSED(good, p->after.push_back(0));
  DOCOFL_CHECK_REFUSED(good, p->outliers.pop_back());
  DOCOFL_CHECK_REFUSED(good, ++p->stream_bytes);
  // The pair (2, 1) of which the second coordinate is not there.
  DOCOFL_CHECK_REFUSED(tuple_payload(6), *p = tuple_payload(7));
  // One code word has no bits, and no table.
  Payload single = raw_payload();
  single.coded_levels_less_one = 0;
  single.code_table.clear();
  single.stream.clear();
  single.stream_bytes = 0;
  DOCOFL_CHECK_EQUAL(decode(single)[4], 11.5f);
  DOCOFL_CHECK_REFUSED(single, p->stream_bytes = 1; p->stream = {0});
}

DOCOFL_TEST(outliers) {
  const Payload good = raw_payload();
  DOCOFL_CHECK_REFUSED(good, p->outliers[1].position = 2);
  DOCOFL_CHECK_REFUSED(good, p->outliers[1].position = 1);
  DOCOFL_CHECK_REFUSED(good, p->outliers[1].position = 5);
  DOCOFL_CHECK_REFUSED(good, p->outliers[0].level = 100);
  DOCOFL_CHECK_REFUSED(good, p->outliers[0].level = UINT32_MAX);
  DOCOFL_CHECK_REFUSED(good, p->outliers[0].level = 10);
  DOCOFL_CHECK_REFUSED(good, p->outliers[0].level = 25);
  DOCOFL_CHECK_REFUSED(good, p->num_outliers = 6);
  DOCOFL_CHECK_REFUSED(good, p->num_outliers = UINT32_MAX);
  Payload edge = good;
  edge.outliers = {{0, 26}, {4, 0}};
  DOCOFL_CHECK_EQUAL(decode(edge)[0], 25.5f);
}

// --- the frame ---------------------------------------------------------------------------------

ErrorKind kind_of(const Bytes& frame) {
  try {
    parse_frame({frame.data(), frame.size()});
  } catch (const Error& error) {
    return error.kind();
  }
  test::fail(__FILE__, __LINE__, "expected an error");
}

DOCOFL_TEST(fields_of_a_frame) {
  FrameHeader header;
  header.codec = CodecId::kEcuq;
  header.shape = {5};
  const Bytes good = frame_around(header, raw_payload().bytes());
  const auto changed = [&](std::size_t place, unsigned value) {
    Bytes frame = good;
    frame[place] = static_cast<std::uint8_t>(value);
    seal_frame(frame.data(), frame.size(), 1);
    return frame;
  };
  for (const std::size_t place : {0, 1, 2}) {
    DOCOFL_CHECK(kind_of(changed(place, 0)) == ErrorKind::kCorruptFrame);
  }
  for (const unsigned version : {0u, 3u, 255u}) {
    DOCOFL_CHECK(kind_of(changed(3, version)) == ErrorKind::kUnsupportedFrame);
  }
  for (const unsigned codec : {3u, 128u, 255u}) {
    DOCOFL_CHECK(kind_of(changed(4, codec)) == ErrorKind::kUnsupportedFrame);
  }
  for (const unsigned dtype : {4u, 255u}) {
    DOCOFL_CHECK(kind_of(changed(5, dtype)) == ErrorKind::kUnsupportedFrame);
  }
  for (unsigned flags = 0; flags < 256; ++flags) {
    const test::Note note("flags ", flags);
    const Bytes frame = changed(6, flags);
    if (flags < 16) {
      DOCOFL_CHECK_EQUAL(parse_frame({frame.data(), frame.size()}).header.flags, flags);
    } else {
      DOCOFL_CHECK(kind_of(frame) == ErrorKind::kUnsupportedFrame);
    }
  }
  DOCOFL_CHECK(kind_of(changed(7, 33)) == ErrorKind::kCorruptFrame);
  // Without a new checksum, the last byte alone.
  Bytes damaged = good;
  damaged.back() ^= 1;
  DOCOFL_CHECK(kind_of(damaged) == ErrorKind::kCorruptFrame);
}

DOCOFL_TEST(shapes_of_a_frame) {
  const auto frame_of = [](const std::vector<std::uint64_t>& shape) {
    FrameHeader header;
    header.codec = CodecId::kEcuq;
    header.shape = shape;
    return frame_around(header, {});
  };
  const std::uint64_t half = std::uint64_t(1) << 32;
  for (const std::vector<std::uint64_t>& shape :
       std::vector<std::vector<std::uint64_t>>{{half, half},
                                               {half, half, 0},
                                               {0, half, half},
                                               {UINT64_MAX},
                                               {std::uint64_t(1) << 60}}) {
    DOCOFL_CHECK(kind_of(frame_of(shape)) == ErrorKind::kCorruptFrame);
  }
  const Bytes empty = frame_of({0, half});
  DOCOFL_CHECK_EQUAL(parse_frame({empty.data(), empty.size()}).size, 0u);
}

DOCOFL_TEST(payloads_of_other_codecs) {
  FrameHeader header;
  header.codec = CodecId::kIdentity;
  header.shape = {2};
  const auto decode_identity = [&](const Bytes& payload) {
    const Bytes bytes = frame_around(header, payload);
    const Frame frame = parse_frame({bytes.data(), bytes.size()});
    test::Tensor out(frame.size, frame.header.dtype);
    identity_decode(frame, out.mutable_view(), 1);
  };
  Bytes payload;
  append(&payload, 1.5f);
  append(&payload, -2.0f);
  decode_identity(payload);
  DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, decode_identity(Bytes(7)));
  DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, decode_identity(Bytes(9)));
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    Bytes damaged = payload;
    store_le(damaged.data() + 4, bad);
    DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, decode_identity(damaged));
  }
  // An empty tensor of ECUQ has no payload at all.
  header.codec = CodecId::kEcuq;
  header.shape = {0};
  const Bytes bytes = frame_around(header, Bytes(1));
  const Frame frame = parse_frame({bytes.data(), bytes.size()});
  DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, ecuq_inspect(frame));
}

}  // namespace
}  // namespace docofl
