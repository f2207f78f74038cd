// Lanes of the loops between floats and bytes, for ISA levels with AVX2. Compilers vectorize these
// mixed widths with several times the shuffles. Each operation is the one of the plain loop, in the
// same order.

#include <immintrin.h>

namespace docofl {
namespace DOCOFL_ISA {
namespace {

// key_range for whole groups of 32 values; returns how many values that were. Values some pages
// ahead are fetched, as processors do not look beyond a page themselves.
inline std::size_t key_range_lanes(const float* x, std::size_t n, std::int32_t* lo,
                                   std::int32_t* hi) {
  constexpr std::size_t kAhead = 2048;
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i low[4], high[4];
  for (std::size_t k = 0; k < 4; ++k) {
    low[k] = _mm256_set1_epi32(*lo);
    high[k] = _mm256_set1_epi32(*hi);
  }
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __builtin_prefetch(x + i + kAhead);
    __builtin_prefetch(x + i + kAhead + 16);
    for (std::size_t k = 0; k < 4; ++k) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i + 8 * k));
      const __m256i flipped = _mm256_and_si256(_mm256_srai_epi32(bits, 31), magnitude);
      const __m256i key = _mm256_xor_si256(bits, flipped);
      low[k] = _mm256_min_epi32(low[k], key);
      high[k] = _mm256_max_epi32(high[k], key);
    }
  }
  const __m256i lows =
      _mm256_min_epi32(_mm256_min_epi32(low[0], low[1]), _mm256_min_epi32(low[2], low[3]));
  const __m256i highs =
      _mm256_max_epi32(_mm256_max_epi32(high[0], high[1]), _mm256_max_epi32(high[2], high[3]));
  std::int32_t low_lanes[8], high_lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(low_lanes), lows);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(high_lanes), highs);
  for (std::size_t k = 0; k < 8; ++k) {
    *lo = low_lanes[k] < *lo ? low_lanes[k] : *lo;
    *hi = high_lanes[k] > *hi ? high_lanes[k] : *hi;
  }
  return i;
}

inline void sum_deviation_lanes(const DeviationParams& deviation, const float* x, std::size_t runs,
                                std::size_t stride, float sums[64]) {
  const __m256 centre = _mm256_set1_ps(deviation.centre);
  const __m256 limit = _mm256_set1_ps(deviation.limit);
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 sum[8];
  for (__m256& each : sum) each = _mm256_setzero_ps();
  for (std::size_t run = 0; run < runs; ++run, x += stride) {
    for (std::size_t k = 0; k < 8; ++k) {
      const __m256 difference = _mm256_sub_ps(_mm256_loadu_ps(x + 8 * k), centre);
      sum[k] = _mm256_add_ps(sum[k], _mm256_min_ps(_mm256_andnot_ps(sign, difference), limit));
    }
  }
  for (std::size_t k = 0; k < 8; ++k) _mm256_storeu_ps(sums + 8 * k, sum[k]);
}

// The places of 16 pairs of symbols.
inline void pair_place_lanes(const std::uint8_t* symbols, std::uint8_t first,
                             std::uint16_t* places) {
  const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols));
  const __m256i digits =
      _mm256_min_epu8(_mm256_sub_epi8(some, _mm256_set1_epi8(static_cast<char>(first))),
                      _mm256_set1_epi8(kPairSymbols));
  const __m256i factors = _mm256_set1_epi16(1 + (kPairStride << 8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(places), _mm256_maddubs_epi16(digits, factors));
}

// Packs eight values of `bits` bits, at most 8, into the low bits of a word.
inline std::uint64_t pack_eight(const std::uint32_t* raw, unsigned bits) {
  const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(raw));
  // Pairs, side by side in the low half of 64 bits each; then the pairs.
  const __m256i pairs =
      _mm256_or_si256(_mm256_and_si256(values, _mm256_set1_epi64x(0xffffffff)),
                      _mm256_srl_epi64(values, _mm_cvtsi32_si128(static_cast<int>(32 - bits))));
  const long long step = 2 * static_cast<long long>(bits);
  const __m256i placed = _mm256_sllv_epi64(pairs, _mm256_setr_epi64x(0, step, 2 * step, 3 * step));
  const __m128i halves =
      _mm_or_si128(_mm256_castsi256_si128(placed), _mm256_extracti128_si256(placed, 1));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(halves) | _mm_extract_epi64(halves, 1));
}

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

