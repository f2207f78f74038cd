#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/float_mode.h"
#include "common/parallel.h"
#include "common/source.h"
#include "docofl/eden.h"
#include "docofl/error.h"
#include "ecuq/payload_plan.h"
#include "ecuq/quantized_values.h"
#include "ecuq/write_payload.h"
#include "eden/codebooks.h"
#include "eden/eden_payload.h"
#include "eden/rotation.h"

namespace docofl {
namespace {

constexpr double kMinBits = 0.1;
constexpr double kMinEntropyBits = 1.5;
constexpr double kMaxEntropyBits = 16;
constexpr std::uint32_t kInfinityBits = 0x7f800000;
constexpr int kLeastExponent = -126;

void check_options(const EdenOptions& options) {
  const double least = options.entropy_coded ? kMinEntropyBits : kMinBits;
  const double most = options.entropy_coded ? kMaxEntropyBits : kMaxEdenWidth;
  if (!(options.bits >= least && options.bits <= most)) {
    throw Error(ErrorKind::kInvalidInput,
                "bits: found " + std::to_string(options.bits) +
                    (options.entropy_coded ? ", expected a number from 1.5 to 16 (entropy-coded)"
                                           : ", expected a number from 0.1 to 8"));
  }
}

EdenWidths widths_for(double bits) {
  const double width = std::floor(bits);
  return {static_cast<unsigned>(width), static_cast<std::uint32_t>(std::ldexp(bits - width, 32))};
}

// A block after its rotation: u, whose coordinates have the standard deviation `deviation`, stands
// for the block divided by 2^exponent, of the norm `norm`.
struct RotatedBlock {
  float* u = nullptr;
  double norm = 0;
  double deviation = 0;
  int exponent = 0;
};

// Rotates blocks of a tensor. Bad values are noticed, not reported.
class BlockRotator {
 public:
  struct Scratch {
    Rotation::Words words;
    std::vector<float> loaded;
    std::vector<float> rotated;
  };

  BlockRotator(const TensorView& tensor, std::uint64_t seed) : tensor_(tensor), rotation_(seed) {}

  // Writes the rotated block to `u`. A block of zeros, or of bad values, is left alone and has the
  // norm 0.
  RotatedBlock rotate(std::size_t number, Scratch* scratch, float* u) {
    const RotationBlock block = rotation_block(tensor_.size, number);
    if (tensor_.dtype != DType::kFloat32) scratch->loaded.resize(kMaxRotationBlock);
    const float* x = load_values(tensor_, block.begin, block.size, scratch->loaded.data());
    const std::uint32_t most = kernels().max_magnitude(x, block.size);
    if (most >= kInfinityBits) has_bad_values_.store(true, std::memory_order_relaxed);
    if (most == 0 || most >= kInfinityBits) return {};
    // By a power of two, so that no sum overflows or vanishes.
    RotatedBlock result;
    result.u = u;
    result.exponent = std::max(static_cast<int>(most >> 23) - 127, kLeastExponent);
    const float scale = std::ldexp(1.0f, -result.exponent);
    result.norm = std::sqrt(kernels().sum_squares(x, block.size, scale));
    result.deviation =
        result.norm * std::sqrt(static_cast<double>(std::min(block.size, kInnerTransform)));
    kernels().rotate(x, scale, rotation_.signs(block, &scratch->words), block.size, u);
    return result;
  }

  const Rotation& rotation() const { return rotation_; }
  bool has_bad_values() const { return has_bad_values_.load(); }

