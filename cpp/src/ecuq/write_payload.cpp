#include "ecuq/write_payload.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/parallel.h"
#include "docofl/error.h"
#include "ecuq/block_encoder.h"

namespace docofl {
namespace {

void encode_again(const PayloadPlan& plan, const TensorView& tensor, int threads,
                  std::uint8_t* out) {
  const EncodedBlocks& blocks = plan.blocks;
  const std::size_t count = plan.code.blocks(tensor.size).count();
  std::vector<std::uint8_t*> starts(count);
  for (std::size_t block = 0; block < count; ++block) {
    starts[block] = out;
    out += block_bytes(plan, tensor.size, block);
  }
  const BlockEncoder encoder(plan.levels, plan.code, tensor.size);
  std::vector<BlockEncoder::Scratch> scratch(num_workers(count, threads));
  parallel_for(count, threads, [&](std::size_t block, int worker) {
    const BlockEncoder::Encoded encoded =
        encoder.encode(tensor, block, block + scratch.size(), &scratch[worker]);
    if (encoded.num_outliers != blocks.block_outliers[block] ||
        !std::equal(encoded.stream_sizes, encoded.stream_sizes + encoded.num_streams,
                    &blocks.stream_sizes[block * kHuffmanStreams])) {
      throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
    }
    // SAFETY: the sizes add up to the same as those in the directory, from which starts was made.
    const ByteView bytes = encoded.bytes;
    if (bytes.size > 0) std::memcpy(starts[block], bytes.data, bytes.size);
  });
}

}  // namespace

void write_payload(const PayloadPlan& plan, const TensorView& tensor, int threads,
                   std::uint8_t* out) {
  if (plan.rans) return write_rans_payload(*plan.rans, tensor.size, out);
  const std::size_t header_bytes = payload_header_size(plan.levels, plan.code, tensor.size);
  std::uint8_t* const start = out + header_bytes;
  // Before anything else is written: the header may reach into misplaced blocks.
  if (plan.blocks.bytes == nullptr) {
    encode_again(plan, tensor, threads, start);
  } else if (plan.blocks.bytes != start) {
    std::memmove(start, plan.blocks.bytes, payload_size(plan, tensor.size) - header_bytes);
  }
  write_payload_header(plan, tensor.size, out);
}

}  // namespace docofl
