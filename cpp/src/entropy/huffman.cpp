#include "entropy/huffman.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "common/bit_io.h"
#include "docofl/error.h"
#include "entropy/width_code.h"

namespace docofl {
namespace {

constexpr int kFirstPreviousLength = 4;
// Pairs pay where at least so many have a word for one that has none.
constexpr std::uint64_t kMinCoveredPairs = 16;

struct Leaf {
  std::uint64_t count;
  std::uint32_t symbol;
};

// Occurring symbols from rare to frequent. Sorting packed keys keeps the order total.
std::size_t sorted_leaves(const SymbolCounts& counts, std::size_t alphabet,
                          std::array<Leaf, kMaxAlphabet>* leaves) {
  std::size_t used = 0;
  for (std::size_t s = 0; s < alphabet; ++s) {
    if (counts[s] > 0) (*leaves)[used++] = {counts[s], static_cast<std::uint32_t>(s)};
  }
  std::sort(leaves->begin(), leaves->begin() + used, [](const Leaf& a, const Leaf& b) {
    return a.count != b.count ? a.count < b.count : a.symbol < b.symbol;
  });
  return used;
}

// Depths of an unlimited Huffman tree by the two-queue method (van Leeuwen, 1976): leaves come
// sorted and inner nodes are born sorted. Returns the greatest depth.
unsigned huffman_depths(const std::array<Leaf, kMaxAlphabet>& leaves, std::size_t used,
                        std::array<unsigned, kMaxAlphabet>* depths) {
  std::array<std::uint64_t, kMaxAlphabet> weight;    // of inner nodes
  std::array<std::size_t, 2 * kMaxAlphabet> parent;  // leaves first, then inner nodes
  std::array<unsigned, kMaxAlphabet> inner_depth;
  std::size_t leaf = 0, inner = 0, made = 0;
  const auto take = [&](std::size_t into) -> std::uint64_t {
    if (leaf < used && (inner == made || leaves[leaf].count <= weight[inner])) {
      parent[leaf] = into;
      return leaves[leaf++].count;
    }
    parent[used + inner] = into;
    return weight[inner++];
  };
  while (made + 1 < used) {
    const std::uint64_t first = take(made);
    const std::uint64_t second = take(made);
    weight[made++] = first + second;
  }
  inner_depth[made - 1] = 0;
  for (std::size_t i = made - 1; i-- > 0;) inner_depth[i] = inner_depth[parent[used + i]] + 1;
  unsigned deepest = 0;
  for (std::size_t i = 0; i < used; ++i) {
    (*depths)[i] = inner_depth[parent[i]] + 1;
    deepest = std::max(deepest, (*depths)[i]);
  }
  return deepest;
}

// Optimal lengths under a limit by package-merge (Larmore and Hirschberg, 1990). Level by level,
// packages of the level below are merged with the leaves; a leaf's length is how often it is among
// the first 2 * used - 2 items of the top level, counted by walking down. A lower limit has the
// same levels, and fewer of them.
class PackageMerge {
 public:
  PackageMerge(const std::array<Leaf, kMaxAlphabet>& leaves, std::size_t used, unsigned num_levels)
      : used_(used), levels_(new Level[num_levels]) {
    std::array<std::uint64_t, kMaxAlphabet + 1> counts;    // with an end that is never taken
    std::array<std::uint64_t, kMaxAlphabet + 1> packages;  // the same
    std::array<std::uint64_t, 2 * kMaxAlphabet> weights;
    for (std::size_t i = 0; i < used; ++i) counts[i] = leaves[i].count;
    counts[used] = UINT64_MAX;
    std::size_t size = 0;
    for (unsigned depth = 0; depth < num_levels; ++depth) {
      const std::size_t num_packages = size / 2;
      for (std::size_t i = 0; i < num_packages; ++i) {
        packages[i] = weights[2 * i] + weights[2 * i + 1];
      }
      packages[num_packages] = UINT64_MAX;
      size = used + num_packages;
      // Without branches, which nobody could predict.
      for (std::size_t i = 0, leaf = 0, package = 0; i < size; ++i) {
        const std::uint64_t count = counts[leaf], packed = packages[package];
        const bool take_leaf = count <= packed;
        weights[i] = take_leaf ? count : packed;
        levels_[depth].is_leaf[i] = take_leaf;
        leaf += take_leaf;
        package += !take_leaf;
      }
    }
  }

