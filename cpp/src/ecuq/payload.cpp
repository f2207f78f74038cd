#include "ecuq/payload.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/byte_io.h"
#include "common/checked.h"
#include "docofl/error.h"
#include "ecuq/blocks.h"
#include "ecuq/payload_fields.h"

namespace docofl {
namespace {

constexpr std::uint8_t kModeExplicit = 0x01;
constexpr std::uint8_t kModeOutliers = 0x02;
constexpr std::uint8_t kModeDisplaced = 0x04;
constexpr std::uint8_t kModeLocal = 0x08;
constexpr std::size_t kCommonBytes = 9;
constexpr std::size_t kUniformBytes = 16;
constexpr std::size_t kLayoutBytes = 7;  // of tables but the first

std::size_t directory_entry_bytes(int streams, bool has_outliers) {
  return 2 * static_cast<std::size_t>(streams) + (has_outliers ? 4 : 0);
}

// Whether the directory counts outliers: where some levels of the grid have no code word.
bool has_outliers(const Levels& levels, const SymbolCode& code) {
  return !levels.is_explicit() &&
         std::any_of(code.tables.begin(), code.tables.end(), [&](const CodeTable& table) {
           const WindowParams window = table.layout.window();
           return window.base > 0 || window.span < levels.num_levels;
         });
}

std::size_t block_bytes(const std::uint16_t* stream_sizes, std::size_t length, const Layout& layout,
                        std::size_t outliers) {
  std::size_t bytes = divide_up(length * layout.raw_bits, 8) + outliers * kOutlierBytes;
  for (int s = 0; s < split_streams(length, layout.tuple).count; ++s) bytes += stream_sizes[s];
  return bytes;
}

std::size_t displacement_bytes(const Levels& levels) {
  return levels.is_displaced() ? 2 + levels.displacements.size() : 0;
}

std::size_t levels_bytes(const Levels& levels) {
  return levels.is_explicit() ? 4 * levels.explicit_values.size()
                              : kUniformBytes + displacement_bytes(levels);
}

std::uint8_t* write_layout(const Layout& layout, std::uint8_t* out) {
  *out++ = static_cast<std::uint8_t>(layout.tuple);
  *out++ = static_cast<std::uint8_t>(layout.raw_bits);
  *out++ = static_cast<std::uint8_t>(layout.num_coded - 1);
  return out;
}

// All but the base.
Layout read_layout(ByteReader* reader, bool may_have_raw_bits) {
  Layout layout;
  layout.tuple =
      read_bounded(reader, "tuple size", reader->read<std::uint8_t>("tuple size"), 1, kMaxTuple);
  if (layout.tuple > 1 && layout.tuple % 2 == 1) corrupt_ecuq("tuple size: expected 1, 2, 4 or 6");
  layout.raw_bits = read_bounded(reader, "raw bits", reader->read<std::uint8_t>("raw bits"), 0,
                                 layout.tuple == 1 && may_have_raw_bits ? kMaxRawBits : 0);
  layout.num_coded = 1u + reader->read<std::uint8_t>("coded levels");
  if (layout.alphabet() > kMaxAlphabet || (layout.num_coded == 1 && layout.tuple > 1)) {
    corrupt_ecuq("code: " + std::to_string(layout.num_coded) + " levels in tuples of " +
                 std::to_string(layout.tuple) +
                 ", expected at most 256 combinations, or one level alone");
  }
  return layout;
}

void read_base(ByteReader* reader, std::int32_t num_levels, Layout* layout) {
  const auto base = reader->read<std::uint32_t>("base");
  const std::uint64_t last_start =
      base + (static_cast<std::uint64_t>(layout->num_coded - 1) << layout->raw_bits);
  if (last_start >= static_cast<std::uint64_t>(num_levels)) {
    corrupt_ecuq("coded window: reaches level " + std::to_string(last_start) + ", expected below " +
                 std::to_string(num_levels));
  }
  layout->base = static_cast<std::int32_t>(base);
}

void read_uniform_levels(ByteReader* reader, PayloadHeader* header) {
  Levels& levels = header->levels;
  levels.x_min = read_finite(reader, "x_min");
  levels.x_max = read_finite(reader, "x_max");
  if (!(levels.x_min < levels.x_max)) corrupt_ecuq("levels: expected x_min below x_max");
  const auto num_levels = reader->read<std::uint32_t>("number of levels");
  levels.num_levels = static_cast<std::int32_t>(
      read_bounded(reader, "number of levels", num_levels, 1, kMaxLevels));
  read_base(reader, levels.num_levels, &header->code.tables[0].layout);
}

void read_displacements(ByteReader* reader, PayloadHeader* header) {
  Levels& levels = header->levels;
  if (!make_grid(levels).narrow) corrupt_ecuq("displaced levels: expected a narrow grid");
  levels.first_displaced = reader->read<std::uint8_t>("first displaced level");
  const unsigned count = 1u + reader->read<std::uint8_t>("displaced levels");
  const unsigned num_coded = header->code.tables[0].layout.num_coded;
  if (count > kMaxDisplaced || levels.first_displaced + count > num_coded) {
    corrupt_ecuq("displaced levels: found " + std::to_string(count) + " from level " +
                 std::to_string(levels.first_displaced) + " on, expected at most 16 of the " +
                 std::to_string(num_coded) + " coded ones");
  }
  for (unsigned i = 0; i < count; ++i) {
    const auto displacement = reader->read<std::int8_t>("displacement");
    if (displacement < -kMaxDisplacement || displacement > kMaxDisplacement) {
      corrupt_ecuq("displacement: found " + std::to_string(displacement) +
                   ", expected -32 to 32, within the level's bin");
    }
    levels.displacements.push_back(displacement);
  }
}

void read_explicit_levels(ByteReader* reader, PayloadHeader* header) {
  std::vector<float>& values = header->levels.explicit_values;
  for (unsigned i = 0; i < header->code.tables[0].layout.num_coded; ++i) {
    const float value = read_finite(reader, "level");
    if (i > 0) {
      const float previous = values.back();
      const bool zeros =
          value == 0 && previous == 0 && std::signbit(previous) && !std::signbit(value);
      if (!(previous < value) && !zeros)
        corrupt_ecuq("explicit levels: expected increasing values");
    }
    values.push_back(value);
  }
  header->levels.x_min = values.front();
  header->levels.x_max = values.back();
  header->levels.num_levels = static_cast<std::int32_t>(values.size());
}

void read_tables(ByteReader* reader, const Frame& frame, bool is_local, PayloadHeader* header) {
  std::vector<CodeTable>& tables = header->code.tables;
  if (is_local) {
    const unsigned count = 1u + reader->read<std::uint8_t>("code tables");
    tables.resize(read_bounded(reader, "code tables", count, 2, kMaxCodeTables));
    header->code.block_exponent =
        read_bounded(reader, "block size", reader->read<std::uint8_t>("block size"),
                     kMinBlockExponent, kMaxBlockExponent);
  }
  for (CodeTable& table : tables) {
    if (&table != tables.data()) {
      table.layout = read_layout(reader, true);
      read_base(reader, header->levels.num_levels, &table.layout);
    }
    const std::size_t alphabet = table.layout.alphabet();
    if (alphabet == 1) continue;
    const std::size_t start = reader->position();
    std::size_t bytes = 0;
    table.lengths =
        read_code_table({frame.payload.data + start, frame.payload.size - start}, alphabet, &bytes);
    reader->take(bytes, "code table");
  }
}

void read_directory(ByteReader* reader, const Frame& frame, PayloadHeader* header) {
  const std::size_t size = frame.size;
  SymbolCode& code = header->code;
  const bool is_local = code.tables.size() > 1;
  header->blocks = code.blocks(size);
  const std::size_t blocks = header->blocks.count();
  // Two bytes a block is the least; only then is it safe to reserve by the declared size.
  if (blocks > reader->remaining() / 2) {
    throw Error(ErrorKind::kTruncatedFrame, "ECUQ directory: " + std::to_string(size) +
                                                " coordinates need " + std::to_string(blocks) +
                                                " entries, found " +
                                                std::to_string(reader->remaining()) + " bytes");
  }
  header->stream_sizes.reserve(header->blocks.num_streams());
  if (is_local) code.choices.reserve(blocks);
  if (header->has_outliers) header->block_outliers.reserve(blocks);
  header->block_offsets.reserve(blocks + 1);
  std::vector<std::size_t> bytes(blocks);
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t length = header->blocks.length(block);
    std::size_t streams_bytes = 0;
    for (int s = 0; s < split_streams(length, 1).count; ++s) {
      header->stream_sizes.push_back(reader->read<std::uint16_t>("ECUQ directory"));
      streams_bytes += header->stream_sizes.back();
    }
    std::size_t outliers = 0;
    if (header->has_outliers) {
      const auto count = reader->read<std::uint32_t>("ECUQ directory");
      outliers =
          read_bounded(reader, "outliers of a block", count, 0, static_cast<std::uint32_t>(length));
      header->block_outliers.push_back(count);
    }
    if (is_local) {
      const auto choice = reader->read<std::uint8_t>("ECUQ directory");
      read_bounded(reader, "code table of a block", choice, 0,
                   static_cast<std::uint32_t>(code.tables.size() - 1));
      code.choices.push_back(choice);
    }
    const Layout& layout = code.table_of(block).layout;
    if (layout.alphabet() == 1 && streams_bytes != 0) {
      corrupt_ecuq("directory: expected empty streams for one code word");
    }
    bytes[block] =
        block_bytes(&header->stream_sizes[block * kHuffmanStreams], length, layout, outliers);
  }
  std::size_t offset = reader->position();
  for (std::size_t block = 0; block < blocks; ++block) {
    header->block_offsets.push_back(offset);
    offset += bytes[block];
  }
  header->block_offsets.push_back(offset);
  if (offset != frame.payload.size) {
    corrupt_ecuq("blocks: the directory adds up to " + std::to_string(offset) +
                 " bytes, expected " + std::to_string(frame.payload.size));
  }
}

}  // namespace

