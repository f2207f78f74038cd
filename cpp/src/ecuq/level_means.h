#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecuq/levels.h"
#include "ecuq/sample.h"

namespace docofl {

// The values of a sample that coded levels stand for: their means, and the error without and with
// them. A frame has room for those of 16 neighbours: the ones that gain most are taken. For uniform
// levels; with raw bits, or on grids that are not narrow, none is.
class LevelMeans {
 public:
  LevelMeans(const Sample& sample, const Levels& levels, const Layout& layout);

  // Mean squared error of values at the centres of their bins.
  double centre_error() const { return centre_error_; }
  // The same with the levels that are taken at the means of their values.
  double mean_error() const { return mean_error_; }

  // How many are taken.
  std::size_t size() const { return end_ - begin_; }

  // Moves these levels to their means, as far as a frame can tell.
  void displace(Levels* levels) const;

 private:
  struct Level {
    std::uint32_t count = 0;
    double offsets = 0;  // from the centre, in steps, added up
  };
  double gain(const Level& level) const;

  std::vector<Level> levels_;
  std::size_t begin_ = 0, end_ = 0;
  std::uint32_t min_count_;
  double centre_error_ = 0;
  double mean_error_ = 0;
};

}  // namespace docofl
