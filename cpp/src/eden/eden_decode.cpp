#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/float_mode.h"
#include "common/parallel.h"
#include "common/source.h"
#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/error.h"
#include "ecuq/blocks.h"
#include "ecuq/decode_pieces.h"
#include "eden/codebooks.h"
#include "eden/eden_payload.h"
#include "eden/rotation.h"

namespace docofl {
namespace {

static_assert(kBlockSize % kMaxRotationBlock == 0, "a piece of ECUQ holds whole rotation blocks");

// Outputs of this many values do not fit the caches and are written past them.
constexpr std::size_t kMinPastCaches = std::size_t(1) << 21;

// A product of weight and scale as a float, finite.
float finite_float(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::min(kLargest, std::max(-kLargest, value)));
}

constexpr float kLargestFloat16 = 65504.0f;
constexpr float kLargestBFloat16 = 0x1.fep127f;

constexpr float kLevelLimit = 0x1p64f;  // sums of a block's levels stay far below infinity

// The frame of ECUQ inside an entropy-coded payload. Its parameters are checked.
Frame inner_frame(const Frame& frame, const EdenPayload& payload) {
  Frame inner;
  inner.header.codec = CodecId::kEcuq;
  inner.header.dtype = DType::kFloat32;
  inner.size = rotated_size(frame.size);
  inner.header.shape = {inner.size};
  inner.payload = payload.words;
  const EcuqInfo info = ecuq_inspect(inner);
  if (!(info.x_min > -kLevelLimit && info.x_max < kLevelLimit)) {
    throw Error(ErrorKind::kCorruptFrame, "EDEN levels: expected magnitudes below 2^64");
  }
  return inner;
}

// Calls use(chunks' codebook, first chunk, last chunk, words) for the chunks of a block that are
// wide, then for the others.
template <class Use>
void for_each_width(const EdenPayload& payload, std::size_t number, std::size_t num_chunks,
                    const Use& use) {
  const EdenWidths& widths = payload.widths;
  const std::size_t wide = widths.wide_chunks(num_chunks);
  const std::uint8_t* words = payload.words.data + payload.block_offsets[number];
  if (wide > 0) use(eden_codebook(widths.width + 1), 0, wide, words);
  words += kEdenChunk / 8 * (widths.width + 1) * wide;
  if (wide < num_chunks) use(eden_codebook(widths.width), wide, num_chunks, words);
}

struct Scratch {
  Rotation::Words words;
  std::vector<float> levels;
  std::vector<float> values;
};

// Rotates levels back and writes them to a tensor.
class BlockWriter {
 public:
  BlockWriter(const Frame& frame, const EdenPayload& payload, const MutableTensorView& out)
      : frame_(frame), payload_(payload), rotation_(payload.seed), out_(out) {
    const DType dtype = frame.header.dtype;
    is_direct_ = out.dtype == DType::kFloat32 && item_size(dtype) != 2;
    if (dtype == DType::kFloat16) largest_ = kLargestFloat16;
    if (dtype == DType::kBFloat16) largest_ = kLargestBFloat16;
  }

  const Rotation& rotation() const { return rotation_; }

  void write(std::size_t number, float* levels, Scratch* scratch) const {
    const RotationBlock block = rotation_block(frame_.size, number);
    const RotationSigns signs = rotation_.signs(block, &scratch->words);
    const float norm = rotation_norm(block.size);
    const float scale = payload_.scales[number];
    if (is_direct_) {
      const Put how = frame_.size >= kMinPastCaches ? Put::kPastCaches : Put::kStore;
      kernels().rotate_back(levels, signs, block.size, norm, scale, how,
                            static_cast<float*>(out_.data) + block.begin);
      return;
    }
    scratch->values.resize(kMaxRotationBlock);
    kernels().rotate_back(levels, signs, block.size, norm, scale, Put::kStore,
                          scratch->values.data());
    store(scratch->values.data(), block.size, block.begin);
  }

  void write_tail() const {
    if (payload_.tail.empty()) return;
    std::vector<float> tail = payload_.tail;
    store(tail.data(), tail.size(), rotated_size(frame_.size));
  }

 private:
  void store(float* values, std::size_t count, std::size_t begin) const {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = std::min(largest_, std::max(-largest_, values[i]));
    }
    store_frame_values(values, count, frame_.header.dtype, out_, begin);
  }

  const Frame& frame_;
  const EdenPayload& payload_;
  Rotation rotation_;
  const MutableTensorView& out_;
  bool is_direct_ = false;  // values are the output's
  float largest_ = std::numeric_limits<float>::max();
};

}  // namespace

EdenInfo eden_inspect(const Frame& frame) {
  const EdenPayload payload = read_eden_payload(frame);
  if (payload.entropy_coded && !payload.scales.empty()) inner_frame(frame, payload);
  return {payload.entropy_coded, payload.widths.width, payload.widths.wide_fraction,
          static_cast<double>(payload.bits), payload.seed};
}

