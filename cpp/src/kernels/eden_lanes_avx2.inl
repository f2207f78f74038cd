// Lanes of EDEN's loops, for ISA levels with AVX2: what compilers do not find is the transform of
// 64 values in registers, and bits from comparisons.

#include <immintrin.h>

namespace docofl {
namespace DOCOFL_ISA {
namespace {

// Butterflies of registers at a distance.
template <int kRadix, int kDistance>
inline void across(__m256 v[kRadix]) {
  for (int j = 0; j < kRadix; ++j) {
    if (j & kDistance) continue;
    const __m256 sum = _mm256_add_ps(v[j], v[j + kDistance]);
    v[j + kDistance] = _mm256_sub_ps(v[j], v[j + kDistance]);
    v[j] = sum;
  }
}

template <int kRadix>
inline void ascend_across(__m256 v[kRadix]) {
  across<kRadix, 1>(v);
  if constexpr (kRadix >= 4) across<kRadix, 2>(v);
  if constexpr (kRadix >= 8) across<kRadix, 4>(v);
}

template <int kRadix>
inline void descend_across(__m256 v[kRadix]) {
  if constexpr (kRadix >= 8) across<kRadix, 4>(v);
  if constexpr (kRadix >= 4) across<kRadix, 2>(v);
  across<kRadix, 1>(v);
}

// butterflies() for a width that is a multiple of 8.
template <int kRadix, bool kUp>
inline void butterfly_lanes(float* x, std::size_t h, std::size_t width) {
  for (std::size_t k = 0; k < width; k += 8) {
    __m256 v[kRadix];
    for (int j = 0; j < kRadix; ++j) {
      v[j] = _mm256_loadu_ps(x + static_cast<std::size_t>(j) * h + k);
    }
    kUp ? ascend_across<kRadix>(v) : descend_across<kRadix>(v);
    for (int j = 0; j < kRadix; ++j) {
      _mm256_storeu_ps(x + static_cast<std::size_t>(j) * h + k, v[j]);
    }
  }
}

// 64 values in eight registers, value 8 * j + lane.
class BaseLanes {
 public:
  explicit BaseLanes(const float* x) {
    for (std::size_t j = 0; j < 8; ++j) v_[j] = _mm256_loadu_ps(x + 8 * j);
  }

  void store(float* out) const {
    for (std::size_t j = 0; j < 8; ++j) _mm256_storeu_ps(out + 8 * j, v_[j]);
  }

  void multiply(float factor) {
    for (__m256& v : v_) v = _mm256_mul_ps(v, _mm256_set1_ps(factor));
  }

  // Changes the sign of value i if bit i is set.
  void flip(std::uint64_t bits) {
    const __m256i halves[2] = {_mm256_set1_epi32(static_cast<int>(bits)),
                               _mm256_set1_epi32(static_cast<int>(bits >> 32))};
    const __m256i to_top = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    const __m256 top = _mm256_set1_ps(-0.0f);
    for (std::size_t j = 0; j < 8; ++j) {
      const __m256i shift =
          _mm256_sub_epi32(to_top, _mm256_set1_epi32(static_cast<int>(j % 4 * 8)));
      const __m256 signs = _mm256_castsi256_ps(_mm256_sllv_epi32(halves[j / 4], shift));
      v_[j] = _mm256_xor_ps(v_[j], _mm256_and_ps(signs, top));
    }
  }

  // Distances 1 to 32, or 32 to 1.
  void ascend() {
    for (__m256& v : v_) v = quad(pair(one(v)));
    ascend_across<8>(v_);
  }

  void descend() {
    descend_across<8>(v_);
    for (__m256& v : v_) v = one(pair(quad(v)));
  }

