#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/tensor.h"

// What the compressors of the paper's comparisons take from the core. Their payloads are put
// together by the caller (docs/format.md, section 9).
namespace docofl {

// Copies a tensor as float32. Throws Error(kInvalidInput) for values that are not finite or, in
// float64, beyond float32.
void load_tensor(const TensorView& tensor, float* out);

// Writes decoded values to a tensor: out.dtype is `dtype`, the frame's, or float32 or float64,
// which get the values that `dtype` would. What `dtype` cannot hold becomes its largest finite
// value.
void store_decoded(const float* values, DType dtype, const MutableTensorView& out);

// QSGD (Alistarh et al., 2017) with step `norm / levels`: a coordinate becomes one of the two
// multiples of the step around it, at random and without bias.
struct QsgdGrid {
  double norm = 0;           // finite, >= 0
  std::uint32_t levels = 1;  // s: 1 to kMaxQsgdLevels
};
constexpr std::uint32_t kMaxQsgdLevels = std::uint32_t(1) << 30;

// What a draw of the random choices takes in bits, and the variance of the first number.
struct QsgdCost {
  double dense = 0;
  double sparse = 0;
  double variance = 0;
};

// The square root of the sum of squares, added up in order.
double euclidean_norm(const float* x, std::size_t n);

// The lengths of the streams that gamma_encode would write for qsgd_quantize with the same key.
QsgdCost qsgd_cost(const QsgdGrid& grid, const float* x, std::size_t n, std::uint64_t key);

// The multiples of the step, with the sign of their coordinate.
void qsgd_quantize(const QsgdGrid& grid, const float* x, std::size_t n, std::uint64_t key,
                   std::int32_t* multiples);

// Elias gamma words of multiples (docs/format.md, section 9.3). A dense stream has a word for every
// coordinate, a sparse one a gap and a word for every one that is not 0.
std::vector<std::uint8_t> gamma_encode(const std::int32_t* multiples, std::size_t n, bool sparse);

// Reads n multiples and returns the bytes used. Throws Error(kCorruptFrame). Time is linear in n.
std::size_t gamma_decode(ByteView stream, std::size_t n, bool sparse, std::int32_t* multiples);

}  // namespace docofl
