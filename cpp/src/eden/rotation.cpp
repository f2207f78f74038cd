#include "eden/rotation.h"

#include <algorithm>
#include <cmath>

#include "common/counter_rng.h"
#include "common/float_mode.h"
#include "common/parallel.h"
#include "docofl/eden.h"

namespace docofl {

std::size_t num_rotation_blocks(std::size_t size) {
  std::size_t count = size / kMaxRotationBlock;
  for (std::size_t bit = kMinRotationBlock; bit < kMaxRotationBlock; bit *= 2) {
    count += (size & bit) != 0;
  }
  return count;
}

RotationBlock rotation_block(std::size_t size, std::size_t number) {
  const std::size_t full = size / kMaxRotationBlock;
  if (number < full) return {number * kMaxRotationBlock, kMaxRotationBlock};
  std::size_t begin = full * kMaxRotationBlock;
  std::size_t left = number - full;
  for (std::size_t bit = kMaxRotationBlock / 2;; bit /= 2) {
    if ((size & bit) == 0) continue;
    if (left-- == 0) return {begin, bit};
    begin += bit;
  }
}

float rotation_norm(std::size_t block_size) {
  const double product =
      static_cast<double>(std::min(block_size, kInnerTransform)) * static_cast<double>(block_size);
  return static_cast<float>(1 / std::sqrt(product));
}

Rotation::Rotation(std::uint64_t seed) {
  for (std::uint64_t r = 0; r < 4; ++r) keys_[r] = counter_random(seed, r);
}

RotationSigns Rotation::signs(const RotationBlock& block, Words* words) const {
  const std::size_t first = block.begin / 64;
  const std::size_t count = std::max<std::size_t>(block.size / 64, 1);
  for (unsigned r = 0; r < 2; ++r) {
    std::uint64_t* const mine = (*words)[r].data();
    for (std::size_t i = 0; i < count; ++i) mine[i] = counter_random(keys_[r + 1], first + i);
    // A block of fewer than 64 coordinates may start inside a word.
    if (block.size < 64) mine[0] >>= block.begin % 64;
  }
  return {(*words)[0].data(), (*words)[1].data()};
}

ChunkOrder Rotation::chunk_order(std::size_t number, std::size_t num_chunks, bool has_wide) const {
  const auto mask = static_cast<std::uint32_t>(num_chunks - 1);
  if (!has_wide) return {1, 0, mask};
  const std::uint64_t random = counter_random(keys_[3], number);
  return {static_cast<std::uint32_t>(random) | 1, static_cast<std::uint32_t>(random >> 32), mask};
}

void eden_rotate(const float* x, std::size_t n, std::uint64_t seed, float* out, int threads) {
  const DefaultFloatMode float_mode;
  threads = rotation_threads(n, threads);
  const Rotation rotation(seed);
  const std::size_t blocks = num_rotation_blocks(n);
  // In memory that stays in the cache: passes over `out` itself would have to fetch it first.
  struct Scratch {
    Rotation::Words words;
    alignas(64) std::array<float, kMaxRotationBlock> rotated;
  };
  std::vector<Scratch> scratch(num_workers(blocks, threads));
  parallel_for(blocks, threads, [&](std::size_t number, int worker) {
    const RotationBlock block = rotation_block(n, number);
    Scratch& mine = scratch[worker];
    kernels().rotate(x + block.begin, rotation_norm(block.size), rotation.signs(block, &mine.words),
                     block.size, mine.rotated.data());
    kernels().copy_past_caches(mine.rotated.data(), block.size, out + block.begin);
  });
  std::copy(x + rotated_size(n), x + n, out + rotated_size(n));
}

void eden_rotate_back(float* v, std::size_t n, std::uint64_t seed, float* out, int threads) {
  const DefaultFloatMode float_mode;
  threads = rotation_threads(n, threads);
  const Rotation rotation(seed);
  const std::size_t blocks = num_rotation_blocks(n);
  std::vector<Rotation::Words> words(num_workers(blocks, threads));
  parallel_for(blocks, threads, [&](std::size_t number, int worker) {
    const RotationBlock block = rotation_block(n, number);
    kernels().rotate_back(v + block.begin, rotation.signs(block, &words[worker]), block.size,
                          rotation_norm(block.size), 1, Put::kStore, out + block.begin);
  });
  std::copy(v + rotated_size(n), v + n, out + rotated_size(n));
}

}  // namespace docofl
