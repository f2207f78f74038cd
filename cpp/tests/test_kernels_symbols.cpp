#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness.h"
#include "kernels/kernels.h"
#include "test_codes.h"
#include "test_data.h"

// The loops between coded levels, symbols and bits, at every ISA level.
namespace docofl {
namespace {

// Stores may reach this far beyond what they mean to write, and loads likewise.
constexpr std::size_t kSlack = 8;

// All small sizes and a larger one.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all;
  for (std::size_t n = 0; n <= 70; ++n) all.push_back(n);
  all.push_back(1001);
  return all;
}

DOCOFL_TEST(raw_bits_of_all_widths) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(51);
    for (unsigned width = 0; width <= 24; ++width) {
      for (const std::size_t n : sizes()) {
        const test::Note note("isa ", isa, ", width ", width, ", n ", n);
        test::ExactArray<std::uint32_t> raw(n, n % 7);
        std::string bits;
        for (std::size_t i = 0; i < n; ++i) {
          raw[i] = static_cast<std::uint32_t>(random.next()) & ((1u << width) - 1);
          if (random.below(4) == 0) raw[i] = (1u << width) - 1;
          for (unsigned k = 0; k < width; ++k) bits += (raw[i] >> k) % 2 == 1 ? '1' : '0';
        }
        const std::vector<std::uint8_t> expected = test::bytes_of_bits(bits);
        test::ExactArray<std::uint8_t> packed(expected.size() + kSlack, n % 8);
        kernels().pack_raw(raw.data(), n, width, packed.data());
        DOCOFL_CHECK_SAME(packed.data(), expected.data(), expected.size());

        // What follows the bits must not matter.
        for (std::size_t i = 0; i < kSlack; ++i) packed[expected.size() + i] = 0xff;
        test::ExactArray<std::uint32_t> unpacked(n, n % 5);
        kernels().unpack_raw(packed.data(), n, width, unpacked.data());
        DOCOFL_CHECK_SAME(unpacked.data(), raw.data(), n);
      }
    }
  });
}

DOCOFL_TEST(code_words_are_joined) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(52);
    int with_pairs = 0;
    for (int round = 0; round < 60; ++round) {
      const std::size_t alphabet = 2 + random.below(255);
      const CodeLengths lengths = test::random_code(&random, alphabet);
      const std::vector<std::string> words = test::canonical_words(lengths, alphabet);
      const CodeWords coded = code_words(lengths, alphabet);
      const unsigned longest = *std::max_element(lengths.begin(), lengths.end());
      // A larger bound than needed is allowed.
      const unsigned max_length = round % 2 == 0 ? longest : kMaxCodeLength;
      const std::unique_ptr<const HuffmanPairs> pairs = pair_words(coded);
      with_pairs += pairs != nullptr;
      for (const std::size_t n : sizes()) {
        const test::Note note("isa ", isa, ", round ", round, ", longest ", longest, ", n ", n);
        test::ExactArray<std::uint8_t> symbols(n, n % 5);
        std::string bits;
        for (std::size_t i = 0; i < n; ++i) {
          do symbols[i] = static_cast<std::uint8_t>(random.below(alphabet));
          while (lengths[symbols[i]] == 0);
          bits += words[symbols[i]];
        }
        const std::vector<std::uint8_t> expected = test::bytes_of_bits(bits);
        const std::size_t room = (n * max_length + 7) / 8 + kSlack;
        test::ExactArray<std::uint8_t> out(room, n % 8);
        // By single words, and by pairs where the code has them; whatever is fetched meanwhile.
        for (const HuffmanPairs* some : {static_cast<const HuffmanPairs*>(nullptr), pairs.get()}) {
          for (const FetchAhead& ahead : {FetchAhead{}, FetchAhead{out.data(), 4096}}) {
            std::fill(out.data(), out.data() + room, std::uint8_t(0xa5));
            const std::size_t written = kernels().huffman_encode(
                symbols.data(), n, coded.data(), max_length, some, ahead, out.data());
            DOCOFL_CHECK_EQUAL(written, expected.size());
            DOCOFL_CHECK_SAME(out.data(), expected.data(), expected.size());
          }
        }
      }
    }
    DOCOFL_CHECK(with_pairs >= 10 && with_pairs <= 50);
  });
}

