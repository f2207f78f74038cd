#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "docofl/eden.h"
#include "docofl/frame.h"

// The fields of an EDEN payload (docs/format.md, section 4).
namespace docofl {

// How many bits the words of fixed width take.
struct EdenWidths {
  unsigned width = 0;               // w
  std::uint32_t wide_fraction = 0;  // f

  // Chunks of w + 1 bits in a block of so many, and the bytes of its words.
  std::size_t wide_chunks(std::size_t num_chunks) const;
  std::size_t word_bytes(std::size_t num_chunks) const;
};

struct EdenPayload {
  bool entropy_coded = false;
  EdenWidths widths;
  float bits = 0;
  std::uint64_t seed = 0;
  std::vector<float> scales;  // of the rotation blocks
  std::vector<float> tail;    // coordinates that are sent as they are
  ByteView words;             // all of them, or the payload of ECUQ
  std::vector<std::size_t>
      block_offsets;  // in the words, and the end of the last; fixed width only
};

// Bytes before the words.
std::size_t eden_header_size(std::size_t size);

// Where the words of each block start, and the end of the last.
std::vector<std::size_t> eden_block_offsets(const EdenWidths& widths, std::size_t size);

// Writes everything before the words and returns where they start.
std::uint8_t* write_eden_header(const EdenPayload& payload, std::uint8_t* out);

// The fields, read and checked. Throws Error. Memory is bounded by the size of the payload.
EdenPayload read_eden_payload(const Frame& frame);

}  // namespace docofl
