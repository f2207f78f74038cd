// Plain loops, compiled once per ISA level; DOCOFL_ISA names the level and its namespace.
//
// No standard templates and no inline functions of other headers here: their symbols are shared between
// object files, and the linker could keep the one that was compiled for the wrong level. Everything has
// internal linkage.

#include <string.h>

#include "kernels/kernels.h"

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
  std::int32_t low = *lo;
  std::int32_t high = *hi;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t key = order_key(x[i]);
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  *lo = low;
  *hi = high;
}

// --- quantization ----------------------------------------------------------------------------

// Both comparisons are false for NaN, which so becomes `low`: the cast to integer is always defined.
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
  const Real low = static_cast<Real>(window.base);
  const Real high = static_cast<Real>(window.base + window.span - 1);
  // Rounding can put a value a little beyond the first or last level, where it still belongs.
  const bool has_below = window.base > 0;
  const bool has_above = window.base + window.span < grid.num_levels;
  if (!has_below && !has_above) {
    for (std::size_t i = 0; i < n; ++i) {
      const Real position = (static_cast<Real>(x[i]) - x_min) * inverse_step;
      coded[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(clamp(position, low, high)));
    }
    return 0;
  }
  const Real below = has_below ? low : Real(-3e38);
  const Real above = has_above ? high + Real(1) : Real(3e38);
  std::uint32_t outside = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Real position = (static_cast<Real>(x[i]) - x_min) * inverse_step;
    outside += (position < below) | (position >= above);
    coded[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(clamp(position, low, high)) -
                                         window.base);
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
void reconstruct_as(const GridParams& grid, std::int32_t base, const std::uint8_t* coded,
                    std::size_t n, float* out) {
  const Real x_min = static_cast<Real>(grid.x_min);
  const Real step = static_cast<Real>(grid.step);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t level = base + coded[i];
    out[i] = static_cast<float>(x_min + (static_cast<Real>(level) + Real(0.5)) * step);
  }
}

