#include "entropy/huffman_decoder.h"

#include <array>
#include <cstring>

#include "common/endian.h"

namespace docofl {
namespace {

constexpr unsigned kSmallIndexBits = 8;

std::size_t length_of(std::uint64_t entry) { return entry & 63; }

std::size_t count_of(std::uint64_t entry) { return entry >> kEntryCountShift; }

// The bytes, and something else above them.
std::uint64_t bytes_of(std::uint64_t entry) { return entry >> kEntryBytesShift; }

std::uint64_t make_entry(std::size_t length, std::uint64_t bytes, std::size_t count) {
  return static_cast<std::uint64_t>(length) | bytes << kEntryBytesShift |
         static_cast<std::uint64_t>(count) << kEntryCountShift;
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
void skip(HuffmanStream* stream, std::size_t bits) {
  const std::size_t used = stream->bit + bits;
  const std::size_t left = static_cast<std::size_t>(stream->end - stream->next);
  if (used / 8 > left) {
    stream->next = stream->end;
    stream->bit = 7;
  } else {
    stream->next += used / 8;
    stream->bit = static_cast<unsigned>(used % 8);
  }
}

bool ends_well(const HuffmanStream& stream) {
  if (stream.bit == 0) return stream.next == stream.end;
  return stream.end - stream.next == 1 && (*stream.next >> stream.bit) == 0;
}

}  // namespace

HuffmanDecoder::HuffmanDecoder(const CodeLengths& lengths, unsigned num_levels, unsigned tuple,
                               bool multi_stream)
    : word_bytes_(tuple == 1 ? 1 : tuple / 2),
      index_bits_(multi_stream ? kStreamIndexBits : kSmallIndexBits) {
  std::size_t alphabet = 1;
  for (unsigned k = 0; k < tuple; ++k) alphabet *= num_levels;

  // 1. Each symbol as an entry of its own: the digits of its levels, its length and its size.
  std::array<std::uint64_t, kMaxAlphabet> words;
  for (std::size_t s = 0; s < alphabet; ++s) {
    std::uint64_t bytes = 0;
    std::size_t rest = s;
    for (unsigned k = tuple; k-- > 0; rest /= num_levels) {
      const std::uint64_t level = rest % num_levels;
      bytes |= tuple == 1 ? level : level << (8 * (k / 2) + (k % 2 == 0 ? 4 : 0));
    }
    words[s] = make_entry(lengths[s], bytes, word_bytes_);
  }

  // 2. Words in canonical order, and where each length starts.
  std::uint32_t position = 0;
  std::uint32_t limit = 0;
  for (unsigned length = 1; length <= kMaxCodeLength; ++length) {
    table_.first[length] = position;
    for (std::size_t s = 0; s < alphabet; ++s) {
      if (lengths[s] != length) continue;
      table_.words[position++] = words[s];
      limit += 1u << (kMaxCodeLength - length);
    }
    table_.limit[length] = limit;
  }

  // 3. For every index, as many words as fit one after the other.
  const std::size_t size = std::size_t(1) << index_bits_;
  std::vector<std::uint64_t> singles(size, 0);
  const CodeWords code = code_words(lengths, alphabet);
  for (std::size_t s = 0; s < alphabet; ++s) {
    const unsigned length = lengths[s];
    if (length == 0 || length > index_bits_) continue;
    for (std::size_t i = code[s] >> (64 - length); i < size; i += std::size_t(1) << length) {
      singles[i] = words[s];
    }
  }
  const std::uint64_t word_mask = (std::uint64_t(1) << (8 * word_bytes_)) - 1;
  entries_.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t bytes = 0;
    std::size_t used = 0, count = 0;
    while (count + word_bytes_ <= kEntryBytes) {
      const std::uint64_t next = singles[i >> used];
      const std::size_t length = length_of(next);
      if (next == 0 || used + length > index_bits_) break;
      bytes |= (bytes_of(next) & word_mask) << (8 * count);
      used += length;
      count += word_bytes_;
    }
    entries_[i] = make_entry(used, bytes, count);
  }
  table_.entries = entries_.data();
}

std::uint64_t HuffmanDecoder::find_word(std::uint64_t bits) const {
  std::uint32_t fraction = 0;
  for (unsigned i = 0; i < kMaxCodeLength; ++i) fraction = fraction << 1 | (bits >> i & 1);
  unsigned length = 1;
  // The code is complete: limit[kMaxCodeLength] = 2^16 ends the search.
  while (fraction >= table_.limit[length]) ++length;
  const std::uint32_t rank = (fraction - table_.limit[length - 1]) >> (kMaxCodeLength - length);
  // SAFETY: the rank is below the number of words of this length.
  return table_.words[table_.first[length] + rank];
}

void HuffmanDecoder::finish_stream(HuffmanStream* stream) const {
  const std::uint64_t mask = (std::uint64_t(1) << index_bits_) - 1;
  // Whole entries while eight bytes can be read and written at every step of a refill.
  while (stream->end - stream->next >= 8 && stream->out_end - stream->out >= 4 * 8) {
    std::uint64_t bits = load_le<std::uint64_t>(stream->next) >> stream->bit;
    std::size_t used = 0;
    for (int step = 0; step < 4; ++step) {
      std::uint64_t entry = entries_[bits & mask];
      if (count_of(entry) == 0) {
        if (step > 0) break;
        entry = find_word(bits);
      }
      store_le(stream->out, bytes_of(entry));
      stream->out += count_of(entry);
      bits >>= length_of(entry);
      used += length_of(entry);
    }
    skip(stream, used);
  }
  while (stream->out < stream->out_end) {
    const std::uint64_t bits = peek(*stream);
    std::uint64_t entry = entries_[bits & mask];
    const std::size_t room = static_cast<std::size_t>(stream->out_end - stream->out);
    if (count_of(entry) == 0 || count_of(entry) > room) entry = find_word(bits);
    // SAFETY: room is a positive multiple of word_bytes_, which is what a single word takes.
    for (std::size_t k = 0; k < count_of(entry); ++k) {
      stream->out[k] = static_cast<std::uint8_t>(bytes_of(entry) >> (8 * k));
    }
    stream->out += count_of(entry);
    skip(stream, length_of(entry));
  }
}

bool HuffmanDecoder::decode(const ByteView* streams, const std::size_t* words, int count,
                            std::uint8_t* out, Reconstruction* beside) const {
  HuffmanStream state[kHuffmanStreams];
  for (int s = 0; s < count; ++s) {
    const ByteView& stream = streams[s];
    state[s] = {stream.data, stream.data + stream.size, out, out + words[s] * word_bytes_, 0};
    out = state[s].out_end;
  }
  if (count == kHuffmanStreams) kernels().huffman_decode(table_, state, beside);
  bool good = true;
  for (int s = 0; s < count; ++s) {
    finish_stream(&state[s]);
    good = good && ends_well(state[s]);
  }
  return good;
}

}  // namespace docofl
