#include "ecuq/level_means.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/kernels.h"

namespace docofl {
namespace {

// Means of so few values of a sample tell little about those of the tensor.
constexpr std::uint32_t kMinMeanCount = 16;

}  // namespace

LevelMeans::LevelMeans(const Sample& sample, const Levels& levels, const Layout& layout)
    : min_count_(sample.is_whole() ? 1 : kMinMeanCount) {
  constexpr std::size_t kPiece = 2048;
  const GridParams grid = make_grid(levels);
  if (layout.raw_bits == 0 && grid.narrow) levels_.resize(layout.num_coded);
  std::int32_t found[kPiece];
  double squares = 0;
  for (std::size_t begin = 0; begin < sample.size(); begin += kPiece) {
    const std::size_t count = std::min(kPiece, sample.size() - begin);
    const float* const values = sample.values() + begin;
    kernels().quantize(grid, values, count, found);
    for (std::size_t i = 0; i < count; ++i) {
      const double place = (static_cast<double>(values[i]) - grid.x_min) * grid.inverse_step;
      const double offset = place - found[i] - 0.5;
      squares += offset * offset;
      const std::size_t coded = static_cast<std::size_t>(found[i] - layout.base);
      if (coded >= levels_.size()) continue;
      Level& level = levels_[coded];
      ++level.count;
      level.offsets += offset;
    }
  }
  // The best run of at most 16.
  double run_gain = 0, best_gain = 0;
  for (std::size_t j = 0; j < levels_.size(); ++j) {
    run_gain += gain(levels_[j]);
    if (j >= kMaxDisplaced) run_gain -= gain(levels_[j - kMaxDisplaced]);
    if (run_gain > best_gain) {
      best_gain = run_gain;
      end_ = j + 1;
    }
  }
  begin_ = end_ > kMaxDisplaced ? end_ - kMaxDisplaced : 0;
  const double scale = grid.step * grid.step / static_cast<double>(sample.size());
  centre_error_ = squares * scale;
  mean_error_ = (squares - best_gain) * scale;
}

double LevelMeans::gain(const Level& level) const {
  return level.count >= min_count_ ? level.offsets * level.offsets / level.count : 0;
}

void LevelMeans::displace(Levels* levels) const {
  levels->first_displaced = static_cast<unsigned>(begin_);
  levels->displacements.clear();
  for (std::size_t j = begin_; j < end_; ++j) {
    const Level& level = levels_[j];
    double units = 0;
    if (level.count >= min_count_) {
      units =
          std::floor(level.offsets / level.count / static_cast<double>(kDisplacementUnit) + 0.5);
    }
    const double most = kMaxDisplacement;
    levels->displacements.push_back(
        static_cast<std::int8_t>(std::min(most, std::max(-most, units))));
  }
}

}  // namespace docofl
