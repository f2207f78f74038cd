#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ecuq/levels.h"
#include "ecuq/sample.h"
#include "ecuq/symbol_code.h"

namespace docofl {

// Groups of blocks whose values are alike, for a code each.
class BlockGroups {
 public:
  // Groups the blocks of a tensor of `size` coordinates by what the sample says of their values on
  // a uniform grid. None for a small tensor, or where what blocks take, in bits a value, varies
  // less than `min_variance` or than chance lets it.
  static std::optional<BlockGroups> find(const Sample& sample, const Levels& levels,
                                         std::size_t size, double min_variance);

  // The cheapest code found for each group. The one whose levels may be displaced comes first.
  SymbolCode choose_code(const Levels& levels, int threads) const;

 private:
  struct Group {
    std::unique_ptr<Sample> sample;  // its part of the tensor's
    std::size_t size = 0;            // coordinates
  };
  BlockGroups(const Sample& sample, const Blocks& blocks, const std::vector<std::size_t>& begins,
              std::size_t segment_blocks, const std::vector<std::uint8_t>& choices);

  std::size_t size_;
  std::vector<Group> groups_;
  std::vector<std::uint8_t> choices_;  // the group of each block
};

}  // namespace docofl