// The values of eight coded levels. base + j + 1/2 is exact in any order: double has room for it,
// and the levels of a narrow grid have at most 14 bits.
template <class Real>
struct ValueLanes;

template <>
struct ValueLanes<float> {
  ValueLanes(const GridParams& grid, std::int32_t base)
      : first(_mm256_set1_ps(static_cast<float>(base) + 0.5f)),
        step(_mm256_set1_ps(static_cast<float>(grid.step))),
        x_min(_mm256_set1_ps(static_cast<float>(grid.x_min))) {}

  __m256 operator()(const std::uint8_t* coded) const {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(coded));
    const __m256 centre = _mm256_add_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), first);
    return _mm256_add_ps(x_min, _mm256_mul_ps(centre, step));
  }

  __m256 first, step, x_min;
};

template <>
struct ValueLanes<double> {
  ValueLanes(const GridParams& grid, std::int32_t base)
      : first(_mm256_set1_pd(static_cast<double>(base) + 0.5)),
        step(_mm256_set1_pd(grid.step)),
        x_min(_mm256_set1_pd(grid.x_min)) {}

  __m128 four(const std::uint8_t* coded) const {
    const __m128i level = _mm_cvtepu8_epi32(_mm_loadu_si32(coded));
    const __m256d centre = _mm256_add_pd(_mm256_cvtepi32_pd(level), first);
    return _mm256_cvtpd_ps(_mm256_add_pd(x_min, _mm256_mul_pd(centre, step)));
  }

  __m256 operator()(const std::uint8_t* coded) const {
    return _mm256_set_m128(four(coded + 4), four(coded));
  }

  __m256d first, step, x_min;
};

// Values are written in groups. With `past_caches`, stores bypass the caches and need not read the
// lines that they fill, which halves the traffic of a large output.
constexpr std::size_t kGroup = 32;
constexpr std::size_t kLineBytes = 64;

template <class Lanes, std::size_t kGroupBytes, std::size_t kGroupsPerRound>
class GroupWriter {
 public:
  void write_group(Reconstruction* work) const {
    __m256 values[4];
    static_cast<const Lanes*>(this)->values_of(work->coded, values);
    if (work->past_caches) {
      for (std::size_t k = 0; k < 4; ++k) _mm256_stream_ps(work->out + 8 * k, values[k]);
    } else {
      for (std::size_t k = 0; k < 4; ++k) _mm256_storeu_ps(work->out + 8 * k, values[k]);
    }
    work->coded += kGroupBytes;
    work->out += kGroup;
    work->count -= kGroup;
  }

  // About as many values as a round of look-ups gives.
  void write_groups(Reconstruction* work) const {
    if (work->count < kGroupsPerRound * kGroup) return;
    for (std::size_t k = 0; k < kGroupsPerRound; ++k) write_group(work);
  }

 private:
  friend Lanes;
  GroupWriter() = default;
};

template <class Real>
struct GridLanes : GroupWriter<GridLanes<Real>, kGroup, 2> {
  explicit GridLanes(const Reconstruction& work) : value(work.grid, work.base) {}

  void values_of(const std::uint8_t* coded, __m256 values[4]) const {
    for (std::size_t k = 0; k < 4; ++k) values[k] = value(coded + 8 * k);
  }

  ValueLanes<Real> value;
};

