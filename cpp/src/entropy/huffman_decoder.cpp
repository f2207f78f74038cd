#include "entropy/huffman_decoder.h"

#include <algorithm>
#include <cstring>

#include "common/endian.h"

namespace docofl {
namespace {

constexpr unsigned kMaxTableBits = 11;
constexpr unsigned kMinTableBits = 6;

std::uint32_t reverse16(std::uint32_t v) {
  v = ((v >> 1) & 0x5555) | ((v & 0x5555) << 1);
  v = ((v >> 2) & 0x3333) | ((v & 0x3333) << 2);
  v = ((v >> 4) & 0x0f0f) | ((v & 0x0f0f) << 4);
  return ((v >> 8) & 0x00ff) | ((v & 0x00ff) << 8);
}

// The next bits of a stream, at least 57 of them, zeros after its end.
std::uint64_t peek(const HuffmanStream& stream) {
  const std::size_t left = static_cast<std::size_t>(stream.end - stream.next);
  if (left >= 8) return load_le<std::uint64_t>(stream.next) >> stream.bit;
  std::uint8_t padded[8] = {};
  if (left > 0) std::memcpy(padded, stream.next, left);
  return load_le<std::uint64_t>(padded) >> stream.bit;
}

// Moves past `bits`; a position beyond the end stays there and is noticed as "not used up exactly".
void skip(HuffmanStream* stream, unsigned bits) {
  const unsigned used = stream->bit + bits;
  const std::size_t left = static_cast<std::size_t>(stream->end - stream->next);
  if (used / 8 > left) {
    stream->next = stream->end;
    stream->bit = 7;
  } else {
    stream->next += used / 8;
    stream->bit = used % 8;
  }
}

bool ends_well(const HuffmanStream& stream) {
  if (stream.bit == 0) return stream.next == stream.end;
  return stream.end - stream.next == 1 && (*stream.next >> stream.bit) == 0;
}

}  // namespace

HuffmanDecoder::HuffmanDecoder(const CodeLengths& lengths, unsigned num_levels, unsigned tuple,
                               std::size_t expected_words)
    : tuple_(tuple) {
  std::size_t alphabet = 1;
  for (unsigned k = 0; k < tuple; ++k) alphabet *= num_levels;

  // 1. The digits of each symbol.
  for (std::size_t s = 0; s < alphabet; ++s) {
    std::size_t rest = s;
    for (unsigned k = tuple; k-- > 0; rest /= num_levels) {
      levels_[s] |= static_cast<std::uint64_t>(rest % num_levels) << (8 * k);
    }
  }

  // 2. Symbols in canonical order, and where each length starts.
  std::uint32_t position = 0;
  std::uint32_t limit = 0;
  for (unsigned length = 1; length <= kMaxCodeLength; ++length) {
    first_symbol_[length] = position;
    for (std::size_t s = 0; s < alphabet; ++s) {
      if (lengths[s] != length) continue;
      ordered_[position++] = static_cast<std::uint8_t>(s);
      limit += 1u << (kMaxCodeLength - length);
    }
    limit_[length] = limit;
  }

  // 3. Single words for every index, then as many words as fit one after the other.
  table_bits_ = kMinTableBits;
  while (table_bits_ < kMaxTableBits && (std::size_t(8) << table_bits_) < expected_words * 4) ++table_bits_;
  const std::size_t size = std::size_t(1) << table_bits_;
  struct Single {
    std::uint8_t symbol;
    std::uint8_t length;
  };
  std::vector<Single> singles(size, Single{0, 0});
  const CodeWords words = code_words(lengths, alphabet);
  for (std::size_t s = 0; s < alphabet; ++s) {
    const unsigned length = lengths[s];
    if (length == 0 || length > table_bits_) continue;
    for (std::size_t i = words[s] & 0xffff; i < size; i += std::size_t(1) << length) {
      singles[i] = {static_cast<std::uint8_t>(s), static_cast<std::uint8_t>(length)};
    }
  }
  table_.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t entry = 0;
    unsigned used = 0, count = 0;
    while (count + tuple <= kEntrySymbols) {
      const Single next = singles[i >> used];
      if (next.length == 0 || used + next.length > table_bits_) break;
      entry |= levels_[next.symbol] << (8 * count);
      used += next.length;
      count += tuple;
    }
    table_[i] = entry | static_cast<std::uint64_t>(used) << kEntryLengthShift |
                static_cast<std::uint64_t>(count) << kEntryCountShift;
  }
}

HuffmanDecoder::Word HuffmanDecoder::find_word(std::uint64_t bits) const {
  const std::uint32_t fraction = reverse16(static_cast<std::uint32_t>(bits & 0xffff));
  unsigned length = 1;
  // The code is complete, so limit_[kMaxCodeLength] = 2^16 ends the search.
  while (fraction >= limit_[length]) ++length;
  const std::uint32_t rank = (fraction - limit_[length - 1]) >> (kMaxCodeLength - length);
  // SAFETY: rank is below the number of words of this length, so the sum is below the alphabet's size.
  return {ordered_[first_symbol_[length] + rank], length};
}

void HuffmanDecoder::put_word(std::uint64_t bits, HuffmanStream* stream) const {
  const Word word = find_word(bits);
  const std::uint64_t levels = levels_[word.symbol];
  for (unsigned k = 0; k < tuple_; ++k) stream->out[k] = static_cast<std::uint8_t>(levels >> (8 * k));
  stream->out += tuple_;
  skip(stream, word.length);
}

void HuffmanDecoder::finish_stream(HuffmanStream* stream) const {
  const std::uint64_t mask = (std::uint64_t(1) << table_bits_) - 1;
  while (stream->out < stream->out_end) {
    const std::uint64_t bits = peek(*stream);
    const std::uint64_t entry = table_[bits & mask];
    const unsigned count = static_cast<unsigned>(entry >> kEntryCountShift);
    const std::size_t room = static_cast<std::size_t>(stream->out_end - stream->out);
    if (count == 0 || count > room) {
      // SAFETY: out_end - out is a positive multiple of the tuple size here and in the other branch.
      put_word(bits, stream);
    } else {
      for (unsigned k = 0; k < count; ++k) stream->out[k] = static_cast<std::uint8_t>(entry >> (8 * k));
      stream->out += count;
      skip(stream, static_cast<unsigned>(entry >> kEntryLengthShift) & 63);
    }
  }
}

bool HuffmanDecoder::decode(const ByteView* streams, const std::size_t* words, int count,
                            std::uint8_t* out) const {
  HuffmanStream state[kHuffmanStreams];
  for (int s = 0; s < count; ++s) {
    state[s] = {streams[s].data, streams[s].data + streams[s].size, out, out + words[s] * tuple_, 0};
    out = state[s].out_end;
  }
  if (count == kHuffmanStreams) {
    while (kernels().huffman_decode(table_.data(), table_bits_, state)) {
      for (HuffmanStream& stream : state) {
        const std::uint64_t bits = peek(stream);
        const bool is_long = table_[bits & ((std::uint64_t(1) << table_bits_) - 1)] == 0;
        if (is_long && stream.out < stream.out_end) put_word(bits, &stream);
      }
    }
  }
  bool good = true;
  for (int s = 0; s < count; ++s) {
    finish_stream(&state[s]);
    good = good && ends_well(state[s]);
  }
  return good;
}

}  // namespace docofl
