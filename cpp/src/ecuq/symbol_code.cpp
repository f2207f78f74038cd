#include "ecuq/symbol_code.h"

#include <algorithm>
#include <vector>

#include "common/exact_log2.h"
#include "common/parallel.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/blocks.h"
#include "ecuq/payload.h"
#include "entropy/histogram.h"

namespace docofl {
namespace {

constexpr std::size_t kFineBins = 4096;
constexpr double kOutlierBits = 8.0 * kOutlierBytes;
// Raw bits and tuples are quicker to handle: this many bits a coordinate are given for it.
constexpr double kSpeedBonus = 0.002;
// Once wider bins cost this much more, still wider ones need not be tried.
constexpr double kHopelessBits = 0.05;
// What a level takes in the code table, roughly.
constexpr double kTableBitsPerLevel = 2.5;
// Tuples are worth a try where at most this many bits a coordinate go to outliers.
constexpr double kMaxTupleOutlierBits = 0.03;
// Below this many coordinates the longer code table of tuples does not pay, except at low rates.
constexpr std::size_t kMinTupleSize = 4096;
constexpr double kMaxSmallTupleBits = 1.5;
// Above this rate many words of pairs are too long for the decoder's table.
constexpr double kMaxTupleBits = 2.5;
constexpr unsigned kShortCodeLength = 14;

// The largest tuples that fit the alphabet, from many coordinates to few.
struct TupleShape {
  unsigned tuple;
  unsigned max_levels;
};
constexpr TupleShape kTupleShapes[] = {{6, 2}, {4, 4}, {2, 16}};

// Counts of the sample's levels in bins of 2^shift levels from `base` on.
struct FineCounts {
  std::int32_t base = 0;
  unsigned shift = 0;
  std::vector<std::uint32_t> bins;
};

// A run of bins, and how many values lie in it.
struct BinWindow {
  std::size_t begin = 0;
  std::size_t length = 0;
  std::uint64_t inside = 0;
};

FineCounts count_levels(const Sample& sample, const GridParams& grid, int threads) {
  FineCounts fine;
  std::size_t bins = static_cast<std::size_t>(grid.num_levels);
  if (bins > kFineBins) {
    // Too many levels to count each: look at where most of them are.
    const float edges[2] = {sample.quantile(0.02), sample.quantile(0.98)};
    std::int32_t ends[2];
    kernels().quantize(grid, edges, 2, ends);
    bins = kFineBins;
    while (static_cast<std::size_t>(ends[1] - ends[0]) >> fine.shift > kFineBins / 2) ++fine.shift;
    const std::int64_t centre = (static_cast<std::int64_t>(ends[0]) + ends[1]) / 2;
    const std::int64_t span = static_cast<std::int64_t>(kFineBins) << fine.shift;
    const std::int64_t highest = std::max<std::int64_t>(0, grid.num_levels - span);
    fine.base =
        static_cast<std::int32_t>(std::min(highest, std::max<std::int64_t>(0, centre - span / 2)));
  }
  const std::size_t blocks = num_blocks(sample.size());
  std::vector<std::vector<std::uint32_t>> counts(num_workers(blocks, threads));
  // The histogram kernel adds to 256 counts whatever the number of levels.
  for (auto& mine : counts) mine.assign(std::max<std::size_t>(bins, kMaxAlphabet), 0);
  parallel_for(blocks, threads, [&](std::size_t block, int worker) {
    constexpr std::size_t kPiece = 2048;
    std::int32_t levels[kPiece];
    std::uint8_t coded[kPiece];
    std::uint32_t* const mine = counts[worker].data();
    const std::uint32_t limit = static_cast<std::uint32_t>(bins);
    const std::size_t end = block_begin(block) + block_length(sample.size(), block);
    for (std::size_t begin = block_begin(block); begin < end; begin += kPiece) {
      const std::size_t count = std::min(kPiece, end - begin);
      const float* values = sample.values() + begin;
      if (bins <= kMaxCodedLevels) {
        kernels().quantize_window(grid, {0, grid.num_levels}, values, count, coded);
        kernels().histogram(coded, count, mine);
        continue;
      }
      kernels().quantize(grid, values, count, levels);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t bin = static_cast<std::uint32_t>(levels[i] - fine.base) >> fine.shift;
        if (levels[i] >= fine.base && bin < limit) ++mine[bin];
      }
    }
  });
  fine.bins = std::move(counts[0]);
  fine.bins.resize(bins);
  for (std::size_t w = 1; w < counts.size(); ++w) {
    for (std::size_t i = 0; i < bins; ++i) fine.bins[i] += counts[w][i];
  }
  return fine;
}

// The run of at most `length` bins that holds most values, without empty bins at its ends.
BinWindow best_window(const std::vector<std::uint32_t>& bins, std::size_t length) {
  length = std::min(length, bins.size());
  std::uint64_t inside = 0;
  for (std::size_t i = 0; i < length; ++i) inside += bins[i];
  BinWindow best{0, length, inside};
  for (std::size_t i = length; i < bins.size(); ++i) {
    inside += bins[i];
    inside -= bins[i - length];
    if (inside > best.inside) best = {i - length + 1, length, inside};
  }
  while (best.length > 1 && bins[best.begin + best.length - 1] == 0) --best.length;
  while (best.length > 1 && bins[best.begin] == 0) ++best.begin, --best.length;
  return best;
}

// Bits a value for the bins of a window at their entropy, outliers included.
double ideal_bits(const std::vector<std::uint32_t>& bins, const BinWindow& window,
                  std::size_t total) {
  double sum = 0;
  for (std::size_t i = 0; i < window.length; ++i) {
    const std::uint64_t count = bins[window.begin + i];
    if (count > 1) sum += static_cast<double>(count) * exact_log2(count);
  }
  const double inside = static_cast<double>(window.inside);
  const double all = static_cast<double>(total);
  const double coded = window.inside > 1 ? inside * exact_log2(window.inside) - sum : 0;
  return (coded + (all - inside) * (kOutlierBits + 1)) / all;
}

// Code lengths for the counts: the short limit where it costs next to nothing (the encoder then
// joins more words a store), otherwise the format's. At least two symbols must occur.
CodeLengths choose_lengths(const SymbolCounts& counts, std::size_t alphabet) {
  const CodeLengths full = huffman_lengths(counts, alphabet, kMaxCodeLength);
  bool is_short = true;
  for (std::size_t a = 0; a < alphabet; ++a) is_short = is_short && full[a] <= kShortCodeLength;
  if (is_short) return full;
  const CodeLengths limited = huffman_lengths(counts, alphabet, kShortCodeLength);
  const std::uint64_t least = coded_bits(counts, full, alphabet);
  return coded_bits(counts, limited, alphabet) <= least + least / 2048 ? limited : full;
}

// Counts to build a code from. Symbols that a sample has missed may occur in the tensor: half a
// time. Where the sample is the tensor, a code still needs two symbols.
SymbolCounts smoothed(const SymbolCounts& counts, std::size_t alphabet, bool is_whole) {
  SymbolCounts result{};
  std::size_t used = 0;
  for (std::size_t a = 0; a < alphabet; ++a) {
    result[a] = is_whole || counts[a] > 0 ? 2 * counts[a] : 1;
    used += result[a] > 0;
  }
  for (std::size_t a = 0; used < 2; ++a) {
    if (result[a] == 0) result[a] = 1, ++used;
  }
  return result;
}

// The code for the counts of a sample, and what it takes when scaled to the tensor.
SymbolCode make_code(const Layout& layout, const SymbolCounts& counts, std::uint64_t outliers,
                     const Sample& sample, std::size_t size) {
  const double all = static_cast<double>(sample.size());
  const std::size_t alphabet = layout.alphabet();
  SymbolCode code;
  code.layout = layout;
  code.entropy = entropy_of_counts(counts.data(), alphabet) / layout.tuple + layout.raw_bits;
  code.bits = layout.raw_bits + static_cast<double>(outliers) * kOutlierBits / all;
  // Besides: directory entries, half a byte for the end of each stream, the code table.
  const double entry_bits = 16.0 * kHuffmanStreams + (outliers > 0 ? 32 : 0);
  double once = (entry_bits + 4 * kHuffmanStreams) * static_cast<double>(num_blocks(size) - 1) + 16;
  if (alphabet > 1) {
    code.lengths = choose_lengths(smoothed(counts, alphabet, sample.is_whole()), alphabet);
    code.bits += static_cast<double>(coded_bits(counts, code.lengths, alphabet)) / all;
    once += 8.0 * static_cast<double>(code_table_size(code.lengths, alphabet));
    if (!sample.is_whole()) {
      // A code looks better on the sample it was made for than elsewhere: twice the bias of the
      // entropy (Miller and Madow, 1955).
      std::size_t used = 0;
      for (std::size_t a = 0; a < alphabet; ++a) used += counts[a] > 0;
      code.bits += static_cast<double>(used - 1) / (0.6931471805599453 * all);
    }
  }
  code.bits += once / static_cast<double>(size);
  return code;
}

std::uint8_t most_frequent(const std::vector<std::uint32_t>& bins, const BinWindow& window) {
  const auto first = bins.begin() + static_cast<std::ptrdiff_t>(window.begin);
  return static_cast<std::uint8_t>(
      std::max_element(first, first + static_cast<std::ptrdiff_t>(window.length)) - first);
}

// One level a word: as many raw bits as make the most of 256 code words.
SymbolCode choose_single(const Sample& sample, const GridParams& grid, FineCounts fine,
                         std::size_t size) {
  const std::size_t total = sample.size();
  Layout best;
  double best_bits = 0;
  std::vector<std::uint32_t> best_bins;
  BinWindow best_bin_window;
  for (bool first = true;; first = false) {
    // A grid of at most 256 levels is coded whole, so that no level can be an outlier.
    const bool is_whole =
        fine.shift == 0 && static_cast<std::size_t>(grid.num_levels) <= kMaxCodedLevels;
    BinWindow window = best_window(fine.bins, kMaxCodedLevels);
    if (is_whole) window = {0, fine.bins.size(), total};
    const double table_bits = kTableBitsPerLevel * static_cast<double>(window.length);
    const double bits =
        ideal_bits(fine.bins, window, total) + fine.shift + table_bits / static_cast<double>(size);
    if (first || bits < best_bits + kSpeedBonus) {
      best.base = fine.base + static_cast<std::int32_t>(window.begin << fine.shift);
      best.num_coded = static_cast<unsigned>(window.length);
      best.raw_bits = fine.shift;
      best.placeholder = most_frequent(fine.bins, window);
      best_bits = first ? bits : std::min(bits, best_bits);
      best_bins = fine.bins;
      best_bin_window = window;
    }
    if (fine.bins.size() <= 32 || fine.shift == kMaxRawBits || bits > best_bits + kHopelessBits)
      break;
    for (std::size_t i = 0; i < fine.bins.size() / 2; ++i) {
      fine.bins[i] = fine.bins[2 * i] + fine.bins[2 * i + 1];
    }
    if (fine.bins.size() % 2 == 1) fine.bins[fine.bins.size() / 2] = fine.bins.back();
    fine.bins.resize((fine.bins.size() + 1) / 2);
    ++fine.shift;
  }
  SymbolCounts counts{};
  for (std::size_t j = 0; j < best_bin_window.length; ++j) {
    counts[j] = best_bins[best_bin_window.begin + j];
  }
  const std::uint64_t outliers = total - best_bin_window.inside;
  counts[best.placeholder] += outliers;
  return make_code(best, counts, outliers, sample, size);
}

// A code for a given layout, from the symbols of the sample.
SymbolCode measure_layout(const Sample& sample, const Levels& levels, const Layout& layout,
                          std::size_t size, int threads) {
  struct Worker {
    BlockScratch scratch;
    std::vector<std::uint8_t> symbols;
    std::uint32_t counts[kMaxAlphabet] = {};
    std::uint64_t outliers = 0;
  };
  const BlockQuantizer quantizer(levels, layout);
  const std::size_t total = sample.size();
  std::vector<Worker> workers(num_workers(num_blocks(total), threads));
  parallel_for(num_blocks(total), threads, [&](std::size_t block, int index) {
    Worker& worker = workers[index];
    const std::size_t length = block_length(total, block);
    worker.symbols.resize(words_per_block(layout.tuple));
    quantizer.run(sample.view(), block_begin(block), length, &worker.scratch,
                  worker.symbols.data());
    kernels().histogram(worker.symbols.data(), divide_up(length, layout.tuple), worker.counts);
    worker.outliers += worker.scratch.outliers.size();
  });
  SymbolCounts counts{};
  std::uint64_t outliers = 0;
  for (const Worker& worker : workers) {
    for (std::size_t a = 0; a < kMaxAlphabet; ++a) counts[a] += worker.counts[a];
    outliers += worker.outliers;
  }
  return make_code(layout, counts, outliers, sample, size);
}

}  // namespace

