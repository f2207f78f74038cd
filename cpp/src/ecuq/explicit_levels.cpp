#include "ecuq/explicit_levels.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>
#include <vector>

#include "common/parallel.h"
#include "common/source.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/blocks.h"
#include "entropy/histogram.h"
#include "entropy/huffman.h"

namespace docofl {
namespace {

// Different values in the order of their first appearance.
struct DistinctValues {
  ValueRanks ranks;
  std::vector<float> values;

  // Adds the values; returns false as soon as there are more than 256 different ones.
  bool add(const float* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (ranks.find(from[i]) >= 0) continue;
      if (values.size() == kMaxCodedLevels) return false;
      ranks.add(from[i]);
      values.push_back(from[i]);
    }
    return true;
  }
};

}  // namespace

bool has_few_values(const Sample& sample) {
  return DistinctValues().add(sample.values(), sample.size());
}

std::optional<Levels> distinct_values(const TensorView& tensor, const Sample& sample, int threads) {
  DistinctValues distinct;
  if (!distinct.add(sample.values(), sample.size())) return std::nullopt;
  if (!sample.is_whole()) {
    const Blocks blocks(tensor.size);
    std::vector<DistinctValues> found(num_workers(blocks.count(), threads), distinct);
    std::vector<std::vector<float>> scratch(found.size());
    std::atomic<bool> few{true};
    parallel_for(blocks.count(), threads, [&](std::size_t block, int worker) {
      if (!few.load(std::memory_order_relaxed)) return;
      const std::size_t length = blocks.length(block);
      if (tensor.dtype != DType::kFloat32) scratch[worker].resize(kBlockSize);
      const float* values =
          load_values(tensor, blocks.begin(block), length, scratch[worker].data());
      if (!found[worker].add(values, length)) few.store(false);
    });
    if (!few.load()) return std::nullopt;
    for (const DistinctValues& mine : found) {
      if (!distinct.add(mine.values.data(), mine.values.size())) return std::nullopt;
    }
  }
  std::sort(distinct.values.begin(), distinct.values.end(),
            [](float a, float b) { return a != b ? a < b : std::signbit(a) && !std::signbit(b); });
  Levels levels;
  levels.explicit_values = std::move(distinct.values);
  return levels;
}

double explicit_entropy(const TensorView& tensor, const Levels& levels, int threads) {
  struct Worker {
    BlockScratch scratch;
    std::vector<std::uint8_t> symbols;
    SymbolCounts counts{};
  };
  Layout layout;
  layout.num_coded = static_cast<unsigned>(levels.explicit_values.size());
  const BlockQuantizer quantizer(levels, layout);
  const Blocks blocks(tensor.size);
  std::vector<Worker> workers(num_workers(blocks.count(), threads));
  parallel_for(blocks.count(), threads, [&](std::size_t block, int index) {
    Worker& worker = workers[index];
    const std::size_t length = blocks.length(block);
    std::uint32_t counts[kMaxAlphabet] = {};
    worker.symbols.resize(kBlockSize);
    quantizer.run(tensor, blocks.begin(block), {0, length}, &worker.scratch, worker.symbols.data());
    kernels().histogram(worker.symbols.data(), length, counts);
    for (std::size_t a = 0; a < kMaxAlphabet; ++a) worker.counts[a] += counts[a];
  });
  SymbolCounts counts{};
  for (const Worker& worker : workers) {
    for (std::size_t a = 0; a < kMaxAlphabet; ++a) counts[a] += worker.counts[a];
  }
  return entropy_of_counts(counts.data(), kMaxAlphabet);
}

}  // namespace docofl
