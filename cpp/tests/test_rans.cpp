#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "docofl/error.h"
#include "entropy/histogram.h"
#include "entropy/rans.h"
#include "harness.h"
#include "test_data.h"

// Frequencies, their tables, and streams of symbols, at every ISA level.
namespace docofl {
namespace {

// Counts that fall off at a random rate, some of them zero.
SymbolCounts random_counts(test::Random* random, std::size_t alphabet) {
  SymbolCounts counts{};
  const double rate = 0.01 + 0.3 * static_cast<double>(random->below(100)) / 100;
  for (std::size_t a = 0; a < alphabet; ++a) {
    if (a > 1 && random->below(5) == 0) continue;
    counts[a] = 1 + static_cast<std::uint64_t>(1e6 * std::exp(-rate * static_cast<double>(a)));
  }
  return counts;
}

std::vector<std::uint8_t> random_symbols(test::Random* random, const RansFrequencies& frequencies,
                                         std::size_t count) {
  std::vector<std::uint8_t> by_place;
  for (std::size_t a = 0; a < kMaxAlphabet; ++a) {
    by_place.insert(by_place.end(), frequencies[a], static_cast<std::uint8_t>(a));
  }
  std::vector<std::uint8_t> symbols(count);
  for (std::uint8_t& symbol : symbols) symbol = by_place[random->below(kRansTotal)];
  return symbols;
}

std::array<std::uint8_t, kMaxAlphabet> same_names() {
  std::array<std::uint8_t, kMaxAlphabet> names;
  std::iota(names.begin(), names.end(), std::uint8_t(0));
  return names;
}

DOCOFL_TEST(frequencies_add_up_and_cost_little) {
  test::Random random(71);
  for (int round = 0; round < 300; ++round) {
    const std::size_t alphabet = 2 + random.below(255);
    const SymbolCounts counts = random_counts(&random, alphabet);
    const RansFrequencies frequencies = rans_frequencies(counts, alphabet);
    const test::Note note("round ", round, ", alphabet ", alphabet);
    std::uint32_t sum = 0;
    double bits = 0, total = 0;
    for (std::size_t a = 0; a < kMaxAlphabet; ++a) {
      sum += frequencies[a];
      DOCOFL_CHECK_EQUAL(frequencies[a] > 0, a < alphabet && counts[a] > 0);
      if (frequencies[a] == 0) continue;
      bits += static_cast<double>(counts[a]) * rans_cost(frequencies[a]);
      total += static_cast<double>(counts[a]);
    }
    DOCOFL_CHECK_EQUAL(sum, kRansTotal);
    // Rare symbols get at least 1 of 4,096.
    const double least = entropy_of_counts(counts.data(), alphabet);
    DOCOFL_CHECK(bits / total >= least - 1e-9);
    DOCOFL_CHECK(bits / total <= least + 0.01 + static_cast<double>(alphabet) / kRansTotal);
  }
}

DOCOFL_TEST(two_symbols_of_any_share) {
  for (const std::uint64_t rare : {1, 2, 100, 4095, 4096, 1000000}) {
    SymbolCounts counts{};
    counts[3] = rare;
    counts[250] = 1000000;
    const RansFrequencies frequencies = rans_frequencies(counts, kMaxAlphabet);
    DOCOFL_CHECK(frequencies[3] + frequencies[250] == int(kRansTotal));
    DOCOFL_CHECK(frequencies[3] >= 1);
  }
}

DOCOFL_TEST(tables_come_back) {
  test::Random random(72);
  for (int round = 0; round < 200; ++round) {
    const std::size_t alphabet = 2 + random.below(255);
    const RansFrequencies frequencies =
        rans_frequencies(random_counts(&random, alphabet), alphabet);
    const std::size_t size = rans_table_size(frequencies, alphabet);
    test::ExactArray<std::uint8_t> bytes(size);
    DOCOFL_CHECK(write_rans_table(frequencies, alphabet, bytes.data()) == bytes.data() + size);
    std::size_t read = 0;
    DOCOFL_CHECK(read_rans_table({bytes.data(), size}, alphabet, &read) == frequencies);
    DOCOFL_CHECK_EQUAL(read, size);
    for (std::size_t cut = 0; cut < size; ++cut) {
      DOCOFL_CHECK_ERROR(ErrorKind::kTruncatedFrame,
                         read_rans_table({bytes.data(), cut}, alphabet, &read));
    }
  }
}

DOCOFL_TEST(streams_come_back) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(73);
    for (int round = 0; round < 60; ++round) {
      const std::size_t alphabet = 2 + random.below(255);
      std::vector<RansFrequencies> tables;
      for (int t = 0; t < 3; ++t) {
        SymbolCounts counts = random_counts(&random, alphabet);
        for (std::size_t a = 0; a < alphabet; ++a)
          counts[a] = std::max<std::uint64_t>(counts[a], 1);
        tables.push_back(rans_frequencies(counts, alphabet));
      }
      const RansEncoder encoder(tables);
      const RansDecoder decoder(tables, same_names());
      for (const unsigned lanes : {1u, 4u, 32u}) {
        const std::size_t count = random.below(3000);
        const std::size_t segment = 32 * (1 + random.below(20));
        const test::Note note("isa ", isa, ", lanes ", lanes, ", count ", count);
        std::vector<std::uint8_t> choices(count / segment + 1);
        for (std::uint8_t& choice : choices) choice = static_cast<std::uint8_t>(random.below(3));
        const std::vector<std::uint8_t> symbols = random_symbols(&random, tables[0], count);
        const RansLayout layout{lanes, segment, choices.data()};
        std::vector<std::uint8_t> room(RansEncoder::max_bytes(count, lanes));
        std::uint8_t* const end = room.data() + room.size();
        const std::uint8_t* const start = encoder.encode(layout, symbols.data(), count, end);
        const std::size_t size = static_cast<std::size_t>(end - start);
        test::ExactArray<std::uint8_t> stream(size);
        std::copy(start, static_cast<const std::uint8_t*>(end), stream.data());
        test::ExactArray<std::uint8_t> decoded(count);
        DOCOFL_CHECK(decoder.decode(layout, {stream.data(), size}, count, decoded.data()));
        DOCOFL_CHECK_SAME(decoded.data(), symbols.data(), count);

        // A stream that is cut, has too much, or was damaged does not pass.
        DOCOFL_CHECK(!decoder.decode(layout, {stream.data(), size - 1}, count, decoded.data()));
        DOCOFL_CHECK(!decoder.decode(layout, {stream.data(), size - 2}, count, decoded.data()));
        if (count > 0) {
          DOCOFL_CHECK(!decoder.decode(layout, {stream.data(), size}, count - 1, decoded.data()));
        }
        stream[random.below(size)] ^= static_cast<std::uint8_t>(1 + random.below(255));
        decoder.decode(layout, {stream.data(), size}, count, decoded.data());
      }
    }
  });
}

