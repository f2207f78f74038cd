#pragma once

#include <cstdint>

#include "common/source.h"
#include "docofl/ecuq.h"
#include "ecuq/sample.h"

namespace docofl {

// The double binary search of algorithm 3 as printed, on exact entropies. Where the sample leaves
// no doubt on which side of the band a level count falls, it spares the pass over the tensor.
class EntropySearch {
 public:
  // Rounding must not turn an entropy of exactly `bits` into one beyond it.
  static constexpr double kSlack = 1e-9;

  EntropySearch(const TensorView& tensor, const Sample& sample, const ValueRange& range,
                const EcuqOptions& options)
      : tensor_(tensor), sample_(sample), range_(range), options_(options) {}

  // The number of levels.
  std::int32_t run();

  // True when the levels ran into kMaxLevels with entropy to spare.
  bool is_unbounded() const { return is_unbounded_; }

  // Exact, by a pass over the tensor.
  double entropy(std::int32_t num_levels) const;

 private:
  enum class Verdict { kBelow, kWithin, kAbove };

  Verdict compare(double found, double doubt) const;
  Verdict judge(std::int32_t num_levels) const;

  const TensorView& tensor_;
  const Sample& sample_;
  ValueRange range_;
  EcuqOptions options_;
  bool is_unbounded_ = false;
};

}  // namespace docofl
