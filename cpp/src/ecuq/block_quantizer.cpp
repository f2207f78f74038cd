#include "ecuq/block_quantizer.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "common/checked.h"
#include "common/source.h"
#include "docofl/error.h"

namespace docofl {
namespace {

constexpr std::size_t kPiece = 512;  // values quantized at a time, and looked at again for outliers

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::size_t first_slot(std::uint32_t bits) { return (bits * 0x9E3779B1u) >> 22; }

}  // namespace

ValueRanks::ValueRanks(const std::vector<float>& values) {
  slots_.fill({0, -1});
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    std::size_t i = first_slot(bits_of(values[rank]));
    while (slots_[i].rank >= 0) i = (i + 1) % slots_.size();
    slots_[i] = {bits_of(values[rank]), static_cast<std::int16_t>(rank)};
  }
}

int ValueRanks::find(float value) const {
  const std::uint32_t bits = bits_of(value);
  // At most 256 of the 1024 slots are taken: an empty one ends the search.
  for (std::size_t i = first_slot(bits);; i = (i + 1) % slots_.size()) {
    if (slots_[i].rank < 0 || slots_[i].bits == bits) return slots_[i].rank;
  }
}

BlockQuantizer::BlockQuantizer(const Levels& levels, const Layout& layout)
    : levels_(levels), layout_(layout), ranks_(levels.explicit_values) {
  if (!levels.is_explicit()) grid_ = make_grid(levels);
}

void BlockQuantizer::quantize_grid(const float* values, std::size_t offset, std::size_t count,
                                   BlockScratch* scratch, std::uint8_t* coded) const {
  const Kernels& k = kernels();
  const WindowParams window = layout_.window();
  std::int32_t* const levels = scratch->levels.data();
  std::size_t outside;
  if (layout_.raw_bits == 0) {
    outside = k.quantize_window(grid_, window, values, count, coded);
    if (outside > 0) k.quantize(grid_, values, count, levels);
  } else {
    k.quantize(grid_, values, count, levels);
    outside = k.split_levels(window, layout_.raw_bits, levels, count, coded,
                             scratch->raw.data() + offset);
  }
  if (outside == 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t place = levels[i] - window.base;
    if (place >= 0 && place < window.span) continue;
    scratch->outliers.push_back({static_cast<std::uint16_t>(offset + i), levels[i]});
    coded[i] = layout_.placeholder;
    if (layout_.raw_bits > 0) scratch->raw[offset + i] = 0;
  }
}

void BlockQuantizer::quantize_explicit(const float* values, std::size_t count,
                                       std::uint8_t* coded) const {
  if (layout_.num_coded == 1) {
    std::memset(coded, 0, count);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const int rank = ranks_.find(values[i]);
    if (rank < 0) {
      throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
    }
    coded[i] = static_cast<std::uint8_t>(rank);
  }
}

void BlockQuantizer::run(const TensorView& tensor, std::size_t begin, std::size_t count,
                         BlockScratch* scratch, std::uint8_t* symbols) const {
  const std::size_t words = divide_up(count, layout_.tuple);
  const std::size_t padded = words * layout_.tuple;
  if (scratch->values.empty()) scratch->values.resize(kPiece);
  if (scratch->levels.empty()) scratch->levels.resize(kPiece);
  if (layout_.raw_bits > 0 && scratch->raw.size() < count) scratch->raw.resize(count);
  scratch->outliers.clear();
  std::uint8_t* coded = symbols;
  if (layout_.tuple > 1) {
    if (scratch->coded.size() < padded) scratch->coded.resize(padded);
    coded = scratch->coded.data();
    std::memset(coded + count, 0, padded - count);
  }
  for (std::size_t offset = 0; offset < count; offset += kPiece) {
    const std::size_t piece = std::min(kPiece, count - offset);
    const float* values = load_values(tensor, begin + offset, piece, scratch->values.data());
    if (levels_.is_explicit()) {
      quantize_explicit(values, piece, coded + offset);
    } else {
      quantize_grid(values, offset, piece, scratch, coded + offset);
    }
  }
  if (layout_.tuple > 1) {
    kernels().pack_tuples(coded, words, layout_.num_coded, layout_.tuple, symbols);
  }
}

}  // namespace docofl
