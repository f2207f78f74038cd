#include <algorithm>
#include <string>
#include <vector>

#include "entropy/huffman.h"
#include "harness.h"
#include "test_codes.h"
#include "test_data.h"

namespace docofl {
namespace {

using Bytes = std::vector<std::uint8_t>;

// The table of docs/format.md, section 3.2, as a string of bits.
std::string table_bits(const CodeLengths& lengths, std::size_t alphabet) {
  std::string bits;
  int previous = 4;
  for (std::size_t s = 0; s < alphabet; ++s) {
    const int difference = lengths[s] - previous;
    previous = lengths[s];
    const unsigned value =
        1 + static_cast<unsigned>(difference > 0 ? 2 * difference - 1 : -2 * difference);
    unsigned width = 0;
    while (value >> (width + 1) != 0) ++width;
    bits += std::string(width, '0') + '1';
    for (unsigned i = 0; i < width; ++i) bits += (value >> i) % 2 == 1 ? '1' : '0';
  }
  return bits;
}

CodeLengths read_table(const Bytes& bytes, std::size_t alphabet) {
  std::size_t size = 0;
  const CodeLengths lengths = read_code_table({bytes.data(), bytes.size()}, alphabet, &size);
  DOCOFL_CHECK_EQUAL(size, bytes.size());
  return lengths;
}

DOCOFL_TEST(words_are_canonical) {
  test::Random random(21);
  for (int round = 0; round < 300; ++round) {
    const std::size_t alphabet = 2 + random.below(255);
    const CodeLengths lengths = test::random_code(&random, alphabet);
    const std::vector<std::string> expected = test::canonical_words(lengths, alphabet);
    const CodeWords words = code_words(lengths, alphabet);
    for (std::size_t s = 0; s < alphabet; ++s) {
      const test::Note note("round ", round, ", symbol ", s);
      DOCOFL_CHECK_EQUAL(words[s] & 0xff, lengths[s]);
      if (lengths[s] == 0) {
        DOCOFL_CHECK_EQUAL(words[s], 0u);
        continue;
      }
      const std::uint64_t word = words[s] >> (64 - lengths[s]);
      std::string bits;
      for (unsigned i = 0; i < lengths[s]; ++i) bits += (word >> i) % 2 == 1 ? '1' : '0';
      DOCOFL_CHECK_EQUAL(bits, expected[s]);
    }
  }
}

// The example of RFC 1951, section 3.2.2.
DOCOFL_TEST(words_of_the_rfc) {
  const CodeLengths lengths = {3, 3, 3, 3, 3, 2, 4, 4};
  const std::vector<std::string> expected = {"010", "011", "100",  "101",
                                             "110", "00",  "1110", "1111"};
  DOCOFL_CHECK(test::canonical_words(lengths, 8) == expected);
}

DOCOFL_TEST(tables_round_trip) {
  test::Random random(22);
  for (int round = 0; round < 500; ++round) {
    const std::size_t alphabet = 2 + random.below(255);
    const test::Note note("round ", round, ", alphabet ", alphabet);
    const CodeLengths lengths = test::random_code(&random, alphabet);
    const Bytes expected = test::bytes_of_bits(table_bits(lengths, alphabet));
    DOCOFL_CHECK_EQUAL(code_table_size(lengths, alphabet), expected.size());
    test::ExactArray<std::uint8_t> written(expected.size());
    DOCOFL_CHECK(write_code_table(lengths, alphabet, written.data()) ==
                 written.data() + written.size());
    DOCOFL_CHECK_SAME(written.data(), expected.data(), expected.size());
    const CodeLengths read = read_table(expected, alphabet);
    DOCOFL_CHECK_SAME(read.data(), lengths.data(), lengths.size());
    // Bytes that follow belong to the next field.
    Bytes longer = expected;
    longer.push_back(0xff);
    std::size_t size = 0;
    read_code_table({longer.data(), longer.size()}, alphabet, &size);
    DOCOFL_CHECK_EQUAL(size, expected.size());
  }
}

// Row 3 of the reliability list: 46,656 vectors, accepted exactly when they are complete.
DOCOFL_TEST(all_vectors_of_six_lengths_up_to_five) {
  std::size_t complete = 0;
  for (unsigned vector = 0; vector < 6 * 6 * 6 * 6 * 6 * 6; ++vector) {
    CodeLengths lengths{};
    unsigned sum = 0;  // in units of 2^-5
    unsigned rest = vector;
    for (std::size_t s = 0; s < 6; ++s, rest /= 6) {
      lengths[s] = static_cast<std::uint8_t>(rest % 6);
      if (lengths[s] > 0) sum += 32u >> lengths[s];
    }
    const test::Note note("vector ", vector);
    DOCOFL_CHECK_EQUAL(is_complete_code(lengths, 6), sum == 32);
    Bytes bytes(code_table_size(lengths, 6));
    write_code_table(lengths, 6, bytes.data());
    if (sum == 32) {
      ++complete;
      const CodeLengths read = read_table(bytes, 6);
      DOCOFL_CHECK_SAME(read.data(), lengths.data(), lengths.size());
    } else {
      DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_table(bytes, 6));
    }
  }
  DOCOFL_CHECK(complete > 0);
}

DOCOFL_TEST(lengths_beyond_the_maximum_are_no_code) {
  CodeLengths lengths{};
  lengths[0] = 17;
  lengths[1] = 1;
  DOCOFL_CHECK(!is_complete_code(lengths, 2));
  DOCOFL_CHECK(!is_complete_code(CodeLengths{}, 256));
}

// The length goes from 4 to 16, to 17, and below 0.
DOCOFL_TEST(lengths_out_of_range_are_refused) {
  CodeLengths lengths{};
  lengths[0] = 17;
  lengths[1] = 1;
  DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame,
                     read_table(test::bytes_of_bits(table_bits(lengths, 2)), 2));
  // A difference of -5 is mapped to 10 and written as 11: 3 zeros, 1, then the bits 1 1 0.
  DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_table(test::bytes_of_bits("000"
                                                                              "1"
                                                                              "110"
                                                                              "1"),
                                                          2));
  DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_table(Bytes(4, 0), 2));
}

