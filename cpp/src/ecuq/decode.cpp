#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "common/byte_io.h"
#include "common/float_mode.h"
#include "common/parallel.h"
#include "common/source.h"
#include "docofl/ecuq.h"
#include "docofl/error.h"
#include "ecuq/blocks.h"
#include "ecuq/decode_pieces.h"
#include "ecuq/payload.h"
#include "ecuq/rans_decode.h"
#include "ecuq/rans_payload.h"
#include "entropy/huffman_decoder.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 2048;  // values reconstructed at a time: they stay in L1

constexpr std::size_t kOutlierPiece = 64;  // outliers restored at a time

// So many values are quicker to look up than to compute.
constexpr std::size_t kFewLevels = 16;

bool is_half(DType dtype) { return item_size(dtype) == 2; }

// What one worker keeps from block to block.
struct DecodeScratch {
  std::vector<std::uint8_t> coded[2];  // of the block that is decoded, and of the one before
  bool second = false;                 // which of them is next
  std::optional<std::size_t> open;     // the block before, while it is not complete, ...
  Reconstruction rest{};               // ... and what is left of it
  std::vector<std::uint8_t> packed;
  std::vector<std::uint32_t> raw;
  std::vector<float> values;
  std::size_t origin = 0;  // the coordinate at the start of the output
};

// A code table as the loops need it. It must not move: its loops point into it.
class TableDecoder {
 public:
  TableDecoder(const PayloadHeader& header, const CodeTable& table, bool multi_stream,
               bool past_caches)
      : layout_(table.layout) {
    const Levels& levels = header.levels;
    work_.base = layout_.base;
    work_.pairs = layout_.tuple > 1;
    work_.past_caches = past_caches;
    work_.table_size = layout_.num_coded;
    if (levels.is_explicit()) {
      std::copy(levels.explicit_values.begin(), levels.explicit_values.end(), values_.begin());
      work_.table = values_.data();
    } else {
      work_.grid = make_grid(levels);
      if (levels.is_displaced()) displace(levels, header.code.tables[0].layout.base);
      if (layout_.num_coded <= kFewLevels) tabulate();
    }
    if (layout_.alphabet() > 1) {
      huffman_.emplace(table.lengths, layout_.num_coded, layout_.tuple, multi_stream);
    }
  }
  TableDecoder(const TableDecoder&) = delete;
  TableDecoder& operator=(const TableDecoder&) = delete;

  const Layout& layout() const { return layout_; }

  // How coded levels become values, without place and count.
  const Reconstruction& work() const { return work_; }

  // Null without code words.
  const HuffmanDecoder* huffman() const { return huffman_ ? &*huffman_ : nullptr; }

 private:
  // Displacements are those of levels, which may have other numbers in this table than in the
  // first, whose base is given, or none.
  void displace(const Levels& levels, std::int32_t first_base) {
    const std::int64_t first =
        std::int64_t(first_base) + levels.first_displaced - std::int64_t(layout_.base);
    for (std::size_t i = 0; i < levels.displacements.size(); ++i) {
      const std::int64_t coded = first + static_cast<std::int64_t>(i);
      if (coded < 0 || coded >= static_cast<std::int64_t>(layout_.num_coded)) continue;
      if (work_.displacements == nullptr) {
        work_.displacements = displacements_.data();
        work_.first_displaced = static_cast<unsigned>(coded);
      }
      displacements_[static_cast<std::size_t>(coded) - work_.first_displaced] =
          levels.displacements[i];
    }
  }

  void tabulate() {
    std::uint8_t all[kFewLevels];
    std::iota(std::begin(all), std::end(all), std::uint8_t(0));
    Reconstruction few = work_;
    few.pairs = few.past_caches = false;
    few.coded = all;
    few.out = values_.data();
    few.count = layout_.num_coded;
    kernels().reconstruct(&few);
    work_.table = values_.data();
  }

