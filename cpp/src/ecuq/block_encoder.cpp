#include "ecuq/block_encoder.h"

#include <algorithm>

#include "common/byte_io.h"
#include "common/checked.h"
#include "common/ordered_writer.h"
#include "common/parallel.h"
#include "ecuq/payload.h"

namespace docofl {
namespace {

constexpr std::size_t kStoreSlack = 8;
// To make the words of pairs takes as long as to code some ten thousand symbols.
constexpr std::size_t kMinPairsSize = 65536;

// A tensor that changes while it is encoded may have symbols that its code has not. They take the
// word of the one before: the value is wrong, but every symbol has a word, as decoders expect it.
void give_all_words(CodeWords* words) {
  std::uint64_t last =
      *std::find_if(words->begin(), words->end(), [](std::uint64_t word) { return word != 0; });
  for (std::uint64_t& word : *words) {
    if (word == 0) word = last;
    last = word;
  }
}

}  // namespace

BlockEncoder::BlockEncoder(const Levels& levels, const SymbolCode& code, std::size_t size)
    : blocks_(code.blocks(size)), choices_(code.choices) {
  codes_.reserve(code.tables.size());
  for (const CodeTable& table : code.tables) codes_.emplace_back(levels, table, size);
}

BlockEncoder::Code::Code(const Levels& levels, const CodeTable& table, std::size_t size)
    : layout(table.layout),
      quantizer(levels, table.layout),
      words(code_words(table.lengths, table.layout.alphabet())) {
  for (const std::uint8_t length : table.lengths) {
    max_length = std::max<unsigned>(max_length, length);
  }
  if (max_length == 0) return;
  if (size >= kMinPairsSize) pairs = pair_words(words);
  give_all_words(&words);
}

// Stream by stream: while one is coded, which takes the core, the values of the next are fetched,
// which takes the memory.
BlockEncoder::Encoded BlockEncoder::encode(const TensorView& tensor, std::size_t block,
                                           std::size_t following, Scratch* scratch) const {
  const Code& code = codes_[choices_.empty() ? 0 : choices_[block]];
  const Layout& layout = code.layout;
  const std::size_t begin = blocks_.begin(block);
  const std::size_t length = blocks_.length(block);
  const StreamSplit split = split_streams(length, layout.tuple);
  const std::size_t num_words = divide_up(length, layout.tuple);
  const std::size_t raw_bytes = divide_up(length * layout.raw_bits, 8);
  if (scratch->symbols.size() < split.words[0]) scratch->symbols.resize(split.words[0]);
  // The last stores of streams and raw bits reach 8 bytes beyond them.
  const std::size_t most =
      divide_up(num_words * code.max_length, 8) + kHuffmanStreams + raw_bytes + kStoreSlack;
  if (scratch->bytes.size() < most) scratch->bytes.resize(most);

  const auto ahead_of = [&](std::size_t coordinate) {
    const std::size_t item = item_size(tensor.dtype);
    const auto* const values = static_cast<const std::uint8_t*>(tensor.data);
    return coordinate < tensor.size ? FetchAhead{values + coordinate * item, layout.tuple * item}
                                    : FetchAhead{};
  };
  Encoded encoded{{}, split.count, {}, 0};
  std::size_t size = 0;
  for (std::size_t s = 0, offset = 0; s < static_cast<std::size_t>(split.count); ++s) {
    const std::size_t end = std::min(length, offset + split.words[s] * layout.tuple);
    std::uint8_t* const symbols = scratch->symbols.data();
    code.quantizer.run(tensor, begin, {offset, end - offset}, &scratch->quantized, symbols);
    offset = end;
    if (code.max_length == 0) continue;
    const std::size_t next = end < length ? begin + end : blocks_.begin(following);
    const std::size_t bytes =
        kernels().huffman_encode(symbols, split.words[s], code.words.data(), code.max_length,
                                 code.pairs.get(), ahead_of(next), scratch->bytes.data() + size);
    encoded.stream_sizes[s] = static_cast<std::uint16_t>(bytes);
    size += bytes;
  }
  if (layout.raw_bits > 0) {
    kernels().pack_raw(scratch->quantized.raw.data(), length, layout.raw_bits,
                       scratch->bytes.data() + size);
    size += raw_bytes;
  }
  const std::vector<Outlier>& outliers = scratch->quantized.outliers;
  encoded.num_outliers = static_cast<std::uint32_t>(outliers.size());
  const std::size_t total = size + outliers.size() * kOutlierBytes;
  if (scratch->bytes.size() < total) scratch->bytes.resize(total);
  std::uint8_t* out = scratch->bytes.data() + size;
  for (const Outlier& outlier : outliers) {
    out = write_le(out, outlier.position);
    out = write_le(out, static_cast<std::uint32_t>(outlier.level));
  }
  encoded.bytes = {scratch->bytes.data(), total};
  return encoded;
}

EncodedBlocks encode_blocks(const TensorView& tensor, const Levels& levels, const SymbolCode& code,
                            MutableByteView room, int threads) {
  const Blocks blocks = code.blocks(tensor.size);
  EncodedBlocks result;
  result.stream_sizes.resize(blocks.num_streams());
  result.block_outliers.resize(blocks.count());
  const BlockEncoder encoder(levels, code, tensor.size);
  OrderedWriter writer(room);
  std::vector<BlockEncoder::Scratch> scratch(num_workers(blocks.count(), threads));
  parallel_for(blocks.count(), threads, [&](std::size_t block, int worker) {
    const BlockEncoder::Encoded encoded =
        encoder.encode(tensor, block, block + scratch.size(), &scratch[worker]);
    std::copy(encoded.stream_sizes, encoded.stream_sizes + encoded.num_streams,
              &result.stream_sizes[block * kHuffmanStreams]);
    result.block_outliers[block] = encoded.num_outliers;
    writer.put(block, encoded.bytes);
  });
  if (writer.is_complete()) result.bytes = room.data;
  return result;
}

}  // namespace docofl