DOCOFL_TEST(cut_tables_are_refused) {
  test::Random random(23);
  for (const std::size_t alphabet : {2, 16, 81, 256}) {
    const Bytes table =
        test::bytes_of_bits(table_bits(test::random_code(&random, alphabet), alphabet));
    for (std::size_t size = 0; size < table.size(); ++size) {
      const Bytes cut(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(size));
      DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame, read_table(cut, alphabet));
    }
  }
}

DOCOFL_TEST(padding_must_be_zero) {
  test::Random random(24);
  for (int round = 0; round < 100; ++round) {
    const std::size_t alphabet = 2 + random.below(255);
    const std::string bits = table_bits(test::random_code(&random, alphabet), alphabet);
    for (std::size_t i = bits.size(); i % 8 != 0; ++i) {
      Bytes bytes = test::bytes_of_bits(bits);
      bytes.back() = static_cast<std::uint8_t>(bytes.back() | 1 << (i % 8));
      DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, read_table(bytes, alphabet));
    }
  }
}

// Any bytes are a complete code or an error.
DOCOFL_TEST(random_bytes_are_refused_or_complete) {
  test::Random random(25);
  for (int round = 0; round < 20000; ++round) {
    const std::size_t alphabet = 2 + random.below(15);
    test::ExactArray<std::uint8_t> bytes(random.below(12));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(random.next() | random.next());
    }
    try {
      std::size_t size = 0;
      const CodeLengths lengths = read_code_table({bytes.data(), bytes.size()}, alphabet, &size);
      DOCOFL_CHECK(is_complete_code(lengths, alphabet));
      DOCOFL_CHECK(size <= bytes.size());
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace docofl
