// Plain loops, compiled once per ISA level; DOCOFL_ISA names the level and its namespace.
//
// No standard templates and no inline functions of other headers here: their symbols are shared
// between object files, and the linker could keep the one that was compiled for the wrong level.
// Everything has internal linkage.

#include <string.h>

#include "kernels/kernels.h"
#if defined(__AVX2__)
#include "kernels/lanes_avx2.inl"
#endif

#include "kernels/eden_kernels.inl"
#include "kernels/rans_kernels.inl"
#include "kernels/transform_kernels.inl"
#include "kernels/trellis_kernels.inl"

#define DOCOFL_STRINGIFY_(x) #x
#define DOCOFL_STRINGIFY(x) DOCOFL_STRINGIFY_(x)

namespace docofl {
namespace DOCOFL_ISA {
namespace {

// --- range -----------------------------------------------------------------------------------

inline std::int32_t order_key(float x) {
  std::int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

void key_range(const float* x, std::size_t n, std::int32_t* lo, std::int32_t* hi) {
  std::size_t i = 0;
#if defined(__AVX2__)
  i = key_range_lanes(x, n, lo, hi);
#endif
  std::int32_t low = *lo;
  std::int32_t high = *hi;
  for (; i < n; ++i) {
    const std::int32_t key = order_key(x[i]);
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  *lo = low;
  *hi = high;
}

// In 64 sums, so that the order of additions is the same on all levels.
double sum_deviations(const DeviationParams& deviation, const float* x, std::size_t runs,
                      std::size_t stride) {
  float sums[64] = {};
#if defined(__AVX2__)
  sum_deviation_lanes(deviation, x, runs, stride, sums);
#else
  for (std::size_t run = 0; run < runs; ++run, x += stride) {
    for (std::size_t k = 0; k < 64; ++k) {
      const float distance = __builtin_fabsf(x[k] - deviation.centre);
      sums[k] += distance < deviation.limit ? distance : deviation.limit;
    }
  }
#endif
  double total = 0;
  for (const float sum : sums) total += static_cast<double>(sum);
  return total;
}

// --- quantization ----------------------------------------------------------------------------

// Both comparisons are false for NaN, which so becomes `low`: the cast to integer is always
// defined.
template <class Real>
inline Real clamp(Real value, Real low, Real high) {
  const Real floored = value > low ? value : low;
  return floored < high ? floored : high;
}

template <class Real>
void quantize_as(const GridParams& grid, const float* x, std::size_t n, std::int32_t* levels) {
  const Real x_min = static_cast<Real>(grid.x_min);
  const Real inverse_step = static_cast<Real>(grid.inverse_step);
  const Real last = static_cast<Real>(grid.num_levels - 1);
  for (std::size_t i = 0; i < n; ++i) {
    const Real position = (static_cast<Real>(x[i]) - x_min) * inverse_step;
    levels[i] = static_cast<std::int32_t>(clamp(position, Real(0), last));
  }
}

void quantize(const GridParams& grid, const float* x, std::size_t n, std::int32_t* levels) {
  if (grid.narrow) {
    quantize_as<float>(grid, x, n, levels);
  } else {
    quantize_as<double>(grid, x, n, levels);
  }
}

template <class Real>
std::size_t quantize_window_as(const GridParams& grid, const WindowParams& window, const float* x,
                               std::size_t n, std::uint8_t* coded) {
  const Real x_min = static_cast<Real>(grid.x_min);
  const Real inverse_step = static_cast<Real>(grid.inverse_step);
  const Real last = static_cast<Real>(grid.num_levels - 1);
  const std::int32_t last_place = window.span - 1;
  std::size_t outside = 0;
  std::size_t i = 0;
#if defined(__AVX2__)
  i = quantize_window_lanes<Real>(grid, window, x, n, coded, &outside);
#endif
  for (; i < n; ++i) {
    const Real position = (static_cast<Real>(x[i]) - x_min) * inverse_step;
    const std::int32_t level = static_cast<std::int32_t>(clamp(position, Real(0), last));
    const std::int32_t place = level - window.base;
    const std::int32_t floored = place > 0 ? place : 0;
    const std::int32_t inside = floored < last_place ? floored : last_place;
    outside += inside != place;
    coded[i] = static_cast<std::uint8_t>(inside);
  }
  return outside;
}

std::size_t quantize_window(const GridParams& grid, const WindowParams& window, const float* x,
                            std::size_t n, std::uint8_t* coded) {
  return grid.narrow ? quantize_window_as<float>(grid, window, x, n, coded)
                     : quantize_window_as<double>(grid, window, x, n, coded);
}

std::size_t split_levels(const WindowParams& window, unsigned raw_bits, const std::int32_t* levels,
                         std::size_t n, std::uint8_t* coded, std::uint32_t* raw) {
  const std::uint32_t mask = (1u << raw_bits) - 1;
  const std::int32_t last = window.span - 1;
  std::uint32_t outside = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t offset = levels[i] - window.base;
    const std::int32_t floored = offset > 0 ? offset : 0;
    const std::int32_t inside = floored < last ? floored : last;
    outside += inside != offset;
    coded[i] = static_cast<std::uint8_t>(inside >> raw_bits);
    raw[i] = static_cast<std::uint32_t>(inside) & mask;
  }
  return outside;
}

template <class Real>
void reconstruct_grid(const Reconstruction& work, std::size_t n) {
  const Real x_min = static_cast<Real>(work.grid.x_min);
  const Real step = static_cast<Real>(work.grid.step);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t level = work.base + work.coded[i];
    work.out[i] = static_cast<float>(x_min + (static_cast<Real>(level) + Real(0.5)) * step);
  }
}

// k + 1/2 + d/64 is exact: the levels of a narrow grid have at most 14 bits.
void reconstruct_displaced(const Reconstruction& work, std::size_t n) {
  const float x_min = static_cast<float>(work.grid.x_min);
  const float step = static_cast<float>(work.grid.step);
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned place = work.coded[i] - work.first_displaced;
    const int displacement = place < kMaxDisplaced ? work.displacements[place] : 0;
    const float centre = static_cast<float>(work.base + work.coded[i]) + 0.5f;
    work.out[i] = x_min + (centre + static_cast<float>(displacement) * kDisplacementUnit) * step;
  }
}

// Writes n values, an even number of pairs unless they are the last.
void reconstruct_some(Reconstruction* work, std::size_t n) {
  if (work->pairs) {
    for (std::size_t i = 0; i < n; ++i) {
      const unsigned pair = work->coded[i / 2];
      work->out[i] = work->table[i % 2 == 0 ? pair >> 4 : pair & 15];
    }
  } else if (work->table != nullptr) {
    for (std::size_t i = 0; i < n; ++i) work->out[i] = work->table[work->coded[i]];
  } else if (work->displacements != nullptr) {
    reconstruct_displaced(*work, n);
  } else if (work->grid.narrow) {
    reconstruct_grid<float>(*work, n);
  } else {
    reconstruct_grid<double>(*work, n);
  }
  work->coded += work->pairs ? n / 2 : n;
  work->out += n;
  work->count -= n;
}

void reconstruct(Reconstruction* work) {
#if defined(__AVX2__)
  with_lanes(work, [&](const auto& lanes) {
    Reconstruction rest = *work;  // in registers: values could be its fields for all that is known
    while (rest.count >= kGroup) lanes.write_group(&rest);
    *work = rest;
  });
  if (work->past_caches) _mm_sfence();
#endif
  reconstruct_some(work, work->count);
}

template <class Real>
void reconstruct_raw_as(const GridParams& grid, std::int32_t base, unsigned raw_bits,
                        const std::uint8_t* coded, const std::uint32_t* raw, std::size_t n,
                        float* out) {
  const Real x_min = static_cast<Real>(grid.x_min);
  const Real step = static_cast<Real>(grid.step);
  const std::int32_t last = grid.num_levels - 1;
  for (std::size_t i = 0; i < n; ++i) {
    // base + 256 * 2^24 overflows 32 bits only as an unsigned value would: base < 2^30.
    const std::uint32_t any = static_cast<std::uint32_t>(base) +
                              (static_cast<std::uint32_t>(coded[i]) << raw_bits) + raw[i];
    const std::int32_t level =
        any < static_cast<std::uint32_t>(last) ? static_cast<std::int32_t>(any) : last;
    out[i] = static_cast<float>(x_min + (static_cast<Real>(level) + Real(0.5)) * step);
  }
}

void reconstruct_raw(const GridParams& grid, std::int32_t base, unsigned raw_bits,
                     const std::uint8_t* coded, const std::uint32_t* raw, std::size_t n,
                     float* out) {
  if (grid.narrow) {
    reconstruct_raw_as<float>(grid, base, raw_bits, coded, raw, n, out);
  } else {
    reconstruct_raw_as<double>(grid, base, raw_bits, coded, raw, n, out);
  }
}

// --- symbols ---------------------------------------------------------------------------------

template <unsigned kTuple>
void pack_tuples_of(const std::uint8_t* coded, std::size_t count, unsigned num_levels,
                    std::uint8_t* symbols) {
  const std::uint8_t factor = static_cast<std::uint8_t>(num_levels);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t symbol = coded[i * kTuple];
    for (unsigned k = 1; k < kTuple; ++k) {
      symbol = static_cast<std::uint8_t>(symbol * factor + coded[i * kTuple + k]);
    }
    symbols[i] = symbol;
  }
}

void pack_tuples(const std::uint8_t* coded, std::size_t count, unsigned num_levels, unsigned tuple,
                 std::uint8_t* symbols) {
  switch (tuple) {
    case 2: return pack_tuples_of<2>(coded, count, num_levels, symbols);
    case 4: return pack_tuples_of<4>(coded, count, num_levels, symbols);
    case 6: return pack_tuples_of<6>(coded, count, num_levels, symbols);
    default: memcpy(symbols, coded, count);
  }
}

// Four tables, so that equal neighbours do not wait for each other's store.
void histogram(const std::uint8_t* symbols, std::size_t n, std::uint32_t counts[256]) {
  std::uint32_t tables[4][256];
  memset(tables, 0, sizeof tables);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    std::uint64_t word;
    memcpy(&word, symbols + i, 8);
    ++tables[0][word & 0xff];
    ++tables[1][(word >> 8) & 0xff];
    ++tables[2][(word >> 16) & 0xff];
    ++tables[3][(word >> 24) & 0xff];
    ++tables[0][(word >> 32) & 0xff];
    ++tables[1][(word >> 40) & 0xff];
    ++tables[2][(word >> 48) & 0xff];
    ++tables[3][word >> 56];
  }
  for (; i < n; ++i) ++tables[0][symbols[i]];
  for (int s = 0; s < 256; ++s) {
    counts[s] += tables[0][s] + tables[1][s] + tables[2][s] + tables[3][s];
  }
}

