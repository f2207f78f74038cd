#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "entropy/huffman.h"
#include "harness.h"
#include "test_data.h"

namespace docofl {
namespace {

using Counts = std::vector<std::uint64_t>;

SymbolCounts padded(const Counts& counts) {
  SymbolCounts result{};
  std::copy(counts.begin(), counts.end(), result.begin());
  return result;
}

// The least total length of any prefix code: merge the two lightest until one is left.
std::uint64_t heap_cost(const Counts& counts) {
  std::priority_queue<std::uint64_t, Counts, std::greater<>> heap;
  for (const std::uint64_t count : counts) {
    if (count > 0) heap.push(count);
  }
  std::uint64_t cost = 0;
  while (heap.size() > 1) {
    std::uint64_t sum = heap.top();
    heap.pop();
    sum += heap.top();
    heap.pop();
    cost += sum;
    heap.push(sum);
  }
  return cost;
}

// The least total length of codes of at most `max_length` bits, by dynamic programming from the
// root down: of the nodes of a depth, some become leaves of the most frequent symbols left, and the
// others each have two children, which lengthens all symbols left by one.
class LimitedCost {
 public:
  LimitedCost(const Counts& counts, unsigned max_length) : max_length_(max_length) {
    for (const std::uint64_t count : counts) {
      if (count > 0) counts_.push_back(count);
    }
    std::sort(counts_.rbegin(), counts_.rend());
    rest_.assign(counts_.size() + 1, 0);
    for (std::size_t i = counts_.size(); i-- > 0;) rest_[i] = rest_[i + 1] + counts_[i];
  }

  std::uint64_t operator()() { return below(0, 1, 2) + rest_[0]; }

 private:
  static constexpr std::uint64_t kImpossible = UINT64_MAX / 4;

  // The bits beyond `depth` of symbols placed.., with `nodes` nodes at that depth.
  std::uint64_t below(std::size_t placed, unsigned depth, std::size_t nodes) {
    const std::size_t left = counts_.size() - placed;
    if (nodes == left) return 0;
    if (nodes > left || depth == max_length_) return kImpossible;
    const auto key = std::make_tuple(placed, depth, nodes);
    const auto known = memo_.find(key);
    if (known != memo_.end()) return known->second;
    std::uint64_t best = kImpossible;
    for (std::size_t leaves = 0; leaves < nodes; ++leaves) {
      const std::uint64_t cost = below(placed + leaves, depth + 1, 2 * (nodes - leaves));
      best = std::min(best, cost + rest_[placed + leaves]);
    }
    return memo_[key] = best;
  }

