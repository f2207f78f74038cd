#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/frame.h"
#include "docofl/tensor.h"

// EDEN (Vargaftik et al., ICML 2022): a random rotation, a codebook for the normal distribution,
// and a scale that makes the result unbiased.
namespace docofl {

enum class EdenScale {
  kUnbiased,  // |x|^2 / <Rx, q>: the mean over seeds is x
  kMse,       // <Rx, q> / |q|^2: the least error of this vector with this seed
};

struct EdenOptions {
  double bits = 1.0;
  std::uint64_t seed = 0;
  EdenScale scale = EdenScale::kUnbiased;
  bool entropy_coded = false;
  int threads = 0;  // 0: as many as OpenMP would use; never changes a byte
};

// The most bytes that a frame can take (docs/format.md, section 6). Throws Error(kInvalidInput) for
// options out of range.
std::size_t eden_capacity(const FrameHeader& header, const EdenOptions& options);

// Writes a whole frame to `out`, which has room for eden_capacity bytes, and returns its size.
// Extra memory is a block a thread or, entropy-coded, as much as the tensor in float32. Throws
// Error(kInvalidInput) for values that are not finite (or, in float64, beyond float32), for values
// so large that a scale is not finite, and for options out of range.
std::size_t eden_encode(const FrameHeader& header, const TensorView& tensor,
                        const EdenOptions& options, std::uint8_t* out);

// What the parameters of an EDEN payload say, without decoding it.
struct EdenInfo {
  bool entropy_coded = false;
  std::uint32_t width = 0;
  std::uint32_t wide_fraction = 0;  // of 2^32
  double bits = 0;
  std::uint64_t seed = 0;
};

EdenInfo eden_inspect(const Frame& frame);

// Writes frame.size values. out.dtype is the frame's, or float32 or float64, which get the values
// that the frame's dtype would. Extra memory is two blocks a thread. Throws Error(kCorruptFrame);
// `out` is then unspecified.
void eden_decode(const Frame& frame, const MutableTensorView& out, int threads);

// Writes the sum of weights[i] times the tensor of frames[i], which all have the same size, to
// `out`; or adds it to what is there. Frames with the same seed are rotated back together. Extra
// memory is two blocks a thread, whatever the number of frames.
void eden_decode_sum(const std::vector<Frame>& frames, const std::vector<double>& weights, bool add,
                     float* out, int threads);

// Rotates the first n - n % 16 of n values by the blocks of EDEN, as encoding does, and copies the
// others. A block's norm is kept.
void eden_rotate(const float* x, std::size_t n, std::uint64_t seed, float* out, int threads);

// Undoes eden_rotate with the same seed. `v` is destroyed.
void eden_rotate_back(float* v, std::size_t n, std::uint64_t seed, float* out, int threads);

// The Walsh-Hadamard transform in natural order, in place, not normalized, on one thread. n must be
// a power of two.
void hadamard_transform(float* x, std::size_t n);

}  // namespace docofl