// --- bit streams -----------------------------------------------------------------------------

inline std::uint64_t load64(const std::uint8_t* from) {
  std::uint64_t value;
  memcpy(&value, from, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
}

inline void store64(std::uint8_t* to, std::uint64_t value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  memcpy(to, &value, 8);
}

// Code words on their way into memory.
class WordWriter {
 public:
  explicit WordWriter(std::uint8_t* out) : start_(out), out_(out) {}

  // Appends `length` bits, fewer than 57.
  void put(std::uint64_t bits, unsigned length) {
    pending_ |= bits << used_;
    store64(out_, pending_);
    used_ += length;
    out_ += used_ >> 3;
    pending_ >>= used_ & 0x38;
    used_ &= 7;
  }

  std::size_t bytes() const { return static_cast<std::size_t>(out_ - start_) + (used_ > 0); }

 private:
  std::uint8_t* const start_;
  std::uint8_t* out_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;
};

// Joins kGroup code words first, so that only one shift and one store a group depend on the group
// before: kGroup * max_length + 7 <= 63 bits. Words enter a container from the top; the lengths in
// the words' low bytes leave dirt below (kGroup * max_length <= 56).
template <unsigned kGroup>
inline void put_words(const std::uint8_t* symbols, const std::uint64_t words[256],
                      WordWriter* writer) {
  std::uint64_t group = 0;
  std::uint64_t lengths = 0;
  for (unsigned k = 0; k < kGroup; ++k) {
    const std::uint64_t word = words[symbols[k]];
    group = (group >> (word & 63)) | word;
    lengths += word;
  }
  const unsigned length = lengths & 0xff;
  writer->put(group >> (64 - length), length);
}

template <unsigned kGroup>
std::size_t huffman_encode_by(const std::uint8_t* symbols, std::size_t n,
                              const std::uint64_t words[256], const FetchAhead& ahead,
                              std::uint8_t* out) {
  WordWriter writer(out);
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    __builtin_prefetch(ahead.data + i * ahead.stride, 0, 2);
    put_words<kGroup>(symbols + i, words, &writer);
  }
  for (; i < n; ++i) put_words<1>(symbols + i, words, &writer);
  return writer.bytes();
}

