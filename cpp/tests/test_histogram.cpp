#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "ecuq/levels.h"
#include "entropy/histogram.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

namespace docofl {
namespace {

double entropy_of(const std::vector<std::uint64_t>& counts) {
  double total = 0;
  for (const std::uint64_t count : counts) total += static_cast<double>(count);
  double bits = 0;
  for (const std::uint64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / total;
    bits -= p * std::log2(p);
  }
  return bits;
}

DOCOFL_TEST(entropies_of_counts) {
  const std::vector<std::vector<std::uint64_t>> all = {
      {0, 0}, {5}, {0, 7, 0}, {1, 1}, {4, 4, 4, 4}, {1, 1000000}, {3, 0, 5, 9, 1}};
  for (const std::vector<std::uint64_t>& counts : all) {
    const double found = entropy_of_counts(counts.data(), counts.size());
    DOCOFL_CHECK(found >= 0);
    DOCOFL_CHECK(std::fabs(found - entropy_of(counts)) < 1e-12);
  }
  const std::vector<std::uint64_t> equal(256, 17);
  DOCOFL_CHECK(std::fabs(entropy_of_counts(equal.data(), equal.size()) - 8) < 1e-12);
}

// Few levels, many, and far more than there are values: the same rule, counted here in a map.
DOCOFL_TEST(entropies_of_levels) {
  const test::Tensor tensor(test::layered_values(150000), DType::kFloat32);
  const std::vector<float> values = tensor.values();
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  for (const std::int32_t num_levels : {1, 2, 100, 65536, 65537, 30000000, kMaxLevels}) {
    const GridParams grid = make_grid(*least, *most, num_levels);
    std::vector<std::int32_t> levels(values.size());
    kernels().quantize(grid, values.data(), values.size(), levels.data());
    std::map<std::int32_t, std::uint64_t> counts;
    for (const std::int32_t level : levels) ++counts[level];
    std::vector<std::uint64_t> occupied_counts;
    for (const auto& [level, count] : counts) occupied_counts.push_back(count);
    double first = -1;
    for (const int threads : {1, 2, 3, 8}) {
      const test::Note note("K ", num_levels, ", threads ", threads);
      std::size_t occupied = 0;
      const double found = level_entropy(tensor.view(), grid, threads, &occupied);
      if (first < 0) first = found;
      DOCOFL_CHECK_EQUAL(found, first);
      DOCOFL_CHECK_EQUAL(occupied, counts.size());
      DOCOFL_CHECK(std::fabs(found - entropy_of(occupied_counts)) < 1e-9);
    }
  }
}

}  // namespace
}  // namespace docofl
