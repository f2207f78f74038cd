#include "docofl/rate_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "common/exact_log2.h"
#include "common/float_mode.h"
#include "common/source.h"
#include "docofl/error.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/levels.h"
#include "entropy/histogram.h"
#include "kernels/kernels.h"

namespace docofl {
namespace {

constexpr std::size_t kRun = 16;
constexpr std::size_t kStride = 4;  // every so-manieth value is one of some

constexpr double kFrameBits = 8 * 45;  // a frame's fields and checksum
constexpr double kOutlierBits = 48;
constexpr double kTableBits = 8 * 16;
constexpr double kValueBits = 32;
constexpr double kTwoLn2 = 1.3862943611198906;

constexpr std::size_t kSorted = 8192;  // values of all frames whose distances are looked at
constexpr std::size_t kLeastSorted = 33;
constexpr double kMostFactor = 1.3;  // from the 99 % that are nearest to where outliers begin

// Levels of a grid, as many as the values of a sample can tell apart.
constexpr double kMinLevels = 32, kMaxModelLevels = 512;
constexpr double kMinValues = 4;     // a level
constexpr double kFinest = 0x1p-28;  // the least step, as a part of a frame's range

constexpr double kUsualOverhead = 0.03, kMaxOverhead = 1;
constexpr std::size_t kMaxMeasured = 3, kMinMeasured = 1024;
constexpr std::size_t kMinStreams = 4096;  // values of a frame with as many streams as a large one

constexpr int kMaxProbes = 40, kFarProbes = 8, kMaxCorrections = 3;
constexpr double kNear = 0.3;  // logarithms of steps between which bits are a straight line
constexpr double kSure = 0.03;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The element that would be at a place if values were sorted.
float at_rank(std::vector<float>* values, std::size_t rank) {
  const auto place = values->begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values->begin(), place, values->end());
  return *place;
}

// Whether there are fewer different values than `limit`, which is at most 256.
bool has_fewer(const std::vector<float>& values, int limit) {
  ValueRanks ranks;
  for (const float value : values) {
    if (ranks.find(value) >= 0) continue;
    if (ranks.size() + 1 >= limit) return false;
    ranks.add(value);
  }
  return true;
}

// Bits a coordinate of values that are kept; infinite where they are too many.
double exact_bits(const std::vector<float>& values, double size) {
  ValueRanks ranks;
  std::uint64_t counts[kMaxCodedLevels] = {};
  for (const float value : values) {
    int rank = ranks.find(value);
    if (rank < 0) {
      rank = ranks.size();
      if (rank == static_cast<int>(kMaxCodedLevels)) return kInfinite;
      ranks.add(value);
    }
    ++counts[rank];
  }
  const int found = ranks.size();
  // Many that are seen once: there are others that are not seen.
  if (found == 0 || 4 * std::count(counts, counts + found, 1u) > found) return kInfinite;
  return entropy_of_counts(counts, static_cast<std::size_t>(found)) + kValueBits * found / size;
}

// The least power of two that is not below a number.
int power_above(double number) {
  int exponent;
  const double digits = std::frexp(number, &exponent);
  return digits == 0.5 ? exponent - 1 : exponent;
}

// Levels around `centre` to both sides; what lies beyond has the first or the last one.
GridParams make_window(double step, double centre, int half) {
  const double middle = std::floor(centre / step + 0.5) * step;
  GridParams grid;
  grid.x_min = middle - (half + 0.5) * step;
  grid.step = step;
  grid.inverse_step = 1 / step;
  grid.num_levels = 2 * half + 1;
  const double range = step * grid.num_levels;
  grid.narrow = std::fabs(grid.x_min) < 0x1p96 && range >= 0x1p-96 && range <= 0x1p96;
  return grid;
}

// Bits a value of its levels at their ideal, outliers included.
double window_entropy(const std::vector<float>& values, const GridParams& grid) {
  constexpr std::size_t kPiece = 1024;
  if (values.empty()) return 0;
  std::int32_t levels[kPiece];
  // Neighbours of one level need not wait for each other.
  const std::size_t width = static_cast<std::size_t>(grid.num_levels);
  std::vector<std::uint32_t> even(width), odd(width);
  for (std::size_t begin = 0; begin < values.size(); begin += kPiece) {
    const std::size_t count = std::min(kPiece, values.size() - begin);
    kernels().quantize(grid, values.data() + begin, count, levels);
    // SAFETY: levels are below num_levels.
    for (std::size_t i = 0; i < count; ++i) ++(i % 2 == 0 ? even : odd)[levels[i]];
  }
  double sum = 0;
  int occupied = 0;
  for (std::size_t level = 0; level < width; ++level) {
    const std::uint32_t count = even[level] += odd[level];
    if (count == 0) continue;
    sum += count * exact_log2(count);
    ++occupied;
  }
  const double total = static_cast<double>(values.size());
  const double outliers = even.front() + even.back();
  // A sample's entropy is low by about (levels - 1) / (2 n ln 2) (Miller and Madow).
  const double bits = total * exact_log2(values.size()) - sum + (occupied - 1) / kTwoLn2;
  return (bits + kOutlierBits * outliers) / total;
}

}  // namespace

