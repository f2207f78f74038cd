// The loops of EDEN; part of kernels.inl. Butterflies are exact about their order, so that all
// levels round alike; how many stages a pass over memory takes is free.

#if defined(__AVX2__)
#include "kernels/eden_lanes_avx2.inl"
#endif

namespace docofl {
namespace DOCOFL_ISA {
namespace {

// --- Hadamard --------------------------------------------------------------------------------

constexpr std::size_t kBase = 64;  // a transform that stays in registers
// One that stays in the L1 cache; also g of docs/format.md, section 4.1.
constexpr std::size_t kNear = 1 << 12;

// The stages of kRadix rows x, x + h, ..., from the nearest rows to the farthest or the other way,
// for columns [0, width) of each; `width` is a multiple of 8.
template <unsigned kRadix, bool kUp>
inline void butterflies(float* x, std::size_t h, std::size_t width) {
#if defined(__AVX2__)
  butterfly_lanes<kRadix, kUp>(x, h, width);
#else
  for (std::size_t k = 0; k < width; ++k) {
    float a[kRadix];
    for (unsigned j = 0; j < kRadix; ++j) a[j] = x[j * h + k];
    for (unsigned stage = 1; stage < kRadix; stage *= 2) {
      const unsigned d = kUp ? stage : kRadix / 2 / stage;
      for (unsigned j = 0; j < kRadix; ++j) {
        if (j & d) continue;
        const float sum = a[j] + a[j + d];
        const float difference = a[j] - a[j + d];
        a[j] = sum;
        a[j + d] = difference;
      }
    }
    for (unsigned j = 0; j < kRadix; ++j) x[j * h + k] = a[j];
  }
#endif
}

// One pass over n values.
template <unsigned kRadix, bool kUp>
void pass(float* x, std::size_t n, std::size_t h) {
  for (std::size_t begin = 0; begin < n; begin += kRadix * h) {
    butterflies<kRadix, kUp>(x + begin, h, h);
  }
}

// Stages of distances h to n / 2, and n / 2 down to h.
void ascend(float* x, std::size_t n, std::size_t h) {
  for (; n / h >= 8; h *= 8) pass<8, true>(x, n, h);
  if (n / h == 4) pass<4, true>(x, n, h);
  if (n / h == 2) pass<2, true>(x, n, h);
}

void descend(float* x, std::size_t n, std::size_t h) {
  std::size_t top = n;
  for (; top / h >= 8; top /= 8) pass<8, false>(x, n, top / 8);
  if (top / h == 4) pass<4, false>(x, n, h);
  if (top / h == 2) pass<2, false>(x, n, h);
}

// All stages of a small transform.
template <bool kUp>
void transform_small(float* x, std::size_t n) {
  for (std::size_t stage = 1; stage < n; stage *= 2) {
    const std::size_t d = kUp ? stage : n / 2 / stage;
    for (std::size_t begin = 0; begin < n; begin += 2 * d) {
      for (std::size_t i = begin; i < begin + d; ++i) {
        const float sum = x[i] + x[i + d];
        const float difference = x[i] - x[i + d];
        x[i] = sum;
        x[i + d] = difference;
      }
    }
  }
}

inline float with_sign(float value, std::uint64_t word, std::size_t i) {
  return (word >> (i % 64)) & 1 ? -value : value;
}

// All stages for kNear values or fewer, in the L1 cache: from distance 1 up. Before, value i is
// multiplied by `scale` and flipped if bit i % 64 of word i / 64 is set; x and out may be the same.
inline void transform_near(const float* x, float scale, const std::uint64_t* flips, std::size_t n,
                           float* out) {
  if (n < kBase) {
    for (std::size_t i = 0; i < n; ++i) out[i] = with_sign(x[i] * scale, flips[0], i);
    return transform_small<true>(out, n);
  }
  for (std::size_t begin = 0; begin < n; begin += kBase) {
    const std::uint64_t flip = flips[begin / kBase];
#if defined(__AVX2__)
    BaseLanes lanes(x + begin);
    lanes.multiply(scale);
    lanes.flip(flip);
    lanes.ascend();
    lanes.store(out + begin);
#else
    for (std::size_t i = 0; i < kBase; ++i) {
      out[begin + i] = with_sign(x[begin + i] * scale, flip, i);
    }
    transform_small<true>(out + begin, kBase);
#endif
  }
  ascend(out, n, kBase);
}

// The same from the highest distance down, and flips afterwards.
inline void transform_near_back(float* x, const std::uint64_t* flips, std::size_t n) {
  if (n < kBase) {
    transform_small<false>(x, n);
    for (std::size_t i = 0; i < n; ++i) x[i] = with_sign(x[i], flips[0], i);
    return;
  }
  descend(x, n, kBase);
  for (std::size_t begin = 0; begin < n; begin += kBase) {
#if defined(__AVX2__)
    BaseLanes lanes(x + begin);
    lanes.descend();
    lanes.flip(flips[begin / kBase]);
    lanes.store(x + begin);
#else
    transform_small<false>(x + begin, kBase);
    for (std::size_t i = 0; i < kBase; ++i) {
      x[begin + i] = with_sign(x[begin + i], flips[begin / kBase], i);
    }
#endif
  }
}

// Eighths first, so that most stages find their values in a cache near by.
void hadamard(float* x, std::size_t n) {
  if (n > kNear) {
    const std::size_t parts = n / kNear < 8 ? n / kNear : 8;
    for (std::size_t begin = 0; begin < n; begin += n / parts) hadamard(x + begin, n / parts);
    return ascend(x, n, n / parts);
  }
  if (n < kBase) return transform_small<true>(x, n);
  for (std::size_t begin = 0; begin < n; begin += kBase) {
#if defined(__AVX2__)
    BaseLanes lanes(x + begin);
    lanes.ascend();
    lanes.store(x + begin);
#else
    transform_small<true>(x + begin, kBase);
#endif
  }
  ascend(x, n, kBase);
}

// --- rotation --------------------------------------------------------------------------------

std::uint32_t max_magnitude(const float* x, std::size_t n) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
  }
  return most;
}

// Sums are taken in 16 lanes of float, which go to a double after so many rows.
constexpr std::size_t kSumLanes = 16;
constexpr std::size_t kSumRows = 64;

double sum_of_lanes(const float lanes[kSumLanes]) {
  double total = 0;
  for (std::size_t k = 0; k < kSumLanes; ++k) total += static_cast<double>(lanes[k]);
  return total;
}

double sum_squares(const float* x, std::size_t n, float scale) {
  double total = 0;
  for (std::size_t begin = 0; begin < n; begin += kSumRows * kSumLanes) {
    const std::size_t end = n - begin < kSumRows * kSumLanes ? n : begin + kSumRows * kSumLanes;
    float lanes[kSumLanes] = {};
#if defined(__AVX2__)
    sum_squares_lanes(x + begin, end - begin, scale, lanes);
#else
    for (std::size_t i = begin; i < end; ++i) {
      const float value = x[i] * scale;
      lanes[i % kSumLanes] += value * value;
    }
#endif
    total += sum_of_lanes(lanes);
  }
  return total;
}

void dot_products(const float* x, const float* y, std::size_t n, double sums[2]) {
  for (std::size_t begin = 0; begin < n; begin += kSumRows * kSumLanes) {
    const std::size_t end = n - begin < kSumRows * kSumLanes ? n : begin + kSumRows * kSumLanes;
    float products[kSumLanes] = {};
    float squares[kSumLanes] = {};
#if defined(__AVX2__)
    dot_product_lanes(x + begin, y + begin, end - begin, products, squares);
#else
    for (std::size_t i = begin; i < end; ++i) {
      products[i % kSumLanes] += x[i] * y[i];
      squares[i % kSumLanes] += y[i] * y[i];
    }
#endif
    sums[0] += sum_of_lanes(products);
    sums[1] += sum_of_lanes(squares);
  }
}

void rotate(const float* x, float scale, const RotationSigns& signs, std::size_t n, float* out) {
  const std::size_t near = n < kNear ? n : kNear;
  for (std::size_t begin = 0; begin < n; begin += near) {
    transform_near(x + begin, scale, signs.first + begin / kBase, near, out + begin);
    transform_near(out + begin, 1.0f, signs.second + begin / kBase, near, out + begin);
  }
  ascend(out, n, near);
}

void copy_past_caches(const float* x, std::size_t n, float* out) {
  std::size_t i = 0;
#if defined(__AVX2__)
  if (reinterpret_cast<std::uintptr_t>(out) % 16 == 0) {
    for (; i + 4 <= n; i += 4) _mm_stream_ps(out + i, _mm_loadu_ps(x + i));
    _mm_sfence();
  }
#endif
  for (; i < n; ++i) out[i] = x[i];
}

constexpr float kLargest = 3.402823466e38f;

inline float finite(float value) {
  const float floored = value > -kLargest ? value : -kLargest;
  return floored < kLargest ? floored : kLargest;
}

template <Put kPut>
inline void put(float value, float norm, float scale, float* out) {
  const float result = finite(value * norm * scale);
  *out = kPut == Put::kAdd ? finite(*out + result) : result;
}

template <Put kPut>
void rotate_back_to(float* v, const RotationSigns& signs, std::size_t n, float norm, float scale,
                    float* out) {
  const std::size_t near = n < kNear ? n : kNear;
  descend(v, n, near);
  for (std::size_t begin = 0; begin < n; begin += near) {
    transform_near_back(v + begin, signs.second + begin / kBase, near);
    if (near < kBase) {
      transform_near_back(v + begin, signs.first + begin / kBase, near);
      for (std::size_t i = begin; i < begin + near; ++i) put<kPut>(v[i], norm, scale, out + i);
      continue;
    }
    descend(v + begin, near, kBase);
    for (std::size_t i = begin; i < begin + near; i += kBase) {
#if defined(__AVX2__)
      BaseLanes lanes(v + i);
      lanes.descend();
      lanes.flip(signs.first[i / kBase]);
      lanes.put<kPut>(norm, scale, out + i);
#else
      transform_small<false>(v + i, kBase);
      for (std::size_t k = i; k < i + kBase; ++k) {
        put<kPut>(with_sign(v[k], signs.first[i / kBase], k), norm, scale, out + k);
      }
#endif
    }
  }
#if defined(__AVX2__)
  if (kPut == Put::kPastCaches) _mm_sfence();
#endif
}

void rotate_back(float* v, const RotationSigns& signs, std::size_t n, float norm, float scale,
                 Put how, float* out) {
  if (how == Put::kAdd) {
    rotate_back_to<Put::kAdd>(v, signs, n, norm, scale, out);
  } else if (how == Put::kPastCaches && reinterpret_cast<std::uintptr_t>(out) % 16 == 0) {
    rotate_back_to<Put::kPastCaches>(v, signs, n, norm, scale, out);
  } else {
    rotate_back_to<Put::kStore>(v, signs, n, norm, scale, out);
  }
}

// --- quantization with a codebook ------------------------------------------------------------

inline std::size_t chunk_place(const ChunkOrder& order, std::size_t j) {
  return (order.multiplier * static_cast<std::uint32_t>(j) + order.offset) & order.mask;
}

#if !defined(__AVX2__)

// How many thresholds are not above a magnitude.
inline unsigned rank_of(const EdenCodebook& codebook, float magnitude) {
  if (codebook.width <= 4) {
    unsigned rank = 0;
    for (unsigned i = 0; i + 1 < 1u << (codebook.width - 1); ++i) {
      rank += magnitude >= codebook.thresholds[i];
    }
    return rank;
  }
  const float cell = magnitude * kEdenCellsPerUnit;
  const float last = kEdenCells - 1;
  const auto rank =
      static_cast<unsigned>(codebook.cells[static_cast<unsigned>(cell < last ? cell : last)]);
  return rank + (magnitude >= codebook.thresholds[rank]);
}

void quantize_chunk(const float* u, float inverse, const EdenCodebook& codebook,
                    std::uint8_t* words, float products[kSumLanes], float squares[kSumLanes]) {
  std::uint32_t planes[8] = {};
  for (std::size_t i = 0; i < kEdenChunk; ++i) {
    const float t = u[i] * inverse;
    std::uint32_t sign;
    memcpy(&sign, &t, sizeof sign);
    sign >>= 31;
    const float magnitude = sign ? -t : t;
    const unsigned rank = rank_of(codebook, magnitude);
    const float level = codebook.magnitudes[rank];
    products[i] += magnitude * level;
    squares[i] += level * level;
    const std::uint32_t word = rank | sign << (codebook.width - 1);
    for (std::size_t p = 0; p < codebook.width; ++p) planes[p] |= ((word >> p) & 1) << i;
  }
  for (std::size_t p = 0; p < codebook.width; ++p) {
    words[2 * p] = static_cast<std::uint8_t>(planes[p]);
    words[2 * p + 1] = static_cast<std::uint8_t>(planes[p] >> 8);
  }
}

#endif

void eden_quantize(const float* u, float inverse, const EdenCodebook& codebook,
                   const ChunkOrder& order, std::size_t first, std::size_t last,
                   std::uint8_t* words, double sums[2]) {
  if (codebook.width == 0) return;
  for (std::size_t begin = first; begin < last; begin += kSumRows) {
    const std::size_t end = last - begin < kSumRows ? last : begin + kSumRows;
    float products[kSumLanes] = {};
    float squares[kSumLanes] = {};
#if defined(__AVX2__)
    words = quantize_lanes(u, inverse, codebook, order, begin, end, words, products, squares);
#else
    for (std::size_t j = begin; j < end; ++j, words += std::size_t(2) * codebook.width) {
      quantize_chunk(u + kEdenChunk * chunk_place(order, j), inverse, codebook, words, products,
                     squares);
    }
#endif
    sums[0] += sum_of_lanes(products);
    sums[1] += sum_of_lanes(squares);
  }
}

// Calls use(place, i, level) for every coordinate.
template <class Use>
inline void for_each_level(const std::uint8_t* words, const EdenCodebook& codebook,
                           const ChunkOrder& order, std::size_t first, std::size_t last,
                           const Use& use) {
  for (std::size_t j = first; j < last; ++j, words += std::size_t(2) * codebook.width) {
    const std::size_t place = kEdenChunk * chunk_place(order, j);
    for (std::size_t i = 0; i < kEdenChunk; ++i) {
      unsigned word = 0;
      for (std::size_t p = 0; p < codebook.width; ++p) {
        word |= ((words[2 * p + i / 8] >> (i % 8)) & 1u) << p;
      }
      const unsigned sign_bit = 1u << codebook.width >> 1;
      const float magnitude = codebook.magnitudes[word & (sign_bit - 1)];
      use(place + i, codebook.width == 0 ? 0.0f : word & sign_bit ? -magnitude : magnitude);
    }
  }
}

void eden_levels(const std::uint8_t* words, const EdenCodebook& codebook, const ChunkOrder& order,
                 std::size_t first, std::size_t last, float* q) {
#if defined(__AVX2__)
  if (codebook.width > 0) {
    level_lanes(words, codebook, order, first, last,
                [&](std::size_t place, __m256 levels) { _mm256_storeu_ps(q + place, levels); });
    return;
  }
#endif
  for_each_level(words, codebook, order, first, last,
                 [&](std::size_t place, float level) { q[place] = level; });
}

void eden_levels_and_add(const std::uint8_t* words, const EdenCodebook& codebook,
                         const ChunkOrder& order, std::size_t first, std::size_t last, float weight,
                         float* q) {
  if (codebook.width == 0) return;
#if defined(__AVX2__)
  const __m256 weights = _mm256_set1_ps(weight);
  level_lanes(words, codebook, order, first, last, [&](std::size_t place, __m256 levels) {
    const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(q + place), _mm256_mul_ps(weights, levels));
    _mm256_storeu_ps(q + place, sum);
  });
#else
  for_each_level(words, codebook, order, first, last,
                 [&](std::size_t place, float level) { q[place] += weight * level; });
#endif
}

}  // namespace
}  // namespace DOCOFL_ISA
}  // namespace docofl
