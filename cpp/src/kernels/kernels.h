#pragma once

#include <cstddef>
#include <cstdint>

// The hot loops, compiled once per ISA level from kernels.inl and reached through one table.
namespace docofl {

// A uniform grid as the loops need it (docs/format.md, section 3.1).
struct GridParams {
  double x_min;
  double step;
  double inverse_step;
  std::int32_t num_levels;
  bool narrow;  // float32 arithmetic, otherwise double
};

// How far a value lies from the middle: min(|x - centre|, limit).
struct DeviationParams {
  float centre;
  float limit;
};

// The part of the grid that has code words: levels base <= k < base + span.
struct WindowParams {
  std::int32_t base;
  std::int32_t span;
};

constexpr float kDisplacementUnit = 1.0f / 64;  // of a step
constexpr unsigned kMaxDisplaced = 16;          // levels

// Coded levels that become values. [coded, ...), [out, ...) and `count` move on as values are
// written.
struct Reconstruction {
  const float* table;   // the values of the coded levels, in room for 256, ...
  unsigned table_size;  // ... so many of them
  GridParams grid;      // or, where `table` is null, the centres of bins: those of level base + j
  std::int32_t base;
  // Null, or how far 16 coded levels from `first_displaced` on lie from those centres, in units of
  // 1/64 of the step, 0 for those beyond 255; for narrow grids.
  const std::int8_t* displacements;
  unsigned first_displaced;
  bool pairs;        // two coded levels a byte, the first in the high half; needs a table
  bool past_caches;  // for outputs so large that they would only push other data out of the caches
  const std::uint8_t* coded;
  float* out;
  std::size_t count;
};

// Code words of two symbols at once, for the pairs of kPairSymbols symbols from `first` on (modulo
// 256): that of the a-th and the b-th at place a + kPairStride * b. Words as in huffman_encode, of
// at most kMaxPairLength bits. Where there is none stands kNoPair, and so it does for any other
// symbol, which counts as the one after the last: that length shows in any sum of lengths.
constexpr unsigned kPairSymbols = 64;
constexpr unsigned kPairStride = kPairSymbols + 1;
constexpr unsigned kMaxPairLength = 14;
constexpr std::uint64_t kNoPair = 63;
struct HuffmanPairs {
  std::uint8_t first;
  std::uint64_t words[kPairStride * kPairStride];
};

// One stream of code words while it is decoded. [next, end) is its input, [out, out_end) its
// output.
struct HuffmanStream {
  const std::uint8_t* next;
  const std::uint8_t* end;
  std::uint8_t* out;
  std::uint8_t* out_end;
  unsigned bit;  // bits of *next that are used up, 0 to 7
};

// What is read next, `stride` bytes for each symbol from `data` on: while symbols are coded, a line
// of it every few symbols is fetched into the caches, which makes processors fetch the others. That
// may go beyond what there is: fetching never fails. Nothing where it is null.
struct FetchAhead {
  const std::uint8_t* data = nullptr;
  std::size_t stride = 0;
};

constexpr int kHuffmanStreams = 4;
constexpr unsigned kMaxCodeLength = 16;

// What decoded code words leave: a byte for each coordinate with one coordinate a word, otherwise a
// byte for each two (the first in the high half). An entry of the decode table holds the bits used
// in its lowest byte (where a shift finds them), then up to six such bytes and, at the top, the
// number of bytes. Both numbers are zero where the code word is longer than the table's index.
constexpr unsigned kEntryBytes = 6;
constexpr unsigned kEntryBytesShift = 8;
constexpr unsigned kEntryCountShift = 56;

// Bits that index the table of blocks with four streams: 32 KiB of entries.
constexpr unsigned kStreamIndexBits = 12;
constexpr std::uint64_t kStreamIndexMask = (std::uint64_t(1) << kStreamIndexBits) - 1;

struct HuffmanTable {
  const std::uint64_t* entries;
  // For longer words. Read as 16-bit fractions, words of length l lie below limit[l] and, if not
  // shorter, at or above limit[l - 1]; their entries, in order, start at words[first[l]].
  std::uint32_t limit[kMaxCodeLength + 1];
  std::uint32_t first[kMaxCodeLength + 1];
  std::uint64_t words[256];
};

// Frequencies of rANS add up to 2^kRansBits, of at least two symbols. An entry of its decode table,
// one for each of as many numbers, holds the symbol's frequency in its low bits, then the number's
// place among those of the symbol, and what the symbol becomes at the top.
constexpr unsigned kRansBits = 12;
constexpr unsigned kRansNameShift = 2 * kRansBits;
constexpr std::uint32_t kRansMask = (std::uint32_t(1) << kRansBits) - 1;
constexpr unsigned kRansLanes = 32;

inline std::uint32_t rans_entry(std::uint32_t frequency, std::uint32_t place, std::uint32_t name) {
  return frequency | place << kRansBits | name << kRansNameShift;
}

// The states of a block and its words of 16 bits that are still to be read.
struct RansStream {
  const std::uint8_t* next;
  const std::uint8_t* end;
  std::uint32_t states[kRansLanes];
};

// The nearest even and odd coded level of values between two neighbours, their places and what they
// cost.
struct TrellisNeighbours {
  float even_place, odd_place;
  float even_rate, odd_rate;
};

// The grid of a dependent quantizer and what its levels cost (docs/format.md, section 3.8), all in
// units of the step. A value is cheapest with one of four coded levels, the first or the second
// quantizer's even or odd ones: the nearest of its kind, or the one that costs least.
struct TrellisGrid {
  float origin;
  float inverse_step;
  float low, high;    // values outside are outliers: ...
  float placeholder;  // ... they are quantized like this one
  bool mirrored;
  std::int32_t base;                       // even
  std::int32_t last;                       // the number of coded levels less one, at least 1
  const TrellisNeighbours* neighbours[2];  // for either quantizer, by the lower neighbour
  // First even, first odd, second even, second odd.
  float frequent_places[4];
  float frequent_rates[4];
  std::uint8_t frequent[4];
};

constexpr unsigned kTrellisStates = 8;

// Runs of neighbours that are transformed together (docs/format.md, section 3.9).
constexpr unsigned kTransformRun = 16;

// The k-th basis vector at t < 8; at 15 - t it is the same for an even k, otherwise its negative.
constexpr float transform_basis(unsigned k, unsigned t) {
  // sqrt(1/8) cos(pi n / 32)
  constexpr float kCosines[kTransformRun + 1] = {
      0.353553385f, 0.351850927f, 0.346759975f,  0.338329494f,  0.326640755f, 0.311806262f,
      0.293968886f, 0.273300469f, 0.25f,         0.224291891f,  0.196423739f, 0.166663915f,
      0.135299027f, 0.102631129f, 0.0689748451f, 0.0346542932f, 0.0f};
  if (k == 0) return 0.25f;
  unsigned n = k * (2 * t + 1) % 64;
  if (n > 32) n = 64 - n;
  return n > 16 ? -kCosines[32 - n] : kCosines[n];
}

// A codebook of EDEN as the loops need it: 2^(width - 1) magnitudes, ascending, and the thresholds
// between them. Tables of up to 8 magnitudes have room for 8 and are filled up: magnitudes with
// anything finite, thresholds with infinities.
struct EdenCodebook {
  unsigned width;  // 0 to 8
  const float* magnitudes;
  const float* thresholds;
  // For widths above 4: how many thresholds lie below the start of each cell of 1/128. No cell
  // holds more than one.
  const std::int32_t* cells;
};
constexpr unsigned kEdenCells = 1024;
constexpr float kEdenCellsPerUnit = 128;

// Coordinates are quantized in chunks; the j-th chunk is at place (multiplier * j + offset) & mask.
constexpr std::size_t kEdenChunk = 16;
struct ChunkOrder {
  std::uint32_t multiplier;
  std::uint32_t offset;
  std::uint32_t mask;
};

// The random signs of a rotation block: bit i % 64 of word i / 64 flips coordinate i.
struct RotationSigns {
  const std::uint64_t* first;
  const std::uint64_t* second;
};

// What becomes of results.
enum class Put { kStore, kPastCaches, kAdd };

struct Kernels {
  const char* name;