void RateModel::add(std::size_t frame, const TensorView& tensor, std::size_t count) {
  const DefaultFloatMode float_mode;
  if (frames_.size() <= frame) frames_.resize(frame + 1);
  Frame& target = frames_[frame];
  target.size += static_cast<double>(tensor.size);
  std::size_t width = tensor.size, run = tensor.size;
  if (count < tensor.size) {
    // At even distances that no row is a multiple of.
    width = std::max(tensor.size * kRun / count, kRun + 1);
    while (std::gcd(width, std::size_t{2 * 3 * 5 * 7}) > 1) ++width;
    run = kRun;
  }
  if (run == 0) return;
  const std::size_t num_runs = tensor.size / width, first = target.values.size();
  target.values.resize(first + num_runs * run);
  for (std::size_t k = 0; k < num_runs; ++k) {
    float* const to = &target.values[first + k * run];
    const float* const values = load_values(tensor, k * width, run, to);
    if (values != to) std::memcpy(to, values, run * sizeof(float));
  }
}

void RateModel::describe(Frame* frame, std::size_t count) {
  std::vector<float>& values = frame->values;
  frame->exact_bits = kInfinite;
  frame->overhead = kUsualOverhead;
  if (!finite_range(values.data(), values.size())) {
    const auto is_bad = [](float value) { return !std::isfinite(value); };
    values.erase(std::remove_if(values.begin(), values.end(), is_bad), values.end());
  }
  const std::optional<ValueRange> range = finite_range(values.data(), values.size());
  if (values.empty() || !range) return;
  frame->range = static_cast<double>(range->x_max) - range->x_min;
  for (std::size_t i = 0; i < values.size(); i += kStride) frame->some.push_back(values[i]);

  std::vector<float> picked(count);
  for (std::size_t i = 0; i < count; ++i) picked[i] = values[i * values.size() / count];
  std::vector<float> few;
  for (std::size_t i = 0; i < count; i += count / kLeastSorted) few.push_back(picked[i]);
  const float centre = at_rank(&few, few.size() / 2);
  // Halves, as a distance of two float32 numbers may be none.
  std::vector<float> halves(count);
  std::transform(picked.begin(), picked.end(), halves.begin(),
                 [&](float value) { return std::fabs(value / 2 - centre / 2); });
  const float most = at_rank(&halves, (count - 1) * 99 / 100);
  const float farthest = *std::max_element(halves.begin(), halves.end());
  frame->most = 2 * kMostFactor * static_cast<double>(most > 0 ? most : farthest);
  frame->middle = 2 * static_cast<double>(at_rank(&halves, count / 2));
  if (std::fabs(centre) >= frame->most / 4) frame->centre = centre;
  if (has_fewer(picked, static_cast<int>(std::min<std::size_t>(count / 2, kMaxCodedLevels)))) {
    frame->exact_bits = exact_bits(values, frame->size);
  }
}

