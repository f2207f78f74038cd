// Lanes of the loops between floats and bytes, for ISA levels with AVX2. Compilers vectorize these
// mixed widths with several times the shuffles. Each operation is the one of the plain loop, in the
// same order.

#include <immintrin.h>

namespace docofl {
namespace DOCOFL_ISA {
namespace {

// The level of eight values, in the arithmetic of the grid. max and min return their second operand
// for NaN.
template <class Real>
struct LevelLanes;

template <>
struct LevelLanes<float> {
  explicit LevelLanes(const GridParams& grid)
      : x_min(_mm256_set1_ps(static_cast<float>(grid.x_min))),
        inverse_step(_mm256_set1_ps(static_cast<float>(grid.inverse_step))),
        last(_mm256_set1_ps(static_cast<float>(grid.num_levels - 1))) {}

  __m256i operator()(const float* x) const {
    const __m256 position = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x), x_min), inverse_step);
    return _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(position, _mm256_setzero_ps()), last));
  }

  __m256 x_min, inverse_step, last;
};

template <>
struct LevelLanes<double> {
  explicit LevelLanes(const GridParams& grid)
      : x_min(_mm256_set1_pd(grid.x_min)),
        inverse_step(_mm256_set1_pd(grid.inverse_step)),
        last(_mm256_set1_pd(grid.num_levels - 1)) {}

  __m128i four(const float* x) const {
    const __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(x));
    const __m256d position = _mm256_mul_pd(_mm256_sub_pd(value, x_min), inverse_step);
    return _mm256_cvttpd_epi32(_mm256_min_pd(_mm256_max_pd(position, _mm256_setzero_pd()), last));
  }

  __m256i operator()(const float* x) const { return _mm256_set_m128i(four(x + 4), four(x)); }

  __m256d x_min, inverse_step, last;
};

// Four vectors of values 0 to 255 as 32 bytes in order.
inline __m256i pack_bytes(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// quantize_window for whole groups of 32 values; returns how many values that were. `outside` is
// added to.
template <class Real>
std::size_t quantize_window_lanes(const GridParams& grid, const WindowParams& window,
                                  const float* x, std::size_t n, std::uint8_t* coded,
                                  std::size_t* outside) {
  const LevelLanes<Real> level(grid);
  const __m256i base = _mm256_set1_epi32(window.base);
  const __m256i last_place = _mm256_set1_epi32(window.span - 1);
  const __m256i zero = _mm256_setzero_si256();
  __m256i inside_count = zero;
  const auto place_of = [&](const float* values) {
    const __m256i place = _mm256_sub_epi32(level(values), base);
    const __m256i inside = _mm256_min_epi32(_mm256_max_epi32(place, zero), last_place);
    inside_count = _mm256_sub_epi32(inside_count, _mm256_cmpeq_epi32(inside, place));
    return inside;
  };
  const bool is_whole = window.base == 0 && window.span >= grid.num_levels;
  std::size_t i = 0;
  if (is_whole) {
    for (; i + 32 <= n; i += 32) {
      const __m256i bytes =
          pack_bytes(level(x + i), level(x + i + 8), level(x + i + 16), level(x + i + 24));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(coded + i), bytes);
    }
    return i;
  }
  for (; i + 32 <= n; i += 32) {
    const __m256i a = place_of(x + i);
    const __m256i b = place_of(x + i + 8);
    const __m256i c = place_of(x + i + 16);
    const __m256i d = place_of(x + i + 24);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(coded + i), pack_bytes(a, b, c, d));
  }
  std::uint32_t counts[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(counts), inside_count);
  std::size_t inside = 0;
  for (const std::uint32_t count : counts) inside += count;
  *outside += i - inside;
  return i;
}

// The values of eight levels.
template <class Real>
struct ValueLanes;

