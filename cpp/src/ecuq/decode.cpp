#include <algorithm>
#include <array>
#include <cstring>
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

class BlockDecoder {
 public:
  BlockDecoder(const Frame& frame, const PayloadHeader& header, DType out_dtype, bool past_caches)
      : frame_(frame), header_(header) {
    const Layout& layout = header.layout;
    is_direct_ = out_dtype == DType::kFloat32 && !is_half(frame.header.dtype);
    levels_.base = layout.base;
    levels_.pairs = layout.tuple > 1;
    levels_.past_caches = is_direct_ && past_caches;
    if (header.levels.is_explicit()) {
      std::copy(header.levels.explicit_values.begin(), header.levels.explicit_values.end(),
                values_.begin());
      levels_.table = values_.data();
    } else {
      levels_.grid = make_grid(header.levels);
      if (header.levels.is_displaced()) {
        std::copy(header.levels.displacements.begin(), header.levels.displacements.end(),
                  displacements_.begin());
        levels_.displacements = displacements_.data();
        levels_.first_displaced = header.levels.first_displaced;
      }
      if (layout.num_coded <= kFewLevels) {
        std::uint8_t all[kFewLevels];
        std::iota(std::begin(all), std::end(all), std::uint8_t(0));
        Reconstruction few = levels_;
        few.pairs = few.past_caches = false;
        few.coded = all;
        few.out = values_.data();
        few.count = layout.num_coded;
        kernels().reconstruct(&few);
        levels_.table = values_.data();
      }
    }
    levels_.table_size = layout.num_coded;
    if (layout.alphabet() > 1) {
      huffman_.emplace(header.lengths, layout.num_coded, layout.tuple,
                       frame.size >= kMultiStreamSize);
    }
  }

