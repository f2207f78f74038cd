#pragma once

#include <cstddef>
#include <vector>

#include "docofl/ecuq.h"
#include "docofl/tensor.h"

namespace docofl {

// What a step would cost: bits of many frames, estimated from a sample of their tensors.
//
// Bits go where the error is when all tensors share one step: then a bit more buys as much
// anywhere. The estimate is the entropy of the sample's levels, frame by frame, as each frame has
// statistics of its own, and what the coder takes beyond the entropy, measured by coding the
// sample.
class RateModel {
 public:
  // The coder, the quality and the threads are those of the options.
  explicit RateModel(const EcuqOptions& coding) : coding_(coding) {}

  // Takes about `count` values of a tensor, in short runs. Those of frame f must come before those
  // of f + 1. Values that are not finite are left out.
  void add(std::size_t frame, const TensorView& tensor, std::size_t count);

  // To be called when all tensors have been added, and before what follows.
  void finish();

  // Whether the values that were taken differ anywhere; otherwise there is nothing to estimate
  // from.
  bool has_range() const { return widest_ > 0; }

  // The step for which the frames take about `bits` bits.
  double find_step(double bits);

  // The bits of all frames for a step.
  double bits(double step) const;

  // Bounds the logarithm of a step: one level for all, or as many as a frame can have.
  double clamp(double exponent) const;

  // The logarithm of a step that leaves one level everywhere.
  double coarsest() const;

 private:
  struct Frame {
    double size = 0;  // coordinates
    std::vector<float> values;
    std::vector<float> some;  // a part of them
    double range = 0;
    double centre = 0;      // of the levels; zero for frames around zero
    double middle = 0;      // the median distance from the median
    double most = 0;        // the distance from which values are outliers
    double exact_bits = 0;  // a coordinate, where few different values are kept; otherwise infinite
    double overhead = 0;    // bits a coordinate that the coder takes beyond the entropy
  };
  enum class Extent { kSome, kAll };

  static void describe(Frame* frame, std::size_t count);
  double bits(double step, Extent extent) const;
  // Each frame's bits a coordinate at their ideal.
  std::vector<double> entropies(double step, Extent extent) const;
  struct Solution {
    double exponent;
    double slope;
  };
  Solution solve(double exponent, double bits) const;
  void measure_overhead(double step);

  EcuqOptions coding_;
  std::vector<Frame> frames_;
  double total_ = 0;
  double least_ = 0;   // the narrowest range that matters when a step is looked for
  double widest_ = 0;  // and the widest of all
  double spread_ = 0;
  bool is_measured_ = false;
};

}  // namespace docofl
