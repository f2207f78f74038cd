#include "ecuq/segment_groups.h"

#include <algorithm>
#include <numeric>

#include "common/exact_log2.h"

namespace docofl {
namespace {

constexpr int kRounds = 4;
// How many times the variance of chance tells that segments differ.
constexpr double kMinVariance = 3;

// Code lengths; a symbol that does not occur counts as a quarter.
SymbolBits ideal_bits(const SymbolCounts& counts, std::size_t alphabet) {
  std::uint64_t total = 0;
  for (std::size_t a = 0; a < alphabet; ++a) total += std::max<std::uint64_t>(4 * counts[a], 1);
  SymbolBits bits{};
  const double log_total = exact_log2(total);
  for (std::size_t a = 0; a < alphabet; ++a) {
    bits[a] = static_cast<float>(log_total - exact_log2(std::max<std::uint64_t>(4 * counts[a], 1)));
  }
  return bits;
}

}  // namespace

float cost_of(const SegmentCounts& segment, const SymbolBits& bits, std::size_t alphabet) {
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

SymbolCounts total_counts(const std::vector<SegmentCounts>& segments,
                          const std::vector<std::uint8_t>& choices, std::uint8_t group,
                          std::size_t alphabet) {
  SymbolCounts total{};
  for (std::size_t s = 0; s < segments.size(); ++s) {
    if (choices[s] != group) continue;
    for (std::size_t a = 0; a < alphabet; ++a) total[a] += segments[s][a];
  }
  return total;
}

SegmentGroups::SegmentGroups(const std::vector<SegmentCounts>& segments, std::size_t alphabet)
    : segments_(segments), alphabet_(alphabet) {
  const std::vector<std::uint8_t> none(segments.size(), 0);
  bits_ = ideal_bits(total_counts(segments, none, 0, alphabet), alphabet);
  costs_.reserve(segments.size());
  sizes_.reserve(segments.size());
  for (const SegmentCounts& segment : segments) {
    costs_.push_back(cost_of(segment, bits_, alphabet));
    sizes_.push_back(
        static_cast<double>(std::accumulate(segment.begin(), segment.end(), std::uint64_t(0))));
    num_bits_ += static_cast<double>(costs_.back());
    num_symbols_ += sizes_.back();
  }
}

bool SegmentGroups::differ() const {
  SymbolBits squares;
  for (std::size_t a = 0; a < kMaxAlphabet; ++a) squares[a] = bits_[a] * bits_[a];
  // Over all segments, squared deviations from what their symbols take on average add up to about
  // a symbol's variance for each of their symbols.
  const double mean = num_bits_ / num_symbols_;
  double bits_squared = 0, deviations = 0;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    bits_squared += static_cast<double>(cost_of(segments_[s], squares, alphabet_));
    const double deviation = static_cast<double>(costs_[s]) - mean * sizes_[s];
    deviations += deviation * deviation;
  }
  return deviations > kMinVariance * (bits_squared - mean * num_bits_);
}

double SegmentGroups::variance() const {
  const double mean = num_bits_ / num_symbols_;
  double sum = 0;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    const double deviation = static_cast<double>(costs_[s]) / sizes_[s] - mean;
    sum += sizes_[s] * deviation * deviation;
  }
  return sum / num_symbols_;
}

std::vector<std::uint8_t> SegmentGroups::choose(std::size_t num_groups) const {
  // At first by what they take with one table for all: spread, for bell-shaped values.
  std::vector<std::size_t> order(segments_.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs_[a] < costs_[b]; });
  std::vector<std::uint8_t> choices(segments_.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    choices[order[rank]] = static_cast<std::uint8_t>(rank * num_groups / order.size());
  }
  for (int round = 0; num_groups > 1 && round < kRounds; ++round) {
    choose_again(num_groups, &choices);
  }
  return choices;
}

void SegmentGroups::choose_again(std::size_t num_groups, std::vector<std::uint8_t>* choices) const {
  std::vector<SymbolBits> bits;
  bits.reserve(num_groups);
  for (std::size_t group = 0; group < num_groups; ++group) {
    bits.push_back(ideal_bits(
        total_counts(segments_, *choices, static_cast<std::uint8_t>(group), alphabet_), alphabet_));
  }
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    std::size_t best = 0;
    float least = cost_of(segments_[s], bits[0], alphabet_);
    for (std::size_t group = 1; group < num_groups; ++group) {
      const float cost = cost_of(segments_[s], bits[group], alphabet_);
      if (cost < least) best = group, least = cost;
    }
    (*choices)[s] = static_cast<std::uint8_t>(best);
  }
}

}  // namespace docofl
