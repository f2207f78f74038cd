#include <algorithm>
#include <vector>

#include "docofl/frame.h"
#include "ecuq/block_encoder.h"
#include "ecuq/blocks.h"
#include "ecuq/payload.h"
#include "harness.h"
#include "test_data.h"

// How tensors are cut into blocks and where blocks lie, for sizes beyond 2^31 coordinates and bit
// offsets beyond 2^35. Nothing here takes memory in proportion to the tensor.
namespace docofl {
namespace {

constexpr std::size_t kGiga = std::size_t(1) << 30;

const std::vector<std::size_t>& sizes() {
  static const std::vector<std::size_t> all = {1,
                                               4095,
                                               4096,
                                               65535,
                                               65536,
                                               65537,
                                               2 * kGiga - 1,
                                               2 * kGiga,
                                               2 * kGiga + 1,
                                               4 * kGiga - 1,
                                               4 * kGiga,
                                               4 * kGiga + 4095,
                                               4 * kGiga + 4096,
                                               32 * kGiga + 12345};
  return all;
}

DOCOFL_TEST(blocks_cover_a_tensor) {
  for (const std::size_t size : sizes()) {
    const test::Note note("size ", size);
    for (const std::size_t block_size : {kBlockSize, std::size_t(1) << kMinBlockExponent}) {
      const Blocks blocks(size, block_size);
      const std::size_t count = blocks.count();
      DOCOFL_CHECK(blocks.begin(count - 1) < size && size <= blocks.begin(count));
      DOCOFL_CHECK_EQUAL(blocks.begin(count - 1) + blocks.length(count - 1), size);
      DOCOFL_CHECK_EQUAL(blocks.max_length(), std::min(size, block_size));
      std::size_t covered = 0;
      std::size_t streams = 0;
      for (std::size_t block = 0; block < count; ++block) {
        covered += blocks.length(block);
        streams += static_cast<std::size_t>(split_streams(blocks.length(block), 1).count);
      }
      DOCOFL_CHECK_EQUAL(covered, size);
      DOCOFL_CHECK_EQUAL(streams, blocks.num_streams());
    }
  }
  DOCOFL_CHECK_EQUAL(Blocks(0).count(), 0u);
  DOCOFL_CHECK_EQUAL(Blocks(0).num_streams(), 0u);
}

// docs/format.md, section 3.3, for every length of a block.
DOCOFL_TEST(streams_share_the_words_of_a_block) {
  for (const unsigned tuple : {1u, 2u, 4u, 6u}) {
    for (std::size_t length = 1; length <= kBlockSize; ++length) {
      const StreamSplit split = split_streams(length, tuple);
      const std::size_t words = (length + tuple - 1) / tuple;
      DOCOFL_CHECK_EQUAL(split.count, length >= 4096 ? 4 : 1);
      std::size_t sum = 0;
      for (int s = 0; s < split.count; ++s) {
        sum += split.words[s];
        if (s + 1 < split.count) DOCOFL_CHECK_EQUAL(split.words[s], (words + 3) / 4);
        // The directory has 16 bits for the bytes of a stream.
        DOCOFL_CHECK(split.words[s] * kMaxCodeLength / 8 + 1 < 65536);
      }
      DOCOFL_CHECK_EQUAL(sum, words);
    }
  }
}

// A plan without code words: `raw_bits` raw bits a coordinate and some outliers.
PayloadPlan raw_plan(std::size_t size, unsigned raw_bits, std::size_t outliers_a_block) {
  PayloadPlan plan;
  plan.levels = uniform_levels(-1.0f, 1.0f, std::int32_t(1) << raw_bits);
  if (outliers_a_block > 0) plan.levels.num_levels = kMaxLevels;
  plan.code = fixed_width_code(raw_bits);
  const Blocks blocks(size);
  plan.blocks.stream_sizes.assign(blocks.num_streams(), 0);
  plan.blocks.block_outliers.assign(blocks.count(), static_cast<std::uint32_t>(outliers_a_block));
  return plan;
}

DOCOFL_TEST(offsets_beyond_four_gigabytes) {
  constexpr unsigned kRawBits = 24;
  constexpr std::size_t kOutliers = 1000;
  for (const std::size_t size : sizes()) {
    if (size > 5 * kGiga) continue;  // the directory itself would take megabytes
    const test::Note note("size ", size);
    const std::size_t blocks = Blocks(size).count();
    if (Blocks(size).length(blocks - 1) < kOutliers) continue;
    const PayloadPlan plan = raw_plan(size, kRawBits, kOutliers);
    const std::size_t directory = 2 * Blocks(size).num_streams() + 4 * blocks;
    const std::size_t header_bytes = 9 + 16 + directory;
    const std::size_t bytes = header_bytes + 3 * size + 6 * kOutliers * blocks;
    DOCOFL_CHECK_EQUAL(payload_size(plan, size), bytes);
    if (size > 2 * kGiga) DOCOFL_CHECK(bytes * 8 > std::size_t(1) << 35);

    // Only the header is in memory: that is all that reading it may touch.
    test::ExactArray<std::uint8_t> header(header_bytes);
    DOCOFL_CHECK(write_payload_header(plan, size, header.data()) == header.data() + header_bytes);
    Frame frame;
    frame.header.shape = {size};
    frame.size = size;
    frame.payload = {header.data(), bytes};
    const PayloadHeader read = read_payload_header(frame);
    DOCOFL_CHECK_EQUAL(read.block_offsets.size(), blocks + 1);
    DOCOFL_CHECK_EQUAL(read.block_offsets.back(), bytes);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t expected = header_bytes + block * (3 * kBlockSize + 6 * kOutliers);
      DOCOFL_CHECK_EQUAL(read.block_offsets[block], expected);
    }
    // A byte more or less is not what the directory adds up to.
    frame.payload.size = bytes - 1;
    DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_payload_header(frame));
    frame.payload.size = bytes + 1;
    DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_payload_header(frame));
  }
}