std::uint8_t payload_version(const PayloadPlan& plan) {
  return plan.rans || plan.levels.is_displaced() || plan.code.is_local() ? kSecondVersion : 1;
}

std::size_t block_bytes(const PayloadPlan& plan, std::size_t size, std::size_t block) {
  return block_bytes(&plan.blocks.stream_sizes[block * kHuffmanStreams],
                     plan.code.blocks(size).length(block), plan.code.table_of(block).layout,
                     plan.blocks.block_outliers[block]);
}

std::size_t payload_header_size(const Levels& levels, const SymbolCode& code, std::size_t size) {
  const Blocks blocks = code.blocks(size);
  std::size_t bytes = kCommonBytes + levels_bytes(levels) + 2 * blocks.num_streams();
  if (has_outliers(levels, code)) bytes += 4 * blocks.count();
  if (code.is_local()) bytes += 2 + kLayoutBytes * (code.tables.size() - 1) + blocks.count();
  for (const CodeTable& table : code.tables) {
    const std::size_t alphabet = table.layout.alphabet();
    if (alphabet > 1) bytes += code_table_size(table.lengths, alphabet);
  }
  return bytes;
}

std::size_t payload_size(const PayloadPlan& plan, std::size_t size) {
  if (size == 0) return 0;
  if (plan.rans) return payload_size(*plan.rans, size);
  std::size_t bytes = payload_header_size(plan.levels, plan.code, size);
  for (std::size_t block = 0; block < plan.code.blocks(size).count(); ++block) {
    bytes += block_bytes(plan, size, block);
  }
  return bytes;
}

