// Decoding of rANS: the same steps on all levels, eight states at a time with AVX2.

namespace docofl {
namespace DOCOFL_ISA {
namespace {

constexpr std::uint32_t kRansLowest = std::uint32_t(1) << 16;

#if defined(__AVX2__)

// For each set of states that take a word, the bytes of the words that each state takes: a shuffle
// puts the next eight words where they belong, and zeros elsewhere.
struct RansPlaces {
  constexpr RansPlaces() {
    for (unsigned taking = 0; taking < 256; ++taking) {
      std::uint8_t word = 0;
      for (std::size_t lane = 0; lane < 8; ++lane) {
        const bool takes = (taking >> lane & 1) != 0;
        bytes[taking][4 * lane] = takes ? static_cast<std::uint8_t>(2 * word) : 0x80;
        bytes[taking][4 * lane + 1] = takes ? static_cast<std::uint8_t>(2 * word + 1) : 0x80;
        bytes[taking][4 * lane + 2] = 0x80;
        bytes[taking][4 * lane + 3] = 0x80;
        if (takes) ++word;
      }
    }
  }
  alignas(32) std::uint8_t bytes[256][32] = {};
};
constexpr RansPlaces kRansPlaces;

// One step of eight states; returns their symbols.
inline __m256i rans_step(const std::uint32_t* entries, __m256i* states, const std::uint8_t** next) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(kRansMask));
  alignas(32) std::uint32_t numbers[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(numbers), _mm256_and_si256(*states, mask));
  // Loads are free; taking numbers out of a vector, as compilers would do it, is not: hence
  // volatile.
  const volatile std::uint32_t* const stored = numbers;
  const __m256i entry = look_up_eight(entries, stored);
  const __m256i high = _mm256_srli_epi32(*states, kRansBits);
  const __m256i frequency = _mm256_and_si256(entry, mask);
  const __m256i place = _mm256_and_si256(_mm256_srli_epi32(entry, kRansBits), mask);
  const __m256i state = _mm256_add_epi32(_mm256_mullo_epi32(frequency, high), place);
  const __m256i is_low = _mm256_cmpeq_epi32(_mm256_srli_epi32(state, 16), _mm256_setzero_si256());
  const unsigned taking = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(is_low)));
  const __m256i words = _mm256_shuffle_epi8(
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(*next))),
      _mm256_load_si256(reinterpret_cast<const __m256i*>(kRansPlaces.bytes[taking])));
  const __m256i shifts = _mm256_and_si256(is_low, _mm256_set1_epi32(16));
  *states = _mm256_or_si256(_mm256_sllv_epi32(state, shifts), words);
  *next += 2 * static_cast<std::size_t>(__builtin_popcount(taking));
  return _mm256_srli_epi32(entry, kRansNameShift);
}

#endif

std::size_t rans_decode(const std::uint32_t* entries, RansStream* stream, std::size_t count,
                        std::uint8_t* symbols) {
  constexpr std::ptrdiff_t kStepBytes = 2 * std::ptrdiff_t(kRansLanes);
  const std::uint8_t* next = stream->next;
  std::size_t done = 0;
  // SAFETY: a step takes at most one word a state, so kStepBytes from `next`.
#if defined(__AVX2__)
  __m256i states[4];
  for (std::size_t k = 0; k < 4; ++k) {
    states[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(stream->states + 8 * k));
  }
  for (; done + kRansLanes <= count && stream->end - next >= kStepBytes; done += kRansLanes) {
    const __m256i a = rans_step(entries, &states[0], &next);
    const __m256i b = rans_step(entries, &states[1], &next);
    const __m256i c = rans_step(entries, &states[2], &next);
    const __m256i d = rans_step(entries, &states[3], &next);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + done), pack_bytes(a, b, c, d));
  }
  for (std::size_t k = 0; k < 4; ++k) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(stream->states + 8 * k), states[k]);
  }
#else
  for (; done + kRansLanes <= count && stream->end - next >= kStepBytes; done += kRansLanes) {
    for (unsigned lane = 0; lane < kRansLanes; ++lane) {
      std::uint32_t state = stream->states[lane];
      const std::uint32_t entry = entries[state & kRansMask];
      state = (entry & kRansMask) * (state >> kRansBits) + (entry >> kRansBits & kRansMask);
      if (state < kRansLowest) {
        state = state << 16 | next[0] | static_cast<std::uint32_t>(next[1]) << 8;
        next += 2;
      }
      stream->states[lane] = state;
      symbols[done + lane] = static_cast<std::uint8_t>(entry >> kRansNameShift);
    }
  }
#endif
  stream->next = next;
  return done;
}

}  // namespace
}  // namespace DOCOFL_ISA
}  // namespace docofl