  Layout layout_;
  Reconstruction work_{};
  // Values of explicit levels, or of all coded ones where they are few.
  std::array<float, kMaxCodedLevels> values_{};
  std::array<std::int8_t, kMaxDisplaced> displacements_{};
  std::optional<HuffmanDecoder> huffman_;
};

class BlockDecoder {
 public:
  BlockDecoder(const Frame& frame, const PayloadHeader& header, DType out_dtype, bool past_caches)
      : frame_(frame),
        header_(header),
        is_direct_(out_dtype == DType::kFloat32 && !is_half(frame.header.dtype)) {
    for (const CodeTable& table : header.code.tables) {
      tables_.emplace_back(header, table, frame.size >= kMultiStreamSize,
                           is_direct_ && past_caches);
    }
  }

  // Decodes the code words of a block, while the values of the worker's block before are written.
  void decode(std::size_t block, const MutableTensorView& out, DecodeScratch* scratch) const {
    const std::size_t length = header_.blocks.length(block);
    const TableDecoder& table = table_of(block);
    std::vector<std::uint8_t>& coded = scratch->coded[scratch->second];
    scratch->second = !scratch->second;
    if (coded.empty()) coded.resize(header_.blocks.max_length() + kMaxTuple);
    const std::uint8_t* rest = decode_streams(block, length, coded.data(), &scratch->rest);
    complete(out, scratch);
    scratch->open = block;
    if (is_direct_ && table.layout().raw_bits == 0) {
      scratch->rest = table.work();
      scratch->rest.coded = coded.data();
      scratch->rest.out =
          static_cast<float*>(out.data) + header_.blocks.begin(block) - scratch->origin;
      scratch->rest.count = length;
    } else {
      reconstruct(block, length, coded.data(), rest, out, scratch);
    }
  }

  // Writes what is left of the worker's last block: its values, then its outliers.
  void complete(const MutableTensorView& out, DecodeScratch* scratch) const {
    if (!scratch->open) return;
    if (scratch->rest.count > 0) kernels().reconstruct(&scratch->rest);
    if (header_.has_outliers) restore_outliers(*scratch->open, out, scratch->origin);
    scratch->open.reset();
  }

 private:
  [[noreturn]] static void corrupt(std::size_t block, const char* what) {
    throw Error(ErrorKind::kCorruptFrame, "ECUQ block " + std::to_string(block) + ": " + what);
  }

  const TableDecoder& table_of(std::size_t block) const {
    return tables_[header_.code.is_local() ? header_.code.choices[block] : 0];
  }

  // Decodes the code words of a block, and returns where its raw bits start.
  // SAFETY: read_directory made sure that all parts of the block lie inside the payload.
  const std::uint8_t* decode_streams(std::size_t block, std::size_t length, std::uint8_t* coded,
                                     Reconstruction* beside) const {
    const std::uint8_t* next = frame_.payload.data + header_.block_offsets[block];
    const TableDecoder& table = table_of(block);
    const unsigned tuple = table.layout().tuple;
    if (table.huffman() == nullptr) {
      std::memset(coded, 0, length);
      return next;
    }
    const StreamSplit split = split_streams(length, tuple);
    ByteView streams[kHuffmanStreams];
    for (int s = 0; s < split.count; ++s) {
      streams[s] = {next,
                    header_.stream_sizes[block * kHuffmanStreams + static_cast<std::size_t>(s)]};
      next += streams[s].size;
    }
    if (!table.huffman()->decode(streams, split.words, split.count, coded, beside)) {
      corrupt(block, "a stream does not end with its last code word and zero bits");
    }
    // Level 0 after the last coordinate: half a byte, then whole ones.
    if (tuple > 1) {
      const std::size_t end = divide_up(length, tuple) * tuple / 2;
      int rest = length % 2 == 1 ? coded[length / 2] & 15 : 0;
      for (std::size_t i = divide_up(length, 2); i < end; ++i) rest |= coded[i];
      if (rest != 0) corrupt(block, "expected level 0 after the last coordinate");
    }
    return next;
  }

