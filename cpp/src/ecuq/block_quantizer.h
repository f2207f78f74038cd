#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "docofl/error.h"
#include "docofl/tensor.h"
#include "ecuq/levels.h"

namespace docofl {

struct Outlier {
  std::uint16_t position;  // in its block
  std::int32_t level;
};

// Scratch of one thread, and what a block leaves besides its code symbols.
struct BlockScratch {
  std::vector<std::uint32_t> raw;  // raw bits
  std::vector<Outlier> outliers;
  std::vector<std::uint8_t> coded;  // coded levels, where they are not the symbols themselves
  std::vector<float> values;
  std::vector<std::int32_t> levels;
};

// Ranks of at most 256 values by their bit patterns.
class ValueRanks {
 public:
  ValueRanks() { slots_.fill({0, -1}); }
  explicit ValueRanks(const std::vector<float>& values);

  // Rank of the value, or -1.
  int find(float value) const { return slots_[slot_of(value)].rank; }

  // Adds a value that is not there yet, with the next rank.
  void add(float value);

  int size() const { return size_; }

 private:
  struct Slot {
    std::uint32_t bits;
    std::int16_t rank;
  };
  // Where the value is or would be.
  std::size_t slot_of(float value) const;

  std::array<Slot, 1024> slots_;
  std::int16_t size_ = 0;
};

// Thrown for a value beyond an open grid. Where all values were within it before, they have
// changed.
struct BeyondOpenGrid : Error {
  BeyondOpenGrid()
      : Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded") {}
};

// Turns values into code symbols, a block at a time.
class BlockQuantizer {
 public:
  BlockQuantizer(const Levels& levels, const Layout& layout);

  // Part of a block: `count` coordinates, from `offset` on.
  struct Part {
    std::size_t offset;
    std::size_t count;
  };

  // Quantizes a part of the block that starts at tensor[begin] to ceil(count / tuple) code symbols,
  // each below layout.alphabet(); the parts of a block must come in order. Throws
  // Error(kInvalidInput) for a value that is not among explicit levels, and BeyondOpenGrid.
  void run(const TensorView& tensor, std::size_t begin, const Part& part, BlockScratch* scratch,
           std::uint8_t* symbols) const;

 private:
  void quantize_grid(const float* values, std::size_t offset, std::size_t count,
                     BlockScratch* scratch, std::uint8_t* coded) const;
  void quantize_explicit(const float* values, std::size_t count, std::uint8_t* coded) const;

  Levels levels_;
  Layout layout_;
  GridParams grid_{};
  std::unique_ptr<const ValueRanks> ranks_;  // of explicit levels
};

}  // namespace docofl