// The places in a table of pairs of n / 2 pairs of symbols; n must be a multiple of 32.
inline void pair_places(const std::uint8_t* symbols, std::size_t n, std::uint8_t first,
                        std::uint16_t* places) {
#if defined(__AVX2__)
  for (std::size_t i = 0; i < n; i += 32) pair_place_lanes(symbols + i, first, places + i / 2);
#else
  const auto digit = [&](std::size_t i) -> unsigned {
    const std::uint8_t place = static_cast<std::uint8_t>(symbols[i] - first);
    return place < kPairSymbols ? place : kPairSymbols;
  };
  for (std::size_t i = 0; i < n; i += 2) {
    places[i / 2] = static_cast<std::uint16_t>(digit(i) + kPairStride * digit(i + 1));
  }
#endif
}

// Eight symbols at a time, by pairs; by single ones where a pair has no word.
std::size_t huffman_encode_pairs(const std::uint8_t* symbols, std::size_t n,
                                 const std::uint64_t words[256], const HuffmanPairs& pairs,
                                 const FetchAhead& ahead, std::uint8_t* out) {
  constexpr std::size_t kPiece = 1024;
  std::uint16_t places[kPiece / 2];
  WordWriter writer(out);
  std::size_t i = 0;
  while (n - i >= 32) {
    const std::size_t piece = n - i < kPiece ? (n - i) / 32 * 32 : kPiece;
    pair_places(symbols + i, piece, pairs.first, places);
    const std::uint8_t* fetched = ahead.data + i * ahead.stride;
    for (std::size_t k = 0; k < piece / 2; k += 4, fetched += 8 * ahead.stride) {
      __builtin_prefetch(fetched, 0, 2);
      // SAFETY: digits are at most kPairSymbols, so a place is below kPairStride^2.
      std::uint64_t group = pairs.words[places[k]];
      std::uint64_t lengths = group;
      for (std::size_t j = 1; j < 4; ++j) {
        const std::uint64_t word = pairs.words[places[k + j]];
        group = (group >> (word & 63)) | word;
        lengths += word;
      }
      const unsigned length = lengths & 0xff;
      if (length <= 4 * kMaxPairLength) {
        writer.put(group >> (64 - length), length);
      } else {
        const std::uint8_t* const eight = symbols + i + 2 * k;
        for (std::size_t j = 0; j < 8; j += 2) put_words<2>(eight + j, words, &writer);
      }
    }
    i += piece;
  }
  for (; i < n; ++i) put_words<1>(symbols + i, words, &writer);
  return writer.bytes();
}

