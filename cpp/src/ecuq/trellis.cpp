#include "ecuq/trellis.h"

#include <algorithm>
#include <cmath>

#include "common/source.h"
#include "kernels/kernels.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 512;  // values whose costs are known at a time: they stay in L1
constexpr float kUnreachable = 1e30f;
constexpr float kMaxBeyond = 4.0f;  // steps that a value may lie beyond the outermost level

// Which of four candidates leads to state t, by its decision: from t / 2, or from t / 2 + 4.
constexpr std::uint8_t kCandidates[kTrellisStates][2] = {
    {0, 1}, {1, 0}, {2, 3}, {3, 2}, {1, 0}, {0, 1}, {3, 2}, {2, 3},
};

// Counts that values take turns at: neighbours of one level need not wait for each other.
constexpr std::size_t kTurns = 4;

// The model as the kernels need it, with the costs of one table.
struct KernelGrid {
  KernelGrid(const TrellisModel& model, const std::array<float, kMaxDependentLevels>& bits) {
    const std::int32_t last = static_cast<std::int32_t>(model.num_coded) - 1;
    std::int32_t cheapest[2] = {0, 1};
    for (std::int32_t j = 0; j <= last; ++j) {
      if (bits[j] < bits[cheapest[j % 2]]) cheapest[j % 2] = j;
    }
    for (int quantizer = 0; quantizer < 2; ++quantizer) {
      const auto& places = model.places[quantizer];
      for (std::int32_t j = 0; j < last; ++j) {
        const std::int32_t even = (j + 1) & ~1, odd = j | 1;
        neighbours[quantizer][j] = {places[even], places[odd], model.rate_weight * bits[even],
                                    model.rate_weight * bits[odd]};
      }
      for (int odd = 0; odd < 2; ++odd) {
        const int k = 2 * quantizer + odd;
        grid.frequent_places[k] = places[cheapest[odd]];
        grid.frequent_rates[k] = model.rate_weight * bits[cheapest[odd]];
        grid.frequent[k] = static_cast<std::uint8_t>(cheapest[odd]);
      }
      grid.neighbours[quantizer] = neighbours[quantizer].data();
    }
    grid.origin = model.origin;
    grid.inverse_step = 1.0f / model.step;
    grid.low = model.low();
    grid.high = model.high();
    grid.mirrored = model.mirrored;
    grid.base = model.base;
    grid.last = last;
    grid.placeholder = grid.frequent_places[bits[cheapest[0]] <= bits[cheapest[1]] ? 0 : 1];
  }
  KernelGrid(const KernelGrid&) = delete;
  KernelGrid& operator=(const KernelGrid&) = delete;

  std::array<TrellisNeighbours, kMaxDependentLevels> neighbours[2];
  TrellisGrid grid{};
};

}  // namespace

float TrellisModel::low() const {
  const unsigned last = num_coded - 1;
  return std::min({places[0][0], places[1][0], places[0][last], places[1][last]}) - kMaxBeyond;
}

float TrellisModel::high() const {
  const unsigned last = num_coded - 1;
  return std::max({places[0][0], places[1][0], places[0][last], places[1][last]}) + kMaxBeyond;
}

