#include "ecuq/local_tables.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ecuq/rans_payload.h"

namespace docofl {
namespace {

constexpr double kChoiceBits = 4;
constexpr std::size_t kMinSegmentsPerTable = 4;
// The part of the bits that twice the tables have to save: a decoder's cache holds few.
constexpr double kMinSaving = 1.0 / 1024;

// A code needs two symbols.
void complete(SymbolCounts* counts, std::size_t alphabet) {
  std::size_t used = 0;
  for (std::size_t a = 0; a < alphabet; ++a) used += (*counts)[a] > 0;
  for (std::size_t a = 0; used < 2; ++a) {
    if ((*counts)[a] == 0) (*counts)[a] = 1, ++used;
  }
}

// The tables of the groups that are not empty, and what everything takes.
LocalTables fit_tables(const std::vector<SegmentCounts>& segments,
                       std::vector<std::uint8_t> choices, std::size_t num_groups,
                       std::size_t alphabet, double scale) {
  LocalTables result;
  std::array<std::uint8_t, kMaxRansTables> names{};
  for (std::size_t g = 0; g < num_groups; ++g) {
    const std::uint8_t group = static_cast<std::uint8_t>(g);
    if (std::find(choices.begin(), choices.end(), group) == choices.end()) continue;
    SymbolCounts counts = total_counts(segments, choices, group, alphabet);
    complete(&counts, alphabet);
    const RansFrequencies frequencies = rans_frequencies(counts, alphabet);
    for (std::size_t a = 0; a < alphabet; ++a) {
      if (counts[a] > 0) {
        result.symbol_bits += scale * static_cast<double>(counts[a]) * rans_cost(frequencies[a]);
      }
    }
    result.table_bits += 8.0 * static_cast<double>(rans_table_size(frequencies, alphabet));
    names[g] = static_cast<std::uint8_t>(result.tables.size());
    result.tables.push_back(frequencies);
  }
  for (std::uint8_t& choice : choices) choice = names[choice];
  if (result.tables.size() > 1) {
    result.table_bits += scale * kChoiceBits * static_cast<double>(segments.size());
  }
  result.choices = std::move(choices);
  return result;
}

}  // namespace

LocalTables choose_tables(const std::vector<SegmentCounts>& segments, std::size_t alphabet,
                          double scale) {
  const SegmentGroups groups(segments, alphabet);
  LocalTables best = fit_tables(segments, groups.choose(1), 1, alphabet, scale);
  for (std::size_t num_tables = 2;
       num_tables <= kMaxRansTables && num_tables * kMinSegmentsPerTable <= segments.size();
       num_tables *= 2) {
    LocalTables next = fit_tables(segments, groups.choose(num_tables), num_tables, alphabet, scale);
    const double most = (best.symbol_bits + best.table_bits) * (1 - kMinSaving);
    if (next.symbol_bits + next.table_bits > most) break;
    best = std::move(next);
  }
  return best;
}

}  // namespace docofl
