#pragma once

#include <cstdint>

#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/frame.h"
#include "fuzz_input.h"
#include "fuzz_tensor.h"

// Encoders' inputs: what to encode and how, drawn from bytes.
namespace docofl {
namespace fuzz {

// Bytes that give the values of a tensor, where another one follows.
constexpr std::size_t kSharedPattern = 64;

// A dtype and an extent, then options, then values.
struct EncodeInput {
  explicit EncodeInput(FuzzInput* input)
      : choices(input->take<std::uint8_t>()), extent(input->take<std::uint8_t>()) {}

  DType dtype() const { return dtype_of(choices); }
  bool choice(unsigned number) const { return (choices >> (2 + number) & 1) != 0; }

  // Makes the choices those of take_ecuq_options for a step.
  void ask_for_step() { choices = static_cast<std::uint8_t>((choices | 1 << 3) & ~(1 << 4)); }

  std::uint8_t choices;
  std::uint8_t extent;
};

inline FrameHeader header_of(const FuzzTensor& tensor, CodecId codec) {
  FrameHeader header;
  header.codec = codec;
  header.dtype = tensor.dtype();
  header.shape = {tensor.size()};
  return header;
}

// From `low` to `high`.
inline double take_between(FuzzInput* input, double low, double high) {
  return low + (high - low) * input->take<std::uint16_t>() / 65535;
}

// One that goes with any budget, mostly the usual one.
inline Coder coder_of(std::uint8_t choices) {
  return choices % 4 == 3 ? Coder::kEither : Coder::kHuffman;
}

inline EcuqOptions take_ecuq_options(FuzzInput* input, const EncodeInput& with) {
  EcuqOptions options;
  options.bits = take_between(input, 0.01, with.choice(3) ? 32 : 4);
  options.tolerance = take_between(input, 0, 1);
  options.quality = with.choice(0) ? Quality::kBest : Quality::kFast;
  if (with.choice(1)) options.budget = with.choice(2) ? Budget::kEntropy : Budget::kNone;
  if (options.budget == Budget::kNone) options.step = static_cast<double>(input->take<float>());
  options.centroids = with.choice(4) || options.budget == Budget::kBytes;
  options.coder = coder_of(with.extent);
  options.threads = 1;
  return options;
}

inline EdenOptions take_eden_options(FuzzInput* input, const EncodeInput& with) {
  EdenOptions options;
  options.entropy_coded = with.choice(0);
  options.bits = options.entropy_coded ? take_between(input, 1.5, 16) : take_between(input, 0.1, 8);
  options.seed = input->take<std::uint64_t>();
  options.scale = with.choice(1) ? EdenScale::kMse : EdenScale::kUnbiased;
  options.threads = 1;
  return options;
}

// Encodes in one pass where there is a capacity, as the bindings do, otherwise in two.
inline Bytes encode(const FuzzTensor& tensor, const EcuqOptions& options) {
  const FrameHeader header = header_of(tensor, CodecId::kEcuq);
  Bytes bytes(encoded_capacity(header, options));
  const EcuqPlan plan = ecuq_plan(header, tensor.view(), options, {bytes.data(), bytes.size()});
  const std::size_t size = encoded_size(plan);
  if (options.budget == Budget::kBytes) DOCOFL_REQUIRE(size <= bytes.size());
  if (size > bytes.size()) bytes.resize(size);
  ecuq_encode(plan, tensor.view(), options.threads, bytes.data());
  bytes.resize(size);
  return bytes;
}

inline Bytes encode(const FuzzTensor& tensor, const EdenOptions& options) {
  const FrameHeader header = header_of(tensor, CodecId::kEden);
  Bytes bytes(eden_capacity(header, options));
  const std::size_t size = eden_encode(header, tensor.view(), options, bytes.data());
  DOCOFL_REQUIRE(size <= bytes.size());
  bytes.resize(size);
  return bytes;
}

}  // namespace fuzz
}  // namespace docofl