DOCOFL_TEST(pairs_of_likely_symbols) {
  // Six bits each from symbol 224 on, around the end of the numbers: all pairs have a word.
  SymbolCounts counts{};
  for (std::size_t i = 0; i < kPairSymbols; ++i) counts[(224 + i) % kMaxAlphabet] = 1;
  CodeLengths lengths = huffman_lengths(counts, kMaxAlphabet, kMaxCodeLength);
  const std::unique_ptr<const HuffmanPairs> pairs = pair_words(code_words(lengths, kMaxAlphabet));
  DOCOFL_CHECK(pairs != nullptr);
  DOCOFL_CHECK_EQUAL(unsigned(pairs->first), 224u);
  for (unsigned a = 0; a < kPairStride; ++a) {
    for (unsigned b = 0; b < kPairStride; ++b) {
      const std::uint64_t length = pairs->words[a + kPairStride * b] & 0xff;
      const bool is_other = a == kPairSymbols || b == kPairSymbols;
      DOCOFL_CHECK_EQUAL(length, is_other ? kNoPair : 12);
    }
  }
  // As many again: every fourth pair would have one.
  for (std::uint64_t& count : counts) count = 1;
  lengths = huffman_lengths(counts, kMaxAlphabet, kMaxCodeLength);
  DOCOFL_CHECK(pair_words(code_words(lengths, kMaxAlphabet)) == nullptr);
}

DOCOFL_TEST(words_of_one_length_only) {
  test::for_each_isa([](const std::string& isa) {
    for (unsigned length = 1; length <= kMaxCodeLength; ++length) {
      // Symbol 0 is all ones, symbol 1 all zeros, of `length` bits.
      std::vector<std::uint64_t> words(256, 0);
      words[0] = ~std::uint64_t(0) << (64 - length) | length;
      words[1] = length;
      for (const std::size_t n : sizes()) {
        const test::Note note("isa ", isa, ", length ", length, ", n ", n);
        std::vector<std::uint8_t> symbols(n);
        std::string bits;
        for (std::size_t i = 0; i < n; ++i) {
          symbols[i] = i % 3 == 1;
          bits += std::string(length, i % 3 == 1 ? '0' : '1');
        }
        const std::vector<std::uint8_t> expected = test::bytes_of_bits(bits);
        test::ExactArray<std::uint8_t> out(expected.size() + kSlack);
        const std::size_t written = kernels().huffman_encode(symbols.data(), n, words.data(),
                                                             length, nullptr, {}, out.data());
        DOCOFL_CHECK_EQUAL(written, expected.size());
        DOCOFL_CHECK_SAME(out.data(), expected.data(), expected.size());
      }
    }
  });
}

DOCOFL_TEST(tuples_are_numbers) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(53);
    struct Shape {
      unsigned num_levels, tuple;
    };
    for (const Shape& shape :
         {Shape{1, 1}, {256, 1}, {2, 2}, {16, 2}, {15, 2}, {4, 4}, {3, 4}, {2, 6}}) {
      for (const std::size_t n : sizes()) {
        const test::Note note("isa ", isa, ", levels ", shape.num_levels, ", tuple ", shape.tuple,
                              ", n ", n);
        test::ExactArray<std::uint8_t> coded(n * shape.tuple, n % 5);
        for (std::size_t i = 0; i < coded.size(); ++i) {
          coded[i] = static_cast<std::uint8_t>(random.below(shape.num_levels));
        }
        test::ExactArray<std::uint8_t> symbols(n, n % 3);
        kernels().pack_tuples(coded.data(), n, shape.num_levels, shape.tuple, symbols.data());
        for (std::size_t i = 0; i < n; ++i) {
          unsigned expected = 0;
          for (unsigned k = 0; k < shape.tuple; ++k) {
            expected = expected * shape.num_levels + coded[i * shape.tuple + k];
          }
          DOCOFL_CHECK_EQUAL(symbols[i], expected);
        }
      }
    }
  });
}

DOCOFL_TEST(histograms_add_up) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(55);
    std::vector<std::uint32_t> counts(256, 3);
    std::vector<std::uint32_t> expected = counts;
    for (const std::size_t n : sizes()) {
      const test::Note note("isa ", isa, ", n ", n);
      test::ExactArray<std::uint8_t> symbols(n, n % 5);
      for (std::size_t i = 0; i < n; ++i) {
        symbols[i] = random.below(2) == 0 ? 255 : static_cast<std::uint8_t>(random.next());
        ++expected[symbols[i]];
      }
      kernels().histogram(symbols.data(), n, counts.data());
      DOCOFL_CHECK_SAME(counts.data(), expected.data(), expected.size());
    }
  });
}

}  // namespace
}  // namespace docofl
