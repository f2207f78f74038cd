#include "entropy/histogram.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/checked.h"
#include "common/exact_log2.h"
#include "common/parallel.h"
#include "common/source.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 4096;
constexpr std::size_t kStripe = 1 << 16;
constexpr std::int32_t kDenseLevels = 1 << 16;

// Sum of c * log2(c), the part of the entropy that depends on the split.
struct EntropySum {
  std::uint64_t total = 0;
  double sum = 0;
  std::size_t occupied = 0;
  void add(std::uint64_t count) {
    if (count == 0) return;
    total += count;
    sum += static_cast<double>(count) * exact_log2(count);
    ++occupied;
  }
  double entropy() const {
    if (occupied < 2) return 0;
    const double bits = exact_log2(total) - sum / static_cast<double>(total);
    return bits > 0 ? bits : 0;
  }
};

// Counts by level where few of very many levels occur: a hash table with linear probing.
class SparseCounts {
 public:
  SparseCounts() : slots_(1024, Slot{-1, 0}) {}

  void add(std::int32_t level) {
    std::size_t i = start(level);
    while (slots_[i].level != level) {
      if (slots_[i].level < 0) {
        slots_[i].level = level;
        if (++used_ * 2 > slots_.size()) {
          grow();
          return add(level);
        }
        break;
      }
      i = (i + 1) & (slots_.size() - 1);
    }
    ++slots_[i].count;
  }

  // Appends (level, count) pairs in no order.
  void append_to(std::vector<std::pair<std::int32_t, std::uint64_t>>* pairs) const {
    for (const Slot& slot : slots_) {
      if (slot.level >= 0) pairs->emplace_back(slot.level, slot.count);
    }
  }

 private:
  struct Slot {
    std::int32_t level;
    std::uint64_t count;
  };

  std::size_t start(std::int32_t level) const {
    const std::uint64_t mixed = static_cast<std::uint64_t>(level) * 0x9E3779B97F4A7C15u;
    return (mixed >> 32) & (slots_.size() - 1);
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2, Slot{-1, 0});
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.level < 0) continue;
      std::size_t i = start(slot.level);
      while (slots_[i].level >= 0) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

// Calls take(level, worker) for the level of every value.
template <class Take>
void for_each_level(const TensorView& tensor, const GridParams& grid, int threads,
                    const Take& take) {
  parallel_for(divide_up(tensor.size, kStripe), threads, [&](std::size_t stripe, int worker) {
    float scratch[kPiece];
    std::int32_t levels[kPiece];
    const std::size_t end = std::min(tensor.size, (stripe + 1) * kStripe);
    for (std::size_t begin = stripe * kStripe; begin < end; begin += kPiece) {
      const std::size_t count = std::min(kPiece, end - begin);
      kernels().quantize(grid, load_values(tensor, begin, count, scratch), count, levels);
      for (std::size_t i = 0; i < count; ++i) take(levels[i], worker);
    }
  });
}

}  // namespace

double entropy_of_counts(const std::uint64_t* counts, std::size_t size) {
  EntropySum sum;
  for (std::size_t i = 0; i < size; ++i) sum.add(counts[i]);
  return sum.entropy();
}

double level_entropy(const TensorView& tensor, const GridParams& grid, int threads,
                     std::size_t* occupied) {
  const int workers = num_workers(divide_up(tensor.size, kStripe), threads);
  EntropySum sum;
  if (grid.num_levels <= kDenseLevels) {
    const std::size_t levels = static_cast<std::size_t>(grid.num_levels);
    std::vector<std::vector<std::uint64_t>> counts(workers, std::vector<std::uint64_t>(levels, 0));
    for_each_level(tensor, grid, threads,
                   [&](std::int32_t level, int worker) { ++counts[worker][level]; });
    for (std::size_t k = 0; k < levels; ++k) {
      std::uint64_t count = 0;
      for (const auto& mine : counts) count += mine[k];
      sum.add(count);
    }
  } else {
    std::vector<SparseCounts> counts(workers);
    for_each_level(tensor, grid, threads,
                   [&](std::int32_t level, int worker) { counts[worker].add(level); });
    std::vector<std::pair<std::int32_t, std::uint64_t>> pairs;
    for (const SparseCounts& mine : counts) mine.append_to(&pairs);
    std::sort(pairs.begin(), pairs.end());
    for (std::size_t i = 0; i < pairs.size();) {
      std::uint64_t count = 0;
      const std::int32_t level = pairs[i].first;
      for (; i < pairs.size() && pairs[i].first == level; ++i) count += pairs[i].second;
      sum.add(count);
    }
  }
  *occupied = sum.occupied;
  return sum.entropy();
}

}  // namespace docofl
