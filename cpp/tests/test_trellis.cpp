#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ecuq/trellis.h"
#include "harness.h"
#include "kernels/kernels.h"
#include "test_data.h"

// Dependent quantization: the search finds the cheapest path, and the decoder follows it.
namespace docofl {
namespace {

TrellisModel make_model(test::Random* random, bool mirrored, bool displaced) {
  RansCode code;
  code.dependent = true;
  code.mirrored = mirrored;
  code.base = -2 * static_cast<std::int32_t>(1 + random->below(4));
  code.num_coded = 3 + static_cast<unsigned>(random->below(9));
  TrellisModel model;
  model.origin = 0.25f;
  model.step = 0.5f;
  model.mirrored = mirrored;
  model.base = code.base;
  model.num_coded = code.num_coded;
  model.bits.resize(2);
  for (unsigned j = 0; j < code.num_coded; ++j) {
    for (int quantizer = 0; quantizer < 2; ++quantizer) {
      if (displaced) {
        code.displacements[quantizer][j] = static_cast<std::int8_t>(random->below(41)) - 20;
      }
      model.places[quantizer][j] = code.place(quantizer, j);
    }
    for (auto& bits : model.bits) bits[j] = 0.25f * static_cast<float>(1 + random->below(40));
  }
  return model;
}

std::vector<float> make_values(test::Random* random, const TrellisModel& model, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) {
    const float u = static_cast<float>(random->below(4001)) / 4000.0f;
    value = model.origin + model.step * (model.low() + u * (model.high() - model.low()));
  }
  return values;
}

unsigned next_state(unsigned state, unsigned level) {
  return 2 * (state % 4) + ((level % 2) ^ (state >= 2 && state <= 5 ? 1u : 0u));
}

double cost_of(const TrellisModel& model, float value, unsigned quantizer, unsigned level) {
  const double u = (static_cast<double>(value) - model.origin) / model.step;
  const double error = u - static_cast<double>(model.places[quantizer][level]);
  return error * error + static_cast<double>(model.rate_weight * model.bits[0][level]);
}

// The least cost over all sequences of levels.
double least_cost(const TrellisModel& model, const std::vector<float>& values, std::size_t place,
                  unsigned state) {
  if (place == values.size()) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned level = 0; level < model.num_coded; ++level) {
    least = std::min(least, cost_of(model, values[place], state % 2, level) +
                                least_cost(model, values, place + 1, next_state(state, level)));
  }
  return least;
}

DOCOFL_TEST(the_path_is_the_cheapest) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(81);
    for (int round = 0; round < 60; ++round) {
      TrellisModel model = make_model(&random, round % 2 == 0, false);
      // It is looked for among the nearest levels and the cheapest ones: the others cost the same.
      const unsigned frequent[2] = {0, 1};
      for (unsigned j = 0; j < model.num_coded; ++j) {
        model.bits[0][j] = j == frequent[j % 2] ? 0.5f : 1.0f;
      }
      const std::vector<float> values = make_values(&random, model, 4);
      const std::uint8_t choices[1] = {0};
      TrellisScratch scratch;
      TrellisResult result;
      std::uint8_t coded[4];
      run_trellis(model, {values.data(), values.size(), DType::kFloat32}, 0, values.size(), choices,
                  0, &scratch, coded, &result);
      double cost = 0;
      unsigned state = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        cost += cost_of(model, values[i], state % 2, coded[i]);
        state = next_state(state, coded[i]);
      }
      const test::Note note("isa ", isa, ", round ", round);
      DOCOFL_CHECK(std::fabs(cost - least_cost(model, values, 0, 0)) < 1e-3);
    }
  });
}

DOCOFL_TEST(levels_are_the_same_on_every_isa) {
  test::Random random(82);
  for (int round = 0; round < 20; ++round) {
    const TrellisModel model = make_model(&random, round % 2 == 0, true);
    std::vector<float> values = make_values(&random, model, 5000);
    values[17] = 1e30f;
    values[4999] = -std::numeric_limits<float>::max();
    const std::uint8_t choices[2] = {0, 1};
    std::vector<std::uint8_t> first;
    test::for_each_isa([&](const std::string& isa) {
      TrellisScratch scratch;
      TrellisResult result;
      std::vector<std::uint8_t> coded(values.size());
      run_trellis(model, {values.data(), values.size(), DType::kFloat32}, 0, values.size(), choices,
                  0, &scratch, coded.data(), &result);
      if (first.empty()) first = coded;
      const test::Note note("isa ", isa);
      DOCOFL_CHECK_SAME(coded.data(), first.data(), coded.size());
      DOCOFL_CHECK(result.outliers.size() >= 2);
      DOCOFL_CHECK_EQUAL(result.outliers.back().position, 4999u);
      DOCOFL_CHECK(std::is_sorted(
          result.outliers.begin(), result.outliers.end(),
          [](const RansOutlier& a, const RansOutlier& b) { return a.position < b.position; }));
    });
  }
}

DOCOFL_TEST(the_decoder_follows_the_states) {
  test::for_each_isa([](const std::string& isa) {
    test::Random random(83);
    for (const std::size_t runs : {1, 2, 4, 7}) {
      for (const bool pairs : {false, true}) {
        const std::size_t length = 32 * (1 + random.below(5));
        const test::Note note("isa ", isa, ", runs ", runs, ", pairs ", pairs);
        std::vector<std::uint8_t> levels(runs * length), expected(runs * length);
        for (std::size_t i = 0; i < levels.size(); ++i) {
          levels[i] = static_cast<std::uint8_t>(random.below(16));
        }
        for (std::size_t run = 0; run < runs; ++run) {
          unsigned state = 0;
          for (std::size_t i = run * length; i < (run + 1) * length; ++i) {
            expected[i] = static_cast<std::uint8_t>(levels[i] + (state % 2 == 1 ? 100 : 0));
            state = next_state(state, levels[i]);
          }
        }
        test::ExactArray<std::uint8_t> input(pairs ? levels.size() / 2 : levels.size());
        for (std::size_t i = 0; i < input.size(); ++i) {
          input[i] =
              static_cast<std::uint8_t>(pairs ? levels[2 * i] << 4 | levels[2 * i + 1] : levels[i]);
        }
        test::ExactArray<std::uint8_t> coded(levels.size());
        kernels().trellis_follow(input.data(), pairs, runs, length, 100, coded.data());
        DOCOFL_CHECK_SAME(coded.data(), expected.data(), expected.size());
      }
    }
  });
}

}  // namespace
}  // namespace docofl