  // norm * scale times the values, clamped to finite ones: stored, stored past the caches (`out` is
  // aligned to 16 bytes) or added.
  template <Put kPut>
  void put(float norm, float scale, float* out) const {
    const auto finite = [](__m256 value) {
      const __m256 floored = _mm256_max_ps(value, _mm256_set1_ps(-3.402823466e38f));
      return _mm256_min_ps(floored, _mm256_set1_ps(3.402823466e38f));
    };
    for (std::size_t j = 0; j < 8; ++j) {
      const __m256 scaled =
          _mm256_mul_ps(_mm256_mul_ps(v_[j], _mm256_set1_ps(norm)), _mm256_set1_ps(scale));
      const __m256 value = finite(scaled);
      float* const to = out + 8 * j;
      if constexpr (kPut == Put::kPastCaches) {
        _mm_stream_ps(to, _mm256_castps256_ps128(value));
        _mm_stream_ps(to + 4, _mm256_extractf128_ps(value, 1));
      } else if constexpr (kPut == Put::kAdd) {
        _mm256_storeu_ps(to, finite(_mm256_add_ps(_mm256_loadu_ps(to), value)));
      } else {
        _mm256_storeu_ps(to, value);
      }
    }
  }

 private:
  // (a, b) -> (a + b, a - b) for neighbours, pairs and quads of lanes: exchanged values plus own
  // ones, of which the second have changed their sign.
  static __m256 one(__m256 v) {
    const __m256 minus = _mm256_setr_ps(0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f);
    return _mm256_add_ps(_mm256_permute_ps(v, 0xb1), _mm256_xor_ps(v, minus));
  }
  static __m256 pair(__m256 v) {
    const __m256 minus = _mm256_setr_ps(0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f);
    return _mm256_add_ps(_mm256_permute_ps(v, 0x4e), _mm256_xor_ps(v, minus));
  }
  static __m256 quad(__m256 v) {
    const __m256 minus = _mm256_setr_ps(0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f);
    return _mm256_add_ps(_mm256_permute2f128_ps(v, v, 1), _mm256_xor_ps(v, minus));
  }

