#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/byte_io.h"
#include "common/parallel.h"
#include "docofl/ecuq.h"
#include "docofl/error.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/blocks.h"
#include "ecuq/level_search.h"
#include "ecuq/payload.h"

namespace docofl {

struct EcuqPlan::Impl {
  FrameHeader header;
  std::size_t size = 0;
  CodingPlan coding_plan;
  std::size_t payload_bytes = 0;
};

EcuqPlan::EcuqPlan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EcuqPlan::EcuqPlan(EcuqPlan&&) noexcept = default;
EcuqPlan& EcuqPlan::operator=(EcuqPlan&&) noexcept = default;
EcuqPlan::~EcuqPlan() = default;

namespace {

constexpr double kMinBits = 0.01;
constexpr double kMaxBits = 32;
constexpr std::size_t kMaxStreamWords = kBlockSize / kHuffmanStreams;

void check_options(const EcuqOptions& options) {
  if (!(options.bits >= kMinBits && options.bits <= kMaxBits)) {
    throw Error(ErrorKind::kInvalidInput, "bits: found " + std::to_string(options.bits) +
                                              ", expected a number from 0.01 to 32");
  }
  if (!(options.tolerance >= 0 && options.tolerance <= kMaxBits)) {
    throw Error(ErrorKind::kInvalidInput, "tolerance: found " + std::to_string(options.tolerance) +
                                              ", expected a number from 0 to 32");
  }
}

struct EncodeScratch {
  BlockSymbols block;
  // A stream is coded here first: the last store of a stream reaches beyond it, where another
  // thread's bytes may be.
  std::vector<std::uint8_t> stream = std::vector<std::uint8_t>(kMaxStreamWords * kMaxCodeLength / 8 + 16);
  std::vector<std::uint8_t> raw;
};

[[noreturn]] void report_changed_input() {
  throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
}

// Encodes one block to exactly [out, end), or throws when its size is not the planned one.
void encode_block(const EcuqPlan::Impl& plan, const BlockQuantizer& quantizer,
                  const CodeWords& words, unsigned max_length, const TensorView& tensor,
                  std::size_t block, EncodeScratch* scratch, std::uint8_t* out,
                  const std::uint8_t* end) {
  const CodingPlan& coding_plan = plan.coding_plan;
  const Layout& layout = coding_plan.layout;
  const std::size_t length = block_length(plan.size, block);
  const std::uint8_t* symbols =
      quantizer.run(tensor, block_begin(block), length, &scratch->block);
  if (layout.alphabet() > 1) {
    const StreamSplit split = split_streams(length, layout.tuple);
    for (int s = 0; s < split.count; ++s) {
      // SAFETY: split.words[s] <= kMaxStreamWords words of at most kMaxCodeLength bits, and 8 more bytes.
      const std::size_t bytes = kernels().huffman_encode(symbols, split.words[s], words.data(),
                                                         max_length, scratch->stream.data());
      if (bytes != coding_plan.coding.stream_sizes[block * kHuffmanStreams + static_cast<std::size_t>(s)]) {
        report_changed_input();
      }
      std::memcpy(out, scratch->stream.data(), bytes);
      out += bytes;
      symbols += split.words[s];
    }
  }
  if (layout.raw_bits > 0) {
    const std::size_t bytes = divide_up(length * layout.raw_bits, 8);
    scratch->raw.resize(bytes + 16);
    kernels().pack_raw(scratch->block.raw.data(), length, layout.raw_bits, scratch->raw.data());
    std::memcpy(out, scratch->raw.data(), bytes);
    out += bytes;
  }
  if (static_cast<std::size_t>(end - out) != scratch->block.outliers.size() * kOutlierBytes) {
    report_changed_input();
  }
  for (const Outlier& outlier : scratch->block.outliers) {
    out = write_le(out, outlier.position);
    out = write_le(out, static_cast<std::uint32_t>(outlier.level));
  }
}

}  // namespace

EcuqPlan ecuq_plan(const FrameHeader& header, const TensorView& tensor,
                   const EcuqOptions& options) {
  check_options(options);
  auto impl = std::make_unique<EcuqPlan::Impl>();
  impl->header = header;
  impl->header.codec = CodecId::kEcuq;
  impl->size = checked_size(header.shape, header.dtype);
  if (impl->size != tensor.size || header.dtype != tensor.dtype) {
    throw Error(ErrorKind::kInvalidInput, "tensor: does not match its header");
  }
  if (impl->size > 0) {
    impl->coding_plan = plan_coding(tensor, options);
    const CodingPlan& plan = impl->coding_plan;
    impl->payload_bytes = payload_size(plan.levels, plan.layout, plan.coding,
                                       plan.measurement.num_outliers, impl->size);
  }
  return EcuqPlan(std::move(impl));
}

std::size_t encoded_size(const EcuqPlan& plan) {
  return frame_size(plan.impl().header, plan.impl().payload_bytes);
}

void ecuq_encode(const EcuqPlan& plan_handle, const TensorView& tensor, int threads,
                 std::uint8_t* out) {
  const EcuqPlan::Impl& plan = plan_handle.impl();
  std::uint8_t* payload = write_frame_header(plan.header, plan.payload_bytes, out);
  if (plan.size > 0) {
    const CodingPlan& coding_plan = plan.coding_plan;
    const Layout& layout = coding_plan.layout;
    const bool has_outliers = coding_plan.measurement.num_outliers > 0;
    std::uint8_t* next = write_payload_header(coding_plan.levels, layout, coding_plan.coding,
                                              coding_plan.measurement.block_outliers, has_outliers,
                                              plan.size, payload);
    const std::size_t blocks = num_blocks(plan.size);
    std::vector<std::uint8_t*> starts(blocks + 1, next);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t length = block_length(plan.size, block);
      next += block_bytes(&coding_plan.coding.stream_sizes[block * kHuffmanStreams],
                          split_streams(length, layout.tuple).count, length, layout.raw_bits,
                          coding_plan.measurement.block_outliers[block]);
      starts[block + 1] = next;
    }
    const CodeWords words = code_words(coding_plan.coding.lengths, layout.alphabet());
    unsigned max_length = 0;
    for (const std::uint8_t length : coding_plan.coding.lengths) {
      max_length = length > max_length ? length : max_length;
    }
    const BlockQuantizer quantizer(coding_plan.levels, layout);
    std::vector<EncodeScratch> scratch(num_workers(blocks, threads));
    parallel_for(blocks, threads, [&](std::size_t block, int worker) {
      encode_block(plan, quantizer, words, max_length, tensor, block, &scratch[worker],
                   starts[block], starts[block + 1]);
    });
  }
  seal_frame(out, encoded_size(plan_handle), threads);
}

}  // namespace docofl