DOCOFL_TEST(directory_is_bounded_by_the_payload) {
  // One code word for all, no raw bits: the declared size costs two bytes a block at least.
  const PayloadPlan plan = raw_plan(70000, 0, 0);
  std::vector<std::uint8_t> header(payload_size(plan, 70000));
  write_payload_header(plan, 70000, header.data());
  Frame frame;
  frame.payload = {header.data(), header.size()};
  frame.size = 70000;
  DOCOFL_CHECK_EQUAL(read_payload_header(frame).block_offsets.size(), 3u);
  for (unsigned bit = 20; bit < 62; ++bit) {
    const test::Note note("size 2^", bit);
    frame.size = std::size_t(1) << bit;
    DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame, read_payload_header(frame));
  }
}

DOCOFL_TEST(sizes_that_the_format_cannot_hold) {
  DOCOFL_CHECK_EQUAL(checked_size({}, DType::kFloat32), 1u);
  DOCOFL_CHECK_EQUAL(checked_size({0, 3}, DType::kFloat32), 0u);
  DOCOFL_CHECK_EQUAL(checked_size({kGiga, 4}, DType::kFloat64), 4 * kGiga);
  const std::uint64_t half = std::uint64_t(1) << 32;
  DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, checked_size({half, half}, DType::kFloat32));
  DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput, checked_size({half, half, 0}, DType::kFloat32));
  DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput,
                     checked_size({std::uint64_t(1) << 60}, DType::kFloat32));
  DOCOFL_CHECK_EQUAL(checked_size({(std::uint64_t(1) << 60) - 1}, DType::kFloat32),
                     (std::size_t(1) << 60) - 1);
  DOCOFL_CHECK_ERROR(ErrorKind::kInvalidInput,
                     checked_size(std::vector<std::uint64_t>(33, 1), DType::kFloat32));
}

// As in a tensor that another thread changes after its code was made.
DOCOFL_TEST(levels_without_a_word_take_that_of_the_one_before) {
  const Levels levels = uniform_levels(0, 6, 6);
  SymbolCode code;
  code.tables[0].layout.num_coded = 6;
  CodeTable& table = code.tables[0];
  table.lengths[1] = table.lengths[2] = 2;
  table.lengths[4] = 1;
  constexpr std::size_t kSize = kBlockSize + 100;  // pairs of words are looked up, and single ones
  std::vector<float> seen(kSize), changed(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    const std::size_t level = i * i % 6;
    constexpr std::size_t kInstead[6] = {1, 1, 2, 2, 4, 4};
    changed[i] = static_cast<float>(level) + 0.5f;
    seen[i] = static_cast<float>(kInstead[level]) + 0.5f;
  }
  test::for_each_isa([&](const std::string& isa) {
    const test::Note note("isa ", isa);
    const BlockEncoder encoder(levels, code, kSize);
    for (std::size_t block = 0; block < Blocks(kSize).count(); ++block) {
      BlockEncoder::Scratch scratch, expected_scratch;
      const BlockEncoder::Encoded encoded =
          encoder.encode({changed.data(), kSize, DType::kFloat32}, block, block + 1, &scratch);
      const BlockEncoder::Encoded expected = encoder.encode({seen.data(), kSize, DType::kFloat32},
                                                            block, block + 1, &expected_scratch);
      DOCOFL_CHECK_EQUAL(encoded.bytes.size, expected.bytes.size);
      DOCOFL_CHECK_SAME(encoded.bytes.data, expected.bytes.data, expected.bytes.size);
    }
  });
}

}  // namespace
}  // namespace docofl
