#pragma once

#include <cstddef>

#include "common/checked.h"
#include "kernels/kernels.h"

// How coordinates are cut into blocks and streams (docs/format.md, section 3.3).
namespace docofl {

constexpr std::size_t kBlockSize = 65536;
// Where blocks choose among code tables, the power of two that their size is.
constexpr unsigned kMinBlockExponent = 14;
constexpr unsigned kMaxBlockExponent = 16;
static_assert(kBlockSize == std::size_t(1) << kMaxBlockExponent);
constexpr std::size_t kMultiStreamSize = 4096;

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

class Blocks {
 public:
  explicit Blocks(std::size_t size, std::size_t block_size = kBlockSize)
      : size_(size), block_size_(block_size) {}

  std::size_t size() const { return size_; }
  std::size_t count() const { return divide_up(size_, block_size_); }

  // Coordinates of the longest.
  std::size_t max_length() const { return size_ < block_size_ ? size_ : block_size_; }

  std::size_t begin(std::size_t block) const { return block * block_size_; }

  std::size_t length(std::size_t block) const {
    const std::size_t left = size_ - begin(block);
    return left < block_size_ ? left : block_size_;
  }

  // Only the last block can have one stream, so block b's sizes start at b * kHuffmanStreams.
  std::size_t num_streams() const {
    if (size_ == 0) return 0;
    const std::size_t last = count() - 1;
    return last * kHuffmanStreams + static_cast<std::size_t>(split_streams(length(last), 1).count);
  }

 private:
  std::size_t size_;
  std::size_t block_size_;
};

}  // namespace docofl