// Places are whole numbers of 1/64 steps, of less than 24 bits, and a narrow grid's step is far
// from the smallest float: products are those of the plain loop.
struct DisplacedLanes : GroupWriter<DisplacedLanes, kGroup, 2> {
  explicit DisplacedLanes(const Reconstruction& work)
      : first_displaced(_mm256_set1_epi8(static_cast<char>(work.first_displaced))),
        displacements(_mm256_broadcastsi128_si256(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(work.displacements)))),
        first(_mm256_set1_epi32(kUnits * (work.base + 128) + kUnits / 2)),
        unit(_mm256_set1_ps(static_cast<float>(work.grid.step) * kDisplacementUnit)),
        x_min(_mm256_set1_ps(static_cast<float>(work.grid.x_min))) {}

  void values_of(const std::uint8_t* coded, __m256 values[4]) const {
    const __m256i levels = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(coded));
    // Shuffles give 0 for a place with its top bit set: those of other levels.
    const __m256i place =
        _mm256_adds_epu8(_mm256_sub_epi8(levels, first_displaced), _mm256_set1_epi8(0x70));
    const __m256i found = _mm256_shuffle_epi8(displacements, place);
    // Units of (level - 128) + displacement, in 16 bits; those of values 8 to 23 change places.
    const __m256i centred = _mm256_xor_si256(levels, _mm256_set1_epi8(-128));
    const __m256i weights = _mm256_set1_epi16(0x100 | kUnits);
    const __m256i even = _mm256_maddubs_epi16(weights, _mm256_unpacklo_epi8(centred, found));
    const __m256i odd = _mm256_maddubs_epi16(weights, _mm256_unpackhi_epi8(centred, found));
    values[0] = value_of(_mm256_castsi256_si128(even));
    values[1] = value_of(_mm256_castsi256_si128(odd));
    values[2] = value_of(_mm256_extracti128_si256(even, 1));
    values[3] = value_of(_mm256_extracti128_si256(odd, 1));
  }

  __m256 value_of(__m128i units) const {
    const __m256i place = _mm256_add_epi32(_mm256_cvtepi16_epi32(units), first);
    return _mm256_add_ps(x_min, _mm256_mul_ps(_mm256_cvtepi32_ps(place), unit));
  }

  static constexpr int kUnits = 64;  // a step
  static_assert(kUnits * kDisplacementUnit == 1.0f, "whole units");
  __m256i first_displaced, displacements, first;
  __m256 unit, x_min;
};

// Eight entries of a table. On many processors a gather takes longer than loads that fill a vector
// each, and blends, which no processor is short of.
template <class Entry, class Index>
inline __m256i look_up_eight(const Entry* table, const Index* index) {
  static_assert(sizeof(Entry) == 4, "as wide as a lane");
  const auto all = [&](std::size_t k) {
    return _mm256_castps_si256(
        _mm256_broadcast_ss(reinterpret_cast<const float*>(table + index[k])));
  };
  const __m256i a = _mm256_blend_epi32(all(0), all(1), 0x02);
  const __m256i b = _mm256_blend_epi32(all(2), all(3), 0x08);
  const __m256i c = _mm256_blend_epi32(all(4), all(5), 0x20);
  const __m256i d = _mm256_blend_epi32(all(6), all(7), 0x80);
  return _mm256_blend_epi32(_mm256_blend_epi32(a, b, 0x0c), _mm256_blend_epi32(c, d, 0xc0), 0xf0);
}

// 32 levels from 16 bytes with two each, the first in the high half.
inline __m256i split_pairs(const std::uint8_t* pairs) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs));
  const __m128i low_half = _mm_set1_epi8(15);
  const __m128i first = _mm_and_si128(_mm_srli_epi16(bytes, 4), low_half);
  const __m128i second = _mm_and_si128(bytes, low_half);
  return _mm256_set_m128i(_mm_unpackhi_epi8(first, second), _mm_unpacklo_epi8(first, second));
}