  // The values of up to kOutlierPiece levels of the grid.
  void values_at(const std::uint32_t* levels, std::size_t count, float* values) const {
    const std::uint8_t no_coded[kOutlierPiece] = {};
    kernels().reconstruct_raw(tables_[0].work().grid, 0, 0, no_coded, levels, count, values);
  }

  // Values of coordinates [begin, begin + count) of a block.
  static void reconstruct_piece(const TableDecoder& table, std::size_t begin, std::size_t count,
                                const std::uint8_t* coded, const std::uint8_t* raw,
                                DecodeScratch* scratch, float* values) {
    const Layout& layout = table.layout();
    if (layout.raw_bits == 0) {
      Reconstruction piece = table.work();
      piece.coded = coded + (piece.pairs ? begin / 2 : begin);
      piece.out = values;
      piece.count = count;
      kernels().reconstruct(&piece);
      return;
    }
    // A copy with room behind it, since unpacking reads beyond the last bits. kPiece * raw_bits
    // is a whole number of bytes.
    scratch->packed.resize(kPiece * kMaxRawBits / 8 + 8);
    scratch->raw.resize(kPiece);
    std::memcpy(scratch->packed.data(), raw + begin * layout.raw_bits / 8,
                divide_up(count * layout.raw_bits, 8));
    kernels().unpack_raw(scratch->packed.data(), count, layout.raw_bits, scratch->raw.data());
    kernels().reconstruct_raw(table.work().grid, layout.base, layout.raw_bits, coded + begin,
                              scratch->raw.data(), count, values);
  }

  // Where `is_direct_` and no raw bits allow it, `complete` does this later.
  void reconstruct(std::size_t block, std::size_t length, const std::uint8_t* coded,
                   const std::uint8_t* raw, const MutableTensorView& out,
                   DecodeScratch* scratch) const {
    const TableDecoder& table = table_of(block);
    const std::size_t raw_bits = length * table.layout().raw_bits;
    if (raw_bits % 8 != 0 && raw[raw_bits / 8] >> (raw_bits % 8) != 0) {
      corrupt(block, "expected zero bits after the raw bits");
    }
    const std::size_t start = header_.blocks.begin(block) - scratch->origin;
    for (std::size_t begin = 0; begin < length; begin += kPiece) {
      const std::size_t count = std::min(kPiece, length - begin);
      if (is_direct_) {
        float* const values = static_cast<float*>(out.data) + start + begin;
        reconstruct_piece(table, begin, count, coded, raw, scratch, values);
      } else {
        scratch->values.resize(kPiece);
        reconstruct_piece(table, begin, count, coded, raw, scratch, scratch->values.data());
        store_frame_values(scratch->values.data(), count, frame_.header.dtype, out, start + begin);
      }
    }
  }

  void restore_outliers(std::size_t block, const MutableTensorView& out, std::size_t origin) const {
    const std::size_t length = header_.blocks.length(block);
    const WindowParams window = table_of(block).layout().window();
    const std::size_t total = header_.block_outliers[block];
    const std::uint8_t* next =
        frame_.payload.data + header_.block_offsets[block + 1] - total * kOutlierBytes;
    std::int64_t previous = -1;
    for (std::size_t begin = 0; begin < total; begin += kOutlierPiece) {
      const std::size_t count = std::min(kOutlierPiece, total - begin);
      std::uint16_t positions[kOutlierPiece];
      std::uint32_t levels[kOutlierPiece];
      for (std::size_t i = 0; i < count; ++i, next += kOutlierBytes) {
        positions[i] = load_le<std::uint16_t>(next);
        levels[i] = load_le<std::uint32_t>(next + 2);
        if (positions[i] <= previous || positions[i] >= length) {
          corrupt(block, "outliers: expected increasing positions inside the block");
        }
        previous = positions[i];
        const std::int64_t place = static_cast<std::int64_t>(levels[i]) - window.base;
        if (levels[i] >= static_cast<std::uint32_t>(header_.levels.num_levels) ||
            (place >= 0 && place < window.span)) {
          corrupt(block, "outliers: expected a level of the grid outside the coded window");
        }
      }
      float values[kOutlierPiece];
      values_at(levels, count, values);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = header_.blocks.begin(block) - origin + positions[i];
        if (is_direct_) {
          static_cast<float*>(out.data)[place] = values[i];
        } else {
          store_frame_values(&values[i], 1, frame_.header.dtype, out, place);
        }
      }
    }
  }

  const Frame& frame_;
  const PayloadHeader& header_;
  bool is_direct_;  // reconstructed values are the output's
  std::deque<TableDecoder> tables_;
};

