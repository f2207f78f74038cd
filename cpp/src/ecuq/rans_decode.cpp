#include "ecuq/rans_decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/byte_io.h"
#include "common/parallel.h"
#include "common/source.h"
#include "docofl/error.h"
#include "ecuq/payload_fields.h"
#include "ecuq/rans_payload.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 2048;   // values converted at a time: they stay in L1
constexpr std::size_t kFollowed = 32;  // levels that the state machine takes at a time
// Between the bands of a transform, which would meet in the same few lines of the cache.
constexpr std::size_t kBandGap = 16;

// What one worker keeps from block to block.
struct RansScratch {
  std::vector<std::uint8_t> coded;
  std::vector<std::uint8_t> symbols;  // where they are pairs
  std::vector<float> values;
  std::vector<float> coefficients;
};

// What symbols become: coded levels, or two of them in the halves of a byte, the first in the high
// one.
std::array<std::uint8_t, kMaxAlphabet> symbol_names(const RansCode& code) {
  std::array<std::uint8_t, kMaxAlphabet> names{};
  for (std::size_t a = 0; a < code.alphabet(); ++a) {
    names[a] = static_cast<std::uint8_t>(
        code.tuple == 2 ? a / code.num_coded << 4 | a % code.num_coded : a);
  }
  return names;
}

class RansBlockDecoder {
 public:
  RansBlockDecoder(const Frame& frame, const RansHeader& header, DType out_dtype, bool past_caches)
      : frame_(frame),
        header_(header),
        symbols_(header.code.tables, symbol_names(header.code)),
        is_direct_(out_dtype == DType::kFloat32 && item_size(frame.header.dtype) != 2) {
    const RansCode& code = header.code;
    for (int quantizer = 0; quantizer < code.num_quantizers(); ++quantizer) {
      for (unsigned j = 0; j < code.num_coded; ++j) {
        values_[static_cast<unsigned>(quantizer) * code.num_coded + j] = code.value(quantizer, j);
      }
    }
    levels_.table = values_.data();
    levels_.table_size = static_cast<unsigned>(code.num_quantizers()) * code.num_coded;
    levels_.pairs = code.tuple == 2 && !code.dependent;
    levels_.past_caches = is_direct_ && past_caches && !code.transformed;
    past_caches_ = past_caches;
  }

  // Writes the values of a block to out, whose first value is coordinate `origin`.
  void decode(std::size_t index, const MutableTensorView& out, std::size_t origin,
              RansScratch* scratch) const {
    const std::size_t length = rans_block_length(frame_.size, index);
    const std::uint8_t* const start = frame_.payload.data + header_.block_offsets[index];
    const std::uint8_t* const coded = decode_levels(index, start, length, scratch);
    const std::size_t place = index * kRansBlock - origin;
    const std::uint8_t* list = start + header_.blocks[index].stream_bytes;
    if (header_.code.transformed) {
      decode_transformed(index, coded, length, scratch, &list, out, place);
    } else if (is_direct_) {
      reconstruct(coded, length, static_cast<float*>(out.data) + place);
    } else {
      scratch->values.resize(kPiece);
      for (std::size_t begin = 0; begin < length; begin += kPiece) {
        const std::size_t count = std::min(kPiece, length - begin);
        reconstruct(coded + (levels_.pairs ? begin / 2 : begin), count, scratch->values.data());
        store_frame_values(scratch->values.data(), count, frame_.header.dtype, out, place + begin);
      }
    }
    const RansBlock& block = header_.blocks[index];
    restore_outliers(index, header_.code.transformed ? block.num_spikes : block.num_outliers,
                     length, list, out, place);
  }

 private:
  [[noreturn]] static void corrupt(std::size_t block, const char* what) {
    corrupt_ecuq("block " + std::to_string(block) + ": " + what);
  }