  Counts counts_;
  Counts rest_;
  unsigned max_length_;
  std::map<std::tuple<std::size_t, unsigned, std::size_t>, std::uint64_t> memo_;
};

// Checks what holds for every code and returns its total length.
std::uint64_t checked_cost(const Counts& counts, unsigned max_length) {
  const SymbolCounts all = padded(counts);
  const CodeLengths lengths = huffman_lengths(all, counts.size(), max_length);
  DOCOFL_CHECK(is_complete_code(lengths, counts.size()));
  std::uint64_t cost = 0;
  for (std::size_t s = 0; s < kMaxAlphabet; ++s) {
    DOCOFL_CHECK(lengths[s] <= max_length);
    DOCOFL_CHECK_EQUAL(lengths[s] > 0, all[s] > 0);
    cost += all[s] * lengths[s];
    for (std::size_t other = 0; other < s; ++other) {
      if (all[s] == 0 || all[other] == 0) continue;
      // Rarer symbols, and the earlier of equally rare ones, are never the shorter ones.
      if (all[other] <= all[s]) DOCOFL_CHECK(lengths[other] >= lengths[s]);
      if (all[other] > all[s]) DOCOFL_CHECK(lengths[other] <= lengths[s]);
    }
  }
  DOCOFL_CHECK_EQUAL(coded_bits(all, lengths, counts.size()), cost);
  return cost;
}

Counts random_counts(test::Random* random, std::size_t alphabet) {
  Counts counts(alphabet);
  const auto spread = static_cast<unsigned>(random->below(40));
  for (std::uint64_t& count : counts) {
    count = random->below(8) == 0 ? 0 : random->next() >> (20 + random->below(spread + 1));
  }
  counts[0] = std::max<std::uint64_t>(counts[0], 1);
  counts[alphabet - 1] = std::max<std::uint64_t>(counts[alphabet - 1], 1);
  return counts;
}

Counts fibonacci(std::size_t alphabet) {
  Counts counts = {1, 1};
  while (counts.size() < alphabet) counts.push_back(counts.back() + counts[counts.size() - 2]);
  counts.resize(alphabet);
  return counts;
}

DOCOFL_TEST(two_symbols_take_one_bit_each) {
  DOCOFL_CHECK_EQUAL(checked_cost({1, 1}, 1), 2u);
  DOCOFL_CHECK_EQUAL(checked_cost({0, 1, 0, UINT64_MAX / 2, 0}, 16), UINT64_MAX / 2 + 1);
}

DOCOFL_TEST(unlimited_codes_are_optimal) {
  test::Random random(11);
  for (int round = 0; round < 400; ++round) {
    const Counts counts = random_counts(&random, 2 + random.below(255));
    const test::Note note("round ", round, ", alphabet ", counts.size());
    const std::uint64_t cost = checked_cost(counts, kMaxCodeLength);
    const std::uint64_t least = heap_cost(counts);
    DOCOFL_CHECK(cost >= least);
    // Without a word at the limit, the limit did not matter.
    const CodeLengths lengths = huffman_lengths(padded(counts), counts.size(), kMaxCodeLength);
    const bool at_limit = std::count(lengths.begin(), lengths.end(), kMaxCodeLength) > 0;
    if (!at_limit) DOCOFL_CHECK_EQUAL(cost, least);
  }
}

DOCOFL_TEST(mild_codes_are_as_good_as_unlimited_ones) {
  test::Random random(12);
  for (int round = 0; round < 400; ++round) {
    Counts counts(2 + random.below(255));
    for (std::uint64_t& count : counts) count = 100 + random.below(1000);
    DOCOFL_CHECK_EQUAL(checked_cost(counts, kMaxCodeLength), heap_cost(counts));
  }
}

DOCOFL_TEST(limited_codes_are_optimal_for_few_symbols) {
  test::Random random(13);
  for (std::size_t alphabet = 2; alphabet <= 12; ++alphabet) {
    for (unsigned limit = 1; limit <= 9; ++limit) {
      if (alphabet > std::size_t(1) << limit) continue;
      for (int round = 0; round < 12; ++round) {
        Counts counts = random_counts(&random, alphabet);
        if (round == 0) counts = fibonacci(alphabet);
        if (round == 1) counts.assign(alphabet, 5);
        if (round == 2) {
          for (std::size_t s = 0; s < alphabet; ++s) counts[s] = std::uint64_t(1) << (3 * s);
        }
        const test::Note note("alphabet ", alphabet, ", limit ", limit, ", round ", round);
        DOCOFL_CHECK_EQUAL(checked_cost(counts, limit), LimitedCost(counts, limit)());
      }
    }
  }
}

DOCOFL_TEST(limited_codes_are_optimal_for_many_symbols) {
  test::Random random(14);
  for (const std::size_t alphabet : {20, 33, 48}) {
    for (const unsigned limit : {6u, 7u, 10u, 14u, 16u}) {
      for (int round = 0; round < 2; ++round) {
        const Counts counts = round == 0 ? fibonacci(alphabet) : random_counts(&random, alphabet);
        const test::Note note("alphabet ", alphabet, ", limit ", limit, ", round ", round);
        DOCOFL_CHECK_EQUAL(checked_cost(counts, limit), LimitedCost(counts, limit)());
      }
    }
  }
}

DOCOFL_TEST(the_tightest_limit_gives_equal_lengths) {
  for (unsigned limit = 1; limit <= 8; ++limit) {
    const std::size_t alphabet = std::size_t(1) << limit;
    Counts counts(alphabet);
    for (std::size_t s = 0; s < alphabet; ++s) counts[s] = std::uint64_t(1) << (s % 50);
    const CodeLengths lengths = huffman_lengths(padded(counts), alphabet, limit);
    for (std::size_t s = 0; s < alphabet; ++s) DOCOFL_CHECK_EQUAL(lengths[s], limit);
  }
}

DOCOFL_TEST(counts_of_a_tensor_of_2_to_the_55) {
  Counts counts(256, std::uint64_t(1) << 47);
  DOCOFL_CHECK_EQUAL(checked_cost(counts, 16), std::uint64_t(8) << 55);
  for (std::size_t s = 0; s < counts.size(); ++s) counts[s] = (std::uint64_t(1) << 54) >> (s % 55);
  checked_cost(counts, 14);
  checked_cost(counts, 16);
}

}  // namespace
}  // namespace docofl
