#pragma once

#include <cstddef>

#include "common/checked.h"
#include "kernels/kernels.h"

// How coordinates are cut into blocks and streams (docs/format.md, section 3.3).
namespace docofl {

constexpr std::size_t kBlockSize = 65536;
constexpr std::size_t kMultiStreamSize = 4096;

inline std::size_t num_blocks(std::size_t size) { return divide_up(size, kBlockSize); }

inline std::size_t block_begin(std::size_t block) { return block * kBlockSize; }

inline std::size_t block_length(std::size_t size, std::size_t block) {
  const std::size_t left = size - block_begin(block);
  return left < kBlockSize ? left : kBlockSize;
}

// The code words of a block, shared out to its streams.
struct StreamSplit {
  int count;
  std::size_t words[kHuffmanStreams];
};

inline StreamSplit split_streams(std::size_t block_length, unsigned tuple) {
  const std::size_t words = divide_up(block_length, tuple);
  if (block_length < kMultiStreamSize) return {1, {words, 0, 0, 0}};
  const std::size_t each = divide_up(words, kHuffmanStreams);
  return {kHuffmanStreams, {each, each, each, words - 3 * each}};
}

// Only the last block can have one stream, so block b's sizes start at b * kHuffmanStreams.
inline std::size_t num_streams(std::size_t size) {
  if (size == 0) return 0;
  const std::size_t last = num_blocks(size) - 1;
  return last * kHuffmanStreams +
         static_cast<std::size_t>(split_streams(block_length(size, last), 1).count);
}

}  // namespace docofl
