#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "docofl/frame.h"
#include "docofl/tensor.h"

// Entropy-Constrained Uniform Quantization (algorithm 3 of the DoCoFL paper) with real bytes.
namespace docofl {

enum class Budget {
  kBytes,    // the frame's bytes meet the budget (docs/format.md, section 6)
  kEntropy,  // the paper's rule: the entropy of the quantized values meets it
  kNone,     // as fine as `step` says, whatever that takes
};

enum class Quality {
  kFast,  // one uniform quantizer
  kBest,  // dependent quantization: less error for the same bytes, a slower encoder
};

enum class Coder {
  kHuffman,  // quicker
  kRans,     // smaller, with code tables for parts of a tensor; Huffman where it has no room
  kEither,   // tries both
};

struct EcuqOptions {
  double bits = 2.0;
  double tolerance = 0.01;  // how far below the budget, in bits a coordinate, a search may stop
  Budget budget = Budget::kBytes;
  Quality quality = Quality::kFast;
  Coder coder = Coder::kHuffman;  // of Quality::kFast; dependent quantization always has rANS
  // Not for Budget::kEntropy: levels at the means of their values, where that pays; values are then
  // within a step instead of half a step.
  bool centroids = true;
  // For Budget::kBytes: a few Huffman codes for parts of a large tensor, where that pays.
  bool local_tables = true;
  double step = 0;  // for Budget::kNone: the distance of levels, which are its multiples
  int threads = 0;  // 0: as many as OpenMP would use; never changes a byte
};

// Everything that is decided before the first byte is written.
class EcuqPlan {
 public:
  struct Impl;
  explicit EcuqPlan(std::unique_ptr<Impl> impl);
  EcuqPlan(EcuqPlan&&) noexcept;
  EcuqPlan& operator=(EcuqPlan&&) noexcept;
  ~EcuqPlan();
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// The most bytes that a frame can take, where the options bound it (the bytes budget); for
// Budget::kNone what is nearly always enough, otherwise 0.
std::size_t encoded_capacity(const FrameHeader& header, const EcuqOptions& options);

// Finds the levels and the code for `tensor`, and codes it for its exact size. `room`, if not
// empty, is where the frame is going to be written: what is coded is then left there, and
// ecuq_encode need not do it again. Extra memory is a sample of at most a megabyte and a block a
// thread; with rANS two bytes a value, six where neighbours resemble each other, and the frame
// three times. Throws Error(kInvalidInput) for values that are not finite (or, in float64, beyond
// float32) and for options out of range.
EcuqPlan ecuq_plan(const FrameHeader& header, const TensorView& tensor, const EcuqOptions& options,
                   MutableByteView room = {});

// Exact size in bytes of the frame that ecuq_encode will write.
std::size_t encoded_size(const EcuqPlan& plan);

// Writes a whole frame of encoded_size(plan) bytes; to the room of the plan where it had one and
// encoded_size(plan) fits it. Throws Error(kInvalidInput) when the tensor is no longer the one that
// was planned for; `out` then holds no valid frame.
void ecuq_encode(const EcuqPlan& plan, const TensorView& tensor, int threads, std::uint8_t* out);

// A tensor and what its frame is to say of it.
struct EcuqInput {
  FrameHeader header;
  TensorView tensor;
};

// The frames that ecuq_encode would write with Budget::kNone, one after the other in `room`, with
// the blocks of all of them shared out to the threads. Returns their sizes; where these add up to
// more than the room, what it holds is unspecified. Extra memory is that of ecuq_plan for each
// tensor. Throws what ecuq_plan and ecuq_encode do.
std::vector<std::size_t> ecuq_encode_frames(const std::vector<EcuqInput>& inputs,
                                            const EcuqOptions& options, MutableByteView room);

// What the parameters of an ECUQ payload say, without decoding it.
struct EcuqInfo {
  bool explicit_levels = false;
  bool rans = false;               // the coder: rANS, otherwise Huffman
  bool dependent = false;          // dependent quantization (quality "best")
  bool transformed = false;        // levels give coefficients of runs of neighbours
  bool centroids = false;          // values come back as the means of those with their level
  std::uint32_t num_tables = 1;    // code tables that parts of the tensor choose from
  std::uint32_t num_levels = 0;    // K, or the number of explicit levels, or of those with rANS
  std::uint32_t coded_levels = 0;  // W
  std::uint32_t tuple_size = 0;    // t
  std::uint32_t raw_bits = 0;      // r
  std::uint64_t num_outliers = 0;
  float x_min = 0, x_max = 0;
  double step = 0;
  double entropy = 0;
};

EcuqInfo ecuq_inspect(const Frame& frame);

// Writes frame.size values. out.dtype is the frame's, or float32 or float64, which get the values
// that the frame's dtype would. Memory beyond `out` is one block of symbols a thread and the
// directory. Throws Error(kCorruptFrame); `out` is then unspecified.
void ecuq_decode(const Frame& frame, const MutableTensorView& out, int threads);

}  // namespace docofl
