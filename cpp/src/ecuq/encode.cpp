#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/float_mode.h"
#include "common/parallel.h"
#include "docofl/ecuq.h"
#include "docofl/error.h"
#include "ecuq/block_encoder.h"
#include "ecuq/blocks.h"
#include "ecuq/payload.h"
#include "ecuq/payload_plan.h"

namespace docofl {

struct EcuqPlan::Impl {
  FrameHeader header;
  std::size_t size = 0;
  PayloadPlan payload;
  std::size_t payload_bytes = 0;
};

EcuqPlan::EcuqPlan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EcuqPlan::EcuqPlan(EcuqPlan&&) noexcept = default;
EcuqPlan& EcuqPlan::operator=(EcuqPlan&&) noexcept = default;
EcuqPlan::~EcuqPlan() = default;

namespace {

constexpr double kMinBits = 0.01;
constexpr double kMaxBits = 32;

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

}  // namespace

EcuqPlan ecuq_plan(const FrameHeader& header, const TensorView& tensor,
                   const EcuqOptions& options) {
  const DefaultFloatMode float_mode;
  check_options(options);
  auto impl = std::make_unique<EcuqPlan::Impl>();
  impl->header = header;
  impl->header.codec = CodecId::kEcuq;
  impl->size = checked_size(header.shape, header.dtype);
  if (impl->size != tensor.size || header.dtype != tensor.dtype) {
    throw Error(ErrorKind::kInvalidInput, "tensor: does not match its header");
  }
  if (impl->size > 0) {
    impl->payload = plan_payload(tensor, options);
    impl->payload_bytes = payload_size(impl->payload, impl->size);
  }
  return EcuqPlan(std::move(impl));
}

std::size_t encoded_size(const EcuqPlan& plan) {
  return frame_size(plan.impl().header, plan.impl().payload_bytes);
}

void ecuq_encode(const EcuqPlan& plan_handle, const TensorView& tensor, int threads,
                 std::uint8_t* out) {
  const DefaultFloatMode float_mode;
  const EcuqPlan::Impl& plan = plan_handle.impl();
  std::uint8_t* next = write_frame_header(plan.header, plan.payload_bytes, out);
  if (plan.size > 0) {
    const EncodedBlocks& blocks = plan.payload.blocks;
    const Layout& layout = plan.payload.code.layout;
    next = write_payload_header(plan.payload, plan.size, next);

    const std::size_t count = num_blocks(plan.size);
    std::vector<std::uint8_t*> starts(count);
    for (std::size_t block = 0; block < count; ++block) {
      const std::size_t length = block_length(plan.size, block);
      starts[block] = next;
      next += block_bytes(&blocks.stream_sizes[block * kHuffmanStreams],
                          split_streams(length, layout.tuple).count, length, layout.raw_bits,
                          blocks.block_outliers[block]);
    }
    const BlockEncoder encoder(plan.payload.levels, plan.payload.code);
    std::vector<BlockEncoder::Scratch> scratch(num_workers(count, threads));
    parallel_for(count, threads, [&](std::size_t block, int worker) {
      ByteView bytes;
      if (blocks.kept.empty()) {
        const BlockEncoder::Encoded encoded = encoder.encode(tensor, block, &scratch[worker]);
        if (encoded.num_outliers != blocks.block_outliers[block] ||
            !std::equal(encoded.stream_sizes, encoded.stream_sizes + encoded.num_streams,
                        &blocks.stream_sizes[block * kHuffmanStreams])) {
          throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
        }
        bytes = encoded.bytes;
      } else {
        bytes = {blocks.kept[block].data(), blocks.kept[block].size()};
      }
      // SAFETY: the sizes add up to the same as those in the directory, from which starts was made.
      if (bytes.size > 0) std::memcpy(starts[block], bytes.data, bytes.size);
    });
  }
  seal_frame(out, encoded_size(plan_handle), threads);
}

}  // namespace docofl