template <>
struct ValueLanes<float> {
  explicit ValueLanes(const GridParams& grid)
      : x_min(_mm256_set1_ps(static_cast<float>(grid.x_min))),
        step(_mm256_set1_ps(static_cast<float>(grid.step))) {}

  __m256 operator()(__m256i level) const {
    const __m256 centre = _mm256_add_ps(_mm256_cvtepi32_ps(level), _mm256_set1_ps(0.5f));
    return _mm256_add_ps(x_min, _mm256_mul_ps(centre, step));
  }

  __m256 x_min, step;
};

template <>
struct ValueLanes<double> {
  explicit ValueLanes(const GridParams& grid)
      : x_min(_mm256_set1_pd(grid.x_min)), step(_mm256_set1_pd(grid.step)) {}

  __m128 four(__m128i level) const {
    const __m256d centre = _mm256_add_pd(_mm256_cvtepi32_pd(level), _mm256_set1_pd(0.5));
    return _mm256_cvtpd_ps(_mm256_add_pd(x_min, _mm256_mul_pd(centre, step)));
  }

  __m256 operator()(__m256i level) const {
    return _mm256_set_m128(four(_mm256_extracti128_si256(level, 1)),
                           four(_mm256_castsi256_si128(level)));
  }

  __m256d x_min, step;
};

// reconstruct for whole groups of 8; returns how many values that were. With `past_caches`, `out`
// must be aligned to 32 bytes: stores that bypass the caches need not read the lines that they
// fill, which halves the traffic of a large output.
template <class Real>
std::size_t reconstruct_lanes(const GridParams& grid, std::int32_t base, const std::uint8_t* coded,
                              std::size_t n, bool past_caches, float* out) {
  const ValueLanes<Real> value(grid);
  const __m256i first = _mm256_set1_epi32(base);
  const auto values_at = [&](std::size_t i) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(coded + i));
    return value(_mm256_add_epi32(_mm256_cvtepu8_epi32(bytes), first));
  };
  std::size_t i = 0;
  if (past_caches) {
    for (; i + 8 <= n; i += 8) _mm256_stream_ps(out + i, values_at(i));
    _mm_sfence();
  } else {
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, values_at(i));
  }
  return i;
}

// look_up in 16 values for whole groups of 8; returns how many values that were. As above with
// `past_caches`.
inline std::size_t look_up_lanes(const float* values, const std::uint8_t* coded, std::size_t n,
                                 bool past_caches, float* out) {
  const __m256 low = _mm256_loadu_ps(values);
  const __m256 high = _mm256_loadu_ps(values + 8);
  const auto values_at = [&](std::size_t i) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(coded + i));
    const __m256i index = _mm256_cvtepu8_epi32(bytes);
    // The permutation looks at three bits; the fourth, moved to the sign, chooses the half.
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index),
                            _mm256_permutevar8x32_ps(high, index),
                            _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  };
  std::size_t i = 0;
  if (past_caches) {
    for (; i + 8 <= n; i += 8) _mm256_stream_ps(out + i, values_at(i));
    _mm_sfence();
  } else {
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, values_at(i));
  }
  return i;
}

// unpack_pairs for whole groups of 16 bytes; returns how many bytes that were.
inline std::size_t unpack_pairs_lanes(const std::uint8_t* pairs, std::size_t num_pairs,
                                      std::uint8_t* coded) {
  const __m128i low_half = _mm_set1_epi8(15);
  std::size_t i = 0;
  for (; i + 16 <= num_pairs; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs + i));
    const __m128i first = _mm_and_si128(_mm_srli_epi16(bytes, 4), low_half);
    const __m128i second = _mm_and_si128(bytes, low_half);
    __m128i* const to = reinterpret_cast<__m128i*>(coded + 2 * i);
    _mm_storeu_si128(to, _mm_unpacklo_epi8(first, second));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi8(first, second));
  }
  return i;
}

}  // namespace
}  // namespace DOCOFL_ISA
}  // namespace docofl