void reconstruct(const GridParams& grid, std::int32_t base, const std::uint8_t* coded,
                 std::size_t n, float* out) {
  if (grid.narrow) {
    reconstruct_as<float>(grid, base, coded, n, out);
  } else {
    reconstruct_as<double>(grid, base, coded, n, out);
  }
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
    const std::uint32_t any =
        static_cast<std::uint32_t>(base) + (static_cast<std::uint32_t>(coded[i]) << raw_bits) + raw[i];
    const std::int32_t level = any < static_cast<std::uint32_t>(last) ? static_cast<std::int32_t>(any) : last;
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

void look_up(const float* values, const std::uint8_t* coded, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = values[coded[i]];
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
    case 3: return pack_tuples_of<3>(coded, count, num_levels, symbols);
    case 4: return pack_tuples_of<4>(coded, count, num_levels, symbols);
    case 5: return pack_tuples_of<5>(coded, count, num_levels, symbols);
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

// Joins kGroup code words first, so that only one shift and one store a group depend on the group
// before: kGroup * max_length + 7 <= 64 bits.
template <unsigned kGroup>
std::size_t huffman_encode_by(const std::uint8_t* symbols, std::size_t n,
                              const std::uint32_t words[256], std::uint8_t* out) {
  std::uint8_t* const start = out;
  std::uint64_t pending = 0;
  unsigned used = 0;
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    std::uint64_t group = 0;
    unsigned length = 0;
    for (unsigned k = 0; k < kGroup; ++k) {
      const std::uint32_t word = words[symbols[i + k]];
      group |= static_cast<std::uint64_t>(word & 0xffff) << length;
      length += word >> 16;
    }
    pending |= group << used;
    store64(out, pending);
    used += length;
    out += used >> 3;
    // A shift by 64 cannot occur: used <= kGroup * max_length + 7 <= 63.
    pending >>= used & 0x38;
    used &= 7;
  }
  for (; i < n; ++i) {
    const std::uint32_t word = words[symbols[i]];
    pending |= static_cast<std::uint64_t>(word & 0xffff) << used;
    store64(out, pending);
    used += word >> 16;
    out += used >> 3;
    pending >>= used & 0x38;
    used &= 7;
  }
  return static_cast<std::size_t>(out - start) + (used > 0);
}

std::size_t huffman_encode(const std::uint8_t* symbols, std::size_t n,
                           const std::uint32_t words[256], unsigned max_length, std::uint8_t* out) {
  if (max_length <= 8) return huffman_encode_by<7>(symbols, n, words, out);
  if (max_length <= 11) return huffman_encode_by<5>(symbols, n, words, out);
  if (max_length <= 14) return huffman_encode_by<4>(symbols, n, words, out);
  return huffman_encode_by<3>(symbols, n, words, out);
}

// One table look-up of one stream. The eight bytes are stored whole; the count says how many are meant.
#define DOCOFL_DECODE_STEP(s)                         \
  entry##s = table[buffer##s & mask];                 \
  store64(out##s, entry##s);                          \
  out##s += entry##s >> kEntryCountShift;             \
  length = (entry##s >> kEntryLengthShift) & 63;      \
  buffer##s >>= length;                               \
  used##s += static_cast<unsigned>(length);

#define DOCOFL_DECODE_REFILL(s) std::uint64_t buffer##s = load64(next##s) >> used##s;

#define DOCOFL_DECODE_ADVANCE(s) \
  next##s += used##s >> 3;       \
  used##s &= 7;

#define DOCOFL_DECODE_LOAD(s)                   \
  const std::uint8_t* next##s = streams[s].next; \
  std::uint8_t* out##s = streams[s].out;         \
  unsigned used##s = streams[s].bit;             \
  std::uint64_t entry##s = 0;

#define DOCOFL_DECODE_SAVE(s)  \
  streams[s].next = next##s;   \
  streams[s].out = out##s;     \
  streams[s].bit = used##s;

// kSteps look-ups a refill: kSteps * table_bits <= 57.
template <unsigned kSteps>
bool huffman_decode_by(const std::uint64_t* table, unsigned table_bits,
                       HuffmanStream streams[kHuffmanStreams]) {
  const std::uint64_t mask = (std::uint64_t(1) << table_bits) - 1;
  DOCOFL_DECODE_LOAD(0)
  DOCOFL_DECODE_LOAD(1)
  DOCOFL_DECODE_LOAD(2)
  DOCOFL_DECODE_LOAD(3)
  const std::size_t out_per_round = kSteps * kEntrySymbols;
  bool long_word = false;
  while (!long_word) {
    // SAFETY: a round reads 8 bytes at next, moves it by at most 8 and writes at most
    // out_per_round + 2 bytes at out; `rounds` of them stay inside every stream's bounds.
    std::size_t rounds = static_cast<std::size_t>(-1);
    const std::uint8_t* const nexts[kHuffmanStreams] = {next0, next1, next2, next3};
    std::uint8_t* const outs[kHuffmanStreams] = {out0, out1, out2, out3};
    for (int s = 0; s < kHuffmanStreams; ++s) {
      const std::size_t input = static_cast<std::size_t>(streams[s].end - nexts[s]) / 8;
      const std::size_t room = static_cast<std::size_t>(streams[s].out_end - outs[s]);
      const std::size_t output = room < 2 ? 0 : (room - 2) / out_per_round;
      const std::size_t fit = input < output ? input : output;
      rounds = fit < rounds ? fit : rounds;
    }
    if (rounds == 0) break;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::uint64_t length;
      DOCOFL_DECODE_REFILL(0)
      DOCOFL_DECODE_REFILL(1)
      DOCOFL_DECODE_REFILL(2)
      DOCOFL_DECODE_REFILL(3)
      for (unsigned step = 0; step < kSteps; ++step) {
        DOCOFL_DECODE_STEP(0)
        DOCOFL_DECODE_STEP(1)
        DOCOFL_DECODE_STEP(2)
        DOCOFL_DECODE_STEP(3)
      }
      DOCOFL_DECODE_ADVANCE(0)
      DOCOFL_DECODE_ADVANCE(1)
      DOCOFL_DECODE_ADVANCE(2)
      DOCOFL_DECODE_ADVANCE(3)
      // An entry without symbols stays in place for the rest of the round: looking at the last is enough.
      const std::uint64_t least01 = entry0 < entry1 ? entry0 : entry1;
      const std::uint64_t least23 = entry2 < entry3 ? entry2 : entry3;
      const std::uint64_t least = least01 < least23 ? least01 : least23;
      if (least >> kEntryCountShift == 0) {
        long_word = true;
        break;
      }
    }
  }
  DOCOFL_DECODE_SAVE(0)
  DOCOFL_DECODE_SAVE(1)
  DOCOFL_DECODE_SAVE(2)
  DOCOFL_DECODE_SAVE(3)
  return long_word;
}

bool huffman_decode(const std::uint64_t* table, unsigned table_bits,
                    HuffmanStream streams[kHuffmanStreams]) {
  return table_bits <= 11 ? huffman_decode_by<5>(table, table_bits, streams)
                          : huffman_decode_by<4>(table, table_bits, streams);
}

void pack_raw(const std::uint32_t* raw, std::size_t n, unsigned raw_bits, std::uint8_t* out) {
  std::size_t i = 0;
  if (raw_bits <= 8) {
    for (; i + 8 <= n; i += 8, out += raw_bits) {
      std::uint64_t word = 0;
      for (unsigned k = 0; k < 8; ++k) word |= static_cast<std::uint64_t>(raw[i + k]) << (k * raw_bits);
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
      for (unsigned k = 0; k < 8; ++k) raw[i + k] = static_cast<std::uint32_t>((word >> (k * raw_bits)) & mask);
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
    const std::uint32_t denormal = as_bits(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
    const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
    const std::uint32_t finite = magnitude < 0x0400 ? denormal : normal;
    out[i] = as_float(sign | (magnitude >= 0x7c00 ? special : finite));
  }
}

void from_bfloat16(const std::uint16_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = as_float(static_cast<std::uint32_t>(in[i]) << 16);
}

void from_float64(const double* in, std::size_t n, float* out) {
  // Beyond the largest float32 (after rounding) the result is an infinity, as IEEE 754 has it; written
  // out because the plain conversion is undefined in C++ there.
  const double limit = 3.4028235677973366e38;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = in[i];
    const bool fits = value < limit && value > -limit;
    const float converted = static_cast<float>(fits ? value : 0.0);
    const float beyond = value > 0 ? __builtin_inff() : value < 0 ? -__builtin_inff() : __builtin_nanf("");
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
    DOCOFL_STRINGIFY(DOCOFL_ISA), key_range,      quantize,       quantize_window, split_levels,
    reconstruct,                  reconstruct_raw, look_up,        pack_tuples,     histogram,
    huffman_encode,               huffman_decode,  pack_raw,       unpack_raw,      from_float16,
    from_bfloat16,                from_float64,    to_float16,     to_bfloat16,     to_float64,
};

}  // namespace DOCOFL_ISA
}  // namespace docofl
