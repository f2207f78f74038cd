// The trellis of dependent quantization (docs/format.md, section 3.8). From state s a coded level
// of parity b leads to state 2 (s mod 4) + (b xor e(s)), where e is 1 for states 2 to 5; even
// states have the first quantizer, odd ones the second. So state t is reached from t / 2 and t / 2
// + 4.

namespace docofl {
namespace DOCOFL_ISA {
namespace {

// --- costs -----------------------------------------------------------------------------------

// Levels alternate between even and odd along the line, so the nearest of either kind are the two
// neighbours of a value; but where levels are a single step apart, at -1 and 0 of the first
// quantizer and at 0 and 1 of the second, these two are the nearest of some more values.
inline std::int32_t lower_neighbour(const TrellisGrid& grid, int quantizer, float u) {
  const float y = quantizer == 1 && grid.mirrored ? -u : u;
  const bool is_first = quantizer == 0 || grid.mirrored;
  const float half = is_first ? (y < -1.5f  ? (y - 1.0f) * 0.5f
                                 : y < 0.5f ? -0.5f
                                            : y * 0.5f)
                              : (y < -0.5f  ? y * 0.5f
                                 : y < 1.5f ? 0.5f
                                            : (y + 1.0f) * 0.5f);
  const std::int32_t place = static_cast<std::int32_t>(__builtin_floorf(half)) - grid.base;
  const std::int32_t floored = place > 0 ? place : 0;
  return floored < grid.last - 1 ? floored : grid.last - 1;
}

inline float inside_or_placeholder(const TrellisGrid& grid, float x) {
  const float u = (x - grid.origin) * grid.inverse_step;
  return u >= grid.low && u <= grid.high ? u : grid.placeholder;
}

inline void trellis_costs_of_one(const TrellisGrid& grid, float u, std::int32_t first,
                                 std::int32_t second, float costs[4], std::uint8_t candidates[4]) {
  const TrellisNeighbours& a = grid.neighbours[0][first];
  const TrellisNeighbours& b = grid.neighbours[1][second];
  const float places[4] = {a.even_place, a.odd_place, b.even_place, b.odd_place};
  const float rates[4] = {a.even_rate, a.odd_rate, b.even_rate, b.odd_rate};
  const std::int32_t levels[4] = {(first + 1) & ~1, first | 1, (second + 1) & ~1, second | 1};
  for (int k = 0; k < 4; ++k) {
    const float near_error = u - places[k];
    const float near_cost = near_error * near_error + rates[k];
    const float error = u - grid.frequent_places[k];
    const float cost = error * error + grid.frequent_rates[k];
    costs[k] = cost < near_cost ? cost : near_cost;
    candidates[k] = cost < near_cost ? grid.frequent[k] : static_cast<std::uint8_t>(levels[k]);
  }
}

#if defined(__AVX2__)

inline __m256i lower_neighbour_lanes(const TrellisGrid& grid, int quantizer, __m256 u) {
  const __m256 y = quantizer == 1 && grid.mirrored ? _mm256_xor_ps(u, _mm256_set1_ps(-0.0f)) : u;
  const bool is_first = quantizer == 0 || grid.mirrored;
  const __m256 is_low = _mm256_cmp_ps(y, _mm256_set1_ps(is_first ? -1.5f : -0.5f), _CMP_LT_OQ);
  const __m256 is_not_high = _mm256_cmp_ps(y, _mm256_set1_ps(is_first ? 0.5f : 1.5f), _CMP_LT_OQ);
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 low = is_first ? _mm256_sub_ps(y, one) : y;
  const __m256 high = is_first ? y : _mm256_add_ps(y, one);
  const __m256 between = _mm256_set1_ps(is_first ? -1.0f : 1.0f);
  const __m256 doubled =
      _mm256_blendv_ps(_mm256_blendv_ps(high, between, is_not_high), low, is_low);
  const __m256i place = _mm256_sub_epi32(
      _mm256_cvttps_epi32(_mm256_floor_ps(_mm256_mul_ps(doubled, _mm256_set1_ps(0.5f)))),
      _mm256_set1_epi32(grid.base));
  return _mm256_min_epi32(_mm256_max_epi32(place, _mm256_setzero_si256()),
                          _mm256_set1_epi32(grid.last - 1));
}

// Neighbours are looked up one value at a time: on many processors a gather takes longer.
void trellis_costs_of_eight(const TrellisGrid& grid, const float* x, float* costs,
                            std::uint8_t* candidates) {
  const __m256 any = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x), _mm256_set1_ps(grid.origin)),
                                   _mm256_set1_ps(grid.inverse_step));
  const __m256 is_inside = _mm256_and_ps(_mm256_cmp_ps(any, _mm256_set1_ps(grid.low), _CMP_GE_OQ),
                                         _mm256_cmp_ps(any, _mm256_set1_ps(grid.high), _CMP_LE_OQ));
  const __m256 u = _mm256_blendv_ps(_mm256_set1_ps(grid.placeholder), any, is_inside);
  const __m256i lower[2] = {lower_neighbour_lanes(grid, 0, u), lower_neighbour_lanes(grid, 1, u)};
  const __m256i one = _mm256_set1_epi32(1);
  __m256i levels = _mm256_setzero_si256();
  for (int quantizer = 1; quantizer >= 0; --quantizer) {
    const __m256i even = _mm256_andnot_si256(one, _mm256_add_epi32(lower[quantizer], one));
    const __m256i odd = _mm256_or_si256(lower[quantizer], one);
    levels = _mm256_or_si256(_mm256_slli_epi32(levels, 16),
                             _mm256_or_si256(even, _mm256_slli_epi32(odd, 8)));
  }
  alignas(32) float values[8];
  alignas(32) std::int32_t firsts[8], seconds[8];
  _mm256_store_ps(values, u);
  _mm256_store_si256(reinterpret_cast<__m256i*>(firsts), lower[0]);
  _mm256_store_si256(reinterpret_cast<__m256i*>(seconds), lower[1]);
  const __m128 frequent_places = _mm_loadu_ps(grid.frequent_places);
  const __m128 frequent_rates = _mm_loadu_ps(grid.frequent_rates);
  __m128i is_frequent[8];
  for (std::size_t k = 0; k < 8; ++k) {
    const __m128 value = _mm_broadcast_ss(values + k);
    const __m128 a = _mm_loadu_ps(&grid.neighbours[0][firsts[k]].even_place);
    const __m128 b = _mm_loadu_ps(&grid.neighbours[1][seconds[k]].even_place);
    const __m128 near_error = _mm_sub_ps(value, _mm_movelh_ps(a, b));
    const __m128 near_cost = _mm_add_ps(_mm_mul_ps(near_error, near_error), _mm_movehl_ps(b, a));
    const __m128 error = _mm_sub_ps(value, frequent_places);
    const __m128 cost = _mm_add_ps(_mm_mul_ps(error, error), frequent_rates);
    _mm_storeu_ps(costs + 4 * k, _mm_min_ps(cost, near_cost));
    is_frequent[k] = _mm_castps_si128(_mm_cmplt_ps(cost, near_cost));
  }
  // A byte for each comparison.
  const __m128i low = _mm_packs_epi16(_mm_packs_epi32(is_frequent[0], is_frequent[1]),
                                      _mm_packs_epi32(is_frequent[2], is_frequent[3]));
  const __m128i high = _mm_packs_epi16(_mm_packs_epi32(is_frequent[4], is_frequent[5]),
                                       _mm_packs_epi32(is_frequent[6], is_frequent[7]));
  std::int32_t frequent;
  memcpy(&frequent, grid.frequent, sizeof frequent);
  const __m256i chosen =
      _mm256_blendv_epi8(levels, _mm256_set1_epi32(frequent), _mm256_set_m128i(high, low));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(candidates), chosen);
}

