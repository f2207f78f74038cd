#include "common/checksum.h"

#include <vector>

#include "common/checked.h"
#include "common/endian.h"
#include "common/parallel.h"

namespace docofl {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5u;
constexpr std::size_t kPieceBytes = 262144;

inline std::uint64_t rotate_left(std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

inline std::uint64_t mix_round(std::uint64_t lane, std::uint64_t input) {
  return rotate_left(lane + input * kPrime2, 31) * kPrime1;
}

inline std::uint64_t merge_lane(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ mix_round(0, lane)) * kPrime1 + kPrime4;
}

}  // namespace

std::uint64_t xxh64(const std::uint8_t* data, std::size_t size, std::uint64_t seed) {
  const std::uint8_t* const end = data + size;
  std::uint64_t hash = seed + kPrime5;
  if (size >= 32) {
    std::uint64_t lane0 = seed + kPrime1 + kPrime2;
    std::uint64_t lane1 = seed + kPrime2;
    std::uint64_t lane2 = seed;
    std::uint64_t lane3 = seed - kPrime1;
    for (; end - data >= 32; data += 32) {
      lane0 = mix_round(lane0, load_le<std::uint64_t>(data));
      lane1 = mix_round(lane1, load_le<std::uint64_t>(data + 8));
      lane2 = mix_round(lane2, load_le<std::uint64_t>(data + 16));
      lane3 = mix_round(lane3, load_le<std::uint64_t>(data + 24));
    }
    hash = rotate_left(lane0, 1) + rotate_left(lane1, 7) + rotate_left(lane2, 12) +
           rotate_left(lane3, 18);
    hash = merge_lane(hash, lane0);
    hash = merge_lane(hash, lane1);
    hash = merge_lane(hash, lane2);
    hash = merge_lane(hash, lane3);
  }
  hash += size;
  for (; end - data >= 8; data += 8) {
    hash ^= mix_round(0, load_le<std::uint64_t>(data));
    hash = rotate_left(hash, 27) * kPrime1 + kPrime4;
  }
  if (end - data >= 4) {
    hash ^= load_le<std::uint32_t>(data) * kPrime1;
    hash = rotate_left(hash, 23) * kPrime2 + kPrime3;
    data += 4;
  }
  for (; data < end; ++data) hash = rotate_left(hash ^ (*data * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::uint32_t frame_checksum(const std::uint8_t* data, std::size_t size, int threads) {
  std::vector<std::uint8_t> digests(8 * divide_up(size, kPieceBytes));
  parallel_for(digests.size() / 8, threads, [&](std::size_t piece, int) {
    const std::size_t begin = piece * kPieceBytes;
    const std::size_t length = size - begin < kPieceBytes ? size - begin : kPieceBytes;
    store_le(&digests[8 * piece], xxh64(data + begin, length, 0));
  });
  return static_cast<std::uint32_t>(xxh64(digests.data(), digests.size(), 0));
}

}  // namespace docofl