std::size_t charged_bytes(const PayloadPlan& plan, std::size_t size) {
  const int streams = split_streams(plan.code.blocks(size).length(0), 1).count;
  return payload_size(plan, size) - kCommonBytes -
         (plan.levels.is_explicit() ? sizeof(float) : kUniformBytes) -
         directory_entry_bytes(streams, has_outliers(plan.levels, plan.code));
}

std::uint8_t* write_payload_header(const PayloadPlan& plan, std::size_t size, std::uint8_t* out) {
  const Levels& levels = plan.levels;
  const SymbolCode& code = plan.code;
  const Layout& layout = code.tables[0].layout;
  const bool outliers = has_outliers(levels, code);
  *out++ = kCoderHuffman;
  *out++ = static_cast<std::uint8_t>(
      (levels.is_explicit() ? kModeExplicit : 0) | (outliers ? kModeOutliers : 0) |
      (levels.is_displaced() ? kModeDisplaced : 0) | (code.is_local() ? kModeLocal : 0));
  out = write_layout(layout, out);
  out = write_le(out, static_cast<float>(code.entropy));
  if (levels.is_explicit()) {
    for (const float value : levels.explicit_values) out = write_le(out, value);
  } else {
    out = write_le(out, levels.x_min);
    out = write_le(out, levels.x_max);
    out = write_le(out, static_cast<std::uint32_t>(levels.num_levels));
    out = write_le(out, static_cast<std::uint32_t>(layout.base));
    if (levels.is_displaced()) {
      *out++ = static_cast<std::uint8_t>(levels.first_displaced);
      *out++ = static_cast<std::uint8_t>(levels.displacements.size() - 1);
    }
    for (const std::int8_t displacement : levels.displacements) out = write_le(out, displacement);
  }
  if (code.is_local()) {
    *out++ = static_cast<std::uint8_t>(code.tables.size() - 1);
    *out++ = static_cast<std::uint8_t>(code.block_exponent);
  }
  for (std::size_t t = 0; t < code.tables.size(); ++t) {
    const CodeTable& table = code.tables[t];
    if (t > 0) {
      out = write_layout(table.layout, out);
      out = write_le(out, static_cast<std::uint32_t>(table.layout.base));
    }
    const std::size_t alphabet = table.layout.alphabet();
    if (alphabet > 1) out = write_code_table(table.lengths, alphabet, out);
  }
  const Blocks blocks = code.blocks(size);
  for (std::size_t block = 0; block < blocks.count(); ++block) {
    const int streams = split_streams(blocks.length(block), 1).count;
    const std::uint16_t* sizes = &plan.blocks.stream_sizes[block * kHuffmanStreams];
    for (int s = 0; s < streams; ++s) out = write_le(out, sizes[s]);
    if (outliers) out = write_le(out, plan.blocks.block_outliers[block]);
    if (code.is_local()) *out++ = code.choices[block];
  }
  return out;
}

