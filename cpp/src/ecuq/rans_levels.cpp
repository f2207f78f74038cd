#include "ecuq/rans_levels.h"

#include <algorithm>

#include "ecuq/rans_write.h"
#include "ecuq/scalar_levels.h"

namespace docofl {
namespace {

constexpr float kMissingBits = 64;  // about an outlier

void give_place(std::size_t symbol, RansFrequencies* frequencies) {
  if ((*frequencies)[symbol] > 0) return;
  --*std::max_element(frequencies->begin(), frequencies->end());
  (*frequencies)[symbol] = 1;
}

}  // namespace

RansQuantizer::RansQuantizer(const RansFit& fit, std::size_t size)
    : fit_(fit), num_coded_(fit.model.num_coded), tables_(fit.code.tables) {
  const bool pairs = fit.tuple == 2;
  const std::size_t alphabet = pairs ? std::size_t(num_coded_) * num_coded_ : num_coded_;
  for (RansFrequencies& table : tables_) {
    std::array<bool, 4> has_some{};
    for (std::size_t a = 0; a < alphabet; ++a) has_some[parities(a)] |= table[a] > 0;
    for (std::size_t a = 0; a < alphabet; ++a) {
      if (has_some[parities(a)]) continue;
      give_place(a, &table);
      has_some[parities(a)] = true;
    }
    // The level after the last one is 0.
    if (pairs && size % 2 == 1) give_place(0, &table), give_place(num_coded_, &table);
    Costs costs{};
    std::array<std::uint16_t, 4> most{};
    for (std::size_t a = 0; a < alphabet; ++a) {
      costs.bits[a] = table[a] > 0 ? static_cast<float>(rans_cost(table[a])) : kMissingBits;
      if (table[a] <= most[parities(a)]) continue;
      most[parities(a)] = table[a];
      costs.representatives[parities(a)] = static_cast<std::uint8_t>(a);
    }
    costs_.push_back(costs);
  }
}

std::size_t RansQuantizer::parities(std::size_t symbol) const {
  if (!fit_.model.dependent) return 0;
  if (fit_.tuple == 1) return symbol % 2;
  return symbol / num_coded_ % 2 * 2 + symbol % num_coded_ % 2;
}

RansLevels RansQuantizer::run(const float* values, std::size_t length, Scratch* scratch,
                              Result* result) const {
  const TrellisModel& model = fit_.model;
  const TensorView block{values, length, DType::kFloat32};
  scratch->coded.resize(kRansBlock);
  std::uint8_t* const coded = scratch->coded.data();
  TrellisResult& trellis = result->trellis;

  // 1. Levels, with the costs of tables that are likely to be chosen.
  for (std::size_t begin = 0; begin < length && model.dependent; begin += kRansSegment) {
    scratch->likely[begin / kRansSegment] =
        likely_table(model, values + begin, std::min(kRansSegment, length - begin));
  }
  for (std::size_t begin = 0; begin < length; begin += kTrellisRun) {
    const std::size_t count = std::min(kTrellisRun, length - begin);
    if (model.dependent) {
      run_trellis(model, block, begin, count, &scratch->likely[begin / kRansSegment], 0,
                  &scratch->trellis, coded + begin, &trellis);
    } else {
      run_scalar(model, block, begin, count, 0, &scratch->trellis, coded + begin, &trellis);
    }
  }

  // 2. The cheapest table of each segment.
  const std::size_t num_listed = trellis.outliers.size();
  for (std::size_t begin = 0; begin < length; begin += kRansSegment) {
    const std::size_t count = std::min(kRansSegment, length - begin);
    std::uint8_t pairs[kRansSegment / 2];
    const std::uint8_t* symbols = coded + begin;
    std::size_t num_symbols = count;
    if (fit_.tuple == 2) {
      num_symbols = pack_pairs(coded + begin, count, num_coded_, pairs);
      symbols = pairs;
    }
    SegmentCounts counts{};
    kernels().histogram(symbols, num_symbols, counts.data());
    float least = 0;
    std::size_t best = 0;
    for (std::size_t t = 0; t < costs_.size(); ++t) {
      const float cost = cost_of(counts, costs_[t].bits, kMaxAlphabet);
      if (t == 0 || cost < least) best = t, least = cost;
    }
    scratch->choices[begin / kRansSegment] = static_cast<std::uint8_t>(best);
    result->symbol_bits += static_cast<double>(least);
    const RansFrequencies& table = tables_[best];
    for (std::size_t a = 0; a < kMaxAlphabet; ++a) {
      if (counts[a] == 0 || table[a] > 0) continue;
      list_missing(values, begin, count, costs_[best], coded, &trellis.outliers);
      break;
    }
  }
  if (trellis.outliers.size() > num_listed) {
    const auto by_position = [](const RansOutlier& a, const RansOutlier& b) {
      return a.position < b.position;
    };
    // Some may have been outliers before.
    std::stable_sort(trellis.outliers.begin(), trellis.outliers.end(), by_position);
    const auto is_same = [](const RansOutlier& a, const RansOutlier& b) {
      return a.position == b.position;
    };
    trellis.outliers.erase(std::unique(trellis.outliers.begin(), trellis.outliers.end(), is_same),
                           trellis.outliers.end());
  }
  return {coded, scratch->choices.data(), &trellis.outliers};
}

// Levels of the segment that begins at `begin`, all of them still counted with their values.
void RansQuantizer::list_missing(const float* values, std::size_t begin, std::size_t count,
                                 const Costs& costs, std::uint8_t* coded,
                                 std::vector<RansOutlier>* outliers) const {
  const auto replace = [&](std::size_t i, std::size_t level) {
    if (coded[i] == level) return;
    coded[i] = static_cast<std::uint8_t>(level);
    outliers->push_back({static_cast<std::uint32_t>(i), values[i]});
  };
  for (std::size_t i = begin; i < begin + count; i += fit_.tuple) {
    const bool is_single = fit_.tuple == 1 || i + 1 == begin + count;
    const std::size_t first = coded[i], second = is_single ? 0 : coded[i + 1];
    const std::size_t symbol = fit_.tuple == 1 ? first : first * num_coded_ + second;
    if (costs.bits[symbol] < kMissingBits) continue;
    const std::size_t instead = costs.representatives[parities(symbol)];
    if (fit_.tuple == 1) {
      replace(i, instead);
    } else if (is_single) {
      replace(i, fit_.model.dependent ? first % 2 : 0);
    } else {
      replace(i, instead / num_coded_);
      replace(i + 1, instead % num_coded_);
    }
  }
}

}  // namespace docofl
