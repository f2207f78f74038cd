#include "ecuq/local_codes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/checked.h"
#include "common/parallel.h"
#include "ecuq/segment_groups.h"

namespace docofl {
namespace {

// Short blocks take longer to code: they have the largest size of which there are so many.
constexpr std::size_t kManyBlocks = 64;
// Blocks are grouped by segments of them: more would take longer and have fewer values each.
constexpr std::size_t kMaxSegments = 512;
// A decoder has to read and to unfold every table: so many coordinates pay for one.
constexpr std::size_t kMinTableSize = std::size_t(1) << 17;
constexpr std::size_t kMaxGroups = 8;
static_assert(kMaxGroups <= kMaxCodeTables);

unsigned block_exponent(std::size_t size) {
  unsigned exponent = kMaxBlockExponent;
  while (exponent > kMinBlockExponent && size >> exponent < kManyBlocks) --exponent;
  return exponent;
}

// Where the values of each segment begin in a sample, which is spread evenly over the tensor; with
// whole tuples of any kind.
std::vector<std::size_t> segment_begins(std::size_t segment_blocks, const Sample& sample,
                                        const Blocks& blocks) {
  constexpr std::size_t kTuples = 12;
  const double density = static_cast<double>(sample.size()) / static_cast<double>(blocks.size());
  std::vector<std::size_t> begins;
  for (std::size_t block = 0; block < blocks.count(); block += segment_blocks) {
    const double begin = static_cast<double>(blocks.begin(block)) * density;
    begins.push_back(static_cast<std::size_t>(begin) / kTuples * kTuples);
  }
  begins.push_back(sample.size());
  return begins;
}

// The grid, or one with fewer levels that still tells how far values spread.
GridParams coarse_grid(const Sample& sample, const Levels& levels) {
  constexpr double kEnoughLevels = 64;
  const double length = static_cast<double>(levels.x_max) - static_cast<double>(levels.x_min);
  const double spread =
      static_cast<double>(sample.quantile(0.98)) - static_cast<double>(sample.quantile(0.02));
  const double enough = kEnoughLevels * length;
  const bool has_more = enough < spread * levels.num_levels;
  return make_grid(levels.x_min, levels.x_max,
                   has_more ? static_cast<std::int32_t>(enough / spread) : levels.num_levels);
}

// Levels of the parts of a sample: 256 around the middle, to which those farther away are added.
std::vector<SegmentCounts> count_segments(const Sample& sample,
                                          const std::vector<std::size_t>& begins,
                                          const GridParams& grid) {
  constexpr std::size_t kPiece = 2048;
  std::uint8_t coded[kPiece];
  std::int32_t middle;
  const float median = sample.quantile(0.5);
  kernels().quantize(grid, &median, 1, &middle);
  const std::int32_t span = std::min<std::int32_t>(grid.num_levels, kMaxCodedLevels);
  const WindowParams window{std::min(std::max(0, middle - span / 2), grid.num_levels - span), span};
  std::vector<SegmentCounts> segments(begins.size() - 1);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    segments[s].fill(0);
    for (std::size_t begin = begins[s]; begin < begins[s + 1]; begin += kPiece) {
      const std::size_t count = std::min(kPiece, begins[s + 1] - begin);
      kernels().quantize_window(grid, window, sample.values() + begin, count, coded);
      kernels().histogram(coded, count, segments[s].data());
    }
  }
  return segments;
}

// Whether a code comes before another: those without raw bits do, whose levels can be displaced,
// and of these the ones with most levels.
bool comes_first(const SymbolCode& a, const SymbolCode& b) {
  const Layout& first = a.tables[0].layout;
  const Layout& second = b.tables[0].layout;
  if (first.raw_bits != second.raw_bits) return first.raw_bits < second.raw_bits;
  return first.num_coded > second.num_coded;
}

}  // namespace