  // Widens [*lo, *hi] by the order keys of x: floats as integers of the same order, with every
  // NaN and infinity outside the keys of finite values.
  void (*key_range)(const float* x, std::size_t n, std::int32_t* lo, std::int32_t* hi);

  // The sum of the deviations of `runs` runs of 64 values, the next one `stride` values after the
  // last.
  double (*sum_deviations)(const DeviationParams& deviation, const float* x, std::size_t runs,
                           std::size_t stride);

  // Level of each value.
  void (*quantize)(const GridParams& grid, const float* x, std::size_t n, std::int32_t* levels);

  // Level of each value less window.base, for spans up to 256; values outside the window get
  // the nearest place in it. Returns how many those are.
  std::size_t (*quantize_window)(const GridParams& grid, const WindowParams& window, const float* x,
                                 std::size_t n, std::uint8_t* coded);

  // Splits levels less window.base into high part and `raw_bits` low bits. Returns how many are
  // outside.
  std::size_t (*split_levels)(const WindowParams& window, unsigned raw_bits,
                              const std::int32_t* levels, std::size_t n, std::uint8_t* coded,
                              std::uint32_t* raw);

  // Writes all values that `work` still has to write.
  void (*reconstruct)(Reconstruction* work);

  // Values of coded levels with raw bits.
  void (*reconstruct_raw)(const GridParams& grid, std::int32_t base, unsigned raw_bits,
                          const std::uint8_t* coded, const std::uint32_t* raw, std::size_t n,
                          float* out);