void RateModel::finish() {
  const DefaultFloatMode float_mode;
  if (frames_.empty()) return;
  const std::size_t count = std::max(kLeastSorted, kSorted / frames_.size());
  for (Frame& frame : frames_) describe(&frame, count);
  // Frames that are kept exactly do not matter where there are others.
  const auto matters = [](const Frame& frame) {
    return frame.range > 0 && std::isinf(frame.exact_bits);
  };
  const bool some = std::any_of(frames_.begin(), frames_.end(), matters);
  const Frame* largest = nullptr;
  least_ = kInfinite;
  for (const Frame& frame : frames_) {
    total_ += frame.size;
    widest_ = std::max(widest_, frame.range);
    if (frame.range == 0 || (some && !matters(frame))) continue;
    least_ = std::min(least_, frame.range);
    if (largest == nullptr || frame.size > largest->size) largest = &frame;
  }
  if (largest == nullptr) return;
  spread_ = std::max({largest->middle, largest->most / 16, least_ * 0x1p-40});
}

double RateModel::find_step(double bits) {
  const DefaultFloatMode float_mode;
  if (widest_ == 0) return 1;
  auto [exponent, slope] = solve(std::log2(6 * spread_) - bits / total_, bits);
  if (!is_measured_) measure_overhead(std::exp2(exponent));
  is_measured_ = true;
  // The rest by the slope: what all of the sample says, and the overhead.
  for (int correction = 0; correction < kMaxCorrections; ++correction) {
    const double excess = (this->bits(std::exp2(exponent), Extent::kAll) - bits) / total_;
    exponent = clamp(exponent - std::min(std::max(excess / slope, -2.0), 2.0));
    if (std::fabs(excess) < kSure) break;
  }
  return std::exp2(exponent);
}

double RateModel::clamp(double exponent) const {
  if (widest_ == 0) return exponent;
  return std::min(std::max(exponent, std::log2(least_ * kFinest)), coarsest());
}

double RateModel::coarsest() const { return widest_ > 0 ? std::log2(widest_) + 2 : 0; }

// Secants on some of the sample.
RateModel::Solution RateModel::solve(double exponent, double bits) const {
  struct Probe {
    double exponent, excess;
  };
  std::optional<Probe> low, high;  // finer than wanted, and coarser
  double slope = -1, stride = 1;
  for (int probe = 0; probe < kMaxProbes; ++probe) {
    exponent = clamp(exponent);
    const double excess = (this->bits(std::exp2(exponent), Extent::kSome) - bits) / total_;
    (excess > 0 ? low : high) = Probe{exponent, excess};
    if (!low || !high) {
      const double change =
          std::min(std::max(1.1 * excess, -4.0), 4.0) + (excess > 0 ? 0.02 : -0.02);
      // Bits that hardly change: farther each time.
      if (probe >= kFarProbes) stride *= 2;
      if (clamp(exponent + stride * change) == exponent) break;
      exponent += stride * change;
      continue;
    }
    const double width = high->exponent - low->exponent;
    slope = std::min((high->excess - low->excess) / width, -0.05);
    if (width < kNear) break;
    const double part = low->excess / (low->excess - high->excess);
    exponent = low->exponent + width * std::min(std::max(part, 0.05), 0.95);
  }
  if (low && high) exponent = low->exponent - low->excess / slope;
  return {exponent, slope};
}

double RateModel::bits(double step) const {
  const DefaultFloatMode float_mode;
  return bits(step, Extent::kAll);
}

double RateModel::bits(double step, Extent extent) const {
  const std::vector<double> ideal = entropies(step, extent);
  double sum = kFrameBits * static_cast<double>(frames_.size());
  for (std::size_t f = 0; f < frames_.size(); ++f) {
    sum += frames_[f].size * (ideal[f] + frames_[f].overhead);
  }
  return sum;
}

