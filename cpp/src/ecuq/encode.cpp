#include <limits>
#include <string>
#include <utility>

#include "common/float_mode.h"
#include "docofl/ecuq.h"
#include "docofl/error.h"
#include "ecuq/payload.h"
#include "ecuq/payload_fields.h"
#include "ecuq/payload_plan.h"
#include "ecuq/write_payload.h"

namespace docofl {

struct EcuqPlan::Impl {
  FrameHeader header;
  std::size_t size = 0;
  PayloadPlan payload;
  std::size_t payload_bytes = 0;
};

EcuqPlan::EcuqPlan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EcuqPlan::EcuqPlan(EcuqPlan&&) noexcept = default;
EcuqPlan& EcuqPlan::operator=(EcuqPlan&&) noexcept = default;
EcuqPlan::~EcuqPlan() = default;

namespace {

constexpr double kMinBits = 0.01;
constexpr double kMaxBits = 32;

// Room for a frame without a budget, in bytes a coordinate: 16 bits are rarely wanted, and a frame
// that takes more is coded twice.
constexpr std::size_t kUnboundedBytes = 2;

void check_options(const EcuqOptions& options) {
  if (options.budget == Budget::kNone) {
    if (options.step > 0 && options.step <= std::numeric_limits<double>::max()) return;
    throw Error(ErrorKind::kInvalidInput, "step: found " + std::to_string(options.step) +
                                              ", expected a positive, finite number");
  }
  if (options.budget == Budget::kEntropy && options.quality == Quality::kBest) {
    throw Error(
        ErrorKind::kInvalidInput,
        "quality: found 'best' with the entropy budget, expected the bytes budget or a step");
  }
  if (options.budget == Budget::kEntropy && options.coder == Coder::kRans) {
    throw Error(ErrorKind::kInvalidInput,
                "coder: found 'rans' with the entropy budget, expected the bytes budget or a step");
  }
  if (!(options.bits >= kMinBits && options.bits <= kMaxBits)) {
    throw Error(ErrorKind::kInvalidInput, "bits: found " + std::to_string(options.bits) +
                                              ", expected a number from 0.01 to 32");
  }
  if (!(options.tolerance >= 0 && options.tolerance <= kMaxBits)) {
    throw Error(ErrorKind::kInvalidInput, "tolerance: found " + std::to_string(options.tolerance) +
                                              ", expected a number from 0 to 32");
  }
}

}  // namespace

std::size_t encoded_capacity(const FrameHeader& header, const EcuqOptions& options) {
  check_options(options);
  if (options.budget == Budget::kEntropy) return 0;
  const std::size_t size = checked_size(header.shape, header.dtype);
  const std::size_t around = 1 + 64 + 10 * header.shape.size();
  if (options.budget == Budget::kNone) return kUnboundedBytes * size + around;
  // The bytes promise (docs/format.md, section 6), with a byte for roundings.
  return static_cast<std::size_t>(options.bits * static_cast<double>(size) / 8) + around;
}

EcuqPlan ecuq_plan(const FrameHeader& header, const TensorView& tensor, const EcuqOptions& options,
                   MutableByteView room) {
  const DefaultFloatMode float_mode;
  check_options(options);
  auto impl = std::make_unique<EcuqPlan::Impl>();
  impl->header = header;
  impl->header.codec = CodecId::kEcuq;
  impl->size = checked_size(header.shape, header.dtype);
  if (impl->size != tensor.size || header.dtype != tensor.dtype) {
    throw Error(ErrorKind::kInvalidInput, "tensor: does not match its header");
  }
  if (impl->size > 0) {
    // The payload's place depends a little on its size; guess that it uses the budget up.
    const std::size_t guess =
        static_cast<std::size_t>(options.bits * static_cast<double>(impl->size) / 8);
    const std::size_t start = frame_size(header, guess) - guess - kChecksumBytes;
    PlanRequest request{tensor, options, {}};
    if (room.size > start) request.room = {room.data + start, room.size - start};
    impl->payload = plan_payload(request);
    impl->payload_bytes = payload_size(impl->payload, impl->size);
    impl->header.version = payload_version(impl->payload);
    // A frame that does not fit the room will be written elsewhere.
    if (frame_size(header, impl->payload_bytes) > room.size) {
      impl->payload.blocks.bytes = nullptr;
      if (impl->payload.rans) leave_room(&*impl->payload.rans);
    }
  }
  return EcuqPlan(std::move(impl));
}

std::size_t encoded_size(const EcuqPlan& plan) {
  return frame_size(plan.impl().header, plan.impl().payload_bytes);
}

void ecuq_encode(const EcuqPlan& plan_handle, const TensorView& tensor, int threads,
                 std::uint8_t* out) {
  const DefaultFloatMode float_mode;
  const EcuqPlan::Impl& plan = plan_handle.impl();
  const std::size_t size = encoded_size(plan_handle);
  if (plan.size > 0) {
    write_payload(plan.payload, tensor, threads,
                  out + (size - kChecksumBytes - plan.payload_bytes));
  }
  write_frame_header(plan.header, plan.payload_bytes, out);
  seal_frame(out, size, threads);
}

}  // namespace docofl
