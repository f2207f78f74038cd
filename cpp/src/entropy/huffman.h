#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "docofl/tensor.h"
#include "kernels/kernels.h"

// Canonical, length-limited Huffman codes over at most 256 symbols (docs/format.md, section 3.2).
namespace docofl {

constexpr std::size_t kMaxAlphabet = 256;

using SymbolCounts = std::array<std::uint64_t, kMaxAlphabet>;
using CodeLengths = std::array<std::uint8_t, kMaxAlphabet>;  // 0: the symbol has no code word

// Lengths of a code for symbols 0 .. alphabet - 1 with the least total length among codes of at
// most `max_length` bits. Symbols that do not occur get none; at least two must occur, and no more
// than 2^max_length. Deterministic: equal counts are ordered by symbol.
CodeLengths huffman_lengths(const SymbolCounts& counts, std::size_t alphabet, unsigned max_length);

// The same for several limits, which share most of the work.
std::vector<CodeLengths> huffman_lengths(const SymbolCounts& counts, std::size_t alphabet,
                                         std::initializer_list<unsigned> limits);

// Sum of count * length.
std::uint64_t coded_bits(const SymbolCounts& counts, const CodeLengths& lengths,
                         std::size_t alphabet);

// Code words for the encoder: the length in the low byte, the word in the top `length` bits with
// its first bit lowest.
using CodeWords = std::array<std::uint64_t, kMaxAlphabet>;
CodeWords code_words(const CodeLengths& lengths, std::size_t alphabet);

// Words of pairs of the most probable symbols, made to be reached by a stream of symbols; null
// where so many of its pairs would have none that they do not pay.
std::unique_ptr<const HuffmanPairs> pair_words(const CodeWords& words);

// The code table on the wire.
std::size_t code_table_size(const CodeLengths& lengths, std::size_t alphabet);
std::uint8_t* write_code_table(const CodeLengths& lengths, std::size_t alphabet, std::uint8_t* out);

// Reads a table from the start of `bytes`, checks that the code is complete, and sets `size` to its
// bytes. Throws Error(kCorruptFrame / kTruncatedFrame).
CodeLengths read_code_table(ByteView bytes, std::size_t alphabet, std::size_t* size);

// True when the lengths are at most kMaxCodeLength and form a complete prefix code.
bool is_complete_code(const CodeLengths& lengths, std::size_t alphabet);

}  // namespace docofl
