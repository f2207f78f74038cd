#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "docofl/tensor.h"
#include "ecuq/block_quantizer.h"
#include "ecuq/blocks.h"
#include "ecuq/levels.h"
#include "ecuq/symbol_code.h"
#include "entropy/huffman.h"

namespace docofl {

// Quantizes and codes one block at a time (docs/format.md, section 3.4).
class BlockEncoder {
 public:
  // For a tensor of `size` coordinates.
  BlockEncoder(const Levels& levels, const SymbolCode& code, std::size_t size);

  // The bytes of a block and the directory's fields for it, valid until the next call with the same
  // scratch. `following` is the block that this thread is likely to encode next: its first values
  // are fetched meanwhile.
  struct Encoded {
    ByteView bytes;
    int num_streams;
    std::uint16_t stream_sizes[kHuffmanStreams];
    std::uint32_t num_outliers;
  };
  struct Scratch {
    BlockScratch quantized;
    std::vector<std::uint8_t> symbols;
    std::vector<std::uint8_t> bytes;
  };
  Encoded encode(const TensorView& tensor, std::size_t block, std::size_t following,
                 Scratch* scratch) const;

 private:
  // A code table as the loops need it.
  struct Code {
    Code(const Levels& levels, const CodeTable& table, std::size_t size);

    Layout layout;
    BlockQuantizer quantizer;
    CodeWords words;
    std::unique_ptr<const HuffmanPairs> pairs;  // null where they do not pay
    unsigned max_length = 0;                    // 0 where there are no words
  };

  Blocks blocks_;
  std::vector<Code> codes_;
  std::vector<std::uint8_t> choices_;
};

// What a pass over all blocks found out, and where it left their bytes.
struct EncodedBlocks {
  std::vector<std::uint16_t> stream_sizes;
  std::vector<std::uint32_t> block_outliers;
  std::uint8_t* bytes = nullptr;  // one after the other; null where they are not to be had
};

// Encodes all blocks for their sizes, into `room` if they fit.
EncodedBlocks encode_blocks(const TensorView& tensor, const Levels& levels, const SymbolCode& code,
                            MutableByteView room, int threads);

}  // namespace docofl
