#include "ecuq/layout_choice.h"

#include <algorithm>
#include <vector>

#include "common/exact_log2.h"
#include "ecuq/blocks.h"
#include "ecuq/measure.h"
#include "ecuq/payload.h"

namespace docofl {
namespace {

constexpr std::size_t kFineBins = 4096;
constexpr double kOutlierBits = 8.0 * kOutlierBytes;
// Raw bits are cheaper to handle than coded ones: this many bits a coordinate are given for it.
constexpr double kRawBonus = 0.002;
// Tuples are worth a try where at most this many bits a coordinate go to outliers.
constexpr double kMaxTupleOutlierBits = 0.03;
// Below this many coordinates the longer code table of tuples does not pay, unless under a bit.
constexpr std::size_t kMinTupleSize = 4096;

// The largest tuples that fit the alphabet, from many coordinates to few.
struct TupleShape {
  unsigned tuple;
  unsigned max_levels;
};
constexpr TupleShape kTupleShapes[] = {{6, 2}, {5, 3}, {4, 4}, {3, 6}, {2, 16}};

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

FineCounts count_levels(const Sample& sample, const GridParams& grid) {
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
    fine.base = static_cast<std::int32_t>(
        std::min(highest, std::max<std::int64_t>(0, centre - span / 2)));
  }
  fine.bins.assign(bins, 0);
  constexpr std::size_t kPiece = 2048;
  std::int32_t levels[kPiece];
  const std::uint32_t limit = static_cast<std::uint32_t>(bins);
  for (std::size_t begin = 0; begin < sample.values.size(); begin += kPiece) {
    const std::size_t count = std::min(kPiece, sample.values.size() - begin);
    kernels().quantize(grid, &sample.values[begin], count, levels);
    for (std::size_t i = 0; i < count; ++i) {
      // Levels below base wrap to large numbers.
      const std::uint32_t bin = static_cast<std::uint32_t>(levels[i] - fine.base) >> fine.shift;
      if (levels[i] >= fine.base && bin < limit) ++fine.bins[bin];
    }
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

// What code words, code table, outliers and directory take, scaled from the sample to the tensor.
double estimated_bits(const SymbolCounts& counts, std::size_t alphabet, unsigned raw_bits,
                      std::uint64_t outliers, const Sample& sample, std::size_t size) {
  const double all = static_cast<double>(sample.values.size());
  double bits = raw_bits + static_cast<double>(outliers) * kOutlierBits / all;
  double once = 64.0 * static_cast<double>(num_blocks(size) - 1) + 16;  // directory, stream ends
  if (alphabet > 1) {
    const CodeLengths lengths = choose_lengths(counts, alphabet);
    bits += static_cast<double>(coded_bits(counts, lengths, alphabet)) / all;
    once += 8.0 * static_cast<double>(code_table_size(lengths, alphabet));
    if (!sample.is_whole) {
      // A sample looks more regular than the whole (Miller and Madow, 1955).
      std::size_t used = 0;
      for (std::size_t a = 0; a < alphabet; ++a) used += counts[a] > 0;
      bits += static_cast<double>(used - 1) / (2 * 0.6931471805599453 * all);
    }
  }
  return bits + once / static_cast<double>(size);
}

std::uint8_t most_frequent(const std::vector<std::uint32_t>& bins, const BinWindow& window) {
  const auto first = bins.begin() + static_cast<std::ptrdiff_t>(window.begin);
  return static_cast<std::uint8_t>(
      std::max_element(first, first + static_cast<std::ptrdiff_t>(window.length)) - first);
}

// One level a word: as many raw bits as make the most of 256 code words.
LayoutEstimate choose_single(const Sample& sample, const GridParams& grid, FineCounts fine,
                             std::size_t size) {
  const std::size_t total = sample.values.size();
  LayoutEstimate best;
  double best_bits = 0;
  std::vector<std::uint32_t> best_bins;
  BinWindow best_bin_window;
  for (bool first = true;; first = false) {
    // A grid of at most 256 levels is coded whole, so that no level can be an outlier.
    const bool is_whole = fine.shift == 0 && static_cast<std::size_t>(grid.num_levels) <= kMaxCodedLevels;
    BinWindow window = best_window(fine.bins, kMaxCodedLevels);
    if (is_whole) window = {0, fine.bins.size(), total};
    const double bits = ideal_bits(fine.bins, window, total) + fine.shift;
    if (first || bits < best_bits + kRawBonus) {
      best.layout.base = fine.base + static_cast<std::int32_t>(window.begin << fine.shift);
      best.layout.num_coded = static_cast<unsigned>(window.length);
      best.layout.raw_bits = fine.shift;
      best.layout.placeholder = most_frequent(fine.bins, window);
      best_bits = first ? bits : std::min(bits, best_bits);
      best_bins = fine.bins;
      best_bin_window = window;
    }
    if (fine.bins.size() <= 32 || fine.shift == kMaxRawBits) break;
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
  counts[best.layout.placeholder] += outliers;
  best.bits = estimated_bits(counts, best_bin_window.length, best.layout.raw_bits, outliers, sample, size);
  return best;
}

LayoutEstimate measure_layout(const Sample& sample, const Levels& levels, const Layout& layout,
                              std::size_t size, int threads) {
  const Measurement measured = measure(sample.view(), levels, layout, threads);
  return {layout, estimated_bits(measured.counts, layout.alphabet(), layout.raw_bits,
                                 measured.num_outliers, sample, size)};
}

}  // namespace

LayoutEstimate choose_layout(const Sample& sample, float x_min, float x_max,
                             std::int32_t num_levels, std::size_t size, int threads) {
  const GridParams grid = make_grid(x_min, x_max, num_levels);
  const FineCounts fine = count_levels(sample, grid);
  LayoutEstimate best = choose_single(sample, grid, fine, size);
  if (fine.shift > 0 || (size < kMinTupleSize && best.bits > 1.5)) return best;
  for (const TupleShape& shape : kTupleShapes) {
    BinWindow window = best_window(fine.bins, shape.max_levels);
    if (fine.bins.size() <= shape.max_levels) window = {0, fine.bins.size(), sample.values.size()};
    const double outside = 1 - static_cast<double>(window.inside) / static_cast<double>(sample.values.size());
    if (window.length < 2 || outside * kOutlierBits > kMaxTupleOutlierBits) continue;
    Layout layout;
    layout.base = static_cast<std::int32_t>(window.begin);
    layout.num_coded = static_cast<unsigned>(window.length);
    layout.tuple = shape.tuple;
    layout.placeholder = most_frequent(fine.bins, window);
    layout.base += fine.base;
    const LayoutEstimate tuples =
        measure_layout(sample, {x_min, x_max, num_levels, {}}, layout, size, threads);
    if (tuples.bits < best.bits + kRawBonus) best = tuples;
    break;
  }
  return best;
}

LayoutEstimate choose_layout(const Sample& sample, const Levels& explicit_levels, std::size_t size,
                             int threads) {
  Layout layout;
  layout.num_coded = static_cast<unsigned>(explicit_levels.explicit_values.size());
  LayoutEstimate best = measure_layout(sample, explicit_levels, layout, size, threads);
  for (const TupleShape& shape : kTupleShapes) {
    if (layout.num_coded < 2 || layout.num_coded > shape.max_levels) continue;
    layout.tuple = shape.tuple;
    const LayoutEstimate tuples = measure_layout(sample, explicit_levels, layout, size, threads);
    if (tuples.bits < best.bits) best = tuples;
    break;
  }
  return best;
}

}  // namespace docofl
