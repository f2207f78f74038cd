#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "entropy/huffman_decoder.h"
#include "harness.h"
#include "test_codes.h"
#include "test_data.h"

namespace docofl {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Symbols = std::vector<std::uint8_t>;

struct Shape {
  unsigned num_levels;
  unsigned tuple;

  std::size_t alphabet() const {
    std::size_t size = 1;
    for (unsigned k = 0; k < tuple; ++k) size *= num_levels;
    return size;
  }
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{2, 1},  {3, 1}, {40, 1}, {256, 1}, {2, 2}, {5, 2},
                                         {16, 2}, {2, 4}, {3, 4},  {4, 4},   {2, 6}};
  return all;
}

// A code with the plainest decoder there is: bit by bit, looking words up by length and value.
class NaiveCode {
 public:
  NaiveCode(const CodeLengths& lengths, const Shape& shape)
      : shape_(shape), words_(test::canonical_words(lengths, shape.alphabet())) {
    for (std::size_t s = 0; s < words_.size(); ++s) {
      if (!words_[s].empty()) symbols_[words_[s]] = static_cast<std::uint8_t>(s);
    }
  }

  // A symbol that has a word, all of them equally likely.
  std::uint8_t any_symbol(test::Random* random) const {
    for (;;) {
      const std::size_t s = random->below(words_.size());
      if (!words_[s].empty()) return static_cast<std::uint8_t>(s);
    }
  }

  // The symbol of random bits: as likely as its word is short.
  std::uint8_t typical_symbol(test::Random* random) const {
    std::string word;
    while (symbols_.count(word) == 0) word += random->below(2) == 1 ? '1' : '0';
    return symbols_.at(word);
  }

  std::string encode(const Symbols& symbols) const {
    std::string bits;
    for (const std::uint8_t symbol : symbols) bits += words_[symbol];
    return bits;
  }

  // Nothing where the words do not end in the last byte with zero bits after them.
  std::optional<Symbols> decode(const Bytes& bytes, std::size_t count) const {
    Symbols symbols;
    std::size_t position = 0;
    const auto bit = [&](std::size_t i) { return (bytes[i / 8] >> (i % 8)) & 1; };
    while (symbols.size() < count) {
      std::string word;
      while (symbols_.count(word) == 0) {
        if (position == 8 * bytes.size()) return std::nullopt;
        word += bit(position++) == 1 ? '1' : '0';
      }
      symbols.push_back(symbols_.at(word));
    }
    if ((position + 7) / 8 != bytes.size()) return std::nullopt;
    for (; position < 8 * bytes.size(); ++position) {
      if (bit(position) == 1) return std::nullopt;
    }
    return symbols;
  }

  // The bytes that the symbols leave: a level each, or two levels to a byte.
  Bytes levels(const Symbols& symbols) const {
    Bytes digits;
    for (const std::uint8_t symbol : symbols) {
      Bytes mine;
      for (unsigned k = 0, rest = symbol; k < shape_.tuple; ++k, rest /= shape_.num_levels) {
        mine.insert(mine.begin(), static_cast<std::uint8_t>(rest % shape_.num_levels));
      }
      digits.insert(digits.end(), mine.begin(), mine.end());
    }
    if (shape_.tuple == 1) return digits;
    Bytes pairs;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      pairs.push_back(static_cast<std::uint8_t>(digits[i] << 4 | digits[i + 1]));
    }
    return pairs;
  }

 private:
  Shape shape_;
  std::vector<std::string> words_;
  std::map<std::string, std::uint8_t> symbols_;
};

// Values that are reconstructed while other streams are decoded.
class Beside {
 public:
  Beside() : coded_(kCount, 1), out_(kCount, 3) {
    for (std::size_t i = 0; i < 16; ++i) table_[i] = static_cast<float>(i) - 3.5f;
    for (std::size_t i = 0; i < kCount; ++i) coded_[i] = static_cast<std::uint8_t>(i * 7 % 16);
    work_.table = table_;
    work_.table_size = 16;
    work_.past_caches = true;
    work_.coded = coded_.data();
    work_.out = out_.data();
    work_.count = kCount;
  }

  Reconstruction* work() { return &work_; }

  void check() {
    kernels().reconstruct(&work_);
    for (std::size_t i = 0; i < kCount; ++i) DOCOFL_CHECK_EQUAL(out_[i], table_[coded_[i]]);
  }

