#include "entropy/rans.h"

#include <algorithm>
#include <string>

#include "common/bit_io.h"
#include "common/byte_io.h"
#include "common/exact_log2.h"
#include "docofl/error.h"
#include "entropy/width_code.h"

namespace docofl {
namespace {

constexpr std::uint32_t kLowest = std::uint32_t(1) << 16;  // of a state between symbols
constexpr int kFirstWidth = 6;                             // what the first width is compared with
constexpr unsigned kReciprocalBits = 44;

int width_of(std::uint32_t frequency) {
  int width = 0;
  while (frequency >> width != 0) ++width;
  return width;
}

// What a state becomes when its symbol is taken off; below kLowest it needs another word.
std::uint32_t rans_next(std::uint32_t entry, std::uint32_t state) {
  return (entry & kRansMask) * (state >> kRansBits) + (entry >> kRansBits & kRansMask);
}

}  // namespace

RansFrequencies rans_frequencies(const SymbolCounts& counts, std::size_t alphabet) {
  double total = 0;
  for (std::size_t a = 0; a < alphabet; ++a) total += static_cast<double>(counts[a]);
  RansFrequencies frequencies{};
  std::int64_t sum = 0;
  for (std::size_t a = 0; a < alphabet; ++a) {
    if (counts[a] == 0) continue;
    const double share = static_cast<double>(counts[a]) * kRansTotal / total;
    frequencies[a] =
        static_cast<std::uint16_t>(std::min<double>(kRansTotal - 1, std::max(1.0, share + 0.5)));
    sum += frequencies[a];
  }
  // What is missing or too much goes where it helps most or hurts least: the bits of a symbol
  // change by about count / frequency.
  for (; sum != kRansTotal; sum += sum < kRansTotal ? 1 : -1) {
    const bool grows = sum < kRansTotal;
    std::size_t best = alphabet;
    double best_ratio = 0;
    for (std::size_t a = 0; a < alphabet; ++a) {
      if (frequencies[a] == 0 || (!grows && frequencies[a] == 1)) continue;
      const double ratio = static_cast<double>(counts[a]) / (frequencies[a] + (grows ? 0.5 : -0.5));
      if (best == alphabet || (grows ? ratio > best_ratio : ratio < best_ratio)) {
        best = a;
        best_ratio = ratio;
      }
    }
    frequencies[best] = static_cast<std::uint16_t>(frequencies[best] + (grows ? 1 : -1));
  }
  return frequencies;
}

double rans_cost(std::uint16_t frequency) { return kRansBits - exact_log2(frequency); }

// --- the table on the wire -----------------------------------------------------------------------

std::size_t rans_table_size(const RansFrequencies& frequencies, std::size_t alphabet) {
  std::size_t bits = 0;
  int previous = kFirstWidth;
  for (std::size_t a = 0; a < alphabet; ++a) {
    const int width = width_of(frequencies[a]);
    bits += width_code_bits(width, previous) + static_cast<std::size_t>(width > 1 ? width - 1 : 0);
    previous = width;
  }
  return (bits + 7) / 8;
}

std::uint8_t* write_rans_table(const RansFrequencies& frequencies, std::size_t alphabet,
                               std::uint8_t* out) {
  BitWriter writer(out);
  int previous = kFirstWidth;
  for (std::size_t a = 0; a < alphabet; ++a) {
    const int width = width_of(frequencies[a]);
    write_width(&writer, width, previous);
    const unsigned low_bits = static_cast<unsigned>(width > 1 ? width - 1 : 0);
    if (low_bits > 0) writer.write(frequencies[a] - (1u << low_bits), low_bits);
    previous = width;
  }
  return writer.finish();
}

RansFrequencies read_rans_table(ByteView bytes, std::size_t alphabet, std::size_t* size) {
  BitReader bits(bytes.data, bytes.size);
  WidthReader reader(&bits, "frequency table", alphabet, kFirstWidth, kRansBits);
  RansFrequencies frequencies{};
  std::uint32_t sum = 0;
  for (std::size_t a = 0; a < alphabet; ++a) {
    const int width = reader.next(a);
    if (width == 0) continue;
    std::uint32_t frequency = 1u << (width - 1);
    for (int bit = 0; bit < width - 1; ++bit) frequency |= reader.read_bit() << bit;
    frequencies[a] = static_cast<std::uint16_t>(frequency);
    sum += frequency;
  }
  reader.check_padding();
  if (sum != kRansTotal) {
    throw Error(ErrorKind::kCorruptFrame, "frequency table: adds up to " + std::to_string(sum) +
                                              ", expected " + std::to_string(kRansTotal));
  }
  *size = bits.bytes_read();
  return frequencies;
}

// --- encoding ------------------------------------------------------------------------------------

RansEncoder::RansEncoder(const std::vector<RansFrequencies>& tables) {
  for (const RansFrequencies& frequencies : tables) {
    std::array<Entry, kMaxAlphabet> entries{};
    std::uint32_t start = 0;
    for (std::size_t a = 0; a < kMaxAlphabet; ++a) {
      const std::uint32_t frequency = frequencies[a];
      if (frequency == 0) continue;
      // SAFETY of the arithmetic in encode: states are below 2^20 * frequency after giving away
      // 16 bits, so with frequency < 2^12 the product with the reciprocal is below 2^64, and the
      // quotient is exact: the reciprocal's error is below 2^-44, times 2^32 it stays below
      // 1 / frequency.
      entries[a] = {(std::uint64_t(1) << kReciprocalBits) / frequency + 1, frequency << 20,
                    frequency, start};
      start += frequency;
    }
    tables_.push_back(entries);
  }
}

std::size_t RansEncoder::max_bytes(std::size_t count, unsigned lanes) {
  return 2 * count + 4 * std::size_t(lanes);
}

std::uint8_t* RansEncoder::encode(const RansLayout& layout, const std::uint8_t* symbols,
                                  std::size_t count, std::uint8_t* end) const {
  std::uint32_t states[kRansLanes];
  std::fill(states, states + layout.lanes, kLowest);
  std::uint8_t* out = end;
  // The decoder takes symbols first to last, so they are put on last to first.
  std::size_t lane = count % layout.lanes;
  for (std::size_t i = count; i > 0;) {
    const std::size_t begin = (i - 1) / layout.segment * layout.segment;
    const Entry* const entries = tables_[layout.choices[begin / layout.segment]].data();
    while (i > begin) {
      lane = (lane == 0 ? layout.lanes : lane) - 1;
      const Entry& entry = entries[symbols[--i]];
      std::uint32_t state = states[lane];
      if (state >= entry.limit) {
        out -= 2;
        store_le(out, static_cast<std::uint16_t>(state));
        state >>= 16;
      }
      const std::uint32_t quotient =
          static_cast<std::uint32_t>((state * entry.reciprocal) >> kReciprocalBits);
      states[lane] = state + entry.start + quotient * (kRansTotal - entry.frequency);
    }
  }
  for (unsigned k = layout.lanes; k > 0; --k) {
    out -= 4;
    store_le(out, states[k - 1]);
  }
  return out;
}

// --- decoding ------------------------------------------------------------------------------------

RansDecoder::RansDecoder(const std::vector<RansFrequencies>& tables,
                         const std::array<std::uint8_t, kMaxAlphabet>& names) {
  tables_.resize(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    std::uint32_t* entry = tables_[t].data();
    for (std::size_t a = 0; a < kMaxAlphabet; ++a) {
      for (std::uint32_t k = 0; k < tables[t][a]; ++k) {
        *entry++ = rans_entry(tables[t][a], k, names[a]);
      }
    }
  }
}

bool RansDecoder::decode(const RansLayout& layout, ByteView stream, std::size_t count,
                         std::uint8_t* symbols) const {
  if (stream.size < 4 * std::size_t(layout.lanes)) return false;
  RansStream rest{stream.data, stream.data + stream.size, {}};
  for (unsigned k = 0; k < layout.lanes; ++k, rest.next += 4) {
    rest.states[k] = load_le<std::uint32_t>(rest.next);
    if (rest.states[k] < kLowest) return false;
  }
  std::size_t lane = 0;
  for (std::size_t begin = 0; begin < count; begin += layout.segment) {
    const std::uint32_t* const entries = tables_[layout.choices[begin / layout.segment]].data();
    const std::size_t end = std::min(count, begin + layout.segment);
    std::size_t i = begin;
    if (layout.lanes == kRansLanes) {
      i += kernels().rans_decode(entries, &rest, end - begin, symbols + begin);
    }
    for (; i < end; ++i, lane = lane + 1 == layout.lanes ? 0 : lane + 1) {
      const std::uint32_t entry = entries[rest.states[lane] & (kRansTotal - 1)];
      std::uint32_t state = rans_next(entry, rest.states[lane]);
      if (state < kLowest) {
        if (rest.end - rest.next < 2) return false;
        state = state << 16 | load_le<std::uint16_t>(rest.next);
        rest.next += 2;
      }
      rest.states[lane] = state;
      symbols[i] = static_cast<std::uint8_t>(entry >> kRansNameShift);
    }
  }
  if (rest.next != rest.end) return false;
  return std::all_of(rest.states, rest.states + layout.lanes,
                     [](std::uint32_t state) { return state == kLowest; });
}

}  // namespace docofl