  // For a limit of at most the number of levels.
  void depths(unsigned max_length, std::array<unsigned, kMaxAlphabet>* depths) const {
    std::fill(depths->begin(), depths->begin() + used_, 0u);
    std::size_t items = 2 * used_ - 2;
    for (unsigned depth = max_length; depth-- > 0;) {
      const auto& is_leaf = levels_[depth].is_leaf;
      const std::size_t leaves =
          std::accumulate(is_leaf.begin(), is_leaf.begin() + items, std::size_t{0});
      for (std::size_t i = 0; i < leaves; ++i) ++(*depths)[i];
      items = 2 * (items - leaves);
    }
  }

 private:
  struct Level {
    std::array<std::uint8_t, 2 * kMaxAlphabet> is_leaf;
  };
  std::size_t used_;
  std::unique_ptr<Level[]> levels_;  // not cleared
};

std::uint32_t reverse_bits(std::uint32_t value, unsigned count) {
  std::uint32_t reversed = 0;
  for (unsigned i = 0; i < count; ++i) reversed |= ((value >> i) & 1) << (count - 1 - i);
  return reversed;
}

}  // namespace

std::vector<CodeLengths> huffman_lengths(const SymbolCounts& counts, std::size_t alphabet,
                                         std::initializer_list<unsigned> limits) {
  std::array<Leaf, kMaxAlphabet> leaves;
  std::array<unsigned, kMaxAlphabet> free_depths, depths;
  const std::size_t used = sorted_leaves(counts, alphabet, &leaves);
  const unsigned deepest = huffman_depths(leaves, used, &free_depths);
  unsigned num_levels = 0;
  for (const unsigned limit : limits) {
    if (deepest > limit) num_levels = std::max(num_levels, limit);
  }
  const PackageMerge merge(leaves, used, num_levels);
  std::vector<CodeLengths> found;
  for (const unsigned limit : limits) {
    const bool is_limited = deepest > limit;
    if (is_limited) merge.depths(limit, &depths);
    CodeLengths& lengths = found.emplace_back();
    for (std::size_t i = 0; i < used; ++i) {
      lengths[leaves[i].symbol] = static_cast<std::uint8_t>((is_limited ? depths : free_depths)[i]);
    }
  }
  return found;
}

CodeLengths huffman_lengths(const SymbolCounts& counts, std::size_t alphabet, unsigned max_length) {
  return huffman_lengths(counts, alphabet, {max_length})[0];
}

std::uint64_t coded_bits(const SymbolCounts& counts, const CodeLengths& lengths,
                         std::size_t alphabet) {
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < alphabet; ++s) bits += counts[s] * lengths[s];
  return bits;
}

CodeWords code_words(const CodeLengths& lengths, std::size_t alphabet) {
  std::array<std::uint32_t, kMaxCodeLength + 2> next{};
  for (std::size_t s = 0; s < alphabet; ++s) {
    if (lengths[s] > 0) ++next[lengths[s] + 1];
  }
  // next[l] becomes the first word of length l.
  std::uint32_t word = 0;
  for (unsigned length = 1; length <= kMaxCodeLength; ++length) {
    word = (word + next[length]) << 1;
    next[length] = word;
  }
  CodeWords words{};
  for (std::size_t s = 0; s < alphabet; ++s) {
    const unsigned length = lengths[s];
    if (length == 0) continue;
    const std::uint64_t reversed = reverse_bits(next[length]++, length);
    words[s] = reversed << (64 - length) | length;
  }
  return words;
}