  __m256 v_[8];
};

inline void sum_squares_lanes(const float* x, std::size_t n, float scale, float lanes[16]) {
  const __m256 factor = _mm256_set1_ps(scale);
  __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
  for (std::size_t i = 0; i < n; i += 16) {
    const __m256 a = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor);
    const __m256 b = _mm256_mul_ps(_mm256_loadu_ps(x + i + 8), factor);
    low = _mm256_add_ps(low, _mm256_mul_ps(a, a));
    high = _mm256_add_ps(high, _mm256_mul_ps(b, b));
  }
  _mm256_storeu_ps(lanes, low);
  _mm256_storeu_ps(lanes + 8, high);
}

inline void dot_product_lanes(const float* x, const float* y, std::size_t n, float products[16],
                              float squares[16]) {
  __m256 product[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  __m256 square[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (std::size_t i = 0; i < n; i += 16) {
    for (std::size_t k = 0; k < 2; ++k) {
      const __m256 a = _mm256_loadu_ps(x + i + 8 * k);
      const __m256 b = _mm256_loadu_ps(y + i + 8 * k);
      product[k] = _mm256_add_ps(product[k], _mm256_mul_ps(a, b));
      square[k] = _mm256_add_ps(square[k], _mm256_mul_ps(b, b));
    }
  }
  for (std::size_t k = 0; k < 2; ++k) {
    _mm256_storeu_ps(products + 8 * k, product[k]);
    _mm256_storeu_ps(squares + 8 * k, square[k]);
  }
}

// The ranks and levels of magnitudes: by comparison with every threshold, or by a cell that holds
// at most one.
template <unsigned kWidth>
class LevelFinder {
 public:
  explicit LevelFinder(const EdenCodebook& codebook) : codebook_(codebook) {
    if constexpr (kWidth > 4) return;
    magnitudes_ =
        kWidth == 1 ? _mm256_set1_ps(codebook.magnitudes[0]) : _mm256_loadu_ps(codebook.magnitudes);
    for (unsigned i = 0; i < kThresholds; ++i) {
      thresholds_[i] = _mm256_set1_ps(codebook.thresholds[i]);
    }
  }

  __m256i rank(__m256 magnitude) const {
    if constexpr (kWidth <= 4) {
      __m256i rank = _mm256_setzero_si256();
      for (unsigned i = 0; i < kThresholds; ++i) {
        const __m256 above = _mm256_cmp_ps(magnitude, thresholds_[i], _CMP_GE_OQ);
        rank = _mm256_sub_epi32(rank, _mm256_castps_si256(above));
      }
      return rank;
    } else {
      const __m256 scaled = _mm256_mul_ps(magnitude, _mm256_set1_ps(kEdenCellsPerUnit));
      const __m256 place = _mm256_min_ps(scaled, _mm256_set1_ps(kEdenCells - 1));
      const __m256i rank = _mm256_i32gather_epi32(codebook_.cells, _mm256_cvttps_epi32(place), 4);
      const __m256 threshold = _mm256_i32gather_ps(codebook_.thresholds, rank, 4);
      const __m256 above = _mm256_cmp_ps(magnitude, threshold, _CMP_GE_OQ);
      return _mm256_sub_epi32(rank, _mm256_castps_si256(above));
    }
  }

  __m256 level(__m256i rank) const {
    if constexpr (kWidth == 1) return magnitudes_;
    if constexpr (kWidth <= 4) return _mm256_permutevar8x32_ps(magnitudes_, rank);
    return _mm256_i32gather_ps(codebook_.magnitudes, rank, 4);
  }

 private:
  static constexpr unsigned kThresholds = kWidth <= 4 ? (1u << (kWidth - 1)) - 1 : 0;
  const EdenCodebook& codebook_;
  __m256 magnitudes_;
  __m256 thresholds_[kThresholds + 1];
};

// Half a chunk: levels, and the bytes of its planes.
template <unsigned kWidth>
struct HalfChunk {
  HalfChunk(const float* u, __m256 inverse, const LevelFinder<kWidth>& finder) {
    const __m256 t = _mm256_mul_ps(_mm256_loadu_ps(u), inverse);
    const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), t);
    const __m256i rank = finder.rank(magnitude);
    level = finder.level(rank);
    product = _mm256_mul_ps(magnitude, level);
    for (std::size_t p = 0; p + 1 < kWidth; ++p) {
      const __m256i top = _mm256_slli_epi32(rank, static_cast<int>(31 - p));
      planes[p] = static_cast<std::uint8_t>(_mm256_movemask_ps(_mm256_castsi256_ps(top)));
    }
    planes[kWidth - 1] = static_cast<std::uint8_t>(_mm256_movemask_ps(t));
  }

  __m256 level, product;
  std::uint8_t planes[kWidth];
};

inline std::size_t chunk_place_of(const ChunkOrder& order, std::size_t j) {
  return (order.multiplier * static_cast<std::uint32_t>(j) + order.offset) & order.mask;
}

template <unsigned kWidth>
std::uint8_t* quantize_lanes_of(const float* u, float inverse, const EdenCodebook& codebook,
                                const ChunkOrder& order, std::size_t first, std::size_t last,
                                std::uint8_t* words, float products[16], float squares[16]) {
  const __m256 factor = _mm256_set1_ps(inverse);
  const LevelFinder<kWidth> finder(codebook);
  __m256 product_low = _mm256_setzero_ps(), product_high = _mm256_setzero_ps();
  __m256 square_low = _mm256_setzero_ps(), square_high = _mm256_setzero_ps();
  for (std::size_t j = first; j < last; ++j, words += std::size_t(2) * kWidth) {
    const float* const from = u + kEdenChunk * chunk_place_of(order, j);
    const HalfChunk<kWidth> low(from, factor, finder);
    const HalfChunk<kWidth> high(from + 8, factor, finder);
    product_low = _mm256_add_ps(product_low, low.product);
    product_high = _mm256_add_ps(product_high, high.product);
    square_low = _mm256_add_ps(square_low, _mm256_mul_ps(low.level, low.level));
    square_high = _mm256_add_ps(square_high, _mm256_mul_ps(high.level, high.level));
    for (std::size_t p = 0; p < kWidth; ++p) {
      words[2 * p] = low.planes[p];
      words[2 * p + 1] = high.planes[p];
    }
  }
  _mm256_storeu_ps(products, product_low);
  _mm256_storeu_ps(products + 8, product_high);
  _mm256_storeu_ps(squares, square_low);
  _mm256_storeu_ps(squares + 8, square_high);
  return words;
}

// Widths 1 to 8; returns where the next words go.
inline std::uint8_t* quantize_lanes(const float* u, float inverse, const EdenCodebook& codebook,
                                    const ChunkOrder& order, std::size_t first, std::size_t last,
                                    std::uint8_t* words, float products[16], float squares[16]) {
  switch (codebook.width) {
    case 1:
      return quantize_lanes_of<1>(u, inverse, codebook, order, first, last, words, products,
                                  squares);
    case 2:
      return quantize_lanes_of<2>(u, inverse, codebook, order, first, last, words, products,
                                  squares);
    case 3:
      return quantize_lanes_of<3>(u, inverse, codebook, order, first, last, words, products,
                                  squares);
    case 4:
      return quantize_lanes_of<4>(u, inverse, codebook, order, first, last, words, products,
                                  squares);
    case 5:
      return quantize_lanes_of<5>(u, inverse, codebook, order, first, last, words, products,
                                  squares);
    case 6:
      return quantize_lanes_of<6>(u, inverse, codebook, order, first, last, words, products,
                                  squares);
    case 7:
      return quantize_lanes_of<7>(u, inverse, codebook, order, first, last, words, products,
                                  squares);
    default:
      return quantize_lanes_of<8>(u, inverse, codebook, order, first, last, words, products,
                                  squares);
  }
}

// Levels of half a chunk, from its bytes words[0], words[2], ...
template <unsigned kWidth>
inline __m256 half_levels(const std::uint8_t* words, const float* magnitudes, __m256 few) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i rank = _mm256_setzero_si256();
  for (std::size_t p = 0; p + 1 < kWidth; ++p) {
    const __m256i bits = _mm256_srlv_epi32(_mm256_set1_epi32(words[2 * p]), lane);
    const __m256i bit = _mm256_and_si256(bits, _mm256_set1_epi32(1));
    rank = _mm256_or_si256(rank, _mm256_slli_epi32(bit, static_cast<int>(p)));
  }
  const __m256 magnitude = kWidth == 1   ? few
                           : kWidth <= 4 ? _mm256_permutevar8x32_ps(few, rank)
                                         : _mm256_i32gather_ps(magnitudes, rank, sizeof(float));
  const __m256i to_top = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
  const __m256i signs =
      _mm256_sllv_epi32(_mm256_set1_epi32(words[std::size_t(2) * (kWidth - 1)]), to_top);
  return _mm256_xor_ps(magnitude, _mm256_and_ps(_mm256_castsi256_ps(signs), _mm256_set1_ps(-0.0f)));
}

template <unsigned kWidth, class Use>
void level_lanes_of(const std::uint8_t* words, const EdenCodebook& codebook,
                    const ChunkOrder& order, std::size_t first, std::size_t last, const Use& use) {
  const __m256 few =
      kWidth == 1 ? _mm256_set1_ps(codebook.magnitudes[0]) : _mm256_loadu_ps(codebook.magnitudes);
  for (std::size_t j = first; j < last; ++j, words += std::size_t(2) * kWidth) {
    const std::size_t place = kEdenChunk * chunk_place_of(order, j);
    use(place, half_levels<kWidth>(words, codebook.magnitudes, few));
    use(place + 8, half_levels<kWidth>(words + 1, codebook.magnitudes, few));
  }
}

// Calls use(place, levels) for every half chunk; widths 1 to 8.
template <class Use>
void level_lanes(const std::uint8_t* words, const EdenCodebook& codebook, const ChunkOrder& order,
                 std::size_t first, std::size_t last, const Use& use) {
  switch (codebook.width) {
    case 1: return level_lanes_of<1>(words, codebook, order, first, last, use);
    case 2: return level_lanes_of<2>(words, codebook, order, first, last, use);
    case 3: return level_lanes_of<3>(words, codebook, order, first, last, use);
    case 4: return level_lanes_of<4>(words, codebook, order, first, last, use);
    case 5: return level_lanes_of<5>(words, codebook, order, first, last, use);
    case 6: return level_lanes_of<6>(words, codebook, order, first, last, use);
    case 7: return level_lanes_of<7>(words, codebook, order, first, last, use);
    default: return level_lanes_of<8>(words, codebook, order, first, last, use);
  }
}

}  // namespace
}  // namespace DOCOFL_ISA
}  // namespace docofl
