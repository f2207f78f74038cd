#include <numeric>
#include <vector>

#include "harness.h"
#include "test_frames.h"

// Frames that are coded side by side are those that are coded one by one.
namespace docofl {
namespace {

using test::Bytes;
using test::Tensor;

constexpr double kStep = 0x1.8p-2;

EcuqOptions options_for(double step, int threads) {
  EcuqOptions options;
  options.budget = Budget::kNone;
  options.step = step;
  options.threads = threads;
  return options;
}

std::vector<float> normal(std::size_t size, double spread, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(spread * random.normal());
  return values;
}

// Whatever a model may hold: large and small tensors, a constant, few values, other dtypes, and
// single values that no sample sees and no open grid holds.
std::vector<Tensor> model() {
  std::vector<Tensor> tensors;
  const auto add = [&](const std::vector<float>& values, DType dtype = DType::kFloat32) {
    tensors.emplace_back(values, dtype);
  };
  add(normal(300'000, 1, 1));
  add(normal(100, 1, 2));
  add(std::vector<float>(200'000, 3));
  std::vector<float> far = normal(400'000, 1, 3);
  far[123'457] = 1e6f;
  add(far);
  add(normal(150'000, 20, 4), DType::kFloat16);
  std::vector<float> mask(150'000);
  for (std::size_t i = 0; i < mask.size(); i += 3) mask[i] = -1e9f;
  add(mask);
  far = normal(500'000, 0.1, 5);
  far[5] = -3e5f;
  add(far);
  add(normal(70'000, 1, 6), DType::kFloat64);
  add({});
  add(normal(800'000, 0.3, 7));
  return tensors;
}

std::vector<EcuqInput> inputs_of(const std::vector<Tensor>& tensors) {
  std::vector<EcuqInput> inputs;
  for (const Tensor& tensor : tensors) inputs.push_back({test::header_of(tensor), tensor.view()});
  return inputs;
}

Bytes one_by_one(const std::vector<Tensor>& tensors, const EcuqOptions& options) {
  Bytes all;
  for (const Tensor& tensor : tensors) {
    const Bytes frame = test::encode(tensor, options);
    all.insert(all.end(), frame.begin(), frame.end());
  }
  return all;
}

DOCOFL_TEST(side_by_side_is_one_by_one) {
  const std::vector<Tensor> tensors = model();
  const std::vector<EcuqInput> inputs = inputs_of(tensors);
  for (const double step : {kStep, kStep / 64, 8 * kStep}) {
    const Bytes expected = one_by_one(tensors, options_for(step, 1));
    for (const int threads : {1, 2, 5}) {
      const test::Note note("step ", step, ", threads ", threads);
      Bytes room(expected.size());
      const std::vector<std::size_t> sizes =
          ecuq_encode_frames(inputs, options_for(step, threads), {room.data(), room.size()});
      DOCOFL_CHECK_EQUAL(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), room.size());
      DOCOFL_CHECK(room == expected);
    }
  }
}

DOCOFL_TEST(other_coders_too) {
  const std::vector<Tensor> tensors = model();
  const std::vector<EcuqInput> inputs = inputs_of(tensors);
  EcuqOptions options = options_for(kStep, 2);
  options.coder = Coder::kEither;
  const Bytes expected = one_by_one(tensors, options);
  Bytes room(expected.size() + 7);
  ecuq_encode_frames(inputs, options, {room.data(), room.size()});
  room.resize(expected.size());
  DOCOFL_CHECK(room == expected);
}

DOCOFL_TEST(too_little_room_gives_sizes) {
  const std::vector<Tensor> tensors = model();
  const std::vector<EcuqInput> inputs = inputs_of(tensors);
  const EcuqOptions options = options_for(kStep, 2);
  const std::size_t needed = one_by_one(tensors, options).size();
  for (const std::size_t size : {std::size_t{0}, needed / 2, needed - 1}) {
    test::ExactArray<std::uint8_t> room(size);
    const std::vector<std::size_t> sizes =
        ecuq_encode_frames(inputs, options, {room.data(), room.size()});
    DOCOFL_CHECK_EQUAL(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), needed);
  }
}

DOCOFL_TEST(nothing_gives_nothing) {
  DOCOFL_CHECK(ecuq_encode_frames({}, options_for(kStep, 2), {}).empty());
}

DOCOFL_TEST(values_that_are_not_finite_are_refused) {
  std::vector<Tensor> tensors = model();
  std::vector<float> bad = normal(300'000, 1, 8);
  bad[250'001] = std::numeric_limits<float>::quiet_NaN();
  tensors.insert(tensors.begin() + 1, Tensor(bad, DType::kFloat32));
  Bytes room(1 << 23);
  DOCOFL_CHECK_ERROR(
      ErrorKind::kInvalidInput,
      ecuq_encode_frames(inputs_of(tensors), options_for(kStep, 2), {room.data(), room.size()}));
}

}  // namespace
}  // namespace docofl
