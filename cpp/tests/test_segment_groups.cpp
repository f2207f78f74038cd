#include <cmath>
#include <vector>

#include "ecuq/segment_groups.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

namespace docofl {
namespace {

// A segment of normal values of some spread, as levels around 128.
SegmentCounts segment_of(float spread, std::size_t number) {
  constexpr std::size_t kValues = 500;
  const std::vector<float> values = test::normal_values((number + 1) * kValues);
  SegmentCounts counts{};
  for (std::size_t i = number * kValues; i < values.size(); ++i) {
    const float level = std::floor(128.5f + spread * values[i]);
    ++counts[static_cast<std::size_t>(std::fmin(255.0f, std::fmax(0.0f, level)))];
  }
  return counts;
}

DOCOFL_TEST(segments_that_are_alike_do_not_differ) {
  for (const float spread : {0.5f, 3.0f, 30.0f}) {
    const test::Note note("spread ", spread);
    std::vector<SegmentCounts> segments;
    for (std::size_t s = 0; s < 60; ++s) segments.push_back(segment_of(spread, s));
    DOCOFL_CHECK(!SegmentGroups(segments, kMaxAlphabet).differ());
    // One that is another is enough.
    segments[20] = segment_of(4 * spread, 20);
    DOCOFL_CHECK(SegmentGroups(segments, kMaxAlphabet).differ());
  }
}

DOCOFL_TEST(segments_of_one_spread_have_one_group) {
  std::vector<SegmentCounts> segments;
  for (std::size_t s = 0; s < 60; ++s) {
    segments.push_back(segment_of(static_cast<float>(1 << (2 * (s * s % 3))), s));
  }
  const SegmentGroups groups(segments, kMaxAlphabet);
  DOCOFL_CHECK(groups.differ());
  const std::vector<std::uint8_t> choices = groups.choose(4);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    for (std::size_t other = 0; other < s; ++other) {
      if (s * s % 3 == other * other % 3) continue;
      const test::Note note("segments ", other, " and ", s);
      DOCOFL_CHECK(choices[s] != choices[other]);
    }
  }
  // What is counted is what is there.
  std::uint64_t total = 0;
  for (std::uint8_t group = 0; group < 4; ++group) {
    for (const std::uint64_t count : total_counts(segments, choices, group, kMaxAlphabet)) {
      total += count;
    }
  }
  DOCOFL_CHECK_EQUAL(total, 60u * 500);
}

DOCOFL_TEST(one_symbol_everywhere) {
  std::vector<SegmentCounts> segments(20);
  for (SegmentCounts& segment : segments) segment[7] = 100;
  const SegmentGroups groups(segments, kMaxAlphabet);
  DOCOFL_CHECK(!groups.differ());
  DOCOFL_CHECK_EQUAL(groups.choose(2).size(), segments.size());
}

}  // namespace
}  // namespace docofl