std::size_t huffman_encode(const std::uint8_t* symbols, std::size_t n,
                           const std::uint64_t words[256], unsigned max_length,
                           const HuffmanPairs* pairs, const FetchAhead& ahead, std::uint8_t* out) {
  // Where nothing is to be fetched, something that is there.
  const FetchAhead fetch = ahead.data != nullptr ? ahead : FetchAhead{symbols, 0};
  if (pairs != nullptr) return huffman_encode_pairs(symbols, n, words, *pairs, fetch, out);
  if (max_length <= 8) return huffman_encode_by<7>(symbols, n, words, fetch, out);
  if (max_length <= 11) return huffman_encode_by<5>(symbols, n, words, fetch, out);
  if (max_length <= 14) return huffman_encode_by<4>(symbols, n, words, fetch, out);
  return huffman_encode_by<3>(symbols, n, words, fetch, out);
}

inline std::uint32_t reverse16(std::uint32_t v) {
  v = ((v >> 1) & 0x5555) | ((v & 0x5555) << 1);
  v = ((v >> 2) & 0x3333) | ((v & 0x3333) << 2);
  v = ((v >> 4) & 0x0f0f) | ((v & 0x0f0f) << 4);
  return ((v >> 8) & 0x00ff) | ((v & 0x00ff) << 8);
}

