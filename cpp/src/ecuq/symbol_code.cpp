#include "ecuq/symbol_code.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/exact_log2.h"
#include "common/parallel.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/blocks.h"
#include "ecuq/payload.h"
#include "entropy/histogram.h"

namespace docofl {
namespace {

// Bins in which levels are counted; fewer do for a small sample, whose counts are few.
constexpr std::size_t kFineBins = 4096;
constexpr std::size_t kFewFineBins = 1024;
constexpr std::size_t kFewBinsSize = 4096;
constexpr double kOutlierBits = 8.0 * kOutlierBytes;
// Raw bits and tuples are quicker to handle: this many bits a coordinate are given for it.
constexpr double kSpeedBonus = 0.002;
// Once wider bins cost this much more, outliers aside, still wider ones need not be tried.
constexpr double kHopelessBits = 0.05;
// What a level takes in the code table, roughly.
constexpr double kTableBitsPerLevel = 2.5;
// Tuples are worth a try where at most this many bits a coordinate go to outliers.
constexpr double kMaxTupleOutlierBits = 0.4;
// Below this many coordinates the longer code table of tuples does not pay, except at low rates.
constexpr std::size_t kMinTupleSize = 4096;
constexpr double kMaxSmallTupleBits = 1.5;
// Above this rate many words of pairs are too long for the decoder's table. They may take this much
// less than their levels, where neighbours are alike.
constexpr double kMaxTupleBits = 3.2;
constexpr double kMaxTupleGain = 1;
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

// Counts of bins that somebody else keeps.
struct BinView {
  const std::uint32_t* counts;
  std::size_t size;

