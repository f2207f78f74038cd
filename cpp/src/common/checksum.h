#pragma once

#include <cstddef>
#include <cstdint>

namespace docofl {

// XXH64 (Yann Collet's hash, as published in its specification).
std::uint64_t xxh64(const std::uint8_t* data, std::size_t size, std::uint64_t seed);

// The checksum of docs/format.md, section 5: a hash of the hashes of pieces, so that threads can
// share the work.
std::uint32_t frame_checksum(const std::uint8_t* data, std::size_t size, int threads);

}  // namespace docofl
