#include "ecuq/level_means.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/kernels.h"

namespace docofl {
namespace {

// Means of so few values of a sample tell little about those of the tensor.
constexpr std::uint32_t kMinMeanCount = 16;

// Pieces of so many values are taken evenly from a larger sample. Means of n values add to the
// error by a part of about levels / n, so that is enough for 16 levels.
constexpr std::size_t kPiece = 512;
constexpr std::size_t kEnough = 16384;

// Sums that values take turns at: neighbours of one level need not wait for each other.
constexpr std::size_t kLanes = 4;

// The level whose centre is zero, but for rounding; -1 where there is none.
std::int64_t level_at_zero(const GridParams& grid) {
  const double level = std::floor(-grid.x_min * grid.inverse_step);
  const double centre = grid.x_min + (level + 0.5) * grid.step;
  const bool is_zero = std::fabs(centre) < grid.step * static_cast<double>(kDisplacementUnit) / 2;
  return is_zero && level >= 0 && level < grid.num_levels ? static_cast<std::int64_t>(level) : -1;
}

}  // namespace

LevelMeans::LevelMeans(const Sample& sample, const Levels& levels, const SymbolCode& code)
    : min_count_(sample.is_whole() && sample.size() < 2 * kEnough ? 1 : kMinMeanCount) {
  const GridParams grid = make_grid(levels);
  const Layout& layout = code.tables[0].layout;
  if (layout.raw_bits == 0 && grid.narrow) levels_.resize(layout.num_coded);
  zero_ = static_cast<std::size_t>(level_at_zero(grid) - layout.base);
  std::int32_t found[kPiece];
  std::vector<Level> lanes(kLanes * levels_.size());
  double lane_squares[kLanes] = {};
  const std::size_t stride = std::max<std::size_t>(1, sample.size() / kEnough) * kPiece;
  std::size_t taken = 0;
  for (std::size_t begin = 0; begin < sample.size(); begin += stride) {
    const std::size_t count = std::min(kPiece, sample.size() - begin);
    taken += count;
    const float* const values = sample.values() + begin;
    kernels().quantize(grid, values, count, found);
    for (std::size_t i = 0; i < count; ++i) {
      const double place = (static_cast<double>(values[i]) - grid.x_min) * grid.inverse_step;
      const double offset = place - found[i] - 0.5;
      lane_squares[i % kLanes] += offset * offset;
      const std::size_t coded = static_cast<std::size_t>(found[i] - layout.base);
      if (coded >= levels_.size()) continue;
      Level& level = lanes[coded * kLanes + i % kLanes];
      ++level.count;
      level.offsets += offset;
    }
  }
  double squares = 0;
  for (const double part : lane_squares) squares += part;
  for (std::size_t j = 0; j < lanes.size(); ++j) {
    levels_[j / kLanes].count += lanes[j].count;
    levels_[j / kLanes].offsets += lanes[j].offsets;
  }
  // The best run of at most 16.
  double run_gain = 0, best_gain = 0;
  for (std::size_t j = 0; j < levels_.size(); ++j) {
    run_gain += gain(j);
    if (j >= kMaxDisplaced) run_gain -= gain(j - kMaxDisplaced);
    if (run_gain > best_gain) {
      best_gain = run_gain;
      end_ = j + 1;
    }
  }
  begin_ = end_ > kMaxDisplaced ? end_ - kMaxDisplaced : 0;
  const double scale = grid.step * grid.step / static_cast<double>(taken);
  centre_error_ = squares * scale;
  mean_error_ = (squares - best_gain) * scale;
}

bool LevelMeans::has_mean(std::size_t coded) const {
  return coded != zero_ && levels_[coded].count >= min_count_;
}

// In units of kDisplacementUnit.
double LevelMeans::displacement(std::size_t coded) const {
  if (!has_mean(coded)) return 0;
  const Level& level = levels_[coded];
  const double mean = level.offsets / level.count / static_cast<double>(kDisplacementUnit);
  const double most = kMaxDisplacement;
  return std::min(most, std::max(-most, std::floor(mean + 0.5)));
}

double LevelMeans::gain(std::size_t coded) const {
  const Level& level = levels_[coded];
  const double moved = displacement(coded) * static_cast<double>(kDisplacementUnit);
  return moved * (2 * level.offsets - moved * level.count);
}

bool LevelMeans::pay(std::size_t size) const {
  if (begin_ == end_) return false;
  const double saved = 0.5 * (centre_error_ / mean_error_ - 1) / 0.6931471805599453;
  return saved * static_cast<double>(size) > 2 * bits();
}

void LevelMeans::displace(Levels* levels) const {
  levels->first_displaced = static_cast<unsigned>(begin_);
  levels->displacements.clear();
  for (std::size_t j = begin_; j < end_; ++j) {
    levels->displacements.push_back(static_cast<std::int8_t>(displacement(j)));
  }
}

}  // namespace docofl