std::unique_ptr<const HuffmanPairs> pair_words(const CodeWords& words) {
  constexpr unsigned kOneShift = 2 * kMaxCodeLength;
  const auto length_of = [](std::uint64_t word) { return static_cast<unsigned>(word & 0xff); };
  // A word of l bits stands for a symbol of probability 2^-l, about.
  const auto probability = [&](std::size_t symbol) {
    const unsigned length = length_of(words[symbol % kMaxAlphabet]);
    return length == 0 ? 0u : 1u << (kMaxCodeLength - length);
  };

  // 1. Where symbols are most probable.
  std::uint32_t sum = 0;
  for (std::size_t s = 0; s < kPairSymbols; ++s) sum += probability(s);
  std::uint32_t most = sum;
  std::size_t first = 0;
  for (std::size_t s = 1; s < kMaxAlphabet; ++s) {
    sum += probability(s + kPairSymbols - 1) - probability(s - 1);
    if (sum > most) most = sum, first = s;
  }

  // 2. Their pairs.
  auto pairs = std::make_unique<HuffmanPairs>();
  pairs->first = static_cast<std::uint8_t>(first);
  std::fill(std::begin(pairs->words), std::end(pairs->words), kNoPair);
  std::uint64_t covered = 0;
  for (std::size_t b = 0; b < kPairSymbols; ++b) {
    const std::uint64_t second = words[(first + b) % kMaxAlphabet];
    if (second == 0) continue;
    for (std::size_t a = 0; a < kPairSymbols; ++a) {
      const std::uint64_t word = words[(first + a) % kMaxAlphabet];
      const unsigned length = length_of(word) + length_of(second);
      if (word == 0 || length > kMaxPairLength) continue;
      const std::uint64_t bits = (word & ~std::uint64_t(0xff)) >> length_of(second) | second;
      pairs->words[a + kPairStride * b] = (bits & ~std::uint64_t(0xff)) | length;
      covered += std::uint64_t(1) << (kOneShift - length);
    }
  }
  const std::uint64_t missed = (std::uint64_t(1) << kOneShift) - covered;
  if (missed > covered / kMinCoveredPairs) return nullptr;
  return pairs;
}

std::size_t code_table_size(const CodeLengths& lengths, std::size_t alphabet) {
  std::size_t bits = 0;
  int previous = kFirstPreviousLength;
  for (std::size_t s = 0; s < alphabet; ++s) {
    bits += width_code_bits(lengths[s], previous);
    previous = lengths[s];
  }
  return (bits + 7) / 8;
}

std::uint8_t* write_code_table(const CodeLengths& lengths, std::size_t alphabet,
                               std::uint8_t* out) {
  BitWriter writer(out);
  int previous = kFirstPreviousLength;
  for (std::size_t s = 0; s < alphabet; ++s) {
    write_width(&writer, lengths[s], previous);
    previous = lengths[s];
  }
  return writer.finish();
}

CodeLengths read_code_table(ByteView bytes, std::size_t alphabet, std::size_t* size) {
  BitReader bits(bytes.data, bytes.size);
  WidthReader reader(&bits, "code table", alphabet, kFirstPreviousLength, kMaxCodeLength);
  CodeLengths lengths{};
  for (std::size_t s = 0; s < alphabet; ++s) lengths[s] = static_cast<std::uint8_t>(reader.next(s));
  reader.check_padding();
  if (!is_complete_code(lengths, alphabet)) {
    throw Error(ErrorKind::kCorruptFrame,
                "code table: the lengths do not form a complete prefix code");
  }
  *size = bits.bytes_read();
  return lengths;
}

bool is_complete_code(const CodeLengths& lengths, std::size_t alphabet) {
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < alphabet; ++s) {
    if (lengths[s] > kMaxCodeLength) return false;
    if (lengths[s] > 0) sum += std::uint64_t(1) << (kMaxCodeLength - lengths[s]);
  }
  return sum == std::uint64_t(1) << kMaxCodeLength;
}

}  // namespace docofl