void eden_decode(const Frame& frame, const MutableTensorView& out, int threads) {
  const DefaultFloatMode float_mode;
  threads = rotation_threads(frame.size, threads);
  const EdenPayload payload = read_eden_payload(frame);
  const BlockWriter writer(frame, payload, out);
  const std::size_t blocks = payload.scales.size();
  std::vector<Scratch> scratch(num_workers(blocks, threads));
  if (payload.entropy_coded && blocks > 0) {
    ecuq_decode_pieces(inner_frame(frame, payload), threads,
                       [&](std::size_t begin, float* values, std::size_t count, int worker) {
                         std::size_t number = begin / kMaxRotationBlock;
                         for (std::size_t done = 0; done < count; ++number) {
                           writer.write(number, values + done, &scratch[worker]);
                           done += rotation_block(frame.size, number).size;
                         }
                       });
  } else {
    parallel_for(blocks, threads, [&](std::size_t number, int worker) {
      const std::size_t num_chunks = rotation_block(frame.size, number).size / kEdenChunk;
      const ChunkOrder order =
          writer.rotation().chunk_order(number, num_chunks, payload.widths.wide_fraction != 0);
      std::vector<float>& levels = scratch[worker].levels;
      levels.resize(kMaxRotationBlock);
      for_each_width(payload, number, num_chunks,
                     [&](const EdenCodebook& codebook, std::size_t first, std::size_t last,
                         const std::uint8_t* words) {
                       kernels().eden_levels(words, codebook, order, first, last, levels.data());
                     });
      writer.write(number, levels.data(), &scratch[worker]);
    });
  }
  writer.write_tail();
}

void eden_decode_sum(const std::vector<Frame>& frames, const std::vector<double>& weights, bool add,
                     float* out, int threads) {
  const DefaultFloatMode float_mode;
  if (frames.empty()) return;
  const std::size_t size = frames[0].size;
  threads = rotation_threads(size, threads);

  // 1. All fields and code words are read, and so checked, before anything is written.
  std::vector<EdenPayload> payloads;
  std::map<std::uint64_t, std::vector<std::size_t>> groups;  // frames of fixed width, by seed
  payloads.reserve(frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    if (frame.size != size) {
      throw Error(ErrorKind::kInvalidInput, "frame " + std::to_string(i) + ": found " +
                                                std::to_string(frame.size) +
                                                " coordinates, expected " + std::to_string(size));
    }
    try {
      payloads.push_back(read_eden_payload(frame));
      const EdenPayload& payload = payloads.back();
      if (!payload.entropy_coded) {
        groups[payload.seed].push_back(i);
      } else if (!payload.scales.empty()) {
        ecuq_decode_pieces(inner_frame(frame, payload), threads,
                           [](std::size_t, float*, std::size_t, int) {});
      }
    } catch (const Error& error) {
      throw Error(error.kind(), "frame " + std::to_string(i) + ": " + error.what());
    }
  }
  const std::size_t blocks = num_rotation_blocks(size);
  if (!add) {
    const Blocks pieces(size);
    parallel_for(pieces.count(), threads, [&](std::size_t piece, int) {
      std::fill_n(out + pieces.begin(piece), pieces.length(piece), 0.0f);
    });
  }

  // 2. Frames of a seed: their levels are added up in units of the largest scale, then rotated
  // back.
  std::vector<Scratch> scratch(num_workers(std::max<std::size_t>(blocks, 1), threads));
  parallel_for(blocks, threads, [&](std::size_t number, int worker) {
    const RotationBlock block = rotation_block(size, number);
    const std::size_t num_chunks = block.size / kEdenChunk;
    std::vector<float>& levels = scratch[worker].levels;
    levels.resize(kMaxRotationBlock);
    for (const auto& [seed, members] : groups) {
      double unit = 0;
      for (const std::size_t i : members) {
        unit =
            std::max(unit, std::fabs(weights[i]) * static_cast<double>(payloads[i].scales[number]));
      }
      if (unit == 0) continue;
      const Rotation rotation(seed);
      std::fill_n(levels.begin(), block.size, 0.0f);
      for (const std::size_t i : members) {
        const EdenPayload& payload = payloads[i];
        const double weight = weights[i] * static_cast<double>(payload.scales[number]) / unit;
        const ChunkOrder order =
            rotation.chunk_order(number, num_chunks, payload.widths.wide_fraction != 0);
        for_each_width(payload, number, num_chunks,
                       [&](const EdenCodebook& codebook, std::size_t first, std::size_t last,
                           const std::uint8_t* words) {
                         kernels().eden_levels_and_add(words, codebook, order, first, last,
                                                       static_cast<float>(weight), levels.data());
                       });
      }
      kernels().rotate_back(levels.data(), rotation.signs(block, &scratch[worker].words),
                            block.size, rotation_norm(block.size), finite_float(unit), Put::kAdd,
                            out + block.begin);
    }
  });

  // 3. Entropy-coded frames one by one, and the exact values at the end.
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const EdenPayload& payload = payloads[i];
    if (payload.entropy_coded && blocks > 0) {
      const Rotation rotation(payload.seed);
      ecuq_decode_pieces(
          inner_frame(frames[i], payload), threads,
          [&](std::size_t begin, float* values, std::size_t count, int worker) {
            std::size_t number = begin / kMaxRotationBlock;
            for (std::size_t done = 0; done < count; ++number) {
              const RotationBlock block = rotation_block(size, number);
              const double scale = weights[i] * static_cast<double>(payload.scales[number]);
              kernels().rotate_back(values + done, rotation.signs(block, &scratch[worker].words),
                                    block.size, rotation_norm(block.size), finite_float(scale),
                                    Put::kAdd, out + block.begin);
              done += block.size;
            }
          });
    }
    for (std::size_t k = 0; k < payload.tail.size(); ++k) {
      float& sum = out[rotated_size(size) + k];
      const double exact =
          static_cast<double>(sum) + weights[i] * static_cast<double>(payload.tail[k]);
      sum = finite_float(exact);
    }
  }
}

}  // namespace docofl
