#include "ecuq/payload_fields.h"

#include <cmath>
#include <limits>

#include "docofl/error.h"

namespace docofl {

void corrupt_ecuq(const std::string& message) {
  throw Error(ErrorKind::kCorruptFrame, "ECUQ " + message);
}

std::uint32_t read_bounded(ByteReader* reader, const char* field, std::uint32_t value,
                           std::uint32_t low, std::uint32_t high) {
  if (value < low || value > high) {
    corrupt_ecuq(std::string(field) + " before payload byte " + std::to_string(reader->position()) +
                 ": found " + std::to_string(value) + ", expected " + std::to_string(low) + " to " +
                 std::to_string(high));
  }
  return value;
}

float overflow_of(DType dtype) {
  if (dtype == DType::kFloat16) return 65520.0f;
  if (dtype == DType::kBFloat16) return 0x1.ffp127f;
  return std::numeric_limits<float>::infinity();
}

float largest_of(DType dtype) {
  if (dtype == DType::kFloat16) return 65504.0f;
  if (dtype == DType::kBFloat16) return 0x1.fep127f;
  return std::numeric_limits<float>::max();
}

float read_finite(ByteReader* reader, const char* field) {
  const float value = reader->read<float>(field);
  if (!std::isfinite(value)) {
    corrupt_ecuq(std::string(field) + " before payload byte " + std::to_string(reader->position()) +
                 ": expected a finite number");
  }
  return value;
}

}  // namespace docofl