  // Decodes the code words of a block, while the values of the worker's block before are written.
  void decode(std::size_t block, const MutableTensorView& out, DecodeScratch* scratch) const {
    const std::size_t length = block_length(frame_.size, block);
    std::vector<std::uint8_t>& coded = scratch->coded[scratch->second];
    scratch->second = !scratch->second;
    if (coded.empty()) coded.resize(std::min(frame_.size, kBlockSize) + kMaxTuple);
    const std::uint8_t* rest = decode_streams(block, length, coded.data(), &scratch->rest);
    complete(out, scratch);
    scratch->open = block;
    if (is_direct_ && header_.layout.raw_bits == 0) {
      scratch->rest = levels_;
      scratch->rest.coded = coded.data();
      scratch->rest.out = static_cast<float*>(out.data) + block_begin(block) - scratch->origin;
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

  // Decodes the code words of a block, and returns where its raw bits start.
  // SAFETY: read_directory made sure that all parts of the block lie inside the payload.
  const std::uint8_t* decode_streams(std::size_t block, std::size_t length, std::uint8_t* coded,
                                     Reconstruction* beside) const {
    const std::uint8_t* next = frame_.payload.data + header_.block_offsets[block];
    const unsigned tuple = header_.layout.tuple;
    if (!huffman_) {
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
    if (!huffman_->decode(streams, split.words, split.count, coded, beside)) {
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
    kernels().reconstruct_raw(levels_.grid, 0, 0, no_coded, levels, count, values);
  }

  // Values of coordinates [begin, begin + count) of a block.
  void reconstruct_piece(std::size_t begin, std::size_t count, const std::uint8_t* coded,
                         const std::uint8_t* raw, DecodeScratch* scratch, float* values) const {
    const Layout& layout = header_.layout;
    if (layout.raw_bits == 0) {
      Reconstruction piece = levels_;
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
    kernels().reconstruct_raw(levels_.grid, layout.base, layout.raw_bits, coded + begin,
                              scratch->raw.data(), count, values);
  }

  // Where `is_direct_` and no raw bits allow it, `complete` does this later.
  void reconstruct(std::size_t block, std::size_t length, const std::uint8_t* coded,
                   const std::uint8_t* raw, const MutableTensorView& out,
                   DecodeScratch* scratch) const {
    const std::size_t raw_bits = length * header_.layout.raw_bits;
    if (raw_bits % 8 != 0 && raw[raw_bits / 8] >> (raw_bits % 8) != 0) {
      corrupt(block, "expected zero bits after the raw bits");
    }
    const std::size_t start = block_begin(block) - scratch->origin;
    for (std::size_t begin = 0; begin < length; begin += kPiece) {
      const std::size_t count = std::min(kPiece, length - begin);
      if (is_direct_) {
        float* const values = static_cast<float*>(out.data) + start + begin;
        reconstruct_piece(begin, count, coded, raw, scratch, values);
      } else {
        scratch->values.resize(kPiece);
        reconstruct_piece(begin, count, coded, raw, scratch, scratch->values.data());
        store_frame_values(scratch->values.data(), count, frame_.header.dtype, out, start + begin);
      }
    }
  }

  void restore_outliers(std::size_t block, const MutableTensorView& out, std::size_t origin) const {
    const std::size_t length = block_length(frame_.size, block);
    const WindowParams window = header_.layout.window();
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
        const std::size_t place = block_begin(block) - origin + positions[i];
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
  Reconstruction levels_{};  // without place and count
  // Values of explicit levels, or of all coded ones where they are few.
  std::array<float, kMaxCodedLevels> values_{};
  std::array<std::int8_t, kMaxDisplaced> displacements_{};
  bool is_direct_ = false;  // reconstructed values are the output's
  std::optional<HuffmanDecoder> huffman_;
};

}  // namespace

EcuqInfo ecuq_inspect(const Frame& frame) {
  const DefaultFloatMode float_mode;
  if (has_rans_payload(frame)) return rans_inspect(frame);
  const PayloadHeader header = read_payload_header(frame);
  EcuqInfo info;
  if (frame.size == 0) return info;
  info.explicit_levels = header.levels.is_explicit();
  info.centroids = header.levels.is_displaced();
  info.num_levels = static_cast<std::uint32_t>(header.levels.num_levels);
  info.coded_levels = header.layout.num_coded;
  info.tuple_size = header.layout.tuple;
  info.raw_bits = header.layout.raw_bits;
  for (const std::uint32_t outliers : header.block_outliers) info.num_outliers += outliers;
  info.x_min = header.levels.x_min;
  info.x_max = header.levels.x_max;
  info.step = info.explicit_levels ? 0 : make_grid(header.levels).step;
  info.entropy = header.entropy;
  return info;
}

void ecuq_decode(const Frame& frame, const MutableTensorView& out, int threads) {
  const DefaultFloatMode float_mode;
  if (has_rans_payload(frame)) return rans_decode_frame(frame, out, threads);
  const PayloadHeader header = read_payload_header(frame);
  if (frame.size == 0) return;
  const BlockDecoder decoder(frame, header, out.dtype, frame.size >= kMinPastCaches);
  const std::size_t blocks = num_blocks(frame.size);
  std::vector<DecodeScratch> scratch(num_workers(blocks, threads));
  parallel_for(blocks, threads, [&](std::size_t block, int worker) {
    decoder.decode(block, out, &scratch[worker]);
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
  const std::size_t blocks = num_blocks(frame.size);
  struct Worker {
    DecodeScratch scratch;
    std::vector<float> values;
  };
  std::vector<Worker> workers(num_workers(blocks, threads));
  parallel_for(blocks, threads, [&](std::size_t block, int index) {
    Worker& worker = workers[index];
    const std::size_t length = block_length(frame.size, block);
    worker.values.resize(std::min(frame.size, kBlockSize));
    worker.scratch.origin = block_begin(block);
    const MutableTensorView values{worker.values.data(), length, DType::kFloat32};
    decoder.decode(block, values, &worker.scratch);
    decoder.complete(values, &worker.scratch);
    use(block_begin(block), worker.values.data(), length, index);
  });
}

}  // namespace docofl
