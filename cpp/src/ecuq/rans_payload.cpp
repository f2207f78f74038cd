#include "ecuq/rans_payload.h"

#include <cmath>
#include <limits>
#include <string>

#include "common/byte_io.h"
#include "docofl/error.h"
#include "ecuq/payload_fields.h"

namespace docofl {
namespace {

constexpr std::uint8_t kModeDependent = 0x01;
constexpr std::uint8_t kModeMirrored = 0x02;
constexpr std::uint8_t kModeDisplaced = 0x04;
constexpr std::uint8_t kModeOutliers = 0x08;
constexpr std::uint8_t kModeTransformed = 0x10;
constexpr std::uint8_t kModes = 0x1f;
constexpr std::size_t kCommonBytes = 21;
constexpr std::int32_t kMaxIndex = 1 << 20;  // of a level: places are exact in float32

std::size_t choice_bytes(const RansCode& code, std::size_t block_length) {
  return code.tables.size() > 1 ? divide_up(num_segments(block_length), 2) : 0;
}

std::size_t entry_bytes(const RansCode& code, std::size_t block_length) {
  return 4 + (code.has_outliers ? 4 : 0) + (code.transformed ? 4 : 0) +
         choice_bytes(code, block_length);
}

void read_displacements(ByteReader* reader, RansCode* code) {
  for (int quantizer = 0; quantizer < code->num_quantizers(); ++quantizer) {
    for (unsigned j = 0; j < code->num_coded; ++j) {
      code->displacements[quantizer][j] = reader->read<std::int8_t>("displacements");
    }
  }
}

void check_values(const RansCode& code, DType dtype) {
  const float overflow = code.transformed ? kMaxCoefficient : overflow_of(dtype);
  for (int quantizer = 0; quantizer < code.num_quantizers(); ++quantizer) {
    for (unsigned j = 0; j < code.num_coded; ++j) {
      if (!(std::fabs(code.value(quantizer, j)) < overflow)) {
        corrupt_ecuq(code.transformed ? "levels: expected coefficients below 2^120"
                                      : "levels: expected values within the frame's dtype");
      }
    }
  }
}

void read_choices(ByteReader* reader, std::size_t length, std::size_t num_tables,
                  RansBlock* block) {
  const std::size_t segments = num_segments(length);
  for (std::size_t s = 0; s < segments; s += 2) {
    const auto pair = reader->read<std::uint8_t>("ECUQ directory");
    const std::uint8_t halves[2] = {static_cast<std::uint8_t>(pair & 15),
                                    static_cast<std::uint8_t>(pair >> 4)};
    if (halves[0] >= num_tables || halves[1] >= num_tables ||
        (s + 1 == segments && halves[1] != 0)) {
      corrupt_ecuq("directory: a segment's table is " + std::to_string(pair) + ", expected below " +
                   std::to_string(num_tables));
    }
    block->choices[s] = halves[0];
    if (s + 1 < segments) block->choices[s + 1] = halves[1];
  }
}

std::uint32_t read_list_size(ByteReader* reader, std::size_t block_length) {
  const auto size = reader->read<std::uint32_t>("ECUQ directory");
  if (size > block_length) {
    corrupt_ecuq("directory: found " + std::to_string(size) + " outliers, expected at most " +
                 std::to_string(block_length));
  }
  return size;
}

void read_rans_directory(ByteReader* reader, const Frame& frame, RansHeader* header) {
  const std::size_t blocks = num_rans_blocks(frame.size);
  // Four bytes a block is the least; only then is it safe to reserve by the declared size.
  if (blocks > reader->remaining() / 4) {
    throw Error(ErrorKind::kTruncatedFrame, "ECUQ directory: " + std::to_string(frame.size) +
                                                " coordinates need " + std::to_string(blocks) +
                                                " entries, found " +
                                                std::to_string(reader->remaining()) + " bytes");
  }
  header->blocks.resize(blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    RansBlock& block = header->blocks[b];
    const std::size_t length = rans_block_length(frame.size, b);
    block.stream_bytes = reader->read<std::uint32_t>("ECUQ directory");
    // The states of the lanes: what bounds the coordinates that a payload of this size can claim.
    const std::size_t least = sizeof(std::uint32_t) * rans_lanes(length);
    if (block.stream_bytes < least) {
      corrupt_ecuq("directory: found a stream of " + std::to_string(block.stream_bytes) +
                   " bytes, expected at least " + std::to_string(least));
    }
    if (header->code.has_outliers) block.num_outliers = read_list_size(reader, length);
    if (header->code.transformed) block.num_spikes = read_list_size(reader, length);
    if (header->code.tables.size() > 1) {
      read_choices(reader, length, header->code.tables.size(), &block);
    }
  }
  std::size_t offset = reader->position();
  for (const RansBlock& block : header->blocks) {
    header->block_offsets.push_back(offset);
    offset += block.bytes();
  }
  header->block_offsets.push_back(offset);
  if (offset != frame.payload.size) {
    corrupt_ecuq("blocks: the directory adds up to " + std::to_string(offset) +
                 " bytes, expected " + std::to_string(frame.payload.size));
  }
}

}  // namespace

std::int32_t RansCode::position(int quantizer, unsigned coded) const {
  const std::int32_t index = base + static_cast<std::int32_t>(coded);
  if (!dependent) return index;
  const std::int32_t first = index < 0 ? 2 * index + 1 : 2 * index;
  if (quantizer == 0) return first;
  if (mirrored) return -first;
  return index > 0 ? 2 * index - 1 : 2 * index;
}

float RansCode::place(int quantizer, unsigned coded) const {
  return static_cast<float>(position(quantizer, coded)) +
         static_cast<float>(displacements[quantizer][coded]) * kDisplacementUnit;
}

float RansCode::value(int quantizer, unsigned coded) const {
  // The product of two float32 numbers is exact in double.
  const double exact = static_cast<double>(origin) +
                       static_cast<double>(step) * static_cast<double>(place(quantizer, coded));
  if (std::fabs(exact) > static_cast<double>(std::numeric_limits<float>::max())) {
    return std::numeric_limits<float>::infinity();
  }
  return static_cast<float>(exact);
}

std::size_t rans_free_bytes(const RansCode& code, std::size_t size) {
  return kCommonBytes + entry_bytes(code, rans_block_length(size, 0)) -
         choice_bytes(code, rans_block_length(size, 0));
}

std::size_t rans_header_size(const RansCode& code, std::size_t size) {
  std::size_t bytes = kCommonBytes;
  if (code.displaced) bytes += static_cast<std::size_t>(code.num_quantizers()) * code.num_coded;
  for (const RansFrequencies& table : code.tables) bytes += rans_table_size(table, code.alphabet());
  const std::size_t blocks = num_rans_blocks(size);
  return bytes + (blocks - 1) * entry_bytes(code, kRansBlock) +
         entry_bytes(code, rans_block_length(size, blocks - 1));
}

std::uint8_t* write_rans_header(const RansCode& code, std::size_t size,
                                const std::vector<RansBlock>& blocks, std::uint8_t* out) {
  *out++ = kCoderRans;
  *out++ = static_cast<std::uint8_t>(
      (code.dependent ? kModeDependent : 0) | (code.mirrored ? kModeMirrored : 0) |
      (code.displaced ? kModeDisplaced : 0) | (code.has_outliers ? kModeOutliers : 0) |
      (code.transformed ? kModeTransformed : 0));
  *out++ = static_cast<std::uint8_t>(code.tuple);
  *out++ = static_cast<std::uint8_t>(code.tables.size() - 1);
  *out++ = static_cast<std::uint8_t>(code.num_coded - 1);
  out = write_le(out, code.entropy);
  out = write_le(out, code.origin);
  out = write_le(out, code.step);
  out = write_le(out, code.base);
  for (int quantizer = 0; code.displaced && quantizer < code.num_quantizers(); ++quantizer) {
    for (unsigned j = 0; j < code.num_coded; ++j) {
      out = write_le(out, code.displacements[quantizer][j]);
    }
  }
  for (const RansFrequencies& table : code.tables) {
    out = write_rans_table(table, code.alphabet(), out);
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    out = write_le(out, blocks[b].stream_bytes);
    if (code.has_outliers) out = write_le(out, blocks[b].num_outliers);
    if (code.transformed) out = write_le(out, blocks[b].num_spikes);
    for (std::size_t k = 0; k < choice_bytes(code, rans_block_length(size, b)); ++k) {
      *out++ =
          static_cast<std::uint8_t>(blocks[b].choices[2 * k] | blocks[b].choices[2 * k + 1] << 4);
    }
  }
  return out;
}

bool has_rans_payload(const Frame& frame) {
  return frame.header.version >= kSecondVersion && frame.size > 0 && frame.payload.size > 0 &&
         frame.payload.data[0] == kCoderRans;
}

RansHeader read_rans_header(const Frame& frame) {
  RansHeader header;
  RansCode& code = header.code;
  ByteReader reader(frame.payload);
  reader.read<std::uint8_t>("coder");
  const auto mode = reader.read<std::uint8_t>("mode");
  code.dependent = mode & kModeDependent;
  code.mirrored = mode & kModeMirrored;
  code.displaced = mode & kModeDisplaced;
  code.has_outliers = mode & kModeOutliers;
  code.transformed = mode & kModeTransformed;
  if (mode > kModes || ((code.mirrored || code.transformed) && !code.dependent)) {
    corrupt_ecuq(
        "mode: found " + std::to_string(mode) +
        ", expected at most 31, and mirrored levels or a transform with dependent ones only");
  }
  code.tuple = read_bounded(&reader, "tuple size", reader.read<std::uint8_t>("tuple size"), 1, 2);
  code.tables.resize(1 + read_bounded(&reader, "tables", reader.read<std::uint8_t>("tables"), 0,
                                      kMaxRansTables - 1));
  const unsigned most = code.tuple == 2  ? kMaxPairLevels
                        : code.dependent ? kMaxDependentLevels
                                         : kMaxAlphabet;
  code.num_coded = 1 + read_bounded(&reader, "coded levels",
                                    reader.read<std::uint8_t>("coded levels"), 1, most - 1);
  code.entropy = read_finite(&reader, "entropy");
  if (code.entropy < 0) corrupt_ecuq("entropy: expected no negative number");
  code.origin = read_finite(&reader, "origin");
  code.step = read_finite(&reader, "step");
  if (!(code.step > 0)) corrupt_ecuq("step: expected a positive number");
  code.base = reader.read<std::int32_t>("base");
  if (code.base < -kMaxIndex || code.base > kMaxIndex || (code.dependent && code.base % 2 != 0)) {
    corrupt_ecuq("base: found " + std::to_string(code.base) +
                 ", expected at most 2^20 in magnitude, and an even number for dependent levels");
  }
  if (code.displaced) read_displacements(&reader, &code);
  check_values(code, frame.header.dtype);
  for (RansFrequencies& table : code.tables) {
    std::size_t bytes = 0;
    table = read_rans_table({frame.payload.data + reader.position(), reader.remaining()},
                            code.alphabet(), &bytes);
    reader.take(bytes, "frequency table");
  }
  read_rans_directory(&reader, frame, &header);
  return header;
}

}  // namespace docofl
