#include "ecuq/local_tables.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/exact_log2.h"
#include "ecuq/rans_payload.h"

namespace docofl {
namespace {

constexpr int kRounds = 4;
constexpr double kChoiceBits = 4;
constexpr std::size_t kMinSegmentsPerTable = 4;
// The part of the bits that twice the tables have to save: a decoder's cache holds few.
constexpr double kMinSaving = 1.0 / 1024;

using Bits = std::array<float, kMaxAlphabet>;

SymbolCounts total_counts(const std::vector<SegmentCounts>& segments,
                          const std::vector<std::uint8_t>& choices, std::uint8_t table,
                          std::size_t alphabet) {
  SymbolCounts total{};
  for (std::size_t s = 0; s < segments.size(); ++s) {
    if (choices[s] != table) continue;
    for (std::size_t a = 0; a < alphabet; ++a) total[a] += segments[s][a];
  }
  return total;
}

// Code lengths; a symbol that does not occur counts as a quarter.
Bits ideal_bits(const SymbolCounts& counts, std::size_t alphabet) {
  std::uint64_t total = 0;
  for (std::size_t a = 0; a < alphabet; ++a) total += std::max<std::uint64_t>(4 * counts[a], 1);
  Bits bits{};
  const double log_total = exact_log2(total);
  for (std::size_t a = 0; a < alphabet; ++a) {
    bits[a] = static_cast<float>(log_total - exact_log2(std::max<std::uint64_t>(4 * counts[a], 1)));
  }
  return bits;
}

// A code needs two symbols.
void complete(SymbolCounts* counts, std::size_t alphabet) {
  std::size_t used = 0;
  for (std::size_t a = 0; a < alphabet; ++a) used += (*counts)[a] > 0;
  for (std::size_t a = 0; used < 2; ++a) {
    if ((*counts)[a] == 0) (*counts)[a] = 1, ++used;
  }
}

class Grouping {
 public:
  Grouping(const std::vector<SegmentCounts>& segments, std::size_t alphabet, double scale)
      : segments_(segments), alphabet_(alphabet), scale_(scale), order_(segments.size()) {
    // Segments by what they take with one table for all: spread, for bell-shaped values.
    const std::vector<std::uint8_t> none(segments.size(), 0);
    const Bits all = ideal_bits(total_counts(segments, none, 0, alphabet), alphabet);
    std::vector<float> costs;
    costs.reserve(segments.size());
    for (const SegmentCounts& segment : segments) costs.push_back(cost_of(segment, all, alphabet));
    std::iota(order_.begin(), order_.end(), std::size_t(0));
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return costs[a] < costs[b]; });
  }

  LocalTables group(std::size_t num_tables) const {
    LocalTables result;
    result.choices.resize(segments_.size());
    for (std::size_t rank = 0; rank < order_.size(); ++rank) {
      result.choices[order_[rank]] = static_cast<std::uint8_t>(rank * num_tables / order_.size());
    }
    for (int round = 0; num_tables > 1 && round < kRounds; ++round)
      choose_again(num_tables, &result);
    fit(num_tables, &result);
    return result;
  }

 private:
  void choose_again(std::size_t num_tables, LocalTables* result) const {
    std::vector<Bits> bits;
    bits.reserve(num_tables);
    for (std::size_t t = 0; t < num_tables; ++t) {
      bits.push_back(ideal_bits(
          total_counts(segments_, result->choices, static_cast<std::uint8_t>(t), alphabet_),
          alphabet_));
    }
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      std::size_t best = 0;
      float least = cost_of(segments_[s], bits[0], alphabet_);
      for (std::size_t t = 1; t < num_tables; ++t) {
        const float cost = cost_of(segments_[s], bits[t], alphabet_);
        if (cost < least) best = t, least = cost;
      }
      result->choices[s] = static_cast<std::uint8_t>(best);
    }
  }

  // The tables of the groups that are not empty, and what everything takes.
  void fit(std::size_t num_tables, LocalTables* result) const {
    std::array<std::uint8_t, kMaxRansTables> names{};
    for (std::size_t t = 0; t < num_tables; ++t) {
      const std::uint8_t table = static_cast<std::uint8_t>(t);
      if (std::find(result->choices.begin(), result->choices.end(), table) ==
          result->choices.end()) {
        continue;
      }
      SymbolCounts counts = total_counts(segments_, result->choices, table, alphabet_);
      complete(&counts, alphabet_);
      const RansFrequencies frequencies = rans_frequencies(counts, alphabet_);
      for (std::size_t a = 0; a < alphabet_; ++a) {
        if (counts[a] > 0) {
          result->symbol_bits +=
              scale_ * static_cast<double>(counts[a]) * rans_cost(frequencies[a]);
        }
      }
      result->table_bits += 8.0 * static_cast<double>(rans_table_size(frequencies, alphabet_));
      names[t] = static_cast<std::uint8_t>(result->tables.size());
      result->tables.push_back(frequencies);
    }
    for (std::uint8_t& choice : result->choices) choice = names[choice];
    if (result->tables.size() > 1) {
      result->table_bits += scale_ * kChoiceBits * static_cast<double>(segments_.size());
    }
  }

  const std::vector<SegmentCounts>& segments_;
  std::size_t alphabet_;
  double scale_;
  std::vector<std::size_t> order_;
};

}  // namespace

float cost_of(const SegmentCounts& segment, const Bits& bits, std::size_t alphabet) {
  // Sums that symbols take turns at: additions need not wait for each other.
  constexpr std::size_t kTurns = 8;
  static_assert(kMaxAlphabet % kTurns == 0);
  float costs[kTurns] = {};
  for (std::size_t a = 0; a < alphabet; a += kTurns) {
    for (std::size_t k = 0; k < kTurns; ++k) {
      costs[k] += static_cast<float>(static_cast<std::int32_t>(segment[a + k])) * bits[a + k];
    }
  }
  return std::accumulate(costs, costs + kTurns, 0.0f);
}

LocalTables choose_tables(const std::vector<SegmentCounts>& segments, std::size_t alphabet,
                          double scale) {
  const Grouping grouping(segments, alphabet, scale);
  LocalTables best = grouping.group(1);
  for (std::size_t num_tables = 2;
       num_tables <= kMaxRansTables && num_tables * kMinSegmentsPerTable <= segments.size();
       num_tables *= 2) {
    LocalTables next = grouping.group(num_tables);
    const double most = (best.symbol_bits + best.table_bits) * (1 - kMinSaving);
    if (next.symbol_bits + next.table_bits > most) break;
    best = std::move(next);
  }
  return best;
}

}  // namespace docofl