// All blocks, those with the same table one after the other: it stays in the cache.
std::vector<std::size_t> order_by_table(const PayloadHeader& header) {
  std::vector<std::size_t> order(header.blocks.count());
  std::iota(order.begin(), order.end(), std::size_t(0));
  const std::vector<std::uint8_t>& choices = header.code.choices;
  if (header.code.is_local()) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return choices[a] < choices[b]; });
  }
  return order;
}

}  // namespace

EcuqInfo ecuq_inspect(const Frame& frame) {
  const DefaultFloatMode float_mode;
  if (has_rans_payload(frame)) return rans_inspect(frame);
  const PayloadHeader header = read_payload_header(frame);
  EcuqInfo info;
  if (frame.size == 0) return info;
  const Layout& layout = header.code.tables[0].layout;
  info.explicit_levels = header.levels.is_explicit();
  info.centroids = header.levels.is_displaced();
  info.num_tables = static_cast<std::uint32_t>(header.code.tables.size());
  info.num_levels = static_cast<std::uint32_t>(header.levels.num_levels);
  info.coded_levels = layout.num_coded;
  info.tuple_size = layout.tuple;
  info.raw_bits = layout.raw_bits;
  for (const std::uint32_t outliers : header.block_outliers) info.num_outliers += outliers;
  info.x_min = header.levels.x_min;
  info.x_max = header.levels.x_max;
  info.step = info.explicit_levels ? 0 : make_grid(header.levels).step;
  info.entropy = header.code.entropy;
  return info;
}

void ecuq_decode(const Frame& frame, const MutableTensorView& out, int threads) {
  const DefaultFloatMode float_mode;
  if (has_rans_payload(frame)) return rans_decode_frame(frame, out, threads);
  const PayloadHeader header = read_payload_header(frame);
  if (frame.size == 0) return;
  const BlockDecoder decoder(frame, header, out.dtype, frame.size >= kMinPastCaches);
  const std::vector<std::size_t> order = order_by_table(header);
  std::vector<DecodeScratch> scratch(num_workers(order.size(), threads));
  parallel_for(order.size(), threads, [&](std::size_t number, int worker) {
    decoder.decode(order[number], out, &scratch[worker]);
  });
  parallel_for(scratch.size(), threads,
               [&](std::size_t worker, int) { decoder.complete(out, &scratch[worker]); });
}

void ecuq_decode_pieces(const Frame& frame, int threads, const UsePiece& use) {
  const DefaultFloatMode float_mode;
  if (has_rans_payload(frame)) return rans_decode_pieces(frame, threads, use);
  const PayloadHeader header = read_payload_header(frame);
  if (frame.size == 0) return;
  const BlockDecoder decoder(frame, header, DType::kFloat32, false);
  const std::size_t blocks = header.blocks.count();
  struct Worker {
    DecodeScratch scratch;
    std::vector<float> values;
  };
  std::vector<Worker> workers(num_workers(blocks, threads));
  parallel_for(blocks, threads, [&](std::size_t block, int index) {
    Worker& worker = workers[index];
    const std::size_t length = header.blocks.length(block);
    worker.values.resize(header.blocks.max_length());
    worker.scratch.origin = header.blocks.begin(block);
    const MutableTensorView values{worker.values.data(), length, DType::kFloat32};
    decoder.decode(block, values, &worker.scratch);
    decoder.complete(values, &worker.scratch);
    use(header.blocks.begin(block), worker.values.data(), length, index);
  });
}

}  // namespace docofl
