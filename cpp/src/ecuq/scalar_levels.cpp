#include "ecuq/scalar_levels.h"

#include <algorithm>
#include <array>

#include "common/source.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 1024;  // values whose offsets are known at a time: they stay in L1

// Sums that values take turns at: neighbours of one level need not wait for each other.
constexpr std::size_t kLanes = 4;

}  // namespace

void run_scalar(const TrellisModel& model, const TensorView& tensor, std::size_t begin,
                std::size_t count, std::size_t block_begin, TrellisScratch* scratch,
                std::uint8_t* coded, TrellisResult* result) {
  scratch->values.resize(kTrellisRun);
  const float* const x = load_values(tensor, begin, count, scratch->values.data());
  const float inverse_step = 1.0f / model.step;
  const float low = static_cast<float>(model.base) - 0.5f;
  const float length = static_cast<float>(model.num_coded);
  const std::int32_t last = static_cast<std::int32_t>(model.num_coded) - 1;
  std::array<float, kPiece> offsets;
  std::array<std::array<double, kLanes>, kMaxDependentLevels> sums{};
  std::array<std::array<std::uint32_t, kLanes>, kMaxDependentLevels> counts{};
  double squares[kLanes] = {};
  for (std::size_t i = 0; i < count; i += kPiece) {
    const std::size_t piece = std::min(kPiece, count - i);
    int outliers = 0;
    for (std::size_t k = 0; k < piece; ++k) {
      const float u = (x[i + k] - model.origin) * inverse_step - low;
      const float inside = std::min(length, std::max(0.0f, u));
      const std::int32_t level = std::min(last, static_cast<std::int32_t>(inside));
      coded[i + k] = static_cast<std::uint8_t>(level);
      offsets[k] = u - static_cast<float>(level) - 0.5f;
      outliers += u < 0.0f || u > length;
    }
    if (outliers > 0) {
      for (std::size_t k = 0; k < piece; ++k) {
        const float u = (x[i + k] - model.origin) * inverse_step - low;
        if (u >= 0.0f && u <= length) continue;
        const auto position = static_cast<std::uint32_t>(begin + i + k - block_begin);
        result->outliers.push_back({position, x[i + k]});
        coded[i + k] = model.placeholder;
        offsets[k] = 0;
        --counts[model.placeholder][k % kLanes];  // it is counted below
      }
    }
    for (std::size_t k = 0; k < piece; ++k) {
      const double offset = static_cast<double>(offsets[k]);
      ++counts[coded[i + k]][k % kLanes];
      sums[coded[i + k]][k % kLanes] += offset;
      squares[k % kLanes] += offset * offset;
    }
  }
  for (unsigned j = 0; j < model.num_coded; ++j) {
    std::uint32_t level_count = 0;
    double level_sum = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      level_count += counts[j][lane];
      level_sum += sums[j][lane];
    }
    const double place = model.base + static_cast<double>(j);
    result->counts.counts[0][j] += level_count;
    result->counts.sums[0][j] += level_sum + level_count * place;
  }
  for (const double part : squares) result->squared_error += part;
}

}  // namespace docofl
