// The inverse cosine transform of runs of 16 (docs/format.md, section 3.9): the same operations on
// all levels, on eight runs at a time with AVX2.

namespace docofl {
namespace DOCOFL_ISA {
namespace {

// Basis vectors, by number and place, as often as there are lanes.
template <std::size_t kLanes>
struct TransformBasis {
  constexpr TransformBasis() {
    for (unsigned k = 0; k < kTransformRun; ++k) {
      for (unsigned t = 0; t < kTransformRun / 2; ++t) {
        for (float& each : at[k][t]) each = transform_basis(k, t);
      }
    }
  }
  alignas(sizeof(float) * kLanes) float at[kTransformRun][kTransformRun / 2][kLanes] = {};
};

// A number of one run.
struct OneRun {
  using Value = float;
  static constexpr TransformBasis<1> kBasis{};
  static Value basis(unsigned k, unsigned t) { return kBasis.at[k][t][0]; }
};

// The inverse transform of kSize points, whose coefficients are every (16 / kSize)-th of the 16:
// the even ones are those of a transform of half the size, which is symmetric; the odd ones add
// what is antisymmetric.
template <class Lanes, unsigned kSize>
inline void inverse_points(const typename Lanes::Value coefficients[kTransformRun],
                           typename Lanes::Value values[kSize]) {
  using Value = typename Lanes::Value;
  if constexpr (kSize == 1) {
    values[0] = Lanes::basis(0, 0) * coefficients[0];
  } else {
    constexpr unsigned kHalf = kSize / 2, kStep = kTransformRun / kSize;
    Value even[kHalf];
    inverse_points<Lanes, kHalf>(coefficients, even);
#pragma GCC unroll 8
    for (unsigned t = 0; t < kHalf; ++t) {
      Value odd = Lanes::basis(kStep, t) * coefficients[kStep];
#pragma GCC unroll 8
      for (unsigned k = 3 * kStep; k < kTransformRun; k += 2 * kStep) {
        odd += Lanes::basis(k, t) * coefficients[k];
      }
      values[t] = even[t] + odd;
      values[kSize - 1 - t] = even[t] - odd;
    }
  }
}

inline void inverse_transform_run(const float* coefficients, std::size_t stride, float* out) {
  float mine[kTransformRun];
  for (std::size_t k = 0; k < kTransformRun; ++k) mine[k] = coefficients[k * stride];
  inverse_points<OneRun, kTransformRun>(mine, out);
}

#if defined(__AVX2__)

struct EightRuns {
  using Value = __m256;
  static constexpr TransformBasis<8> kBasis{};
  static Value basis(unsigned k, unsigned t) { return _mm256_load_ps(kBasis.at[k][t]); }
};

// Eight values of each of eight runs, the first run's at `out`.
inline void store_runs(const __m256 values[8], float* out) {
  __m256 pairs[8], fours[8];
  for (std::size_t i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(values[i], values[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(values[i], values[i + 1]);
  }
  for (std::size_t i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + kTransformRun * i, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
    _mm256_storeu_ps(out + kTransformRun * (i + 4),
                     _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
  }
}

inline void inverse_transform_eight(const float* coefficients, std::size_t stride, float* out) {
  __m256 mine[kTransformRun], values[kTransformRun];
  for (std::size_t k = 0; k < kTransformRun; ++k) {
    mine[k] = _mm256_loadu_ps(coefficients + k * stride);
  }
  inverse_points<EightRuns, kTransformRun>(mine, values);
  store_runs(values, out);
  store_runs(values + 8, out + 8);
}

#endif

void inverse_transform(const float* coefficients, std::size_t stride, std::size_t runs,
                       float* out) {
  std::size_t run = 0;
#if defined(__AVX2__)
  for (; run + 8 <= runs; run += 8) {
    inverse_transform_eight(coefficients + run, stride, out + kTransformRun * run);
  }
#endif
  for (; run < runs; ++run) {
    inverse_transform_run(coefficients + run, stride, out + kTransformRun * run);
  }
}

}  // namespace
}  // namespace DOCOFL_ISA
}  // namespace docofl