  const std::uint32_t& operator[](std::size_t i) const { return counts[i]; }
};

BinView view(const FineCounts& fine) { return {fine.bins.data(), fine.bins.size()}; }

// A run of bins, and how many values lie in it.
struct BinWindow {
  std::size_t begin = 0;
  std::size_t length = 0;
  std::uint64_t inside = 0;
};

FineCounts count_levels(const Sample& sample, const GridParams& grid, int threads) {
  FineCounts fine;
  const std::size_t max_bins = sample.size() <= kFewBinsSize ? kFewFineBins : kFineBins;
  std::size_t bins = static_cast<std::size_t>(grid.num_levels);
  if (bins > max_bins) {
    // Too many levels to count each: look at where most of them are.
    const float edges[2] = {sample.quantile(0.02), sample.quantile(0.98)};
    std::int32_t ends[2];
    kernels().quantize(grid, edges, 2, ends);
    bins = max_bins;
    while (static_cast<std::size_t>(ends[1] - ends[0]) >> fine.shift > max_bins / 2) ++fine.shift;
    const std::int64_t centre = (static_cast<std::int64_t>(ends[0]) + ends[1]) / 2;
    const std::int64_t span = static_cast<std::int64_t>(max_bins) << fine.shift;
    const std::int64_t highest = std::max<std::int64_t>(0, grid.num_levels - span);
    fine.base =
        static_cast<std::int32_t>(std::min(highest, std::max<std::int64_t>(0, centre - span / 2)));
  }
  const Blocks blocks(sample.size());
  std::vector<std::vector<std::uint32_t>> counts(num_workers(blocks.count(), threads));
  // The histogram kernel adds to 256 counts whatever the number of levels.
  for (auto& mine : counts) mine.assign(std::max<std::size_t>(bins, kMaxAlphabet), 0);
  parallel_for(blocks.count(), threads, [&](std::size_t block, int worker) {
    constexpr std::size_t kPiece = 2048;
    std::int32_t levels[kPiece];
    std::uint8_t coded[kPiece];
    std::uint32_t* const mine = counts[worker].data();
    const std::uint32_t limit = static_cast<std::uint32_t>(bins);
    const std::size_t end = blocks.begin(block) + blocks.length(block);
    for (std::size_t begin = blocks.begin(block); begin < end; begin += kPiece) {
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
BinWindow best_window(const BinView& bins, std::size_t length) {
  length = std::min(length, bins.size);
  std::uint64_t inside = 0;
  for (std::size_t i = 0; i < length; ++i) inside += bins[i];
  BinWindow best{0, length, inside};
  for (std::size_t i = length; i < bins.size; ++i) {
    inside += bins[i];
    inside -= bins[i - length];
    if (inside > best.inside) best = {i - length + 1, length, inside};
  }
  while (best.length > 1 && bins[best.begin + best.length - 1] == 0) --best.length;
  while (best.length > 1 && bins[best.begin] == 0) ++best.begin, --best.length;
  return best;
}

std::size_t used_bins(const BinView& bins, const BinWindow& window) {
  const std::uint32_t* const first = bins.counts + window.begin;
  return window.length - static_cast<std::size_t>(std::count(first, first + window.length, 0u));
}

// Bits a value for the bins of a window at their entropy, outliers included.
double ideal_bits(const BinView& bins, const BinWindow& window, std::size_t total) {
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
  const std::vector<CodeLengths> codes =
      huffman_lengths(counts, alphabet, {kShortCodeLength, kMaxCodeLength});
  const std::uint64_t least = coded_bits(counts, codes[1], alphabet);
  return coded_bits(counts, codes[0], alphabet) <= least + least / 2048 ? codes[0] : codes[1];
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

// How many bits a coordinate less a code of `used` words takes on the sample it was made for than
// elsewhere: twice the bias of the entropy (Miller and Madow, 1955).
double flattered_bits(std::size_t used, const Sample& sample) {
  if (sample.is_whole() || used == 0) return 0;
  return static_cast<double>(used - 1) / (0.6931471805599453 * static_cast<double>(sample.size()));
}

// The code for the counts of a sample, and what it takes when scaled to the tensor.
SymbolCode make_code(const Layout& layout, const SymbolCounts& counts, std::uint64_t outliers,
                     const Sample& sample, const Blocks& blocks) {
  const double all = static_cast<double>(sample.size());
  const std::size_t alphabet = layout.alphabet();
  SymbolCode code;
  CodeTable& table = code.tables[0];
  table.layout = layout;
  code.has_outliers = outliers > 0;
  code.entropy = entropy_of_counts(counts.data(), alphabet) / layout.tuple + layout.raw_bits;
  code.bits = layout.raw_bits + static_cast<double>(outliers) * kOutlierBits / all;
  // Besides: directory entries, half a byte for the end of each stream, the code table.
  const double entry_bits = 16.0 * kHuffmanStreams + (outliers > 0 ? 32 : 0);
  const std::size_t last = blocks.count() - 1;
  const int last_streams = split_streams(blocks.length(last), layout.tuple).count;
  double once = (entry_bits + 4 * kHuffmanStreams) * static_cast<double>(last) + 4 * last_streams;
  if (alphabet > 1) {
    table.lengths = choose_lengths(smoothed(counts, alphabet, sample.is_whole()), alphabet);
    code.bits += static_cast<double>(coded_bits(counts, table.lengths, alphabet)) / all;
    once += 8.0 * static_cast<double>(code_table_size(table.lengths, alphabet));
    if (!sample.is_whole()) {
      std::size_t used = 0;
      for (std::size_t a = 0; a < alphabet; ++a) used += counts[a] > 0;
      code.bits += flattered_bits(used, sample);
    }
  }
  code.bits += once / static_cast<double>(blocks.size());
  return code;
}

std::uint8_t most_frequent(const BinView& bins, const BinWindow& window) {
  const std::uint32_t* const first = bins.counts + window.begin;
  return static_cast<std::uint8_t>(std::max_element(first, first + window.length) - first);
}

// One level a word: as many raw bits as make the most of 256 code words.
SymbolCode choose_single(const Sample& sample, const GridParams& grid, const FineCounts& fine,
                         const Blocks& blocks) {
  const std::size_t total = sample.size();
  Layout best;
  double best_bits = 0;
  BinView best_bins{};
  BinWindow best_window_found;
  // Bins of twice the width, and so on, one after the other.
  std::vector<std::uint32_t> folded(fine.bins.size() + kMaxRawBits);
  std::uint32_t* next = folded.data();
  BinView bins = view(fine);
  for (unsigned shift = fine.shift;; ++shift) {
    // A grid of at most 256 levels is coded whole, so that no level can be an outlier.
    const bool is_first = shift == fine.shift;
    const bool is_whole =
        shift == 0 && static_cast<std::size_t>(grid.num_levels) <= kMaxCodedLevels;
    const BinWindow window =
        is_whole ? BinWindow{0, bins.size, total} : best_window(bins, kMaxCodedLevels);
    const double table_bits = kTableBitsPerLevel * static_cast<double>(window.length);
    const double bits = ideal_bits(bins, window, total) +
                        flattered_bits(used_bins(bins, window), sample) + shift +
                        table_bits / static_cast<double>(blocks.size());
    if (is_first || bits < best_bits + kSpeedBonus) {
      best.base = fine.base + static_cast<std::int32_t>(window.begin << shift);
      best.num_coded = static_cast<unsigned>(window.length);
      best.raw_bits = shift;
      best_bits = is_first ? bits : std::min(bits, best_bits);
      best_bins = bins;
      best_window_found = window;
    }
    // Wider bins can save no more than the outliers.
    const double outside = 1 - static_cast<double>(window.inside) / static_cast<double>(total);
    const double least = bits - outside * (kOutlierBits + 1);
    if (bins.size <= 32 || shift == kMaxRawBits || least > best_bits + kHopelessBits) break;
    // SAFETY: halves, each rounded up, of the bins add up to no more than there are bins plus one
    // for each of at most kMaxRawBits roundings.
    const BinView half = {next, (bins.size + 1) / 2};
    for (std::size_t i = 0; i < bins.size / 2; ++i) next[i] = bins[2 * i] + bins[2 * i + 1];
    if (bins.size % 2 == 1) next[half.size - 1] = bins[bins.size - 1];
    next += half.size;
    bins = half;
  }
  best.placeholder = most_frequent(best_bins, best_window_found);
  SymbolCounts counts{};
  for (std::size_t j = 0; j < best_window_found.length; ++j) {
    counts[j] = best_bins[best_window_found.begin + j];
  }
  const std::uint64_t outliers = total - best_window_found.inside;
  counts[best.placeholder] += outliers;
  SymbolCode code = make_code(best, counts, outliers, sample, blocks);
  // Where nearly all values have one level, no code words and a list of the others may be less.
  if (fine.shift > 0) return code;
  const BinWindow lone = best_window(view(fine), 1);
  Layout single;
  single.base = fine.base + static_cast<std::int32_t>(lone.begin);
  const SymbolCode listed = make_code(single, {total}, total - lone.inside, sample, blocks);
  if (listed.bits < code.bits) code = listed;
  return code;
}

// A code for a given layout, from the symbols of the sample.
SymbolCode measure_layout(const Sample& sample, const Levels& levels, const Layout& layout,
                          const Blocks& blocks, int threads) {
  struct Worker {
    BlockScratch scratch;
    std::vector<std::uint8_t> symbols;
    std::uint32_t counts[kMaxAlphabet] = {};
    std::uint64_t outliers = 0;
  };
  const BlockQuantizer quantizer(levels, layout);
  const Blocks parts(sample.size());
  std::vector<Worker> workers(num_workers(parts.count(), threads));
  parallel_for(parts.count(), threads, [&](std::size_t part, int index) {
    Worker& worker = workers[index];
    const std::size_t length = parts.length(part);
    const std::size_t num_words = divide_up(length, layout.tuple);
    if (worker.symbols.size() < num_words) worker.symbols.resize(num_words);
    quantizer.run(sample.view(), parts.begin(part), {0, length}, &worker.scratch,
                  worker.symbols.data());
    kernels().histogram(worker.symbols.data(), num_words, worker.counts);
    worker.outliers += worker.scratch.outliers.size();
  });
  SymbolCounts counts{};
  std::uint64_t outliers = 0;
  for (const Worker& worker : workers) {
    for (std::size_t a = 0; a < kMaxAlphabet; ++a) counts[a] += worker.counts[a];
    outliers += worker.outliers;
  }
  return make_code(layout, counts, outliers, sample, blocks);
}

SymbolCode choose_for_grid(const Sample& sample, const Levels& levels, const Blocks& blocks,
                           int threads) {
  const GridParams grid = make_grid(levels);
  const FineCounts fine = count_levels(sample, grid, threads);
  SymbolCode best = choose_single(sample, grid, fine, blocks);
  const bool is_small = blocks.size() < kMinTupleSize;
  const double max_bits = is_small ? kMaxSmallTupleBits : kMaxTupleBits;
  const double max_gain = is_small ? 0 : kMaxTupleGain;
  if (fine.shift > 0 || best.entropy > max_bits + max_gain) return best;
  const std::size_t total = sample.size();
  for (const TupleShape& shape : kTupleShapes) {
    BinWindow window{0, fine.bins.size(), total};
    if (fine.bins.size() > shape.max_levels) {
      // Outliers are worth their bytes for pairs only; more coordinates a word gain little more.
      if (shape.tuple > 2) continue;
      window = best_window(view(fine), shape.max_levels);
    }
    const double outside = 1 - static_cast<double>(window.inside) / static_cast<double>(total);
    if (window.length < 2 || outside * kOutlierBits > kMaxTupleOutlierBits) continue;
    Layout layout;
    layout.base = fine.base + static_cast<std::int32_t>(window.begin);
    layout.num_coded = static_cast<unsigned>(window.length);
    layout.tuple = shape.tuple;
    layout.placeholder = most_frequent(view(fine), window);
    const SymbolCode tuples = measure_layout(sample, levels, layout, blocks, threads);
    if (tuples.bits <= max_bits && tuples.bits < best.bits + kSpeedBonus) best = tuples;
    break;
  }
  return best;
}

SymbolCode choose_for_explicit(const Sample& sample, const Levels& levels, const Blocks& blocks,
                               int threads) {
  Layout layout;
  layout.num_coded = static_cast<unsigned>(levels.explicit_values.size());
  SymbolCode best = measure_layout(sample, levels, layout, blocks, threads);
  for (const TupleShape& shape : kTupleShapes) {
    if (layout.num_coded < 2 || layout.num_coded > shape.max_levels) continue;
    layout.tuple = shape.tuple;
    const SymbolCode tuples = measure_layout(sample, levels, layout, blocks, threads);
    if (tuples.bits < best.bits) best = tuples;
    break;
  }
  return best;
}

}  // namespace

SymbolCode choose_code(const Sample& sample, const Levels& levels, const Blocks& blocks,
                       int threads) {
  return levels.is_explicit() ? choose_for_explicit(sample, levels, blocks, threads)
                              : choose_for_grid(sample, levels, blocks, threads);
}

double bits_covariance(const Sample& sample, const DeviationParams& deviation, const Levels& levels,
                       int threads) {
  const GridParams grid = make_grid(levels);
  const FineCounts fine = count_levels(sample, grid, threads);
  const double all = static_cast<double>(sample.size());
  double bits_sum = 0, deviation_sum = 0, product_sum = 0;
  std::uint64_t inside = 0;
  const auto add = [&](std::uint64_t count, double bits, double distance) {
    const double weight = static_cast<double>(count);
    bits_sum += weight * bits;
    deviation_sum += weight * distance;
    product_sum += weight * bits * distance;
  };
  const double log_all = exact_log2(sample.size());
  for (std::size_t i = 0; i < fine.bins.size(); ++i) {
    if (fine.bins[i] == 0) continue;
    const double level = fine.base + (static_cast<double>(i) + 0.5) * std::ldexp(1.0, fine.shift);
    const double distance = std::fabs(grid.x_min + level * grid.step - deviation.centre);
    add(fine.bins[i], log_all - exact_log2(fine.bins[i]),
        std::min(distance, static_cast<double>(deviation.limit)));
    inside += fine.bins[i];
  }
  add(sample.size() - inside, kOutlierBits, deviation.limit);
  return product_sum / all - bits_sum / all * (deviation_sum / all);
}

SymbolCode fixed_width_code(unsigned raw_bits) {
  SymbolCode code;
  code.tables[0].layout.raw_bits = raw_bits;
  code.entropy = raw_bits;
  code.bits = raw_bits;
  return code;
}

}  // namespace docofl
