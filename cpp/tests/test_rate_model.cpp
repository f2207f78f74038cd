#include <cmath>
#include <limits>
#include <vector>

#include "docofl/rate_model.h"
#include "harness.h"
#include "test_frames.h"

// The estimate of a step's bits against the bits of real frames.
namespace docofl {
namespace {

using test::Tensor;

Tensor normal(std::size_t size, double spread, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(spread * random.normal());
  return {values, DType::kFloat32};
}

RateModel model_of(const std::vector<Tensor>& tensors, std::size_t count) {
  RateModel model{EcuqOptions{}};
  for (std::size_t k = 0; k < tensors.size(); ++k) model.add(k, tensors[k].view(), count);
  model.finish();
  return model;
}

double real_bits(const std::vector<Tensor>& tensors, double step) {
  EcuqOptions options;
  options.budget = Budget::kNone;
  options.step = step;
  double bits = 0;
  for (const Tensor& tensor : tensors) {
    const EcuqPlan plan = ecuq_plan(test::header_of(tensor), tensor.view(), options);
    bits += 8 * static_cast<double>(encoded_size(plan));
  }
  return bits;
}

DOCOFL_TEST(a_step_takes_about_the_bits_that_it_was_found_for) {
  std::vector<Tensor> tensors;
  tensors.push_back(normal(500'000, 1, 1));
  tensors.push_back(normal(200'000, 0.1, 2));
  tensors.push_back(normal(500'000, 0.5, 3));
  for (const double bits : {1.0, 2.0, 4.0, 8.0}) {
    const test::Note note("bits ", bits);
    RateModel model = model_of(tensors, 20'000);
    const double wanted = bits * 1'200'000;
    const double step = model.find_step(wanted);
    DOCOFL_CHECK(std::fabs(model.bits(step) / wanted - 1) < 0.02);
    const double found = real_bits(tensors, step) / wanted;
    const test::Note found_note("found ", found);
    DOCOFL_CHECK(std::fabs(found - 1) < 0.03);
  }
}

DOCOFL_TEST(a_mask_beside_weights_is_counted_as_exact) {
  test::Random random(5);
  std::vector<float> mask(400'000);
  for (float& value : mask) value = random.below(4) == 0 ? -1e9f : 0.0f;
  std::vector<Tensor> tensors;
  tensors.push_back(normal(400'000, 1, 4));
  tensors.emplace_back(mask, DType::kFloat32);
  RateModel model = model_of(tensors, 20'000);
  const double step = model.find_step(3.0 * 800'000);
  DOCOFL_CHECK(std::fabs(real_bits(tensors, step) / (3.0 * 800'000) - 1) < 0.03);
}

DOCOFL_TEST(frames_without_a_range_have_any_step) {
  std::vector<Tensor> tensors;
  tensors.emplace_back(std::vector<float>(1000, 2), DType::kFloat32);
  tensors.emplace_back(std::vector<float>(), DType::kFloat32);
  tensors.emplace_back(std::vector<float>(10, std::numeric_limits<float>::infinity()),
                       DType::kFloat32);
  RateModel model = model_of(tensors, 100);
  DOCOFL_CHECK_EQUAL(model.find_step(1000), 1.0);
  DOCOFL_CHECK_EQUAL(model.coarsest(), 0.0);
  DOCOFL_CHECK_EQUAL(model_of({}, 1).find_step(1), 1.0);
}

DOCOFL_TEST(the_ends_of_float32) {
  const float most = std::numeric_limits<float>::max();
  std::vector<float> values(4000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? most : -most;
  for (std::size_t i = 0; i < values.size(); i += 5) values[i] = static_cast<float>(i) * 1e30f;
  std::vector<Tensor> tensors;
  tensors.emplace_back(values, DType::kFloat32);
  const double step = model_of(tensors, 4000).find_step(8000);
  DOCOFL_CHECK(std::isfinite(step) && step > 0);
  for (float& value : values) value = value > 0 ? 0 : std::numeric_limits<float>::denorm_min();
  tensors[0] = Tensor(values, DType::kFloat32);
  DOCOFL_CHECK(model_of(tensors, 4000).find_step(1) > 0);
}

}  // namespace
}  // namespace docofl
