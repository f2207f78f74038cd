#include "ecuq/measure.h"

#include "common/parallel.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/blocks.h"
#include "ecuq/payload.h"
#include "entropy/histogram.h"

namespace docofl {
namespace {

constexpr unsigned kShortCodeLength = 14;

}  // namespace

Measurement measure(const TensorView& tensor, const Levels& levels, const Layout& layout,
                    int threads) {
  const std::size_t blocks = num_blocks(tensor.size);
  const std::size_t alphabet = layout.alphabet();
  const int workers = num_workers(blocks, threads);
  Measurement result;
  result.stream_counts.resize(num_streams(tensor.size) * alphabet);
  result.block_outliers.resize(blocks);
  std::vector<BlockSymbols> scratch(workers);
  std::vector<SymbolCounts> totals(workers);
  const BlockQuantizer quantizer(levels, layout);

  parallel_for(blocks, threads, [&](std::size_t block, int worker) {
    const std::size_t length = block_length(tensor.size, block);
    const std::uint8_t* symbols =
        quantizer.run(tensor, block_begin(block), length, &scratch[worker]);
    const StreamSplit split = split_streams(length, layout.tuple);
    for (int s = 0; s < split.count; ++s) {
      std::uint32_t counts[kMaxAlphabet] = {};
      kernels().histogram(symbols, split.words[s], counts);
      symbols += split.words[s];
      std::uint16_t* mine = &result.stream_counts[(block * kHuffmanStreams + s) * alphabet];
      for (std::size_t a = 0; a < alphabet; ++a) {
        mine[a] = static_cast<std::uint16_t>(counts[a]);
        totals[worker][a] += counts[a];
      }
    }
    result.block_outliers[block] = static_cast<std::uint32_t>(scratch[worker].outliers.size());
  });
  for (const SymbolCounts& mine : totals) {
    for (std::size_t a = 0; a < alphabet; ++a) result.counts[a] += mine[a];
  }
  for (const std::uint32_t outliers : result.block_outliers) result.num_outliers += outliers;
  return result;
}

CodeLengths choose_lengths(SymbolCounts counts, std::size_t alphabet) {
  // A code needs two symbols: where fewer occur, others get a word that is never sent.
  std::size_t used = 0;
  for (std::size_t a = 0; a < alphabet; ++a) used += counts[a] > 0;
  for (std::size_t a = 0; a < alphabet && used < 2; ++a) {
    if (counts[a] == 0) counts[a] = 1, ++used;
  }
  const CodeLengths full = huffman_lengths(counts, alphabet, kMaxCodeLength);
  bool is_short = true;
  for (std::size_t a = 0; a < alphabet; ++a) is_short = is_short && full[a] <= kShortCodeLength;
  if (is_short) return full;
  const CodeLengths limited = huffman_lengths(counts, alphabet, kShortCodeLength);
  const std::uint64_t least = coded_bits(counts, full, alphabet);
  return coded_bits(counts, limited, alphabet) <= least + least / 2048 ? limited : full;
}

Coding make_coding(const Measurement& measurement, const Levels& levels, const Layout& layout,
                   std::size_t size) {
  const std::size_t alphabet = layout.alphabet();
  Coding coding;
  coding.stream_sizes.resize(num_streams(size));
  if (alphabet > 1) {
    coding.lengths = choose_lengths(measurement.counts, alphabet);
    for (std::size_t s = 0; s < coding.stream_sizes.size(); ++s) {
      const std::uint16_t* counts = &measurement.stream_counts[s * alphabet];
      std::uint64_t bits = 0;
      for (std::size_t a = 0; a < alphabet; ++a) bits += std::uint64_t(counts[a]) * coding.lengths[a];
      coding.stream_sizes[s] = static_cast<std::uint16_t>((bits + 7) / 8);
    }
  }
  coding.entropy =
      entropy_of_counts(measurement.counts.data(), alphabet) / layout.tuple + layout.raw_bits;
  coding.charged_bytes =
      payload_size(levels, layout, coding, measurement.num_outliers, size) -
      uncharged_bytes(levels, measurement.num_outliers > 0, size);
  return coding;
}

}  // namespace docofl