PayloadHeader read_payload_header(const Frame& frame) {
  PayloadHeader header;
  if (frame.size == 0) {
    if (frame.payload.size != 0) corrupt_ecuq("payload: expected none for an empty tensor");
    return header;
  }
  ByteReader reader(frame.payload);
  const auto coder = reader.read<std::uint8_t>("coder");
  if (coder != kCoderHuffman) {
    throw Error(ErrorKind::kUnsupportedFrame, "ECUQ coder: found " + std::to_string(coder) +
                                                  ", expected 0 (Huffman) or 1 (rANS)");
  }
  const auto mode = reader.read<std::uint8_t>("mode");
  const bool is_explicit = mode & kModeExplicit;
  header.has_outliers = mode & kModeOutliers;
  const bool is_displaced = mode & kModeDisplaced;
  const bool is_local = mode & kModeLocal;
  if (mode > (kModeOutliers | kModeDisplaced | kModeLocal) ||
      (is_explicit && mode != kModeExplicit) ||
      ((is_displaced || is_local) && frame.header.version < kSecondVersion)) {
    corrupt_ecuq("mode: found " + std::to_string(mode) +
                 ", expected 0, 1 or 2, or in version 2 also an even number up to 14");
  }
  header.code.tables[0].layout = read_layout(&reader, !is_explicit && !is_displaced);
  header.code.entropy = read_finite(&reader, "entropy");
  if (header.code.entropy < 0) corrupt_ecuq("entropy: expected no negative number");
  is_explicit ? read_explicit_levels(&reader, &header) : read_uniform_levels(&reader, &header);
  if (is_displaced) read_displacements(&reader, &header);
  const float overflow = overflow_of(frame.header.dtype);
  if (!(header.levels.x_min > -overflow && header.levels.x_max < overflow)) {
    corrupt_ecuq("levels: expected values within the frame's dtype");
  }
  read_tables(&reader, frame, is_local, &header);
  read_directory(&reader, frame, &header);
  return header;
}

}  // namespace docofl
