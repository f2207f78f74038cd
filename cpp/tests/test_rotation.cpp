#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/counter_rng.h"
#include "docofl/eden.h"
#include "eden/rotation.h"
#include "harness.h"
#include "test_data.h"
#include "test_eden.h"
#include "test_frames.h"

// Blocks, signs and orders of chunks by docs/format.md, sections 4.1 and 4.3.
namespace docofl {
namespace {

constexpr std::uint64_t kSeeds[] = {0, 1, 42, 0x123456789abcdef0u, UINT64_MAX};

bool is_power_of_two(std::size_t n) { return n > 0 && (n & (n - 1)) == 0; }

// Blocks [first, last) follow each other, and those after the full ones become smaller.
void check_blocks(std::size_t size, std::size_t first, std::size_t last) {
  for (std::size_t number = first; number < last; ++number) {
    const test::Note note("size ", size, ", block ", number);
    const RotationBlock block = rotation_block(size, number);
    DOCOFL_CHECK(is_power_of_two(block.size));
    DOCOFL_CHECK(block.size >= 16 && block.size <= 32768);
    DOCOFL_CHECK_EQUAL(block.begin % block.size, 0u);
    if (number < size / 32768) {
      DOCOFL_CHECK_EQUAL(block.begin, number * 32768);
      DOCOFL_CHECK_EQUAL(block.size, 32768u);
    } else {
      DOCOFL_CHECK(block.size < 32768);
    }
    if (number == 0) {
      DOCOFL_CHECK_EQUAL(block.begin, 0u);
      continue;
    }
    const RotationBlock before = rotation_block(size, number - 1);
    DOCOFL_CHECK_EQUAL(block.begin, before.begin + before.size);
    DOCOFL_CHECK(block.size < before.size || number < size / 32768);
  }
}

void check_end(std::size_t size) {
  const test::Note note("size ", size);
  DOCOFL_CHECK_EQUAL(rotated_size(size), size - size % 16);
  const std::size_t blocks = num_rotation_blocks(size);
  DOCOFL_CHECK(blocks <= size / 32768 + 11);
  if (blocks == 0) {
    DOCOFL_CHECK(size < 16);
    return;
  }
  const RotationBlock last = rotation_block(size, blocks - 1);
  DOCOFL_CHECK_EQUAL(last.begin + last.size, rotated_size(size));
}

DOCOFL_TEST(blocks_cover_all_but_the_tail) {
  test::Random random(121);
  for (std::size_t size = 0; size <= 200000; size += 1 + (size < 3000 ? 0 : random.below(40))) {
    check_blocks(size, 0, num_rotation_blocks(size));
    check_end(size);
  }
  for (std::size_t bit = 16; bit <= 131072; bit *= 2) {
    for (const std::size_t size : {bit - 1, bit, bit + 1, bit + 15, bit + 16, 2 * bit - 1}) {
      check_blocks(size, 0, num_rotation_blocks(size));
      check_end(size);
    }
  }
}

// Numbers of 32 bits would wrap around, and counting to the block would take hours.
DOCOFL_TEST(blocks_of_huge_tensors) {
  test::Random random(122);
  const std::size_t large = std::size_t(1) << 31;
  const std::size_t huge = std::size_t(1) << 40;
  const std::size_t largest = (std::size_t(1) << 61) - 1;
  for (const std::size_t size :
       {large - 1, large, large + 1, large + 77777, 2 * large + 4097, huge + 12345, largest}) {
    const test::Note note("size ", size);
    const std::size_t blocks = num_rotation_blocks(size);
    check_blocks(size, 0, 100);
    check_blocks(size, blocks - 100, blocks);
    for (int i = 0; i < 10000; ++i) {
      const auto number = static_cast<std::size_t>(random.uniform() * double(blocks - 1));
      check_blocks(size, number, number + 1);
    }
    check_end(size);
  }
  DOCOFL_CHECK_EQUAL(num_rotation_blocks(huge), huge / 32768);
  // 12345 = 8192 + 4096 + 32 + 16 + 9.
  DOCOFL_CHECK_EQUAL(num_rotation_blocks(huge + 12345), huge / 32768 + 4);
}

// random(random(seed, r), i / 64), bit i mod 64, for r = 1 and 2.
bool is_flipped(std::uint64_t seed, std::uint64_t r, std::size_t i) {
  return ((counter_random(counter_random(seed, r), i / 64) >> (i % 64)) & 1) != 0;
}

void check_signs(std::uint64_t seed, const RotationBlock& block) {
  const test::Note note("seed ", seed, ", block at ", block.begin, " of ", block.size);
  const Rotation rotation(seed);
  Rotation::Words words;
  const RotationSigns signs = rotation.signs(block, &words);
  for (std::size_t i = 0; i < block.size; ++i) {
    const bool first = ((signs.first[i / 64] >> (i % 64)) & 1) != 0;
    const bool second = ((signs.second[i / 64] >> (i % 64)) & 1) != 0;
    DOCOFL_CHECK_EQUAL(first, is_flipped(seed, 1, block.begin + i));
    DOCOFL_CHECK_EQUAL(second, is_flipped(seed, 2, block.begin + i));
  }
}

DOCOFL_TEST(signs_of_every_coordinate) {
  for (const std::size_t size : {16, 32, 48, 64, 80, 96, 112, 127, 4096 + 112, 65536 + 12345}) {
    for (const std::uint64_t seed : kSeeds) {
      for (std::size_t number = 0; number < num_rotation_blocks(size); ++number) {
        check_signs(seed, rotation_block(size, number));
      }
    }
  }
}

// Only blocks of 16 after one of 32 do so in tensors; others that stay in a word are fine too.
DOCOFL_TEST(signs_of_blocks_inside_a_word) {
  const RotationBlock last = rotation_block(112, 2);
  DOCOFL_CHECK_EQUAL(last.begin, 96u);
  for (const std::uint64_t seed : kSeeds) {
    for (std::size_t begin = 0; begin < 320; begin += 16) {
      check_signs(seed, {begin, 16});
      if (begin % 64 <= 32) check_signs(seed, {begin, 32});
    }
  }
}

DOCOFL_TEST(signs_far_into_a_tensor) {
  const std::size_t size = (std::size_t(1) << 40) + 12345;
  const std::size_t blocks = num_rotation_blocks(size);
  for (std::size_t number = blocks - 6; number < blocks; ++number) {
    check_signs(3, rotation_block(size, number));
  }
}

DOCOFL_TEST(orders_of_chunks_are_permutations) {
  for (const std::uint64_t seed : kSeeds) {
    const Rotation rotation(seed);
    for (std::size_t chunks = 1; chunks <= 2048; chunks *= 2) {
      for (const std::size_t number : {std::size_t(0), std::size_t(1), std::size_t(1) << 25}) {
        const test::Note note("seed ", seed, ", chunks ", chunks, ", block ", number);
        const std::uint64_t random = counter_random(counter_random(seed, 3), number);
        const std::uint64_t a = (random % (std::uint64_t(1) << 32)) | 1;
        const std::uint64_t o = random / (std::uint64_t(1) << 32);
        const ChunkOrder order = rotation.chunk_order(number, chunks, true);
        const ChunkOrder natural = rotation.chunk_order(number, chunks, false);
        std::vector<bool> seen(chunks, false);
        for (std::size_t j = 0; j < chunks; ++j) {
          const auto counter = static_cast<std::uint32_t>(j);
          const std::size_t place = (order.multiplier * counter + order.offset) & order.mask;
          DOCOFL_CHECK_EQUAL(place, (a * j + o) % chunks);
          DOCOFL_CHECK(!seen[place]);
          seen[place] = true;
          DOCOFL_CHECK_EQUAL((natural.multiplier * counter + natural.offset) & natural.mask, j);
        }
      }
    }
  }
}

DOCOFL_TEST(norms) {
  for (std::size_t size = 16; size <= 32768; size *= 2) {
    const double product = static_cast<double>(std::min<std::size_t>(size, 4096) * size);
    DOCOFL_CHECK_EQUAL(rotation_norm(size), static_cast<float>(1 / std::sqrt(product)));
  }
}

// All blocks at once, each as its definition says, and the tail as it is.
DOCOFL_TEST(tensors_are_rotated_block_by_block) {
  for (const std::size_t size : {0, 1, 15, 16, 117, 4096, 65536 + 12345}) {
    const std::vector<float> values = test::normal_values(size);
    std::vector<float> expected;
    Rotation::Words words;
    for (std::size_t number = 0; number < num_rotation_blocks(size); ++number) {
      const RotationBlock block = rotation_block(size, number);
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(block.begin);
      const std::vector<float> rotated =
          test::rotated({begin, begin + static_cast<std::ptrdiff_t>(block.size)},
                        rotation_norm(block.size), Rotation(42).signs(block, &words));
      expected.insert(expected.end(), rotated.begin(), rotated.end());
    }
    for (std::size_t i = rotated_size(size); i < size; ++i) expected.push_back(values[i]);
    test::for_each_isa([&](const std::string& isa) {
      for (const int threads : {1, 2, 3}) {
        const test::Note note("isa ", isa, ", size ", size, ", threads ", threads);
        test::ExactArray<float> x(size, 1), out(size, 2);
        std::copy(values.begin(), values.end(), x.data());
        eden_rotate(x.data(), size, 42, out.data(), threads);
        DOCOFL_CHECK_SAME(out.data(), expected.data(), size);
      }
    });
  }
}

}  // namespace
}  // namespace docofl
