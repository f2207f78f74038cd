#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

// Rotation blocks and what is random about them (docs/format.md, section 4.1).
namespace docofl {

// The largest block: 128 KiB of floats, a quarter of an L2 cache, and scales that take a thousandth
// of a bit a coordinate.
constexpr std::size_t kMaxRotationBlock = 32768;
constexpr std::size_t kMinRotationBlock = kEdenChunk;
constexpr std::size_t kInnerTransform = 4096;  // g

struct RotationBlock {
  std::size_t begin;
  std::size_t size;
};

// Coordinates that are rotated; the others, fewer than 16, form the tail.
inline std::size_t rotated_size(std::size_t size) { return size - size % kMinRotationBlock; }

std::size_t num_rotation_blocks(std::size_t size);

// The number-th block of a tensor of `size` coordinates.
RotationBlock rotation_block(std::size_t size, std::size_t number);

// Threads for a tensor: waking others takes longer than a few small blocks.
inline int rotation_threads(std::size_t size, int threads) {
  return size < 2 * kMaxRotationBlock ? 1 : threads;
}

// 1 / sqrt(g m) of section 4.4.
float rotation_norm(std::size_t block_size);

// All that follows from the seed.
class Rotation {
 public:
  explicit Rotation(std::uint64_t seed);

  // The signs of a block, valid until the next call with the same words.
  using Words = std::array<std::array<std::uint64_t, kMaxRotationBlock / 64>, 2>;
  RotationSigns signs(const RotationBlock& block, Words* words) const;

  // The order in which the chunks of a block are sent; their own where none are wide.
  ChunkOrder chunk_order(std::size_t number, std::size_t num_chunks, bool has_wide) const;

 private:
  std::uint64_t keys_[4];
};

}  // namespace docofl
