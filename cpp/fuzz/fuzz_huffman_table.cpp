#include <algorithm>
#include <cstring>
#include <vector>

#include "docofl/error.h"
#include "entropy/huffman.h"
#include "entropy/huffman_decoder.h"
#include "fuzz_input.h"

namespace docofl {
namespace {

// Symbols that the stream starts with, one word after the other, by the canonical order alone (by
// length, then by symbol); as many as it has whole words of.
fuzz::Bytes read_words(const CodeLengths& lengths, std::size_t alphabet,
                       const fuzz::Bytes& stream) {
  fuzz::Bytes ordered[kMaxCodeLength + 1];
  for (std::size_t s = 0; s < alphabet; ++s) {
    ordered[lengths[s]].push_back(static_cast<std::uint8_t>(s));
  }
  fuzz::Bytes symbols;
  std::size_t word = 0, first = 0;
  unsigned length = 0;
  for (std::size_t bit = 0; bit < 8 * stream.size(); ++bit) {
    word = word << 1 | (stream[bit / 8] >> (bit % 8) & 1u);
    first <<= 1;
    DOCOFL_REQUIRE(++length <= kMaxCodeLength);
    if (word - first < ordered[length].size()) {
      symbols.push_back(ordered[length][word - first]);
      word = first = length = 0;
    } else {
      first += ordered[length].size();
    }
  }
  return symbols;
}

// A stream of these words is decoded to them.
void check_stream(const CodeLengths& lengths, std::size_t alphabet, const fuzz::Bytes& bytes) {
  constexpr std::size_t kRoom = 8;  // of huffman_encode
  const fuzz::Bytes symbols = read_words(lengths, alphabet, bytes);
  const auto longest = *std::max_element(lengths.begin(), lengths.end());
  fuzz::Bytes stream(symbols.size() * longest / 8 + 1 + kRoom);
  const CodeWords words = code_words(lengths, alphabet);
  stream.resize(kernels().huffman_encode(symbols.data(), symbols.size(), words.data(), longest,
                                         nullptr, {}, stream.data()));
  if (const auto pairs = pair_words(words)) {
    fuzz::Bytes same(stream.size() + kRoom);
    same.resize(kernels().huffman_encode(symbols.data(), symbols.size(), words.data(), longest,
                                         pairs.get(), {}, same.data()));
    DOCOFL_REQUIRE(same == stream);
  }
  // The same bits, up to the last whole word.
  DOCOFL_REQUIRE(stream.size() <= bytes.size());
  if (stream.size() > 1) {
    DOCOFL_REQUIRE(std::memcmp(stream.data(), bytes.data(), stream.size() - 1) == 0);
  }
  const HuffmanDecoder decoder(lengths, static_cast<unsigned>(alphabet), 1, false);
  fuzz::Bytes decoded(symbols.size());
  Reconstruction nothing{};
  const ByteView view = fuzz::view_of(stream);
  const std::size_t num_words = symbols.size();
  DOCOFL_REQUIRE(decoder.decode(&view, &num_words, 1, decoded.data(), &nothing));
  DOCOFL_REQUIRE(decoded == symbols);
}

// Four streams of any bytes: refused or decoded, inside of their room.
void decode_four(const CodeLengths& lengths, std::size_t alphabet, const fuzz::Bytes& bytes) {
  const HuffmanDecoder decoder(lengths, static_cast<unsigned>(alphabet), 1, true);
  const std::size_t quarter = bytes.size() / kHuffmanStreams;
  ByteView streams[kHuffmanStreams];
  std::size_t words[kHuffmanStreams];
  for (int s = 0; s < kHuffmanStreams; ++s) {
    streams[s] = {bytes.data() + static_cast<std::size_t>(s) * quarter, quarter};
    words[s] = 3 * quarter;
  }
  fuzz::Bytes decoded(3 * quarter * kHuffmanStreams);
  Reconstruction nothing{};
  decoder.decode(streams, words, kHuffmanStreams, decoded.data(), &nothing);
}

}  // namespace
}  // namespace docofl

// The size of the alphabet less two, a code table, a stream.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const std::size_t alphabet = std::min<std::size_t>(2 + input.take<std::uint8_t>(), kMaxAlphabet);
  const fuzz::Bytes bytes = input.take_rest();
  std::size_t table_size = 0;
  CodeLengths lengths;
  try {
    lengths = read_code_table(fuzz::view_of(bytes), alphabet, &table_size);
  } catch (const Error& error) {
    DOCOFL_REQUIRE(error.kind() == ErrorKind::kCorruptFrame ||
                   error.kind() == ErrorKind::kTruncatedFrame);
    return 0;
  }
  DOCOFL_REQUIRE(table_size <= bytes.size());
  DOCOFL_REQUIRE(is_complete_code(lengths, alphabet));
  // There is one way to write a table.
  fuzz::Bytes again(code_table_size(lengths, alphabet));
  DOCOFL_REQUIRE(again.size() == table_size);
  write_code_table(lengths, alphabet, again.data());
  DOCOFL_REQUIRE(std::equal(again.begin(), again.end(), bytes.begin()));
  const fuzz::Bytes stream(bytes.begin() + static_cast<std::ptrdiff_t>(table_size), bytes.end());
  check_stream(lengths, alphabet, stream);
  decode_four(lengths, alphabet, stream);
  return 0;
}
