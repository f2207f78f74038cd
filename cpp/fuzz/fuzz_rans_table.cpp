#include <algorithm>
#include <array>
#include <vector>

#include "docofl/error.h"
#include "entropy/rans.h"
#include "fuzz_input.h"

namespace docofl {
namespace {

constexpr std::size_t kSegment = 64;

// Bytes as symbols that the table has.
fuzz::Bytes coded_symbols(const RansFrequencies& frequencies, const fuzz::Bytes& bytes) {
  fuzz::Bytes names;
  for (std::size_t a = 0; a < kMaxAlphabet; ++a) {
    if (frequencies[a] > 0) names.push_back(static_cast<std::uint8_t>(a));
  }
  fuzz::Bytes symbols;
  for (const std::uint8_t byte : bytes) symbols.push_back(names[byte % names.size()]);
  return symbols;
}

void check_stream(const RansFrequencies& frequencies, unsigned lanes, const fuzz::Bytes& bytes) {
  std::array<std::uint8_t, kMaxAlphabet> names;
  for (std::size_t a = 0; a < kMaxAlphabet; ++a) names[a] = static_cast<std::uint8_t>(a);
  const RansDecoder decoder({frequencies}, names);
  const fuzz::Bytes choices(bytes.size() / kSegment + 1, 0);
  const RansLayout layout{lanes, kSegment, choices.data()};

  // 1. What was encoded comes back, from a stream that ends where it ends.
  const fuzz::Bytes symbols = coded_symbols(frequencies, bytes);
  fuzz::Bytes room(RansEncoder::max_bytes(symbols.size(), lanes));
  std::uint8_t* const end = room.data() + room.size();
  const std::uint8_t* const begin =
      RansEncoder({frequencies}).encode(layout, symbols.data(), symbols.size(), end);
  DOCOFL_REQUIRE(begin >= room.data());
  const fuzz::Bytes stream(begin, static_cast<const std::uint8_t*>(end));
  fuzz::Bytes decoded(symbols.size());
  DOCOFL_REQUIRE(decoder.decode(layout, fuzz::view_of(stream), symbols.size(), decoded.data()));
  DOCOFL_REQUIRE(decoded == symbols);

  // 2. Any bytes are refused or decoded, inside of their room.
  decoder.decode(layout, fuzz::view_of(bytes), decoded.size(), decoded.data());
}

}  // namespace
}  // namespace docofl

// The size of the alphabet less two, a choice of lanes, a frequency table, a stream.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace docofl;
  fuzz::FuzzInput input(data, size);
  const std::size_t alphabet = std::min<std::size_t>(2 + input.take<std::uint8_t>(), kMaxAlphabet);
  const unsigned lanes = std::array<unsigned, 3>{1, 4, kRansLanes}[input.take<std::uint8_t>() % 3];
  const fuzz::Bytes bytes = input.take_rest();
  std::size_t table_size = 0;
  RansFrequencies frequencies;
  try {
    frequencies = read_rans_table(fuzz::view_of(bytes), alphabet, &table_size);
  } catch (const Error& error) {
    DOCOFL_REQUIRE(error.kind() == ErrorKind::kCorruptFrame ||
                   error.kind() == ErrorKind::kTruncatedFrame);
    return 0;
  }
  std::uint32_t total = 0;
  for (const std::uint16_t frequency : frequencies) total += frequency;
  DOCOFL_REQUIRE(total == kRansTotal);
  // There is one way to write a table.
  fuzz::Bytes again(rans_table_size(frequencies, alphabet));
  DOCOFL_REQUIRE(again.size() == table_size && table_size <= bytes.size());
  write_rans_table(frequencies, alphabet, again.data());
  DOCOFL_REQUIRE(std::equal(again.begin(), again.end(), bytes.begin()));
  check_stream(frequencies, lanes,
               fuzz::Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(table_size), bytes.end()));
  return 0;
}