// The entry of a word that is longer than the table's index, by its first bits.
// SAFETY: the bits were loaded again since the index showed a long word, and memory that another
// thread writes may hold a short one by now: the first long word stands for those.
inline std::uint64_t long_word(const HuffmanTable& table, std::uint64_t bits) {
  const std::uint32_t found = reverse16(static_cast<std::uint32_t>(bits & 0xffff));
  const std::uint32_t first = table.limit[kStreamIndexBits];
  const std::uint32_t fraction = found < first ? first : found;
  unsigned length = kStreamIndexBits + 1;
  // The code is complete: limit[kMaxCodeLength] = 2^16 ends the search.
  while (fraction >= table.limit[length]) ++length;
  // SAFETY: the rank is below the number of words of this length.
  const std::uint32_t rank = (fraction - table.limit[length - 1]) >> (kMaxCodeLength - length);
  return table.words[table.first[length] + rank];
}

// Look-ups a refill: a refill gives 63 - 7 bits, as the top one is a marker.
constexpr unsigned kSteps = 4;
static_assert(kSteps * kStreamIndexBits <= 56, "a refill must last for all steps");

// How many rounds fit a stream. A round reads 8 bytes at `next`, moves it by at most 7, and for a
// long word reads 8 again and moves by 3 more; it writes at most kSteps + 1 entries and the 2 bytes
// of the last that are not meant.
inline std::size_t rounds_within(const HuffmanStream& stream, const std::uint8_t* next,
                                 const std::uint8_t* out) {
  const std::size_t input = static_cast<std::size_t>(stream.end - next);
  const std::size_t room = static_cast<std::size_t>(stream.out_end - out);
  const std::size_t by_input = input < 5 ? 0 : (input - 5) / 10;
  constexpr std::size_t kRoundBytes = std::size_t(kSteps + 1) * kEntryBytes;
  const std::size_t by_room = room < 2 ? 0 : (room - 2) / kRoundBytes;
  return by_input < by_room ? by_input : by_room;
}

// The marker in the top bit moves down as bits are used: its place tells how many that were, and no
// counter is needed.
#define DOCOFL_DECODE_REFILL(s) buffer##s = (load64(next##s) | std::uint64_t(1) << 63) >> used##s;

