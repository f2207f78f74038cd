#include <algorithm>
#include <string>
#include <vector>

#include "common/checksum.h"
#include "common/endian.h"
#include "harness.h"
#include "test_data.h"

namespace docofl {
namespace {

std::uint64_t hash_text(const std::string& text, std::uint64_t seed) {
  return xxh64(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), seed);
}

DOCOFL_TEST(xxh64_of_texts) {
  DOCOFL_CHECK_EQUAL(hash_text("", 0), 0xEF46DB3751D8E999u);
  DOCOFL_CHECK_EQUAL(hash_text("a", 0), 0xD24EC4F1A98C6E5Bu);
  DOCOFL_CHECK_EQUAL(hash_text("abc", 0), 0x44BC2CF5AD770999u);
  DOCOFL_CHECK_EQUAL(hash_text("xxhash", 0), 0x32DD38952C4BC720u);
  DOCOFL_CHECK_EQUAL(hash_text("xxhash", 20141025), 0xB559B98D844E0635u);
  DOCOFL_CHECK_EQUAL(hash_text("Nobody inspects the spammish repetition", 0), 0xFBCEA83C8A378BF1u);
}

// The vectors of the hash's own sanity check.
DOCOFL_TEST(xxh64_sanity_vectors) {
  constexpr std::uint64_t kSeed = 2654435761u;
  std::vector<std::uint8_t> bytes(222);
  std::uint64_t generator = kSeed;
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(generator >> 56);
    generator *= 11400714785074694797u;
  }
  struct Vector {
    std::size_t size;
    std::uint64_t plain, seeded;
  };
  const Vector vectors[] = {
      {0, 0xEF46DB3751D8E999u, 0xAC75FDA2929B17EFu},
      {1, 0xE934A84ADB052768u, 0x5014607643A9B4C3u},
      {14, 0x8282DCC4994E35C8u, 0xC3BD6BF63DEB6DF0u},
      {222, 0xB641AE8CB691C174u, 0x20CB8AB7AE10C14Au},
  };
  for (const Vector& vector : vectors) {
    const test::Note note("size ", vector.size);
    DOCOFL_CHECK_EQUAL(xxh64(bytes.data(), vector.size, 0), vector.plain);
    DOCOFL_CHECK_EQUAL(xxh64(bytes.data(), vector.size, kSeed), vector.seeded);
  }
}

DOCOFL_TEST(xxh64_does_not_depend_on_alignment) {
  test::Random random(1);
  std::vector<std::uint8_t> bytes(100);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  for (std::size_t shift = 0; shift < 8; ++shift) {
    test::ExactArray<std::uint8_t> copy(bytes.size(), shift);
    std::copy(bytes.begin(), bytes.end(), copy.data());
    DOCOFL_CHECK_EQUAL(xxh64(copy.data(), copy.size(), 0), xxh64(bytes.data(), bytes.size(), 0));
  }
}

// docs/format.md, section 5, to the letter.
DOCOFL_TEST(frame_checksum_hashes_pieces) {
  constexpr std::size_t kPiece = 262144;
  test::Random random(2);
  std::vector<std::uint8_t> bytes(3 * kPiece + 17);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  for (const std::size_t size : {std::size_t(1), std::size_t(31), kPiece - 1, kPiece, kPiece + 1,
                                 2 * kPiece, 3 * kPiece + 17}) {
    std::vector<std::uint8_t> digests;
    for (std::size_t begin = 0; begin < size; begin += kPiece) {
      digests.resize(digests.size() + 8);
      store_le(&digests[digests.size() - 8],
               xxh64(&bytes[begin], std::min(kPiece, size - begin), 0));
    }
    const auto expected = static_cast<std::uint32_t>(xxh64(digests.data(), digests.size(), 0));
    for (const int threads : {0, 1, 2, 3, 8}) {
      const test::Note note("size ", size, ", threads ", threads);
      DOCOFL_CHECK_EQUAL(frame_checksum(bytes.data(), size, threads), expected);
    }
  }
}

}  // namespace
}  // namespace docofl