  // `count` symbols from count * tuple coded levels, the first the most significant digit.
  void (*pack_tuples)(const std::uint8_t* coded, std::size_t count, unsigned num_levels,
                      unsigned tuple, std::uint8_t* symbols);

  // Adds the counts of the symbols.
  void (*histogram)(const std::uint8_t* symbols, std::size_t n, std::uint32_t counts[256]);

  // Writes code words; words[s] holds the bit-reversed word in its top bits and the length, at
  // least 1, in its low byte. Needs n * max_length bits rounded up and 8 bytes more. Returns the
  // bytes written. `pairs` may be null.
  std::size_t (*huffman_encode)(const std::uint8_t* symbols, std::size_t n,
                                const std::uint64_t words[256], unsigned max_length,
                                const HuffmanPairs* pairs, const FetchAhead& ahead,
                                std::uint8_t* out);

  // Decodes four streams side by side while each has input and room to spare. The table's index has
  // kStreamIndexBits bits. Meanwhile it may write some of the values of `beside`, which belong to
  // an earlier block: look-ups keep the core busy while stores wait for the memory.
  void (*huffman_decode)(const HuffmanTable& table, HuffmanStream streams[kHuffmanStreams],
                         Reconstruction* beside);

  // Decodes steps of kRansLanes symbols while at least as many words are left, at most `count`
  // symbols; returns how many that were.
  std::size_t (*rans_decode)(const std::uint32_t* entries, RansStream* stream, std::size_t count,
                             std::uint8_t* symbols);