// One look-up. The eight bytes are stored whole; the count says how many are meant.
#define DOCOFL_DECODE_STEP(s)                       \
  entry##s = entries[buffer##s & kStreamIndexMask]; \
  buffer##s >>= entry##s & 63;                      \
  store64(out##s, entry##s >> kEntryBytesShift);    \
  out##s += entry##s >> kEntryCountShift;

#define DOCOFL_DECODE_ADVANCE(s)                               \
  used##s = static_cast<unsigned>(__builtin_clzll(buffer##s)); \
  next##s += used##s >> 3;                                     \
  used##s &= 7;

#define DOCOFL_DECODE_LONG(s)                                \
  if (entry##s >> kEntryCountShift == 0) {                   \
    entry##s = long_word(table, load64(next##s) >> used##s); \
    store64(out##s, entry##s >> kEntryBytesShift);           \
    out##s += entry##s >> kEntryCountShift;                  \
    used##s += static_cast<unsigned>(entry##s & 63);         \
    next##s += used##s >> 3;                                 \
    used##s &= 7;                                            \
  }

#define DOCOFL_DECODE_LOAD(s)                    \
  const std::uint8_t* next##s = streams[s].next; \
  std::uint8_t* out##s = streams[s].out;         \
  unsigned used##s = streams[s].bit;             \
  std::uint64_t buffer##s;                       \
  std::uint64_t entry##s = 0;

#define DOCOFL_DECODE_SAVE(s) \
  streams[s].next = next##s;  \
  streams[s].out = out##s;    \
  streams[s].bit = used##s;

#define DOCOFL_FOR_STREAMS(step) step(0) step(1) step(2) step(3)

// `lanes` write values of `beside` in every round, as long as there are any.
template <class Lanes>
void huffman_decode_with(const HuffmanTable& table, HuffmanStream streams[kHuffmanStreams],
                         const Lanes& lanes, Reconstruction* beside) {
  const std::uint64_t* const entries = table.entries;
  DOCOFL_FOR_STREAMS(DOCOFL_DECODE_LOAD)
  for (;;) {
    // SAFETY: `rounds` rounds stay inside every stream's bounds, see rounds_within.
    const std::size_t rounds0 = rounds_within(streams[0], next0, out0);
    const std::size_t rounds1 = rounds_within(streams[1], next1, out1);
    const std::size_t rounds2 = rounds_within(streams[2], next2, out2);
    const std::size_t rounds3 = rounds_within(streams[3], next3, out3);
    const std::size_t rounds01 = rounds0 < rounds1 ? rounds0 : rounds1;
    const std::size_t rounds23 = rounds2 < rounds3 ? rounds2 : rounds3;
    std::size_t rounds = rounds01 < rounds23 ? rounds01 : rounds23;
    if (rounds == 0) break;
    for (; rounds > 0; --rounds) {
      DOCOFL_FOR_STREAMS(DOCOFL_DECODE_REFILL)
      DOCOFL_FOR_STREAMS(DOCOFL_DECODE_STEP)
      DOCOFL_FOR_STREAMS(DOCOFL_DECODE_STEP)
      DOCOFL_FOR_STREAMS(DOCOFL_DECODE_STEP)
      DOCOFL_FOR_STREAMS(DOCOFL_DECODE_STEP)
      DOCOFL_FOR_STREAMS(DOCOFL_DECODE_ADVANCE)
      // An empty entry stays in place for the rest of its round: looking at the last ones is
      // enough.
      const std::uint64_t least01 = entry0 < entry1 ? entry0 : entry1;
      const std::uint64_t least23 = entry2 < entry3 ? entry2 : entry3;
      if ((least01 < least23 ? least01 : least23) >> kEntryCountShift == 0) {
        DOCOFL_FOR_STREAMS(DOCOFL_DECODE_LONG)
      }
      lanes.write_groups(beside);
    }
  }
  DOCOFL_FOR_STREAMS(DOCOFL_DECODE_SAVE)
}

struct NoLanes {
  void write_groups(Reconstruction*) const {}
};

void huffman_decode(const HuffmanTable& table, HuffmanStream streams[kHuffmanStreams],
                    Reconstruction* beside) {
#if defined(__AVX2__)
  if (beside->count >= kGroup) {
    with_lanes(beside,
               [&](const auto& lanes) { huffman_decode_with(table, streams, lanes, beside); });
    return;
  }
#endif
  huffman_decode_with(table, streams, NoLanes(), beside);
}

#undef DOCOFL_DECODE_REFILL
#undef DOCOFL_DECODE_STEP
#undef DOCOFL_DECODE_ADVANCE
#undef DOCOFL_DECODE_LONG
#undef DOCOFL_DECODE_LOAD
#undef DOCOFL_DECODE_SAVE
#undef DOCOFL_FOR_STREAMS

void pack_raw(const std::uint32_t* raw, std::size_t n, unsigned raw_bits, std::uint8_t* out) {
  std::size_t i = 0;
  if (raw_bits <= 8) {
    for (; i + 8 <= n; i += 8, out += raw_bits) {
#if defined(__AVX2__)
      const std::uint64_t word = pack_eight(raw + i, raw_bits);
#else
      std::uint64_t word = 0;
      for (unsigned k = 0; k < 8; ++k)
        word |= static_cast<std::uint64_t>(raw[i + k]) << (k * raw_bits);
#endif
      store64(out, word);
    }
  }
  std::uint64_t pending = 0;
  unsigned used = 0;
  for (; i < n; ++i) {
    pending |= static_cast<std::uint64_t>(raw[i]) << used;
    store64(out, pending);
    used += raw_bits;
    out += used >> 3;
    pending >>= used & 0x38;
    used &= 7;
  }
}

void unpack_raw(const std::uint8_t* in, std::size_t n, unsigned raw_bits, std::uint32_t* raw) {
  const std::uint64_t mask = (std::uint64_t(1) << raw_bits) - 1;
  std::size_t i = 0;
  if (raw_bits <= 8) {
    for (; i + 8 <= n; i += 8, in += raw_bits) {
      const std::uint64_t word = load64(in);
      for (unsigned k = 0; k < 8; ++k)
        raw[i + k] = static_cast<std::uint32_t>((word >> (k * raw_bits)) & mask);
    }
  }
  for (std::size_t bit = 0; i < n; ++i, bit += raw_bits) {
    raw[i] = static_cast<std::uint32_t>((load64(in + (bit >> 3)) >> (bit & 7)) & mask);
  }
}

// --- other dtypes ----------------------------------------------------------------------------

inline float as_float(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t as_bits(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

void from_float16(const std::uint16_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t sign = static_cast<std::uint32_t>(in[i] & 0x8000) << 16;
    const std::uint32_t magnitude = in[i] & 0x7fff;
    // Normal numbers: rebias the exponent. Denormals are multiples of 2^-24, exactly.
    const std::uint32_t normal = (magnitude << 13) + (112u << 23);
    const std::uint32_t denormal =
        as_bits(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
    const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
    const std::uint32_t finite = magnitude < 0x0400 ? denormal : normal;
    out[i] = as_float(sign | (magnitude >= 0x7c00 ? special : finite));
  }
}

void from_bfloat16(const std::uint16_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = as_float(static_cast<std::uint32_t>(in[i]) << 16);
}

void from_float64(const double* in, std::size_t n, float* out) {
  // Beyond the largest float32 (after rounding) the result is an infinity, as IEEE 754 has it;
  // written out because the plain conversion is undefined in C++ there.
  const double limit = 3.4028235677973366e38;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = in[i];
    const bool fits = value < limit && value > -limit;
    const float converted = static_cast<float>(fits ? value : 0.0);
    const float beyond = value > 0   ? __builtin_inff()
                         : value < 0 ? -__builtin_inff()
                                     : __builtin_nanf("");
    out[i] = fits ? converted : beyond;
  }
}

// To nearest, ties to even; the values are finite and within the range of the target.
void to_float16(const float* in, std::size_t n, std::uint16_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = as_bits(in[i]);
    const std::uint32_t magnitude = bits & 0x7fffffff;
    const std::uint32_t odd = (magnitude >> 13) & 1;
    const std::uint32_t normal = (magnitude - (112u << 23) + 0xfff + odd) >> 13;
    // Adding 0.5 leaves the value's multiple of 2^-24 in the low bits, rounded by the hardware.
    const std::uint32_t denormal = as_bits(as_float(magnitude) + 0.5f) - 0x3f000000u;
    const std::uint32_t half = magnitude < (113u << 23) ? denormal : normal;
    out[i] = static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000));
  }
}

void to_bfloat16(const float* in, std::size_t n, std::uint16_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = as_bits(in[i]);
    out[i] = static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

void to_float64(const float* in, std::size_t n, double* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = in[i];
}

}  // namespace

extern const Kernels kTable;
const Kernels kTable = {
    DOCOFL_STRINGIFY(DOCOFL_ISA),
    key_range,
    sum_deviations,
    quantize,
    quantize_window,
    split_levels,
    reconstruct,
    reconstruct_raw,
    pack_tuples,
    histogram,
    huffman_encode,
    huffman_decode,
    rans_decode,
    trellis_costs,
    trellis_advance,
    trellis_follow,
    inverse_transform,
    pack_raw,
    unpack_raw,
    hadamard,
    max_magnitude,
    sum_squares,
    dot_products,
    rotate,
    copy_past_caches,
    rotate_back,
    eden_quantize,
    eden_levels,
    eden_levels_and_add,
    from_float16,
    from_bfloat16,
    from_float64,
    to_float16,
    to_bfloat16,
    to_float64,
};

}  // namespace DOCOFL_ISA
}  // namespace docofl