DOCOFL_TEST(streams_are_close_to_the_entropy) {
  test::Random random(74);
  for (const double rate : {0.01, 0.1, 0.5, 1.0, 5.0}) {
    SymbolCounts counts{};
    for (std::size_t a = 0; a < 20; ++a) {
      counts[a] = 1 + static_cast<std::uint64_t>(1e9 * std::exp(-rate * static_cast<double>(a)));
    }
    const RansFrequencies frequencies = rans_frequencies(counts, 20);
    const std::size_t count = 131072;
    const std::vector<std::uint8_t> symbols = random_symbols(&random, frequencies, count);
    SymbolCounts found{};
    for (const std::uint8_t symbol : symbols) ++found[symbol];
    const std::vector<std::uint8_t> choices(1, 0);
    std::vector<std::uint8_t> room(RansEncoder::max_bytes(count, 32));
    const std::uint8_t* const start =
        RansEncoder({frequencies})
            .encode({32, count, choices.data()}, symbols.data(), count, room.data() + room.size());
    const double bits = 8.0 * static_cast<double>(room.data() + room.size() - start) / count;
    const double entropy = entropy_of_counts(found.data(), 20);
    const test::Note note("entropy ", entropy, ", bits ", bits);
    DOCOFL_CHECK(bits <= entropy + 0.01);
  }
}

}  // namespace
}  // namespace docofl