 private:
  const TensorView& tensor_;
  Rotation rotation_;
  std::atomic<bool> has_bad_values_{false};
};

// The scale of a block from <t, q> and <q, q>, for t = u / deviation. 0 where there is nothing to
// scale.
float block_scale(const RotatedBlock& block, std::size_t size, const double sums[2],
                  EdenScale kind) {
  if (!(sums[0] > 0)) return 0;
  const double root = std::sqrt(static_cast<double>(size));
  const double scale = kind == EdenScale::kUnbiased ? block.norm * root / sums[0]
                                                    : block.norm / root * (sums[0] / sums[1]);
  return static_cast<float>(std::ldexp(scale, block.exponent));
}

void encode_fixed(BlockRotator* rotator, std::size_t size, const EdenOptions& options,
                  EdenPayload* payload, std::uint8_t* words) {
  const EdenWidths& widths = payload->widths;
  const std::vector<std::size_t> offsets = eden_block_offsets(widths, size);
  const std::size_t blocks = payload->scales.size();
  std::vector<BlockRotator::Scratch> scratch(num_workers(blocks, options.threads));
  parallel_for(blocks, options.threads, [&](std::size_t number, int worker) {
    BlockRotator::Scratch& mine = scratch[worker];
    mine.rotated.resize(kMaxRotationBlock);
    std::uint8_t* out = words + offsets[number];
    const RotatedBlock block = rotator->rotate(number, &mine, mine.rotated.data());
    if (block.norm == 0) {
      std::memset(out, 0, offsets[number + 1] - offsets[number]);
      return;
    }
    const std::size_t block_size = rotation_block(size, number).size;
    const std::size_t num_chunks = block_size / kEdenChunk;
    const std::size_t wide = widths.wide_chunks(num_chunks);
    const ChunkOrder order =
        rotator->rotation().chunk_order(number, num_chunks, widths.wide_fraction != 0);
    const float inverse = static_cast<float>(1 / block.deviation);
    double sums[2] = {};
    if (wide > 0) {
      kernels().eden_quantize(block.u, inverse, eden_codebook(widths.width + 1), order, 0, wide,
                              out, sums);
      out += kEdenChunk / 8 * (widths.width + 1) * wide;
    }
    kernels().eden_quantize(block.u, inverse, eden_codebook(widths.width), order, wide, num_chunks,
                            out, sums);
    payload->scales[number] = block_scale(block, block_size, sums, options.scale);
  });
}

// Rotates everything, then lets ECUQ code it. Returns the bytes of its payload, which is written to
// `words` of at most `room` bytes; ECUQ's budget makes sure that they are enough.
std::size_t encode_entropy(BlockRotator* rotator, std::size_t size, const EdenOptions& options,
                           EdenPayload* payload, MutableByteView words) {
  const std::size_t blocks = payload->scales.size();
  if (blocks == 0) return 0;
  const std::size_t num_rotated = rotated_size(size);
  const std::unique_ptr<float[]> t(new float[num_rotated]);
  std::vector<RotatedBlock> rotated(blocks);
  std::vector<BlockRotator::Scratch> scratch(num_workers(blocks, options.threads));
  parallel_for(blocks, options.threads, [&](std::size_t number, int worker) {
    const RotationBlock block = rotation_block(size, number);
    float* const u = t.get() + block.begin;
    rotated[number] = rotator->rotate(number, &scratch[worker], u);
    if (rotated[number].norm == 0) {
      std::fill_n(u, block.size, 0.0f);
      return;
    }
    const float inverse = static_cast<float>(1 / rotated[number].deviation);
    for (std::size_t i = 0; i < block.size; ++i) u[i] *= inverse;
  });
  if (rotator->has_bad_values()) return 0;

  EcuqOptions ecuq;
  ecuq.bits = options.bits;
  ecuq.centroids = ecuq.local_tables = false;  // the payload is of version 1
  ecuq.threads = options.threads;
  const PlanRequest request{{t.get(), num_rotated, DType::kFloat32}, ecuq, words};
  const PayloadPlan plan = plan_payload(request);
  write_payload(plan, request.tensor, options.threads, words.data);

  parallel_for(blocks, options.threads, [&](std::size_t number, int worker) {
    if (rotated[number].norm == 0) return;
    const RotationBlock block = rotation_block(size, number);
    std::vector<float>& q = scratch[worker].loaded;
    q.resize(kMaxRotationBlock);
    const float* const mine = t.get() + block.begin;
    quantized_values(plan.levels, mine, block.size, q.data());
    double sums[2] = {};
    kernels().dot_products(mine, q.data(), block.size, sums);
    payload->scales[number] = block_scale(rotated[number], block.size, sums, options.scale);
  });
  return payload_size(plan, num_rotated);
}

}  // namespace

std::size_t eden_capacity(const FrameHeader& header, const EdenOptions& options) {
  check_options(options);
  const std::size_t size = checked_size(header.shape, header.dtype);
  // The bytes promise (docs/format.md, section 6), with a byte for roundings.
  return static_cast<std::size_t>(options.bits * static_cast<double>(size) / 8) + 1 + 176 +
         10 * header.shape.size() + 6 * (size / kMaxRotationBlock + 11);
}

std::size_t eden_encode(const FrameHeader& header, const TensorView& tensor,
                        const EdenOptions& options, std::uint8_t* out) {
  const DefaultFloatMode float_mode;
  EdenOptions used = options;
  used.threads = rotation_threads(tensor.size, options.threads);
  FrameHeader eden = header;
  eden.codec = CodecId::kEden;
  const std::size_t size = tensor.size;
  if (checked_size(header.shape, header.dtype) != size || header.dtype != tensor.dtype) {
    throw Error(ErrorKind::kInvalidInput, "tensor: does not match its header");
  }
  const std::size_t capacity = eden_capacity(header, options);

  // 1. What is known beforehand, and from it the place of the words.
  EdenPayload payload;
  payload.entropy_coded = options.entropy_coded;
  if (!options.entropy_coded) payload.widths = widths_for(options.bits);
  payload.bits = static_cast<float>(options.bits);
  payload.seed = options.seed;
  payload.scales.assign(num_rotation_blocks(size), 0.0f);
  payload.tail.resize(size - rotated_size(size));
  const std::size_t header_bytes = size > 0 ? eden_header_size(size) : 0;
  const auto words_start = [&](std::size_t word_bytes) {
    return frame_size(eden, header_bytes + word_bytes) - word_bytes - kChecksumBytes;
  };
  std::size_t word_bytes =
      options.entropy_coded
          ? static_cast<std::size_t>(options.bits * static_cast<double>(rotated_size(size)) / 8)
          : eden_block_offsets(payload.widths, size).back();
  std::uint8_t* const words = out + words_start(word_bytes);

  // 2. Words and scales.
  BlockRotator rotator(tensor, options.seed);
  if (options.entropy_coded) {
    const std::size_t room = capacity - words_start(word_bytes) - kChecksumBytes;
    word_bytes = encode_entropy(&rotator, size, used, &payload, {words, room});
  } else {
    encode_fixed(&rotator, size, used, &payload, words);
  }
  float tail[kMinRotationBlock];
  const float* values = load_values(tensor, rotated_size(size), payload.tail.size(), tail);
  std::copy(values, values + payload.tail.size(), payload.tail.begin());

  // 3. Values that cannot be sent.
  bool is_good = !rotator.has_bad_values();
  for (const float value : payload.tail) is_good = is_good && std::isfinite(value);
  if (!is_good) value_range(tensor, used.threads);  // throws, and says where
  for (const float scale : payload.scales) {
    if (!std::isfinite(scale)) {
      throw Error(ErrorKind::kInvalidInput,
                  "tensor: found values whose estimates at this budget would be beyond float32, "
                  "expected smaller ones");
    }
  }

  // 4. Everything before the words, which may be a byte off where they turned out shorter.
  const std::size_t payload_bytes = header_bytes + word_bytes;
  std::uint8_t* const start = out + words_start(word_bytes);
  if (start != words && word_bytes > 0) std::memmove(start, words, word_bytes);
  std::uint8_t* next = write_frame_header(eden, payload_bytes, out);
  if (size > 0) write_eden_header(payload, next);
  const std::size_t bytes = frame_size(eden, payload_bytes);
  seal_frame(out, bytes, used.threads);
  return bytes;
}

}  // namespace docofl
