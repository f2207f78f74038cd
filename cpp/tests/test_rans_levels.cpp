#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "ecuq/rans_fit.h"
#include "ecuq/rans_levels.h"
#include "ecuq/rans_source.h"
#include "ecuq/rans_write.h"
#include "harness.h"
#include "test_frames.h"

// Tensors that are coded with what was fitted to a part of them, as large ones are.
namespace docofl {
namespace {

using test::Bytes;

constexpr std::size_t kPart = 3 * kRansSegment;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

struct Case {
  bool dependent;
  double step;
  bool odd_size;
};

const std::vector<Case> kCases = {{true, 0.5, true},  {true, 1.5, false}, {true, 4.0, true},
                                  {false, 1.0, true}, {false, 2.5, true}, {false, 0.2, false}};

// Normal values with some in the tails, in other parts than the first, and some far away.
std::vector<float> values_with_tails(std::size_t size) {
  std::vector<float> values = test::normal_values(size, 91);
  for (std::size_t i = kPart; i < size; i += 97) values[i] *= 3;
  for (std::size_t i = kPart; i < size; i += 5003) values[i] = i % 2 == 0 ? 1e6f : -1e30f;
  values.back() = 4;
  return values;
}

RansFit fitted(const Case& c, RansFitter* fitter) {
  RansFit fit;
  fit.model.dependent = c.dependent;
  fitter->start(c.step, &fit);
  fitter->run(&fit);
  if (c.dependent) {
    RansFitter::adapt(&fit);
    fitter->run(&fit);
  }
  return fit;
}

Bytes frame_of(const RansPlan& plan, std::size_t size) {
  FrameHeader header;
  header.version = kFormatVersion;
  header.codec = CodecId::kEcuq;
  header.shape = {size};
  Bytes payload(payload_size(plan, size));
  write_rans_payload(plan, size, payload.data());
  return test::frame_around(header, payload);
}

DOCOFL_TEST(symbols_that_the_part_had_not_become_outliers) {
  for (const Case& c : kCases) {
    const std::size_t size = kRansBlock + 30000 + (c.odd_size ? 1 : 0);
    const test::Note note("dependent ", c.dependent, ", step ", c.step);
    const std::vector<float> values = values_with_tails(size);
    RansSource source({values.data(), size, DType::kFloat32}, {}, 1);
    RansFitter fitter({values.data(), kPart, DType::kFloat32}, size, 1);
    const RansFit fit = fitted(c, &fitter);
    const RansPlan plan = code_rans(source, fit, fitter, {{}, kNoLimit}, 1);
    const Bytes frame = frame_of(plan, size);
    const std::vector<float> restored = test::decode(frame, DType::kFloat32, 1).values();

    const float most = static_cast<float>(c.step) * (c.dependent ? 8.0f : 1.01f);
    std::size_t num_exact = 0;
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) {
      DOCOFL_CHECK(std::fabs(restored[i] - values[i]) <= most);
      num_exact += restored[i] == values[i];
      squares += std::pow(static_cast<double>(restored[i]) - static_cast<double>(values[i]), 2);
    }
    DOCOFL_CHECK(num_exact >= (size - kPart) / 5003);
    // Values that are listed count with the error that they would have had.
    const double error = squares / static_cast<double>(size);
    DOCOFL_CHECK(error <= 1.001 * plan.mean_squared_error);
    DOCOFL_CHECK(error >= 0.8 * plan.mean_squared_error);
  }
}

DOCOFL_TEST(every_symbol_has_a_place_in_its_table) {
  for (const Case& c : kCases) {
    const std::size_t size = kRansBlock + (c.odd_size ? 4097 : 4096);
    const std::vector<float> values = values_with_tails(size);
    RansFitter fitter({values.data(), kPart, DType::kFloat32}, size, 1);
    const RansFit fit = fitted(c, &fitter);
    const RansQuantizer quantizer(fit, size);
    for (const std::size_t length : {kRansBlock, size - kRansBlock}) {
      const test::Note note("dependent ", c.dependent, ", step ", c.step, ", length ", length);
      const float* const block = values.data() + (size - length);
      RansQuantizer::Scratch scratch;
      RansQuantizer::Result result;
      const RansLevels levels = quantizer.run(block, length, &scratch, &result);
      std::vector<std::uint8_t> symbols(levels.coded, levels.coded + length);
      std::size_t count = length;
      if (fit.tuple == 2) {
        count = pack_pairs(levels.coded, length, fit.model.num_coded, symbols.data());
      }
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t choice = levels.choices[i * fit.tuple / kRansSegment];
        DOCOFL_CHECK(quantizer.tables()[choice][symbols[i]] > 0);
      }
      std::vector<std::uint32_t> positions;
      for (const RansOutlier& outlier : *levels.outliers) {
        positions.push_back(outlier.position);
        DOCOFL_CHECK_EQUAL(outlier.value, block[outlier.position]);
      }
      DOCOFL_CHECK(std::adjacent_find(positions.begin(), positions.end(), std::greater_equal<>()) ==
                   positions.end());
    }
    for (const RansFrequencies& table : quantizer.tables()) {
      std::uint32_t sum = 0;
      for (const std::uint16_t frequency : table) sum += frequency;
      DOCOFL_CHECK_EQUAL(sum, kRansTotal);
    }
  }
}

