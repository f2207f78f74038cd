#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecuq/levels.h"
#include "ecuq/sample.h"
#include "ecuq/symbol_code.h"

namespace docofl {

// The values of a sample that coded levels stand for: their means, and the error without and with
// them. A frame has room for those of 16 neighbours: the ones that gain most are taken. A level at
// zero stays there, so that zeros stay zeros. For uniform levels, of the first code table; with raw
// bits, or on grids that are not narrow, none is taken.
class LevelMeans {
 public:
  LevelMeans(const Sample& sample, const Levels& levels, const SymbolCode& code);

  // Mean squared error of values at the centres of their bins.
  double centre_error() const { return centre_error_; }
  // The same with the levels that are taken at the means of their values.
  double mean_error() const { return mean_error_; }

  // What they take in a frame.
  double bits() const { return 8.0 * (2 + static_cast<double>(end_ - begin_)); }

  // Whether that is less by half than a smaller step would take for the same error, in a tensor of
  // `size` values.
  bool pay(std::size_t size) const;

  // Moves these levels to their means.
  void displace(Levels* levels) const;

 private:
  struct Level {
    std::uint32_t count = 0;
    double offsets = 0;  // from the centre, in steps, added up
  };
  // Whether there is a mean, and worth having.
  bool has_mean(std::size_t coded) const;
  // How far the level moves, as far as a frame can tell, and what that gains.
  double displacement(std::size_t coded) const;
  double gain(std::size_t coded) const;

  std::vector<Level> levels_;
  std::size_t zero_;  // the coded level at zero; where there is none, no level's number
  std::size_t begin_ = 0, end_ = 0;
  std::uint32_t min_count_;
  double centre_error_ = 0;
  double mean_error_ = 0;
};

}  // namespace docofl
