#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/tensor.h"
#include "ecuq/rans_payload.h"

namespace docofl {

// What an encoder knows about levels while it looks for the best ones: their places, in steps from
// the origin, and what each costs, in bits, in a segment of each kind.
struct TrellisModel {
  bool dependent = true;  // two quantizers, by a state machine; otherwise the first one alone
  float origin = 0;
  float step = 1;
  bool mirrored = false;
  float rate_weight = 0.25f;  // what a bit is worth, in squares of the step
  std::int32_t base = 0;
  unsigned num_coded = 2;
  std::uint8_t placeholder = 0;  // the coded level of outliers, where levels are not dependent
  std::array<float, kMaxDependentLevels> places[2] = {};
  std::vector<std::array<float, kMaxDependentLevels>> bits;  // one list a table

  // Where values are listed as outliers rather than quantized: beyond the outermost levels, by more
  // than it is worth.
  float low() const;
  float high() const;
};

// No value is further from what it becomes, in steps; those that would be are outliers.
constexpr float kMaxTrellisError = 6.0f;

// How often each coded level was chosen for each quantizer, and the sum of the values, in steps
// from the origin.
struct TrellisCounts {
  std::array<std::uint64_t, kMaxDependentLevels> counts[2] = {};
  std::array<double, kMaxDependentLevels> sums[2] = {};

  void add(const TrellisCounts& other, unsigned num_coded);
};

// Scratch of one thread.
struct TrellisScratch {
  std::vector<float> values;
  std::vector<float> costs;
  std::vector<std::uint8_t> candidates;
  std::vector<std::uint8_t> decisions;
};

// Finds the coded levels of values [begin, begin + count), at most kTrellisRun of them, that
// minimize squared error plus rate_weight times bits (the Viterbi algorithm); segment k of
// kRansSegment values has the costs of table choices[k]. Adds up counts (for all but outliers), the
// squared error in steps, and lists outliers with positions less `block_begin`.
struct TrellisResult {
  TrellisCounts counts;
  double squared_error = 0;
  std::vector<RansOutlier> outliers;
};
void run_trellis(const TrellisModel& model, const TensorView& tensor, std::size_t begin,
                 std::size_t count, const std::uint8_t* choices, std::size_t block_begin,
                 TrellisScratch* scratch, std::uint8_t* coded, TrellisResult* result);

// The table that is likely to be the cheapest for a segment, by some of its `count` values and
// without a trellis.
std::uint8_t likely_table(const TrellisModel& model, const float* values, std::size_t count);

}  // namespace docofl
