#include "common/source.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/checked.h"
#include "common/parallel.h"
#include "docofl/error.h"
#include "kernels/kernels.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 4096;              // values converted at a time
constexpr std::size_t kStripe = 1 << 16;          // values a thread takes at a time
constexpr std::int32_t kLargestKey = 0x7f7fffff;  // order key of FLT_MAX
// The least double that rounds to an infinite float32.
constexpr double kFloat32Overflow = 0x1.ffffffp127;
constexpr std::int32_t kSmallestKey = -0x7f800000;  // order key of -FLT_MAX

float key_to_float(std::int32_t key) {
  const std::int32_t bits = key ^ ((key >> 31) & 0x7fffffff);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The order keys of the smallest and the largest value.
struct Keys {
  std::int32_t lo = INT32_MAX;
  std::int32_t hi = INT32_MIN;

  bool are_finite() const { return lo >= kSmallestKey && hi <= kLargestKey; }
  ValueRange range() const { return {key_to_float(lo), key_to_float(hi)}; }
};

double value_at(const TensorView& tensor, std::size_t i) {
  if (tensor.dtype == DType::kFloat64) return static_cast<const double*>(tensor.data)[i];
  float scratch;
  return *load_values(tensor, i, 1, &scratch);
}

std::string format(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// Throws because values are NaN, infinite or beyond `limit`; the slow way, to say where.
[[noreturn]] void report_bad_values(const TensorView& tensor, double limit) {
  std::size_t bad = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < tensor.size; ++i) {
    if (std::fabs(value_at(tensor, i)) < limit) continue;
    if (bad++ == 0) first = i;
  }
  if (bad == 0) {
    throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
  }
  const double value = value_at(tensor, first);
  throw Error(ErrorKind::kInvalidInput,
              "tensor: found " + std::to_string(bad) + " value(s) that are not finite" +
                  (std::isfinite(value) ? " in float32" : "") + ", the first is " + format(value) +
                  " at flat index " + std::to_string(first) + ", expected none");
}

}  // namespace

const float* load_values(const TensorView& tensor, std::size_t begin, std::size_t count,
                         float* scratch) {
  switch (tensor.dtype) {
    case DType::kFloat32: return static_cast<const float*>(tensor.data) + begin;
    case DType::kFloat64:
      kernels().from_float64(static_cast<const double*>(tensor.data) + begin, count, scratch);
      break;
    case DType::kFloat16:
      kernels().from_float16(static_cast<const std::uint16_t*>(tensor.data) + begin, count,
                             scratch);
      break;
    case DType::kBFloat16:
      kernels().from_bfloat16(static_cast<const std::uint16_t*>(tensor.data) + begin, count,
                              scratch);
      break;
  }
  return scratch;
}

void store_values(const float* values, std::size_t count, const MutableTensorView& out,
                  std::size_t begin) {
  switch (out.dtype) {
    case DType::kFloat32:
      std::memcpy(static_cast<float*>(out.data) + begin, values, count * sizeof(float));
      break;
    case DType::kFloat64:
      kernels().to_float64(values, count, static_cast<double*>(out.data) + begin);
      break;
    case DType::kFloat16:
      kernels().to_float16(values, count, static_cast<std::uint16_t*>(out.data) + begin);
      break;
    case DType::kBFloat16:
      kernels().to_bfloat16(values, count, static_cast<std::uint16_t*>(out.data) + begin);
      break;
  }
}

void store_frame_values(float* values, std::size_t count, DType dtype, const MutableTensorView& out,
                        std::size_t begin) {
  if (out.dtype != dtype && item_size(dtype) == 2) {
    for (std::size_t done = 0; done < count; done += kPiece) {
      std::uint16_t rounded[kPiece];
      const std::size_t n = std::min(kPiece, count - done);
      store_values(values + done, n, {rounded, n, dtype}, 0);
      load_values({rounded, n, dtype}, 0, n, values + done);
    }
  }
  store_values(values, count, out, begin);
}

std::optional<ValueRange> finite_range(const float* values, std::size_t count) {
  Keys keys;
  kernels().key_range(values, count, &keys.lo, &keys.hi);
  if (!keys.are_finite()) return std::nullopt;
  return keys.range();
}

ValueRange value_range(const TensorView& tensor, int threads,
                       const std::function<void(std::size_t, std::size_t)>& visit) {
  const std::size_t stripes = divide_up(tensor.size, kStripe);
  std::vector<Keys> found(num_workers(stripes, threads));
  // From the end: it was written last and may still be in the caches, and leaves the beginning
  // there for the pass that follows.
  parallel_for(stripes, threads, [&](std::size_t index, int worker) {
    const std::size_t stripe = stripes - 1 - index;
    float scratch[kPiece];
    Keys keys = found[worker];
    const std::size_t end = std::min(tensor.size, (stripe + 1) * kStripe);
    for (std::size_t begin = stripe * kStripe; begin < end; begin += kPiece) {
      const std::size_t count = end - begin < kPiece ? end - begin : kPiece;
      kernels().key_range(load_values(tensor, begin, count, scratch), count, &keys.lo, &keys.hi);
    }
    found[worker] = keys;
    if (visit) visit(stripe * kStripe, end);
  });
  Keys all;
  for (const Keys& keys : found) {
    all.lo = std::min(all.lo, keys.lo);
    all.hi = std::max(all.hi, keys.hi);
  }
  if (!all.are_finite()) report_bad_values(tensor, kFloat32Overflow);
  return all.range();
}

void check_finite(const TensorView& tensor, int threads) {
  if (tensor.size == 0) return;
  if (tensor.dtype != DType::kFloat64) {
    value_range(tensor, threads);
    return;
  }
  const double* values = static_cast<const double*>(tensor.data);
  for (std::size_t i = 0; i < tensor.size; ++i) {
    if (!std::isfinite(values[i]))
      report_bad_values(tensor, std::numeric_limits<double>::infinity());
  }
}

}  // namespace docofl