// Up to 16 kRows values, each looked up as four bytes.
template <int kRows>
struct ByteTable {
  explicit ByteTable(const float* table) {
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t k = 0; k < 4; ++k) {
        alignas(16) std::uint8_t bytes[16];
        for (std::size_t i = 0; i < 16; ++i) {
          std::uint32_t bits;
          __builtin_memcpy(&bits, table + 16 * row + i, sizeof(bits));
          bytes[i] = static_cast<std::uint8_t>(bits >> (8 * k));
        }
        planes[row][k] =
            _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
      }
    }
  }

  void look_up(__m256i coded, __m256 values[4]) const {
    // Unpacking works inside halves: give the low one the first four of each eight.
    const __m256i index =
        _mm256_permutevar8x32_epi32(coded, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    __m256i bytes[4];
    if (kRows == 1) {
      for (int k = 0; k < 4; ++k) bytes[k] = _mm256_shuffle_epi8(planes[0][k], index);
    } else {
      for (__m256i& each : bytes) each = _mm256_setzero_si256();
      for (int row = 0; row < kRows; ++row) {
        // Shuffles give 0 for a place with its top bit set: those of other rows.
        const __m256i place =
            _mm256_adds_epu8(_mm256_xor_si256(index, _mm256_set1_epi8(static_cast<char>(16 * row))),
                             _mm256_set1_epi8(0x70));
        for (int k = 0; k < 4; ++k) {
          bytes[k] = _mm256_or_si256(bytes[k], _mm256_shuffle_epi8(planes[row][k], place));
        }
      }
    }
    const __m256i ab_low = _mm256_unpacklo_epi8(bytes[0], bytes[1]);
    const __m256i ab_high = _mm256_unpackhi_epi8(bytes[0], bytes[1]);
    const __m256i cd_low = _mm256_unpacklo_epi8(bytes[2], bytes[3]);
    const __m256i cd_high = _mm256_unpackhi_epi8(bytes[2], bytes[3]);
    values[0] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(ab_low, cd_low));
    values[1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(ab_low, cd_low));
    values[2] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(ab_high, cd_high));
    values[3] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(ab_high, cd_high));
  }

  __m256i planes[kRows][4];
};

template <int kRows>
struct TableLanes : GroupWriter<TableLanes<kRows>, kGroup, 2> {
  explicit TableLanes(const Reconstruction& work) : table(work.table) {}

  void values_of(const std::uint8_t* coded, __m256 values[4]) const {
    table.look_up(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(coded)), values);
  }

  ByteTable<kRows> table;
};

struct PairLanes : GroupWriter<PairLanes, kGroup / 2, 4> {
  explicit PairLanes(const Reconstruction& work) : table(work.table) {}

  void values_of(const std::uint8_t* pairs, __m256 values[4]) const {
    table.look_up(split_pairs(pairs), values);
  }

  ByteTable<1> table;
};

struct LongTableLanes : GroupWriter<LongTableLanes, kGroup, 2> {
  explicit LongTableLanes(const Reconstruction& work) : table(work.table) {}

  void values_of(const std::uint8_t* coded, __m256 values[4]) const {
    for (std::size_t k = 0; k < 4; ++k) {
      values[k] = _mm256_castsi256_ps(look_up_eight(table, coded + 8 * k));
    }
  }

  const float* table;
};

void reconstruct_some(Reconstruction* work, std::size_t n);

// Calls use(lanes) with the lanes for `work`, its output aligned as `past_caches` needs it: groups
// are whole cache lines then. A line that is written past the caches in two parts, with other
// stores in between, goes to the memory twice.
template <class Use>
void with_lanes(Reconstruction* work, const Use& use) {
  if (work->past_caches) {
    const std::size_t head =
        (0 - reinterpret_cast<std::uintptr_t>(work->out)) % kLineBytes / sizeof(float);
    if (work->pairs && head % 2 != 0) {
      work->past_caches = false;  // a pair would be split
    } else {
      reconstruct_some(work, head < work->count ? head : work->count);
    }
  }
  if (work->pairs) {
    use(PairLanes(*work));
  } else if (work->table == nullptr && work->displacements != nullptr) {
    use(DisplacedLanes(*work));
  } else if (work->table == nullptr && work->grid.narrow) {
    use(GridLanes<float>(*work));
  } else if (work->table == nullptr) {
    use(GridLanes<double>(*work));
  } else if (work->table_size <= 16) {
    use(TableLanes<1>(*work));
  } else if (work->table_size <= 32) {
    use(TableLanes<2>(*work));
  } else if (work->table_size <= 64) {
    use(TableLanes<4>(*work));
  } else {
    use(LongTableLanes(*work));
  }
}

}  // namespace
}  // namespace DOCOFL_ISA
}  // namespace docofl