 private:
  static constexpr std::size_t kCount = 1234;
  float table_[16];
  test::ExactArray<std::uint8_t> coded_;
  test::ExactArray<float> out_;
  Reconstruction work_{};
};

// Decodes streams from memory that ends where they end; nothing where the decoder refuses.
std::optional<Bytes> decode(const HuffmanDecoder& decoder, const std::vector<Bytes>& streams,
                            const std::vector<std::size_t>& words) {
  std::vector<test::ExactArray<std::uint8_t>> inputs;
  std::vector<ByteView> views;
  std::size_t total = 0;
  for (std::size_t s = 0; s < streams.size(); ++s) {
    inputs.emplace_back(streams[s].size());
    std::copy(streams[s].begin(), streams[s].end(), inputs.back().data());
    views.push_back({inputs.back().data(), streams[s].size()});
    total += words[s] * decoder.word_bytes();
  }
  test::ExactArray<std::uint8_t> out(total);
  Beside beside;
  const bool good = decoder.decode(views.data(), words.data(), static_cast<int>(streams.size()),
                                   out.data(), beside.work());
  beside.check();
  if (!good) return std::nullopt;
  return Bytes(out.data(), out.data() + total);
}

// Streams of a code, and what they hold.
struct Streams {
  std::vector<Bytes> bytes;
  std::vector<std::size_t> words;
  Bytes levels;
};

Streams random_streams(const NaiveCode& code, std::size_t count, std::size_t most_words,
                       test::Random* random) {
  Streams streams;
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t words = random->below(most_words + 1);
    const bool typical = random->below(2) == 0;
    Symbols symbols;
    for (std::size_t i = 0; i < words; ++i) {
      symbols.push_back(typical ? code.typical_symbol(random) : code.any_symbol(random));
    }
    const Bytes levels = code.levels(symbols);
    streams.bytes.push_back(test::bytes_of_bits(code.encode(symbols)));
    streams.words.push_back(words);
    streams.levels.insert(streams.levels.end(), levels.begin(), levels.end());
  }
  return streams;
}

DOCOFL_TEST(streams_round_trip) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(31);
    for (const Shape& shape : shapes()) {
      for (int round = 0; round < 60; ++round) {
        const CodeLengths lengths = test::random_code(&random, shape.alphabet());
        const NaiveCode code(lengths, shape);
        const bool multi_stream = round % 3 != 0;
        const std::size_t count = round % 3 == 2 ? 1 : multi_stream ? 4 : 1;
        const std::size_t most = round < 30 ? 30 : 1500;
        const test::Note note("isa ", isa, ", levels ", shape.num_levels, ", tuple ", shape.tuple,
                              ", round ", round, ", streams ", count);
        const HuffmanDecoder decoder(lengths, shape.num_levels, shape.tuple, multi_stream);
        DOCOFL_CHECK_EQUAL(decoder.word_bytes(), shape.tuple == 1 ? 1 : shape.tuple / 2);
        const Streams streams = random_streams(code, count, most, &random);
        const std::optional<Bytes> found = decode(decoder, streams.bytes, streams.words);
        DOCOFL_CHECK(found.has_value());
        DOCOFL_CHECK_EQUAL(found->size(), streams.levels.size());
        DOCOFL_CHECK_SAME(found->data(), streams.levels.data(), streams.levels.size());
      }
    }
  });
}

