#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/tensor.h"
#include "ecuq/local_tables.h"
#include "ecuq/rans_payload.h"
#include "ecuq/trellis.h"

namespace docofl {

// Levels, and the tables that were made for the symbols they gave.
struct RansFit {
  TrellisModel model;
  float anchor = 0;    // the model's origin is here, ...
  float shift = 0;     // ... or so many steps further
  LocalTables tables;  // of single levels, for the next model
  LocalTables code;    // what symbols are coded with
  unsigned tuple = 1;
  bool may_displace = true;  // levels may lie at the means of their values, ...
  bool displaced = true;     // ... and they do
  TrellisResult result;      // but for outliers, which are here:
  std::vector<std::vector<RansOutlier>> outliers;  // one list for every kRansBlock values
  std::size_t num_outliers = 0;
  // For coefficients: that they are, and the bytes of what was taken out of their tensor.
  bool transformed = false;
  std::size_t spike_bytes = 0;
  double bits = 0;  // a coordinate, all that the budget is charged for
};

// Places of levels are exact in float32, and so are the differences of values of this range.
constexpr double kMinRansStep = 0x1p-100;
constexpr double kMaxRansStep = 0x1p100;

// Changes the step, within these bounds, and with it what levels stand for.
void set_step(double step, RansFit* fit);

// The code, without displacements.
RansCode code_of(const RansFit& fit);

// Moves levels with at least `min_count` values to their means, as far as a frame can tell.
void displace(const TrellisCounts& counts, std::uint64_t min_count, RansCode* code);

// Squared error, in steps, of what the model gave, but with the levels of `code`.
double squared_error_of(const TrellisResult& result, const TrellisModel& model,
                        const RansCode& code);

// The same with levels at their means, where they may lie there.
double displaced_error_of(const RansFit& fit);

// Searches on a tensor, which may be a sample of another.
class RansFitter {
 public:
  // `size` is that of the tensor to be coded. Refers to this one's memory.
  RansFitter(const TensorView& tensor, std::size_t size, int threads)
      : tensor_(tensor), size_(size), threads_(threads), coded_(tensor.size) {}

  std::size_t size() const { return tensor_.size; }

  // The coded level of each value.
  const std::uint8_t* coded() const { return coded_.data(); }

  // Levels at a new step and, where they are dependent, the code that plain quantization would give
  // them.
  void start(double step, RansFit* fit) const;

  // Quantizes with the model, and fits tables and places to what that gives.
  void run(RansFit* fit);

  // Places and code lengths for the next run, where levels are dependent.
  static void adapt(RansFit* fit);

 private:
  double scale() const { return static_cast<double>(size_) / static_cast<double>(tensor_.size); }
  void choose_window(const std::vector<std::uint32_t>& histogram, int farthest,
                     TrellisModel* model) const;
  void choose_displaced(RansFit* fit) const;
  void choose_code(RansFit* fit) const;
  double charged_bits(const RansFit& fit) const;

  TensorView tensor_;
  std::size_t size_;
  int threads_;
  std::vector<std::uint8_t> coded_;
};

}  // namespace docofl