  // A byte for each coordinate, an index of values_; or two coordinates a byte.
  // SAFETY: read_rans_directory made sure that all parts of the block lie inside the payload.
  const std::uint8_t* decode_levels(std::size_t index, const std::uint8_t* start,
                                    std::size_t length, RansScratch* scratch) const {
    const RansCode& code = header_.code;
    const RansBlock& block = header_.blocks[index];
    const std::size_t padded = divide_up(length, kFollowed) * kFollowed;
    scratch->coded.resize(std::max(scratch->coded.size(), padded + kFollowed));
    std::uint8_t* const coded = scratch->coded.data();
    const RansLayout layout{rans_lanes(length), kRansSegment / code.tuple, block.choices.data()};
    std::uint8_t* symbols = coded;
    if (code.tuple == 2 && code.dependent) {
      scratch->symbols.resize(kRansBlock / 2 + kFollowed);
      symbols = scratch->symbols.data();
    }
    const std::size_t count = divide_up(length, code.tuple);
    if (!symbols_.decode(layout, {start, block.stream_bytes}, count, symbols)) {
      corrupt(index, "its stream does not end with its last symbol");
    }
    if (code.tuple == 2 && length % 2 == 1 && (symbols[count - 1] & 15) != 0) {
      corrupt(index, "expected level 0 after the last coordinate");
    }
    if (!code.dependent) return coded;
    const bool pairs = code.tuple == 2;
    const std::size_t runs = length / kTrellisRun;
    const std::size_t followed = runs * kTrellisRun;
    const std::uint8_t offset = static_cast<std::uint8_t>(code.num_coded);
    kernels().trellis_follow(symbols, pairs, runs, kTrellisRun, offset, coded);
    if (followed < length) {
      // Whole groups: what follows the last level does not matter.
      kernels().trellis_follow(symbols + (pairs ? followed / 2 : followed), pairs, 1,
                               padded - followed, offset, coded + followed);
    }
    return coded;
  }

  void reconstruct(const std::uint8_t* coded, std::size_t count, float* out) const {
    Reconstruction work = levels_;
    work.coded = coded;
    work.out = out;
    work.count = count;
    kernels().reconstruct(&work);
  }

  // Levels give coefficients; outliers are coefficients too.
  void decode_transformed(std::size_t index, const std::uint8_t* coded, std::size_t length,
                          RansScratch* scratch, const std::uint8_t** list,
                          const MutableTensorView& out, std::size_t place) const {
    const std::size_t runs = length / kTransformRun;
    const std::size_t rest = length - runs * kTransformRun;  // values that are no run
    const std::size_t stride = runs + kBandGap;
    scratch->coefficients.resize(
        std::max(scratch->coefficients.size(), stride * kTransformRun + rest));
    float* const bands = scratch->coefficients.data();
    for (std::size_t k = 0; k < kTransformRun; ++k) {
      reconstruct(coded + k * runs, runs, bands + k * stride);
    }
    float* const last = bands + kTransformRun * stride;
    reconstruct(coded + kTransformRun * runs, rest, last);
    for_each_outlier(index, header_.blocks[index].num_outliers, length, kMaxCoefficient, list,
                     [&](std::uint32_t position, float value) {
                       const bool is_last = position >= kTransformRun * runs;
                       *(is_last ? last + (position - kTransformRun * runs)
                                 : bands + position / runs * stride + position % runs) = value;
                     });
    scratch->values.resize(kPiece);
    float* const values = scratch->values.data();
    constexpr std::size_t kRuns = kPiece / kTransformRun;
    for (std::size_t run = 0; run < runs; run += kRuns) {
      const std::size_t count = std::min(kRuns, runs - run);
      kernels().inverse_transform(bands + run, stride, count, values);
      put_values(values, count * kTransformRun, out, place + run * kTransformRun);
    }
    put_values(last, rest, out, place + runs * kTransformRun);
  }

