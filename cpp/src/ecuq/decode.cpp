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
#include "ecuq/payload.h"
#include "entropy/huffman_decoder.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 2048;  // values reconstructed at a time: they stay in L1

// Outputs of this many values do not fit the caches and are written past them.
constexpr std::size_t kMinPastCaches = std::size_t(1) << 21;

// So many values are quicker to look up than to compute.
constexpr std::size_t kFewLevels = 16;

bool is_half(DType dtype) { return item_size(dtype) == 2; }

struct DecodeScratch {
  std::vector<std::uint8_t> coded;
  std::vector<std::uint8_t> unpacked;
  std::vector<std::uint8_t> packed;
  std::vector<std::uint32_t> raw;
  std::vector<float> values;
};

class BlockDecoder {
 public:
  BlockDecoder(const Frame& frame, const PayloadHeader& header, DType out_dtype)
      : frame_(frame), header_(header) {
    const Layout& layout = header.layout;
    is_direct_ = out_dtype == DType::kFloat32 && !is_half(frame.header.dtype);
    past_caches_ = is_direct_ && frame.size >= kMinPastCaches;
    if (header.levels.is_explicit()) {
      std::copy(header.levels.explicit_values.begin(), header.levels.explicit_values.end(),
                values_.begin());
    } else {
      grid_ = make_grid(header.levels);
      std::uint8_t coded[kFewLevels];
      std::iota(std::begin(coded), std::end(coded), std::uint8_t(0));
      const std::size_t count = std::min<std::size_t>(kFewLevels, layout.num_coded);
      kernels().reconstruct(grid_, layout.base, coded, count, false, values_.data());
    }
    if (layout.alphabet() > 1) {
      huffman_.emplace(header.lengths, layout.num_coded, layout.tuple,
                       frame.size >= kMultiStreamSize);
    }
  }

  void decode(std::size_t block, const MutableTensorView& out, DecodeScratch* scratch) const {
    const std::size_t length = block_length(frame_.size, block);
    const std::uint8_t* next = frame_.payload.data + header_.block_offsets[block];
    next = decode_streams(block, length, next, scratch);
    next = reconstruct(block, length, next, out, scratch);
    if (header_.has_outliers) restore_outliers(block, length, next, out);
  }

 private:
  [[noreturn]] static void corrupt(std::size_t block, const char* what) {
    throw Error(ErrorKind::kCorruptFrame, "ECUQ block " + std::to_string(block) + ": " + what);
  }

