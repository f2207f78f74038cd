#pragma once

#include <string>
#include <utility>
#include <vector>

#include "entropy/huffman.h"
#include "test_data.h"

// Prefix codes, written as strings of bits.
namespace docofl {
namespace test {

// A complete code over some of `alphabet` >= 2 symbols, from flat to as skewed as it may be.
inline CodeLengths random_code(Random* random, std::size_t alphabet) {
  SymbolCounts counts{};
  const double skew = 40 * random->uniform() * random->uniform();
  const std::size_t holes = random->below(4) == 0 ? 2 : 1000;
  for (std::size_t s = 0; s < alphabet; ++s) {
    const double weight = std::exp2(skew * random->uniform());
    counts[s] = random->below(holes) == 0 ? 0 : static_cast<std::uint64_t>(weight);
  }
  const std::size_t first = random->below(alphabet);
  ++counts[first];
  ++counts[(first + 1 + random->below(alphabet - 1)) % alphabet];
  unsigned limit = 8 + static_cast<unsigned>(random->below(9));
  return huffman_lengths(counts, alphabet, limit);
}

// The canonical words of docs/format.md, section 3.2: by length, then by symbol, counting upwards.
inline std::vector<std::string> canonical_words(const CodeLengths& lengths, std::size_t alphabet) {
  std::vector<std::string> words(alphabet);
  std::uint32_t next = 0;
  for (unsigned length = 1; length <= kMaxCodeLength; ++length, next *= 2) {
    for (std::size_t s = 0; s < alphabet; ++s) {
      if (lengths[s] != length) continue;
      for (unsigned i = length; i-- > 0;) words[s] += (next >> i) % 2 == 1 ? '1' : '0';
      ++next;
    }
  }
  return words;
}

inline std::vector<std::uint8_t> bytes_of_bits(const std::string& bits) {
  std::vector<std::uint8_t> bytes((bits.size() + 7) / 8, 0);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] == '1') bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | 1 << (i % 8));
  }
  return bytes;
}

}  // namespace test
}  // namespace docofl
