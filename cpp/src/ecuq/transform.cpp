#include "ecuq/transform.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/exact_log2.h"
#include "common/parallel.h"
#include "common/source.h"

namespace docofl {
namespace {

constexpr std::size_t kMinSize = 4 * kRansSegment;
constexpr std::size_t kMaxPieces = 64;     // of the sample, a segment each
constexpr double kMinSaved = 0.1;          // bits a coordinate
constexpr double kSpike = 10;              // deviations of the others
constexpr double kMostSpikes = 1.0 / 512;  // of all values
constexpr float kMaxMagnitude = 0x1p100f;  // sums of products stay finite

constexpr std::size_t kHalf = kTransformRun / 2;

// Basis vectors of even and of odd number, by the place in a run.
struct Basis {
  constexpr Basis() {
    for (unsigned t = 0; t < kHalf; ++t) {
      for (unsigned k = 0; k < kHalf; ++k) {
        even[t][k] = transform_basis(2 * k, t);
        odd[t][k] = transform_basis(2 * k + 1, t);
      }
    }
  }
  float even[kHalf][kHalf] = {}, odd[kHalf][kHalf] = {};
};
constexpr Basis kBasis;

// A run's coefficients. Spikes count as zeros.
std::array<float, kTransformRun> transform_run(const float* x, float spike) {
  float even[kHalf] = {}, odd[kHalf] = {};
  for (std::size_t t = 0; t < kHalf; ++t) {
    const float a = x[t], b = x[kTransformRun - 1 - t];
    const float first = std::fabs(a) > spike ? 0 : a;
    const float second = std::fabs(b) > spike ? 0 : b;
    for (std::size_t k = 0; k < kHalf; ++k) {
      even[k] += kBasis.even[t][k] * (first + second);
      odd[k] += kBasis.odd[t][k] * (first - second);
    }
  }
  std::array<float, kTransformRun> coefficients;
  for (std::size_t k = 0; k < kHalf; ++k) {
    coefficients[2 * k] = even[k];
    coefficients[2 * k + 1] = odd[k];
  }
  return coefficients;
}

// A base-2 logarithm of a ratio of at least 1, the same everywhere.
double log2_of(double ratio) {
  return exact_log2(static_cast<std::uint64_t>(std::max(1.0, std::min(0x1p40, ratio)) * 0x1p20)) -
         20;
}

// What is worth knowing of a sample.
class Neighbours {
 public:
  Neighbours(const TensorView& tensor, double bits) : tensor_(tensor), scratch_(kRansSegment) {
    spike_ = find_spike();
    if (spike_ > 0) saved_ = find_saved(bits);
  }

  float spike() const { return spike_; }  // magnitudes beyond are spikes; 0: there are too many
  double saved() const { return saved_; }

 private:
  // Calls use(values) for some segments, evenly spread.
  template <class Use>
  void for_each_piece(const Use& use) {
    const std::size_t segments = tensor_.size / kRansSegment;
    const std::size_t pieces = std::min(kMaxPieces, segments);
    for (std::size_t k = 0; k < pieces; ++k) {
      use(load_values(tensor_, k * segments / pieces * kRansSegment, kRansSegment,
                      scratch_.data()));
    }
  }

  float find_spike() {
    std::vector<float> magnitudes;
    for_each_piece([&](const float* x) {
      for (std::size_t i = 0; i < kRansSegment; ++i) magnitudes.push_back(std::fabs(x[i]));
    });
    const auto rank =
        static_cast<std::ptrdiff_t>((1 - kMostSpikes) * static_cast<double>(magnitudes.size()));
    std::nth_element(magnitudes.begin(), magnitudes.begin() + rank, magnitudes.end());
    const float most = magnitudes[static_cast<std::size_t>(rank)];
    double power = 0;
    for_each_piece([&](const float* x) {
      for (std::size_t i = 0; i < kRansSegment; ++i) {
        if (std::fabs(x[i]) <= most) power += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      }
    });
    const double spike = kSpike * std::sqrt(power / static_cast<double>(magnitudes.size()));
    const bool is_usual =
        spike >= static_cast<double>(most) && spike <= static_cast<double>(kMaxMagnitude);
    return is_usual ? static_cast<float>(spike) : 0;
  }

