#include "ecuq/rans_write.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "common/byte_io.h"
#include "common/ordered_writer.h"
#include "common/parallel.h"
#include "docofl/error.h"
#include "ecuq/rans_levels.h"

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
    if (!std::isfinite(outlier.value)) tensor_changed();
    out = write_le(out, static_cast<std::uint16_t>(outlier.position));
    *out++ = static_cast<std::uint8_t>(outlier.position >> 16);
    out = write_le(out, outlier.value);
  }
  return out;
}

class RansBlockEncoder {
 public:
  explicit RansBlockEncoder(const RansCode& code) : code_(code), symbols_(code.tables) {}

  struct Scratch {
    std::vector<std::uint8_t> pairs, bytes;
  };
  // The bytes of a block, valid until the next call with the same scratch, and what the directory
  // says of it.
  ByteView encode(const RansLevels& levels, const std::vector<RansOutlier>& spikes,
                  std::size_t length, RansBlock* block, Scratch* scratch) const {
    const unsigned lanes = rans_lanes(length);
    std::copy(levels.choices, levels.choices + num_segments(length), block->choices.begin());
    const std::uint8_t* words = levels.coded;
    std::size_t num_words = length;
    if (code_.tuple == 2) {
      scratch->pairs.resize(kRansBlock / 2);
      num_words = pack_pairs(levels.coded, length, code_.num_coded, scratch->pairs.data());
      words = scratch->pairs.data();
    }
    const std::size_t room = RansEncoder::max_bytes(length, lanes);
    const std::size_t listed = kRansOutlierBytes * (levels.outliers->size() + spikes.size());
    scratch->bytes.resize(std::max(scratch->bytes.size(), room + listed));
    std::uint8_t* const end = scratch->bytes.data() + room;
    std::uint8_t* const begin =
        symbols_.encode({lanes, kRansSegment / code_.tuple, levels.choices}, words, num_words, end);
    block->stream_bytes = static_cast<std::uint32_t>(end - begin);
    block->num_outliers = static_cast<std::uint32_t>(levels.outliers->size());
    block->num_spikes = static_cast<std::uint32_t>(spikes.size());
    write_outliers(spikes, write_outliers(*levels.outliers, end));
    return {begin, block->bytes()};
  }

 private:
  const RansCode& code_;
  RansEncoder symbols_;
};

}  // namespace

void tensor_changed() {
  throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
}

std::size_t payload_size(const RansPlan& plan, std::size_t size) {
  return rans_header_size(plan.code, size) + plan.block_bytes;
}

std::size_t charged_bytes(const RansPlan& plan, std::size_t size) {
  return payload_size(plan, size) - rans_free_bytes(plan.code, size);
}

void leave_room(RansPlan* plan) {
  if (plan->in_room == nullptr) return;
  plan->outside.assign(plan->in_room, plan->in_room + plan->block_bytes);
  plan->in_room = nullptr;
}

void write_rans_payload(const RansPlan& plan, std::size_t size, std::uint8_t* out) {
  const std::uint8_t* const blocks = plan.in_room != nullptr ? plan.in_room : plan.outside.data();
  // Before the header is written, which may reach into them.
  std::memmove(out + rans_header_size(plan.code, size), blocks, plan.block_bytes);
  write_rans_header(plan.code, size, plan.blocks, out);
}

RansPlan code_rans(const RansSource& source, const RansFit& fit, const RansFitter& fitter,
                   const RansRoom& room, int threads) {
  const std::size_t count = num_rans_blocks(source.size());
  std::optional<RansQuantizer> quantizer;
  if (fitter.size() < source.size()) quantizer.emplace(fit, source.size());
  RansPlan plan;
  plan.code = code_of(fit);
  if (quantizer) plan.code.tables = quantizer->tables();
  plan.blocks.resize(count);
  std::vector<RansQuantizer::Result> results(quantizer ? count : 0);

  // 1. The blocks.
  const RansBlockEncoder encoder(plan.code);
  struct Scratch {
    RansSource::Scratch source;
    RansQuantizer::Scratch quantizer;
    RansBlockEncoder::Scratch encoder;
  };
  const auto write_blocks = [&](MutableByteView place) {
    OrderedWriter writer(place);
    std::vector<Scratch> scratch(num_workers(count, threads));
    parallel_for(count, threads, [&](std::size_t b, int worker) {
      Scratch& mine = scratch[worker];
      const std::size_t length = rans_block_length(source.size(), b);
      const RansSource::Block block = source.load(b, &mine.source);
      RansLevels levels{};
      if (quantizer) {
        results[b] = {};
        levels = quantizer->run(block.values, length, &mine.quantizer, &results[b]);
      } else {
        levels = {fitter.coded() + b * kRansBlock,
                  fit.code.choices.data() + b * (kRansBlock / kRansSegment), &fit.outliers[b]};
      }
      writer.put(b, encoder.encode(levels, *block.spikes, length, &plan.blocks[b], &mine.encoder));
      if (quantizer) std::vector<RansOutlier>().swap(results[b].trellis.outliers);
    });
    plan.block_bytes = 0;
    plan.num_outliers = 0;
    for (const RansBlock& block : plan.blocks) {
      plan.block_bytes += block.bytes();
      plan.num_outliers += block.num_outliers;
    }
    plan.code.has_outliers = plan.num_outliers > 0;
    return writer.is_complete();
  };
  // As far from the start of the room as a header can reach.
  RansCode longest = plan.code;
  longest.has_outliers = longest.displaced = true;
  const std::size_t start = rans_header_size(longest, source.size());
  MutableByteView place{};
  if (room.room.size > start) place = {room.room.data + start, room.room.size - start};
  if (write_blocks(place)) {
    plan.in_room = place.data;
  } else if (charged_bytes(plan, source.size()) <= room.most_charged) {
    plan.outside.resize(plan.block_bytes);
    if (!write_blocks({plan.outside.data(), plan.outside.size()})) tensor_changed();
  }

  // 2. What the header says of all values.
  TrellisResult all = fit.result;
  double symbol_bits = fit.code.symbol_bits;
  if (quantizer) {
    all = {};
    symbol_bits = 0;
    for (const RansQuantizer::Result& result : results) {
      all.counts.add(result.trellis.counts, plan.code.num_coded);
      all.squared_error += result.trellis.squared_error;
      symbol_bits += result.symbol_bits;
    }
  }
  plan.counts = all.counts;
  displace(plan.counts, 1, &plan.code);
  const double size = static_cast<double>(source.size());
  plan.code.entropy = static_cast<float>(symbol_bits / size);
  const double step = static_cast<double>(plan.code.step);
  plan.mean_squared_error = squared_error_of(all, fit.model, plan.code) * step * step / size;
  return plan;
}

}  // namespace docofl