void run_trellis(const TrellisModel& model, const TensorView& tensor, std::size_t begin,
                 std::size_t count, const std::uint8_t* choices, std::size_t block_begin,
                 TrellisScratch* scratch, std::uint8_t* coded, TrellisResult* result) {
  scratch->values.resize(kTrellisRun);
  scratch->costs.resize(4 * kPiece);
  scratch->candidates.resize(4 * kTrellisRun);
  scratch->decisions.resize(kTrellisRun);
  const float* const x = load_values(tensor, begin, count, scratch->values.data());

  // 1. The cheapest way to every state, forwards.
  float metrics[kTrellisStates];
  std::fill(metrics, metrics + kTrellisStates, kUnreachable);
  metrics[0] = 0;
  for (std::size_t segment = 0; segment < count; segment += kRansSegment) {
    const KernelGrid grid(model, model.bits[choices[segment / kRansSegment]]);
    const std::size_t segment_end = std::min(count, segment + kRansSegment);
    for (std::size_t i = segment; i < segment_end; i += kPiece) {
      const std::size_t piece = std::min(kPiece, segment_end - i);
      kernels().trellis_costs(grid.grid, x + i, piece, scratch->costs.data(),
                              &scratch->candidates[4 * i]);
      kernels().trellis_advance(scratch->costs.data(), piece, metrics, &scratch->decisions[i]);
      // Only differences count; small numbers keep them precise.
      const float least = *std::min_element(metrics, metrics + kTrellisStates);
      for (float& metric : metrics) metric -= least;
    }
  }

  // 2. The cheapest way to any state, backwards.
  unsigned state =
      static_cast<unsigned>(std::min_element(metrics, metrics + kTrellisStates) - metrics);
  const float inverse_step = 1.0f / model.step;
  const float low = model.low(), high = model.high();
  std::array<TrellisCounts, kTurns> counts;
  double squared_errors[kTurns] = {};
  const std::size_t first_outlier = result->outliers.size();
  for (std::size_t i = count; i-- > 0;) {
    const unsigned decision = scratch->decisions[i] >> state & 1;
    const unsigned candidate = kCandidates[state][decision];
    state = state / 2 + 4 * decision;
    const unsigned quantizer = candidate / 2;
    const std::uint8_t level = scratch->candidates[4 * i + candidate];
    coded[i] = level;
    const float u = (x[i] - model.origin) * inverse_step;
    const float error = u - model.places[quantizer][level];
    if (u >= low && u <= high && std::fabs(error) <= kMaxTrellisError) {
      const std::size_t turn = i % kTurns;
      ++counts[turn].counts[quantizer][level];
      counts[turn].sums[quantizer][level] += static_cast<double>(u);
      squared_errors[turn] += static_cast<double>(error) * static_cast<double>(error);
    } else {
      result->outliers.push_back({static_cast<std::uint32_t>(begin + i - block_begin), x[i]});
    }
  }
  std::reverse(result->outliers.begin() + static_cast<std::ptrdiff_t>(first_outlier),
               result->outliers.end());
  for (const TrellisCounts& part : counts) result->counts.add(part, model.num_coded);
  for (const double part : squared_errors) result->squared_error += part;
}

void TrellisCounts::add(const TrellisCounts& other, unsigned num_coded) {
  for (int quantizer = 0; quantizer < 2; ++quantizer) {
    for (unsigned j = 0; j < num_coded; ++j) {
      counts[quantizer][j] += other.counts[quantizer][j];
      sums[quantizer][j] += other.sums[quantizer][j];
    }
  }
}

std::uint8_t likely_table(const TrellisModel& model, const float* values, std::size_t count) {
  if (model.bits.size() == 1) return 0;
  // 1. Some of the values, and their nearest levels of the first quantizer.
  constexpr std::size_t kStride = 16;
  struct Value {
    float place, squared_error;
    std::size_t near;
  };
  std::array<Value, kRansSegment / kStride> some;
  std::size_t num_values = 0;
  const float inverse_step = 1.0f / model.step, low = model.low(), high = model.high();
  for (std::size_t i = 0; i < count; i += kStride) {
    const float u = (values[i] - model.origin) * inverse_step;
    if (!(u >= low && u <= high)) continue;
    const int index = static_cast<int>(std::floor((u < 0 ? u : u + 1) * 0.5f)) - model.base;
    const auto near = static_cast<std::size_t>(
        std::min(static_cast<int>(model.num_coded) - 1, std::max(0, index)));
    const float error = u - model.places[0][near];
    some[num_values++] = {u, error * error, near};
  }
  // 2. What they cost with each table, at these levels or at the most frequent one.
  std::size_t best = 0;
  float least = 0;
  for (std::size_t t = 0; t < model.bits.size(); ++t) {
    const auto& bits = model.bits[t];
    const auto frequent = static_cast<std::size_t>(
        std::min_element(bits.begin(), bits.begin() + model.num_coded) - bits.begin());
    float cost = 0;
    for (std::size_t i = 0; i < num_values; ++i) {
      const float error = some[i].place - model.places[0][frequent];
      cost += std::min(some[i].squared_error + model.rate_weight * bits[some[i].near],
                       error * error + model.rate_weight * bits[frequent]);
    }
    if (t == 0 || cost < least) best = t, least = cost;
  }
  return static_cast<std::uint8_t>(best);
}

}  // namespace docofl