DOCOFL_TEST(bytes_do_not_depend_on_room_or_threads) {
  for (const Case& c : kCases) {
    const std::size_t size = 3 * kRansBlock + (c.odd_size ? 5 : 6);
    const std::vector<float> values = values_with_tails(size);
    RansSource source({values.data(), size, DType::kFloat32}, {}, 1);
    // All of it, and a part.
    for (const std::size_t fitted_size : {size, kPart}) {
      RansFitter fitter({values.data(), fitted_size, DType::kFloat32}, size, 1);
      const RansFit fit = fitted(c, &fitter);
      const RansPlan without = code_rans(source, fit, fitter, {{}, kNoLimit}, 1);
      DOCOFL_CHECK(without.in_room == nullptr);
      const Bytes expected = frame_of(without, size);
      const std::size_t charged = charged_bytes(without, size);
      DOCOFL_CHECK(code_rans(source, fit, fitter, {{}, charged}, 1).outside == without.outside);
      DOCOFL_CHECK(code_rans(source, fit, fitter, {{}, charged - 1}, 1).outside.empty());
      const std::size_t least = payload_size(without, size);
      for (const std::size_t room_size : {least / 2, least, least + 4096}) {
        const test::Note note("step ", c.step, ", fitted ", fitted_size, ", room ", room_size);
        test::ExactArray<std::uint8_t> room(room_size);
        RansPlan plan = code_rans(source, fit, fitter, {{room.data(), room_size}, kNoLimit}, 3);
        DOCOFL_CHECK(frame_of(plan, size) == expected);
        if (room_size != least) DOCOFL_CHECK_EQUAL(plan.in_room != nullptr, room_size > least);
        // In place, as the encoder does it.
        if (plan.in_room != nullptr) {
          leave_room(&plan);
          DOCOFL_CHECK(frame_of(plan, size) == expected);
          const RansPlan again =
              code_rans(source, fit, fitter, {{room.data(), room_size}, kNoLimit}, 1);
          write_rans_payload(again, size, room.data());
          DOCOFL_CHECK_SAME(room.data(), expected.data() + (expected.size() - 4 - least), least);
        }
      }
    }
  }
}

DOCOFL_TEST(samples_have_all_spreads) {
  // Layers of different spread, in an order that even places would miss.
  const std::size_t segments = 256;
  std::vector<float> values = test::normal_values(segments * kRansSegment + 100, 92);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i / kRansSegment % 4 == 1) values[i] *= 64;
  }
  RansSource source({values.data(), values.size(), DType::kFloat32}, {}, 1);
  const std::vector<float> sample = source.sample(32 * kRansSegment);
  DOCOFL_CHECK_EQUAL(sample.size(), 32 * kRansSegment);
  std::size_t num_wide = 0;
  for (std::size_t s = 0; s < 32; ++s) {
    double sum = 0;
    for (std::size_t i = 0; i < kRansSegment; ++i) {
      sum += std::fabs(static_cast<double>(sample[s * kRansSegment + i]));
    }
    num_wide += sum > 8 * kRansSegment;
  }
  DOCOFL_CHECK_EQUAL(num_wide, 8u);
  DOCOFL_CHECK(source.sample(values.size()) == values);
  for (const int threads : {2, 5}) {
    RansSource again({values.data(), values.size(), DType::kFloat32}, {}, threads);
    DOCOFL_CHECK(again.sample(32 * kRansSegment) == sample);
  }
}

}  // namespace
}  // namespace docofl