#endif

void trellis_costs(const TrellisGrid& grid, const float* x, std::size_t n, float* costs,
                   std::uint8_t* candidates) {
  std::size_t i = 0;
#if defined(__AVX2__)
  for (; i + 8 <= n; i += 8) {
    trellis_costs_of_eight(grid, x + i, costs + 4 * i, candidates + 4 * i);
  }
#endif
  for (; i < n; ++i) {
    const float u = inside_or_placeholder(grid, x[i]);
    trellis_costs_of_one(grid, u, lower_neighbour(grid, 0, u), lower_neighbour(grid, 1, u),
                         costs + 4 * i, candidates + 4 * i);
  }
}

// --- the cheapest path -----------------------------------------------------------------------

void trellis_advance(const float* costs, std::size_t n, float metrics[kTrellisStates],
                     std::uint8_t* decisions) {
#if defined(__AVX2__)
  const __m256i low_states = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  const __m256i high_states = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
  const __m256i low_costs = _mm256_setr_epi32(0, 1, 2, 3, 1, 0, 3, 2);
  const __m256i high_costs = _mm256_setr_epi32(1, 0, 3, 2, 0, 1, 2, 3);
  __m256 metric = _mm256_loadu_ps(metrics);
  for (std::size_t i = 0; i < n; ++i) {
    const __m256 cost = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(costs + 4 * i));
    const __m256 low = _mm256_add_ps(_mm256_permutevar8x32_ps(metric, low_states),
                                     _mm256_permutevar_ps(cost, low_costs));
    const __m256 high = _mm256_add_ps(_mm256_permutevar8x32_ps(metric, high_states),
                                      _mm256_permutevar_ps(cost, high_costs));
    metric = _mm256_min_ps(high, low);
    decisions[i] =
        static_cast<std::uint8_t>(_mm256_movemask_ps(_mm256_cmp_ps(high, low, _CMP_LT_OQ)));
  }
  _mm256_storeu_ps(metrics, metric);