SymbolCode choose_code(const Sample& sample, float x_min, float x_max, std::int32_t num_levels,
                       std::size_t size, int threads) {
  const GridParams grid = make_grid(x_min, x_max, num_levels);
  const FineCounts fine = count_levels(sample, grid, threads);
  SymbolCode best = choose_single(sample, grid, fine, size);
  const double max_bits = size < kMinTupleSize ? kMaxSmallTupleBits : kMaxTupleBits;
  if (fine.shift > 0 || best.bits > max_bits) return best;
  const std::size_t total = sample.size();
  for (const TupleShape& shape : kTupleShapes) {
    BinWindow window{0, fine.bins.size(), total};
    if (fine.bins.size() > shape.max_levels) {
      // Outliers are worth their bytes for pairs only; more coordinates a word gain little more.
      if (shape.tuple > 2) continue;
      window = best_window(fine.bins, shape.max_levels);
    }
    const double outside = 1 - static_cast<double>(window.inside) / static_cast<double>(total);
    if (window.length < 2 || outside * kOutlierBits > kMaxTupleOutlierBits) continue;
    Layout layout;
    layout.base = fine.base + static_cast<std::int32_t>(window.begin);
    layout.num_coded = static_cast<unsigned>(window.length);
    layout.tuple = shape.tuple;
    layout.placeholder = most_frequent(fine.bins, window);
    const SymbolCode tuples =
        measure_layout(sample, {x_min, x_max, num_levels, {}}, layout, size, threads);
    if (tuples.bits < best.bits + kSpeedBonus) best = tuples;
    break;
  }
  return best;
}

SymbolCode choose_code(const Sample& sample, const Levels& explicit_levels, std::size_t size,
                       int threads) {
  Layout layout;
  layout.num_coded = static_cast<unsigned>(explicit_levels.explicit_values.size());
  SymbolCode best = measure_layout(sample, explicit_levels, layout, size, threads);
  for (const TupleShape& shape : kTupleShapes) {
    if (layout.num_coded < 2 || layout.num_coded > shape.max_levels) continue;
    layout.tuple = shape.tuple;
    const SymbolCode tuples = measure_layout(sample, explicit_levels, layout, size, threads);
    if (tuples.bits < best.bits) best = tuples;
    break;
  }
  return best;
}

SymbolCode fixed_width_code(unsigned raw_bits) {
  SymbolCode code;
  code.layout.raw_bits = raw_bits;
  code.entropy = raw_bits;
  code.bits = raw_bits;
  return code;
}

}  // namespace docofl
