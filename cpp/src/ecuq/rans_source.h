#pragma once

#include <cstddef>
#include <vector>

#include "docofl/tensor.h"
#include "ecuq/rans_payload.h"
#include "ecuq/transform.h"

namespace docofl {

// What the rANS coder codes: the values of a tensor or, with a transform, coefficients of its runs.
// Those of large tensors are made a block at a time, whenever they are wanted, and not kept.
class RansSource {
 public:
  RansSource(const TensorView& tensor, const RunTransform& transform, int threads);

  std::size_t size() const { return tensor_.size; }
  bool is_large() const { return size() > kMaxKeptSize; }
  DType dtype() const { return tensor_.dtype; }
  const RunTransform& transform() const { return transform_; }

  // A block, valid until the next call with the same scratch.
  struct Block {
    const float* values;
    const std::vector<RansOutlier>* spikes;
  };
  struct Scratch {
    std::vector<float> values, coefficients;
    std::vector<RansOutlier> spikes;
  };
  Block load(std::size_t block, Scratch* scratch) const;

  // Everything, of what is not large.
  TensorView whole() const;

  // Some segments, or everything where that is not more than `size`. Layers of a network differ
  // most in their spread, so segments are taken evenly from all of them in the order of theirs.
  std::vector<float> sample(std::size_t size);

 private:
  static constexpr std::size_t kMaxKeptSize = std::size_t(1) << 25;

  const float* load_tensor(std::size_t block, Scratch* scratch) const;
  void sort_segments();

  TensorView tensor_;
  RunTransform transform_;
  int threads_;
  std::vector<float> coefficients_;  // kept
  std::vector<std::vector<RansOutlier>> spikes_;
  std::vector<std::size_t> by_spread_;  // full segments; empty until somebody samples
};

}  // namespace docofl