#else
  constexpr int kLowCosts[kTrellisStates] = {0, 1, 2, 3, 1, 0, 3, 2};
  constexpr int kHighCosts[kTrellisStates] = {1, 0, 3, 2, 0, 1, 2, 3};
  for (std::size_t i = 0; i < n; ++i, costs += 4) {
    float next[kTrellisStates];
    unsigned decision = 0;
    for (unsigned t = 0; t < kTrellisStates; ++t) {
      const float low = metrics[t / 2] + costs[kLowCosts[t]];
      const float high = metrics[t / 2 + 4] + costs[kHighCosts[t]];
      next[t] = high < low ? high : low;
      decision |= static_cast<unsigned>(high < low) << t;
    }
    memcpy(metrics, next, sizeof next);
    decisions[i] = static_cast<std::uint8_t>(decision);
  }
#endif
}

// --- decoding --------------------------------------------------------------------------------

// By state and the parities of eight levels: their quantizers in the low byte, then the state after
// them.
struct TrellisSteps {
  constexpr TrellisSteps() {
    for (unsigned start = 0; start < kTrellisStates; ++start) {
      for (unsigned parities = 0; parities < 256; ++parities) {
        unsigned state = start;
        unsigned quantizers = 0;
        for (unsigned k = 0; k < 8; ++k) {
          quantizers |= (state & 1) << k;
          const unsigned turn = state >= 2 && state <= 5;
          state = 2 * (state & 3) + ((parities >> k & 1) ^ turn);
        }
        after[start][parities] = static_cast<std::uint16_t>(quantizers | state << 8);
      }
    }
  }
  std::uint16_t after[kTrellisStates][256] = {};
};
constexpr TrellisSteps kTrellisSteps;

// Follows 32 levels; returns their quantizers.
inline std::uint32_t trellis_follow_32(std::uint32_t parities, unsigned* state) {
  std::uint32_t quantizers = 0;
  for (unsigned k = 0; k < 32; k += 8) {
    const unsigned step = kTrellisSteps.after[*state][parities >> k & 0xff];
    quantizers |= (step & 0xff) << k;
    *state = step >> 8;
  }
  return quantizers;
}

template <bool kPairs>
inline void trellis_follow_group(const std::uint8_t* levels, std::uint8_t offset, unsigned* state,
                                 std::uint8_t* coded) {
#if defined(__AVX2__)
  const __m256i all =
      kPairs ? split_pairs(levels) : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(levels));
  const std::uint32_t parities =
      static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(all, 7)));
  const std::uint32_t quantizers = trellis_follow_32(parities, state);
  // Each byte gets the bit that is its own.
  const __m256i bytes =
      _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(quantizers)),
                          _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                           2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
  const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  const __m256i is_second = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), bits);
  const __m256i offsets = _mm256_and_si256(is_second, _mm256_set1_epi8(static_cast<char>(offset)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(coded), _mm256_add_epi8(all, offsets));
#else
  std::uint8_t all[32];
  std::uint32_t parities = 0;
  for (unsigned k = 0; k < 32; ++k) {
    const unsigned pair = levels[kPairs ? k / 2 : k];
    all[k] = static_cast<std::uint8_t>(!kPairs ? pair : k % 2 == 0 ? pair >> 4 : pair & 15);
    parities |= static_cast<std::uint32_t>(all[k] & 1) << k;
  }
  const std::uint32_t quantizers = trellis_follow_32(parities, state);
  for (unsigned k = 0; k < 32; ++k) {
    coded[k] = static_cast<std::uint8_t>(all[k] + (quantizers >> k & 1) * offset);
  }
#endif
}

// Four runs side by side, since each waits for its own look-ups.
template <bool kPairs>
void trellis_follow_as(const std::uint8_t* levels, std::size_t runs, std::size_t length,
                       std::uint8_t offset, std::uint8_t* coded) {
  const auto follow = [&](std::size_t at, unsigned* state) {
    trellis_follow_group<kPairs>(levels + (kPairs ? at / 2 : at), offset, state, coded + at);
  };
  std::size_t run = 0;
  for (; run + 4 <= runs; run += 4) {
    unsigned states[4] = {};
    for (std::size_t i = 0; i < length; i += 32) {
      for (std::size_t k = 0; k < 4; ++k) follow((run + k) * length + i, &states[k]);
    }
  }
  for (; run < runs; ++run) {
    unsigned state = 0;
    for (std::size_t i = 0; i < length; i += 32) follow(run * length + i, &state);
  }
}

void trellis_follow(const std::uint8_t* levels, bool pairs, std::size_t runs, std::size_t length,
                    std::uint8_t offset, std::uint8_t* coded) {
  if (pairs) {
    trellis_follow_as<true>(levels, runs, length, offset, coded);
  } else {
    trellis_follow_as<false>(levels, runs, length, offset, coded);
  }
}

}  // namespace
}  // namespace DOCOFL_ISA
}  // namespace docofl