  // For each value the costs of its four coded levels, first even, first odd, second even, second
  // odd, and these levels.
  void (*trellis_costs)(const TrellisGrid& grid, const float* x, std::size_t n, float* costs,
                        std::uint8_t* candidates);
  // Goes on from the least costs of reaching each state by n values; bit t of a decision tells from
  // which of two states t is best reached.
  void (*trellis_advance)(const float* costs, std::size_t n, float metrics[kTrellisStates],
                          std::uint8_t* decisions);
  // Copies coded levels, and adds `offset` to those that are the second quantizer's, in `runs` runs
  // of `length` levels (a multiple of 32), each of which starts in state 0. `levels` holds two
  // levels a byte if `pairs`, the first in the high half; otherwise it may be `coded`.
  void (*trellis_follow)(const std::uint8_t* levels, bool pairs, std::size_t runs,
                         std::size_t length, std::uint8_t offset, std::uint8_t* coded);

  // The values of `runs` runs of kTransformRun neighbours from their coefficients: the first ones
  // of all runs, then, `stride` further on, the second ones, ...
  void (*inverse_transform)(const float* coefficients, std::size_t stride, std::size_t runs,
                            float* out);

  // `raw_bits` bits a value. Packing needs 8 bytes of room after the packed bytes, unpacking 8
  // readable bytes after them.
  void (*pack_raw)(const std::uint32_t* raw, std::size_t n, unsigned raw_bits, std::uint8_t* out);
  void (*unpack_raw)(const std::uint8_t* in, std::size_t n, unsigned raw_bits, std::uint32_t* raw);

  // The Walsh-Hadamard transform in natural order, in place, not normalized; butterflies from
  // distance 1 up. n is a power of two.
  void (*hadamard)(float* x, std::size_t n);
  // The largest magnitude as bits, so that NaN and infinities are the largest of all.
  std::uint32_t (*max_magnitude)(const float* x, std::size_t n);
  // The sum of (scale * x)^2; n must be a multiple of 16.
  double (*sum_squares)(const float* x, std::size_t n, float scale);

  // Adds sum(x * y) and sum(y * y) to sums; n must be a multiple of 16.
  void (*dot_products)(const float* x, const float* y, std::size_t n, double sums[2]);

  // Rotates a block of EDEN (docs/format.md, section 4.1), times sqrt(min(n, 4096) * n) * scale. n
  // is a power of two of at least 16.
  void (*rotate)(const float* x, float scale, const RotationSigns& signs, std::size_t n,
                 float* out);
  // Copies to memory that will not be read soon, past the caches where it is aligned for that.
  void (*copy_past_caches)(const float* x, std::size_t n, float* out);
  // Undoes it (section 4.4): destroys v, multiplies by `norm`, then by `scale`.
  void (*rotate_back)(float* v, const RotationSigns& signs, std::size_t n, float norm, float scale,
                      Put how, float* out);

  // Quantizes inverse * u for the chunks [first, last) of an order, and writes their words, 2 *
  // width bytes a chunk. Adds sum(t * q) and sum(q * q) of values t and levels q to sums.
  void (*eden_quantize)(const float* u, float inverse, const EdenCodebook& codebook,
                        const ChunkOrder& order, std::size_t first, std::size_t last,
                        std::uint8_t* words, double sums[2]);
  // The levels of these chunks, to their places in q; or `weight` times them added to what is
  // there.
  void (*eden_levels)(const std::uint8_t* words, const EdenCodebook& codebook,
                      const ChunkOrder& order, std::size_t first, std::size_t last, float* q);
  void (*eden_levels_and_add)(const std::uint8_t* words, const EdenCodebook& codebook,
                              const ChunkOrder& order, std::size_t first, std::size_t last,
                              float weight, float* q);

  void (*from_float16)(const std::uint16_t* in, std::size_t n, float* out);
  void (*from_bfloat16)(const std::uint16_t* in, std::size_t n, float* out);
  void (*from_float64)(const double* in, std::size_t n, float* out);
  void (*to_float16)(const float* in, std::size_t n, std::uint16_t* out);
  void (*to_bfloat16)(const float* in, std::size_t n, std::uint16_t* out);
  void (*to_float64)(const float* in, std::size_t n, double* out);
};

// The table in use: the best level that the CPU has, or the one named by DOCOFL_CODEC_ISA.
const Kernels& kernels();

}  // namespace docofl
