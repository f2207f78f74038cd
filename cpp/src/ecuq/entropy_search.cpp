#include "ecuq/entropy_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ecuq/levels.h"
#include "entropy/histogram.h"

namespace docofl {

std::int32_t EntropySearch::run() {
  const double start = std::min(std::exp2(options_.bits), double(kMaxLevels));
  std::int32_t best = static_cast<std::int32_t>(std::max(1.0, std::floor(start)));
  if (judge(best) != Verdict::kBelow) return best;
  double low = start;
  double high = std::numeric_limits<double>::infinity();
  int p = -1;
  while (low <= high) {
    double mid;
    if (std::isinf(high)) {
      ++p;
      mid = start + std::ldexp(1.0, p);
      if (mid > kMaxLevels) {
        is_unbounded_ = true;
        return best;
      }
    } else {
      mid = (low + high) / 2;
    }
    const std::int32_t num_levels = static_cast<std::int32_t>(std::floor(mid));
    switch (judge(num_levels)) {
      case Verdict::kAbove: high = mid - 1; break;
      case Verdict::kBelow:
        best = std::max(best, num_levels);
        low = mid + 1;
        break;
      case Verdict::kWithin: return num_levels;
    }
  }
  return best;
}

double EntropySearch::entropy(std::int32_t num_levels) const {
  std::size_t occupied = 0;
  return level_entropy(tensor_, make_grid(range_.x_min, range_.x_max, num_levels), options_.threads,
                       &occupied);
}

EntropySearch::Verdict EntropySearch::compare(double found, double doubt) const {
  if (found > options_.bits + kSlack + doubt) return Verdict::kAbove;
  if (found < options_.bits - options_.tolerance - kSlack - doubt) return Verdict::kBelow;
  return Verdict::kWithin;
}

EntropySearch::Verdict EntropySearch::judge(std::int32_t num_levels) const {
  if (!sample_.is_whole()) {
    const GridParams grid = make_grid(range_.x_min, range_.x_max, num_levels);
    std::size_t occupied = 0;
    const double estimate = level_entropy(sample_.view(), grid, options_.threads, &occupied);
    // The sample's entropy is low by about occupied / (2 N ln 2) and scatters by a few thousandths.
    const double missing = static_cast<double>(occupied) / static_cast<double>(sample_.size());
    const Verdict verdict = compare(estimate, 0.05 + 4 * missing);
    if (verdict != Verdict::kWithin) return verdict;
  }
  return compare(entropy(num_levels), 0);
}

}  // namespace docofl
