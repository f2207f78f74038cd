#include "ecuq/block_encoder.h"

#include <algorithm>

#include "common/byte_io.h"
#include "common/checked.h"
#include "common/ordered_writer.h"
#include "common/parallel.h"
#include "ecuq/blocks.h"
#include "ecuq/payload.h"

namespace docofl {

BlockEncoder::BlockEncoder(const Levels& levels, const SymbolCode& code)
    : layout_(code.layout),
      quantizer_(levels, code.layout),
      words_(code_words(code.lengths, code.layout.alphabet())) {
  for (const std::uint8_t length : code.lengths) {
    max_length_ = std::max<unsigned>(max_length_, length);
  }
}

BlockEncoder::Encoded BlockEncoder::encode(const TensorView& tensor, std::size_t block,
                                           Scratch* scratch) const {
  const std::size_t length = block_length(tensor.size, block);
  const std::size_t num_words = divide_up(length, layout_.tuple);
  if (scratch->symbols.size() < num_words) scratch->symbols.resize(num_words);
  quantizer_.run(tensor, block_begin(block), length, &scratch->quantized, scratch->symbols.data());

  // The last stores of streams and raw bits reach 8 bytes beyond them.
  const std::vector<Outlier>& outliers = scratch->quantized.outliers;
  const StreamSplit split = split_streams(length, layout_.tuple);
  const std::size_t most = divide_up(num_words * max_length_, 8) + kHuffmanStreams +
                           divide_up(length * layout_.raw_bits, 8) +
                           outliers.size() * kOutlierBytes + 8;
  if (scratch->bytes.size() < most) scratch->bytes.resize(most);
  Encoded encoded{
      {scratch->bytes.data(), 0}, split.count, {}, static_cast<std::uint32_t>(outliers.size())};
  std::uint8_t* out = scratch->bytes.data();
  if (max_length_ > 0) {
    const std::uint8_t* symbols = scratch->symbols.data();
    for (int s = 0; s < split.count; ++s) {
      const std::size_t bytes =
          kernels().huffman_encode(symbols, split.words[s], words_.data(), max_length_, out);
      encoded.stream_sizes[s] = static_cast<std::uint16_t>(bytes);
      symbols += split.words[s];
      out += bytes;
    }
  }
  if (layout_.raw_bits > 0) {
    kernels().pack_raw(scratch->quantized.raw.data(), length, layout_.raw_bits, out);
    out += divide_up(length * layout_.raw_bits, 8);
  }
  for (const Outlier& outlier : outliers) {
    out = write_le(out, outlier.position);
    out = write_le(out, static_cast<std::uint32_t>(outlier.level));
  }
  encoded.bytes.size = static_cast<std::size_t>(out - encoded.bytes.data);
  return encoded;
}

EncodedBlocks encode_blocks(const TensorView& tensor, const Levels& levels, const SymbolCode& code,
                            MutableByteView room, int threads) {
  const std::size_t blocks = num_blocks(tensor.size);
  EncodedBlocks result;
  result.stream_sizes.resize(num_streams(tensor.size));
  result.block_outliers.resize(blocks);
  const BlockEncoder encoder(levels, code);
  OrderedWriter writer(room);
  std::vector<BlockEncoder::Scratch> scratch(num_workers(blocks, threads));
  parallel_for(blocks, threads, [&](std::size_t block, int worker) {
    const BlockEncoder::Encoded encoded = encoder.encode(tensor, block, &scratch[worker]);
    std::copy(encoded.stream_sizes, encoded.stream_sizes + encoded.num_streams,
              &result.stream_sizes[block * kHuffmanStreams]);
    result.block_outliers[block] = encoded.num_outliers;
    writer.put(block, encoded.bytes);
  });
  for (const std::uint32_t outliers : result.block_outliers) result.num_outliers += outliers;
  if (writer.is_complete()) result.bytes = room.data;
  return result;
}

}  // namespace docofl