// Streams that are cut, continued or changed are refused exactly where the plain decoder does.
DOCOFL_TEST(damaged_streams_are_refused) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(32);
    std::size_t refused = 0;
    for (const Shape& shape : shapes()) {
      for (int round = 0; round < 150; ++round) {
        const CodeLengths lengths = test::random_code(&random, shape.alphabet());
        const NaiveCode code(lengths, shape);
        const std::size_t count = round % 2 == 0 ? 4 : 1;
        const HuffmanDecoder decoder(lengths, shape.num_levels, shape.tuple, count == 4);
        Streams streams = random_streams(code, count, round < 120 ? 60 : 800, &random);
        const std::size_t victim = random.below(count);
        Bytes& bytes = streams.bytes[victim];
        const std::size_t damage = random.below(8);
        switch (damage) {
          case 0: bytes.push_back(0); break;
          case 1: bytes.push_back(static_cast<std::uint8_t>(random.next())); break;
          case 2:
            if (!bytes.empty()) bytes.pop_back();
            break;
          case 3:
            if (!bytes.empty()) bytes.back() |= 0x80;
            break;
          case 4: ++streams.words[victim]; break;
          case 5:
            if (streams.words[victim] > 0) --streams.words[victim];
            break;
          // Far more words than there are bits: nothing beyond the end may be read.
          case 6: streams.words[victim] += 1 + random.below(3000); break;
          default:
            for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
        }
        const test::Note note("isa ", isa, ", levels ", shape.num_levels, ", tuple ", shape.tuple,
                              ", round ", round, ", damage ", damage);
        bool expected = true;
        Bytes levels;
        for (std::size_t s = 0; s < count; ++s) {
          const std::optional<Symbols> symbols = code.decode(streams.bytes[s], streams.words[s]);
          expected = expected && symbols.has_value();
          if (!symbols) continue;
          const Bytes mine = code.levels(*symbols);
          levels.insert(levels.end(), mine.begin(), mine.end());
        }
        const std::optional<Bytes> found = decode(decoder, streams.bytes, streams.words);
        DOCOFL_CHECK_EQUAL(found.has_value(), expected);
        if (expected) DOCOFL_CHECK_SAME(found->data(), levels.data(), levels.size());
        if (!expected) ++refused;
      }
    }
    DOCOFL_CHECK(refused > 500);
  });
}

// Four streams of very different sizes: the fast path ends with the shortest.
DOCOFL_TEST(uneven_streams) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(33);
    for (const Shape& shape : shapes()) {
      const CodeLengths lengths = test::random_code(&random, shape.alphabet());
      const NaiveCode code(lengths, shape);
      const HuffmanDecoder decoder(lengths, shape.num_levels, shape.tuple, true);
      for (std::size_t longest = 0; longest < 4; ++longest) {
        const test::Note note("isa ", isa, ", tuple ", shape.tuple, ", longest ", longest);
        Streams streams;
        for (std::size_t s = 0; s < 4; ++s) {
          const Streams one = random_streams(code, 1, s == longest ? 5000 : 40 * s, &random);
          streams.bytes.push_back(one.bytes[0]);
          streams.words.push_back(one.words[0]);
          streams.levels.insert(streams.levels.end(), one.levels.begin(), one.levels.end());
        }
        const std::optional<Bytes> found = decode(decoder, streams.bytes, streams.words);
        DOCOFL_CHECK(found.has_value());
        DOCOFL_CHECK_SAME(found->data(), streams.levels.data(), streams.levels.size());
      }
    }
  });
}

// The longest words and the most words a look-up, alone and mixed.
DOCOFL_TEST(a_code_with_all_lengths) {
  CodeLengths lengths{};
  for (unsigned s = 0; s < 16; ++s) lengths[s] = static_cast<std::uint8_t>(s + 1);
  lengths[16] = 16;
  const Shape shape = {17, 1};
  const NaiveCode code(lengths, shape);
  test::for_each_isa([&](const std::string& isa) {
    test::Random random(34);
    for (const bool multi_stream : {false, true}) {
      const HuffmanDecoder decoder(lengths, shape.num_levels, shape.tuple, multi_stream);
      for (std::size_t pattern = 0; pattern < 20; ++pattern) {
        const test::Note note("isa ", isa, ", pattern ", pattern, ", multi ", multi_stream);
        Symbols symbols;
        for (std::size_t i = 0; i < 700; ++i) {
          const bool is_short = pattern >= 17 && random.below(pattern - 16 + 2) > 0;
          symbols.push_back(static_cast<std::uint8_t>(pattern < 17 ? pattern
                                                      : is_short   ? 0
                                                                   : random.below(17)));
        }
        const Bytes bytes = test::bytes_of_bits(code.encode(symbols));
        const std::size_t count = multi_stream ? 4 : 1;
        const std::optional<Bytes> found = decode(decoder, std::vector<Bytes>(count, bytes),
                                                  std::vector<std::size_t>(count, symbols.size()));
        DOCOFL_CHECK(found.has_value());
        for (std::size_t s = 0; s < count; ++s) {
          DOCOFL_CHECK_SAME(found->data() + s * symbols.size(), symbols.data(), symbols.size());
        }
      }
    }
  });
}

}  // namespace
}  // namespace docofl