  // Values of a transform are finite, but may be beyond the frame's dtype.
  void put_values(float* values, std::size_t count, const MutableTensorView& out,
                  std::size_t place) const {
    if (item_size(frame_.header.dtype) == 2) {
      const float most = largest_of(frame_.header.dtype);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] = std::min(most, std::max(-most, values[i]));
      }
    }
    if (is_direct_ && past_caches_) {
      kernels().copy_past_caches(values, count, static_cast<float*>(out.data) + place);
    } else {
      store_frame_values(values, count, frame_.header.dtype, out, place);
    }
  }

  void restore_outliers(std::size_t index, std::uint32_t count, std::size_t length,
                        const std::uint8_t* list, const MutableTensorView& out,
                        std::size_t place) const {
    const float overflow = overflow_of(frame_.header.dtype);
    for_each_outlier(index, count, length, overflow, &list,
                     [&](std::uint32_t position, float value) {
                       store_frame_values(&value, 1, frame_.header.dtype, out, place + position);
                     });
  }

  // Calls use(position, value) for the outliers of a list, and moves on to what follows it.
  template <class Use>
  static void for_each_outlier(std::size_t index, std::uint32_t count, std::size_t length,
                               float overflow, const std::uint8_t** list, const Use& use) {
    std::int64_t previous = -1;
    for (std::uint32_t i = 0; i < count; ++i, *list += kRansOutlierBytes) {
      const std::uint8_t* const next = *list;
      const std::uint32_t position = load_le<std::uint16_t>(next) | std::uint32_t(next[2]) << 16;
      const auto value = load_le<float>(next + 3);
      if (position <= previous || position >= length) {
        corrupt(index, "outliers: expected increasing positions inside the block");
      }
      if (!(std::fabs(value) < overflow)) {
        corrupt(index, "outliers: expected finite values within the frame's dtype");
      }
      previous = position;
      use(position, value);
    }
  }

  const Frame& frame_;
  const RansHeader& header_;
  RansDecoder symbols_;
  bool is_direct_;  // reconstructed values are the output's
  bool past_caches_;
  Reconstruction levels_{};
  std::array<float, kMaxAlphabet> values_{};
};

}  // namespace

EcuqInfo rans_inspect(const Frame& frame) {
  const RansHeader header = read_rans_header(frame);
  const RansCode& code = header.code;
  EcuqInfo info;
  info.rans = true;
  info.dependent = code.dependent;
  info.centroids = code.displaced;
  info.num_tables = static_cast<std::uint32_t>(code.tables.size());
  info.num_levels = static_cast<std::uint32_t>(code.num_quantizers()) * code.num_coded;
  info.coded_levels = code.num_coded;
  info.tuple_size = code.tuple;
  info.x_min = code.value(0, 0);
  info.x_max = info.x_min;
  for (int quantizer = 0; quantizer < code.num_quantizers(); ++quantizer) {
    for (unsigned j = 0; j < code.num_coded; ++j) {
      info.x_min = std::min(info.x_min, code.value(quantizer, j));
      info.x_max = std::max(info.x_max, code.value(quantizer, j));
    }
  }
  for (const RansBlock& block : header.blocks) {
    info.num_outliers += std::uint64_t(block.num_outliers) + block.num_spikes;
  }
  info.transformed = code.transformed;
  info.step = static_cast<double>(code.step);
  info.entropy = static_cast<double>(code.entropy);
  return info;
}

void rans_decode_frame(const Frame& frame, const MutableTensorView& out, int threads) {
  const RansHeader header = read_rans_header(frame);
  const RansBlockDecoder decoder(frame, header, out.dtype, frame.size >= kMinPastCaches);
  std::vector<RansScratch> scratch(num_workers(header.blocks.size(), threads));
  parallel_for(header.blocks.size(), threads, [&](std::size_t block, int worker) {
    decoder.decode(block, out, 0, &scratch[worker]);
  });
}

void rans_decode_pieces(const Frame& frame, int threads, const UsePiece& use) {
  const RansHeader header = read_rans_header(frame);
  const RansBlockDecoder decoder(frame, header, DType::kFloat32, false);
  struct Worker {
    RansScratch scratch;
    std::vector<float> values;
  };
  std::vector<Worker> workers(num_workers(header.blocks.size(), threads));
  parallel_for(header.blocks.size(), threads, [&](std::size_t block, int index) {
    Worker& worker = workers[index];
    const std::size_t length = rans_block_length(frame.size, block);
    const std::size_t begin = block * kRansBlock;
    worker.values.resize(std::min(frame.size, kRansBlock));
    decoder.decode(block, {worker.values.data(), length, DType::kFloat32}, begin, &worker.scratch);
    use(begin, worker.values.data(), length, index);
  });
}

}  // namespace docofl