  // SAFETY: read_directory made sure that all parts of the block lie inside the payload.
  const std::uint8_t* decode_streams(std::size_t block, std::size_t length,
                                     const std::uint8_t* next, DecodeScratch* scratch) const {
    const unsigned tuple = header_.layout.tuple;
    if (scratch->coded.empty())
      scratch->coded.resize(std::min(frame_.size, kBlockSize) + kMaxTuple);
    std::uint8_t* const coded = scratch->coded.data();
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
    if (!huffman_->decode(streams, split.words, split.count, coded)) {
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

  // Writes values in the output's dtype, but as precise as the frame's.
  void store(float* values, std::size_t count, const MutableTensorView& out,
             std::size_t place) const {
    if (out.dtype != frame_.header.dtype && is_half(frame_.header.dtype)) {
      std::uint16_t rounded[kPiece];
      store_values(values, count, {rounded, count, frame_.header.dtype}, 0);
      load_values({rounded, count, frame_.header.dtype}, 0, count, values);
    }
    store_values(values, count, out, place);
  }

  // Values of coordinates [begin, begin + count) of a block.
  void reconstruct_piece(std::size_t begin, std::size_t count, const std::uint8_t* raw,
                         DecodeScratch* scratch, float* values) const {
    const Kernels& k = kernels();
    const Layout& layout = header_.layout;
    const std::uint8_t* coded = scratch->coded.data() + begin;
    if (layout.tuple > 1) {
      scratch->unpacked.resize(kPiece + 1);
      k.unpack_pairs(scratch->coded.data() + begin / 2, divide_up(count, 2),
                     scratch->unpacked.data());
      coded = scratch->unpacked.data();
    }
    if (header_.levels.is_explicit() || (layout.num_coded <= kFewLevels && layout.raw_bits == 0)) {
      k.look_up(values_.data(), layout.num_coded, coded, count, past_caches_, values);
    } else if (layout.raw_bits == 0) {
      k.reconstruct(grid_, layout.base, coded, count, past_caches_, values);
    } else {
      // A copy with room behind it, since unpacking reads beyond the last bits. kPiece * raw_bits
      // is a whole number of bytes.
      scratch->packed.resize(kPiece * kMaxRawBits / 8 + 8);
      scratch->raw.resize(kPiece);
      std::memcpy(scratch->packed.data(), raw + begin * layout.raw_bits / 8,
                  divide_up(count * layout.raw_bits, 8));
      k.unpack_raw(scratch->packed.data(), count, layout.raw_bits, scratch->raw.data());
      k.reconstruct_raw(grid_, layout.base, layout.raw_bits, coded, scratch->raw.data(), count,
                        values);
    }
  }

  const std::uint8_t* reconstruct(std::size_t block, std::size_t length, const std::uint8_t* next,
                                  const MutableTensorView& out, DecodeScratch* scratch) const {
    const std::size_t raw_bits = length * header_.layout.raw_bits;
    const std::size_t raw_bytes = divide_up(raw_bits, 8);
    if (raw_bits % 8 != 0 && next[raw_bytes - 1] >> (raw_bits % 8) != 0) {
      corrupt(block, "expected zero bits after the raw bits");
    }
    const std::size_t start = block_begin(block);
    for (std::size_t begin = 0; begin < length; begin += kPiece) {
      const std::size_t count = std::min(kPiece, length - begin);
      if (is_direct_) {
        float* const values = static_cast<float*>(out.data) + start + begin;
        reconstruct_piece(begin, count, next, scratch, values);
      } else {
        scratch->values.resize(kPiece);
        reconstruct_piece(begin, count, next, scratch, scratch->values.data());
        store(scratch->values.data(), count, out, start + begin);
      }
    }
    return next + raw_bytes;
  }

  void restore_outliers(std::size_t block, std::size_t length, const std::uint8_t* next,
                        const MutableTensorView& out) const {
    const WindowParams window = header_.layout.window();
    std::int64_t previous = -1;
    for (std::uint32_t i = 0; i < header_.block_outliers[block]; ++i, next += kOutlierBytes) {
      const std::size_t position = load_le<std::uint16_t>(next);
      const std::uint32_t level = load_le<std::uint32_t>(next + 2);
      if (static_cast<std::int64_t>(position) <= previous || position >= length) {
        corrupt(block, "outliers: expected increasing positions inside the block");
      }
      previous = static_cast<std::int64_t>(position);
      const std::int64_t place = static_cast<std::int64_t>(level) - window.base;
      if (level >= static_cast<std::uint32_t>(header_.levels.num_levels) ||
          (place >= 0 && place < window.span)) {
        corrupt(block, "outliers: expected a level of the grid outside the coded window");
      }
      const std::uint8_t first = 0;
      float value;
      kernels().reconstruct(grid_, static_cast<std::int32_t>(level), &first, 1, false, &value);
      store(&value, 1, out, block_begin(block) + position);
    }
  }

  const Frame& frame_;
  const PayloadHeader& header_;
  GridParams grid_{};
  std::array<float, kMaxCodedLevels>
      values_{};            // of explicit levels, or of the first few coded ones
  bool is_direct_ = false;  // reconstructed values are the output's
  bool past_caches_ = false;
  std::optional<HuffmanDecoder> huffman_;
};

}  // namespace

EcuqInfo ecuq_inspect(const Frame& frame) {
  const DefaultFloatMode float_mode;
  const PayloadHeader header = read_payload_header(frame);
  EcuqInfo info;
  if (frame.size == 0) return info;
  info.explicit_levels = header.levels.is_explicit();
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
  const PayloadHeader header = read_payload_header(frame);
  if (frame.size == 0) return;
  const BlockDecoder decoder(frame, header, out.dtype);
  const std::size_t blocks = num_blocks(frame.size);
  std::vector<DecodeScratch> scratch(num_workers(blocks, threads));
  parallel_for(blocks, threads, [&](std::size_t block, int worker) {
    decoder.decode(block, out, &scratch[worker]);
  });
}

}  // namespace docofl
