#include "ecuq/rans_write.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/byte_io.h"
#include "common/parallel.h"
#include "docofl/error.h"

namespace docofl {

std::size_t pack_pairs(const std::uint8_t* coded, std::size_t count, unsigned num_coded,
                       std::uint8_t* pairs) {
  kernels().pack_tuples(coded, count / 2, num_coded, 2, pairs);
  if (count % 2 == 1) pairs[count / 2] = static_cast<std::uint8_t>(coded[count - 1] * num_coded);
  return divide_up(count, 2);
}

namespace {

std::uint8_t* write_outliers(const std::vector<RansOutlier>& outliers, std::uint8_t* out) {
  for (const RansOutlier& outlier : outliers) {
    if (!std::isfinite(outlier.value)) {
      throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
    }
    out = write_le(out, static_cast<std::uint16_t>(outlier.position));
    *out++ = static_cast<std::uint8_t>(outlier.position >> 16);
    out = write_le(out, outlier.value);
  }
  return out;
}

}  // namespace

std::vector<std::uint8_t> write_rans_payload(const RansCode& code, const RansSymbols& symbols,
                                             int threads) {
  const RansEncoder encoder(code.tables);
  const std::size_t count = num_rans_blocks(symbols.size);
  std::vector<RansBlock> blocks(count);
  std::vector<std::vector<std::uint8_t>> streams(count);
  parallel_for(count, threads, [&](std::size_t b, int) {
    const std::size_t length = rans_block_length(symbols.size, b);
    const unsigned lanes = rans_lanes(length);
    const std::uint8_t* const choices = symbols.choices + b * (kRansBlock / kRansSegment);
    std::copy(choices, choices + num_segments(length), blocks[b].choices.begin());
    std::vector<std::uint8_t> room(RansEncoder::max_bytes(length, lanes));
    std::uint8_t* const end = room.data() + room.size();
    const std::uint8_t* words = symbols.coded + b * kRansBlock;
    std::size_t num_words = length;
    std::vector<std::uint8_t> pairs;
    if (code.tuple == 2) {
      pairs.resize(divide_up(length, 2));
      num_words = pack_pairs(words, length, code.num_coded, pairs.data());
      words = pairs.data();
    }
    const std::uint8_t* const begin =
        encoder.encode({lanes, kRansSegment / code.tuple, choices}, words, num_words, end);
    streams[b].assign(begin, static_cast<const std::uint8_t*>(end));
    blocks[b].stream_bytes = static_cast<std::uint32_t>(streams[b].size());
    blocks[b].num_outliers = static_cast<std::uint32_t>(symbols.outliers[b].size());
    if (code.transformed) {
      blocks[b].num_spikes = static_cast<std::uint32_t>(symbols.spikes[b].size());
    }
  });
  std::size_t size = rans_header_size(code, symbols.size);
  for (const RansBlock& block : blocks) size += block.bytes();
  std::vector<std::uint8_t> payload(size);
  std::uint8_t* out = write_rans_header(code, symbols.size, blocks, payload.data());
  for (std::size_t b = 0; b < count; ++b) {
    std::memcpy(out, streams[b].data(), streams[b].size());
    out += streams[b].size();
    out = write_outliers(symbols.outliers[b], out);
    if (code.transformed) out = write_outliers(symbols.spikes[b], out);
  }
  return payload;
}

}  // namespace docofl