  // Bits a coordinate that coefficients take less than values, by their powers in each piece. A
  // grid for values would lie around their mean.
  double find_saved(double bits) {
    struct Piece {
      std::array<double, kTransformRun> powers{};
      double power = 0;  // of values
      double sum = 0;
    };
    std::vector<Piece> pieces;
    double sum = 0, power = 0;
    for_each_piece([&](const float* x) {
      Piece piece;
      for (std::size_t i = 0; i < kRansSegment; i += kTransformRun) {
        const std::array<float, kTransformRun> run = transform_run(x + i, spike_);
        piece.sum += 4 * static_cast<double>(run[0]);
        for (std::size_t k = 0; k < kTransformRun; ++k) {
          piece.powers[k] += static_cast<double>(run[k]) * static_cast<double>(run[k]);
        }
      }
      for (const double each : piece.powers) piece.power += each;
      sum += piece.sum;
      power += piece.power;
      pieces.push_back(piece);
    });
    const double count = static_cast<double>(pieces.size() * kRansSegment);
    const double mean = sum / count;
    const double error = (power / count - mean * mean) * exact_exp2(-2 * bits, 16);
    if (!(error > 0)) return 0;
    double saved = 0;
    for (const Piece& piece : pieces) {
      const double variance = (piece.power - 2 * mean * piece.sum) / kRansSegment + mean * mean;
      constexpr std::size_t kRuns = kRansSegment / kTransformRun;
      double separate = 0;
      for (const double each : piece.powers) {
        separate += log2_of(1 + each / (static_cast<double>(kRuns) * error));
      }
      saved += log2_of(1 + variance / error) - separate / kTransformRun;
    }
    return 0.5 * saved / static_cast<double>(pieces.size());
  }

  TensorView tensor_;
  std::vector<float> scratch_;
  float spike_ = 0;
  double saved_ = 0;
};

}  // namespace

RunTransform choose_transform(const TensorView& tensor, double bits, int threads) {
  if (tensor.size < kMinSize) return {};
  const Neighbours neighbours(tensor, std::min(bits, 8.0));
  if (neighbours.saved() < kMinSaved) return {};
  RunTransform transform{neighbours.spike(), 0};
  const std::size_t blocks = num_rans_blocks(tensor.size);
  std::vector<std::vector<float>> scratch(num_workers(blocks, threads));
  std::vector<std::size_t> counts(blocks);
  parallel_for(blocks, threads, [&](std::size_t block, int worker) {
    scratch[worker].resize(kRansBlock);
    const std::size_t length = rans_block_length(tensor.size, block);
    const float* const x = load_values(tensor, block * kRansBlock, length, scratch[worker].data());
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < length; ++i) count += std::fabs(x[i]) > transform.spike;
    counts[block] = count;
  });
  for (const std::size_t count : counts) transform.num_spikes += count;
  const double most = 2 * kMostSpikes * static_cast<double>(tensor.size);
  return static_cast<double>(transform.num_spikes) <= most ? transform : RunTransform{};
}

void transform_block(const RunTransform& transform, const float* values, std::size_t length,
                     float* coefficients, std::vector<RansOutlier>* spikes) {
  // Bands lie a power of two apart, where a cache has few places: a line of each at a time.
  constexpr std::size_t kTile = 16;
  const std::size_t runs = length / kTransformRun;
  for (std::size_t begin = 0; begin < runs; begin += kTile) {
    const std::size_t count = std::min(kTile, runs - begin);
    std::array<float, kTransformRun> tile[kTile];
    for (std::size_t run = 0; run < count; ++run) {
      tile[run] = transform_run(values + kTransformRun * (begin + run), transform.spike);
    }
    for (std::size_t k = 0; k < kTransformRun; ++k) {
      float* const band = coefficients + k * runs + begin;
      for (std::size_t run = 0; run < count; ++run) band[run] = tile[run][k];
    }
  }
  for (std::size_t i = 0; i < length; ++i) {
    const bool is_spike = std::fabs(values[i]) > transform.spike;
    if (is_spike) spikes->push_back({static_cast<std::uint32_t>(i), values[i]});
    if (i >= kTransformRun * runs) coefficients[i] = is_spike ? 0 : values[i];
  }
}

}  // namespace docofl