std::vector<double> RateModel::entropies(double step, Extent extent) const {
  const auto values_of = [&](const Frame& frame) -> const std::vector<float>& {
    return extent == Extent::kAll ? frame.values : frame.some;
  };
  std::vector<double> steps(frames_.size());
  std::vector<int> shifts(frames_.size());
  double widest = 0;
  for (std::size_t f = 0; f < frames_.size(); ++f) {
    const Frame& frame = frames_[f];
    // A frame has levels enough for its range, or a step of its own.
    const double own = std::max(step, frame.range * kFinest);
    // Levels that are many for the sample: those of a coarser grid, and the bits that tell them
    // apart.
    const double enough = static_cast<double>(values_of(frame).size()) / kMinValues;
    const double fine =
        3 * frame.most / own / std::min(std::max(enough, kMinLevels), kMaxModelLevels);
    shifts[f] = power_above(std::max(fine, 1.0));
    steps[f] = std::ldexp(own, shifts[f]);
    widest = std::max(widest, frame.most / steps[f]);
  }
  const int half = static_cast<int>(std::min(kMaxModelLevels / 2, std::floor(1.5 * widest) + 2));
  std::vector<double> result(frames_.size());
  for (std::size_t f = 0; f < frames_.size(); ++f) {
    const Frame& frame = frames_[f];
    const GridParams grid = make_window(steps[f], frame.centre, half);
    result[f] = std::min(window_entropy(values_of(frame), grid) + shifts[f], frame.exact_bits);
  }
  return result;
}

// Codes the samples of the largest frames; tensors of one size are mostly of one kind.
void RateModel::measure_overhead(double step) {
  std::vector<std::size_t> order(frames_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return frames_[a].size > frames_[b].size; });
  const auto same_size = [&](std::size_t a, std::size_t b) {
    return frames_[a].size == frames_[b].size;
  };
  order.erase(std::unique(order.begin(), order.end(), same_size), order.end());
  std::size_t count = 0;
  for (; count < std::min(order.size(), kMaxMeasured); ++count) {
    const Frame& frame = frames_[order[count]];
    const double sampled = static_cast<double>(frame.values.size());
    const bool has_streams = sampled >= std::min(frame.size, static_cast<double>(kMinStreams));
    if (!has_streams || frame.values.size() < kMinMeasured) break;
  }
  EcuqOptions options = coding_;
  options.budget = Budget::kNone;
  options.step = step;
  options.centroids = false;
  std::vector<double> coded;
  try {
    for (; coded.size() < count;) {
      const std::vector<float>& values = frames_[order[coded.size()]].values;
      FrameHeader header;
      header.shape = {values.size()};
      const TensorView tensor{values.data(), values.size(), DType::kFloat32};
      coded.push_back(8 * static_cast<double>(encoded_size(ecuq_plan(header, tensor, options))));
    }
  } catch (const Error&) {
    count = coded.size();
  }
  if (count == 0) return;

  const std::vector<double> ideal = entropies(step, Extent::kAll);
  double sum = 0, weights = 0;
  std::vector<double> measured(count);
  for (std::size_t number = 0; number < count; ++number) {
    const Frame& frame = frames_[order[number]];
    const double sampled = static_cast<double>(frame.values.size());
    // The frame's own table is thinner spread.
    const double fixed = kFrameBits + kTableBits * (1 - sampled / frame.size);
    const double over = (coded[number] - fixed) / sampled - ideal[order[number]];
    measured[number] = std::min(std::max(over, -kMaxOverhead), kMaxOverhead);
    const double weight = frame.size * static_cast<double>(std::count_if(
                                           frames_.begin(), frames_.end(), [&](const Frame& other) {
                                             return other.size == frame.size;
                                           }));
    sum += weight * measured[number];
    weights += weight;
  }
  for (Frame& frame : frames_) {
    frame.overhead = sum / weights;
    for (std::size_t number = 0; number < count; ++number) {
      if (frame.size == frames_[order[number]].size) frame.overhead = measured[number];
    }
  }
}

}  // namespace docofl
