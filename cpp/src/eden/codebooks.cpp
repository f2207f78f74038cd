#include "eden/codebooks.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

namespace docofl {
namespace {

#include "eden/codebooks.inl"

constexpr std::size_t kMaxMagnitudes = std::size_t(1) << (kMaxEdenWidth - 1);

struct Tables {
  // One more than there are: an infinity, if a tensor changes while it is encoded, ranks above all.
  std::array<float, kMaxMagnitudes + 1> magnitudes[kMaxEdenWidth + 1];
  std::array<float, kMaxMagnitudes> thresholds[kMaxEdenWidth + 1];
  std::array<std::int32_t, kEdenCells> cells[kMaxEdenWidth + 1];
  EdenCodebook codebooks[kMaxEdenWidth + 1];

  Tables() {
    codebooks[0] = {};
    codebooks[0].magnitudes = magnitudes[0].data();
    const float* const all[] = {kCodebook1, kCodebook2, kCodebook3, kCodebook4,
                                kCodebook5, kCodebook6, kCodebook7, kCodebook8};
    const float* const between[] = {nullptr,      kThresholds2, kThresholds3, kThresholds4,
                                    kThresholds5, kThresholds6, kThresholds7, kThresholds8};
    for (unsigned width = 1; width <= kMaxEdenWidth; ++width) {
      const std::size_t count = std::size_t(1) << (width - 1);
      magnitudes[width].fill(0);
      thresholds[width].fill(std::numeric_limits<float>::infinity());
      std::copy_n(all[width - 1], count, magnitudes[width].begin());
      if (count > 1) std::copy_n(between[width - 1], count - 1, thresholds[width].begin());
      for (std::size_t i = 0; i < kEdenCells; ++i) {
        const float start = static_cast<float>(i) / kEdenCellsPerUnit;
        const float* const first = thresholds[width].data();
        const float* const below = std::lower_bound(first, first + count - 1, start);
        cells[width][i] = static_cast<std::int32_t>(below - first);
      }
      codebooks[width] = {width, magnitudes[width].data(), thresholds[width].data(),
                          cells[width].data()};
    }
  }
};

}  // namespace

const EdenCodebook& eden_codebook(unsigned width) {
  static const Tables tables;
  return tables.codebooks[width];
}

}  // namespace docofl