std::optional<BlockGroups> BlockGroups::find(const Sample& sample, const Levels& levels,
                                             std::size_t size, double min_variance) {
  const std::size_t num_groups = std::min(kMaxGroups, size / kMinTableSize);
  if (num_groups < 2 || levels.num_levels < 2) return std::nullopt;
  const Blocks blocks(size, std::size_t(1) << block_exponent(size));
  const std::size_t segment_blocks = divide_up(blocks.count(), kMaxSegments);
  const std::vector<std::size_t> begins = segment_begins(segment_blocks, sample, blocks);
  const std::vector<SegmentCounts> segments =
      count_segments(sample, begins, coarse_grid(sample, levels));
  const SegmentGroups groups(segments, kMaxCodedLevels);
  if (!groups.differ() || groups.variance() < min_variance) return std::nullopt;
  BlockGroups found(sample, blocks, begins, segment_blocks, groups.choose(num_groups));
  if (found.groups_.size() < 2) return std::nullopt;
  return found;
}

BlockGroups::BlockGroups(const Sample& sample, const Blocks& blocks,
                         const std::vector<std::size_t>& begins, std::size_t segment_blocks,
                         const std::vector<std::uint8_t>& choices)
    : size_(blocks.size()) {
  choices_.resize(blocks.count());
  for (std::uint8_t choice = 0; choice < kMaxGroups; ++choice) {
    std::vector<Sample::Part> parts;
    for (std::size_t s = 0; s < choices.size(); ++s) {
      if (choices[s] == choice) parts.push_back({begins[s], begins[s + 1]});
    }
    if (parts.empty()) continue;
    Group group;
    group.sample = std::make_unique<Sample>(sample, parts);
    for (std::size_t block = 0; block < blocks.count(); ++block) {
      if (choices[block / segment_blocks] != choice) continue;
      choices_[block] = static_cast<std::uint8_t>(groups_.size());
      group.size += blocks.length(block);
    }
    groups_.push_back(std::move(group));
  }
}

SymbolCode BlockGroups::choose_code(const Levels& levels, int threads) const {
  constexpr double kChoiceBits = 8;
  constexpr double kLayoutBits = 56;
  constexpr double kOutlierCountBits = 32;
  constexpr double kEntryBits = 16.0 * kHuffmanStreams + 4 * kHuffmanStreams;

  std::vector<SymbolCode> codes(groups_.size());
  parallel_for(groups_.size(), threads, [&](std::size_t g, int) {
    const Blocks blocks(groups_[g].size, std::size_t(1) << block_exponent(size_));
    codes[g] = docofl::choose_code(*groups_[g].sample, levels, blocks, 1);
  });
  std::vector<std::size_t> order(codes.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return comes_first(codes[a], codes[b]); });

  SymbolCode result;
  result.tables.clear();
  result.block_exponent = block_exponent(size_);
  std::vector<std::uint8_t> names(codes.size());
  const double size = static_cast<double>(size_);
  const double num_blocks = static_cast<double>(choices_.size());
  // Beside what each code takes: their number, the size of blocks and the code that each has, all
  // layouts but one, and all first entries of the directory but one.
  const double others = static_cast<double>(codes.size() - 1);
  double besides = kChoiceBits * (2 + num_blocks) + (kLayoutBits + kEntryBits) * others;
  double listing = 0;  // blocks whose outliers are counted already
  for (const std::size_t g : order) {
    const double part = static_cast<double>(groups_[g].size) / size;
    names[g] = static_cast<std::uint8_t>(result.tables.size());
    result.tables.push_back(codes[g].tables[0]);
    result.entropy += part * codes[g].entropy;
    result.bits += part * codes[g].bits;
    if (codes[g].has_outliers) listing += part * num_blocks;
  }
  if (listing > 0) besides += kOutlierCountBits * (num_blocks - listing);
  result.bits += besides / size;
  result.choices.reserve(choices_.size());
  for (const std::uint8_t choice : choices_) result.choices.push_back(names[choice]);
  return result;
}

}  // namespace docofl
