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

}  // namespace

ValueRanks::ValueRanks(const std::vector<float>& values) : ValueRanks() {
  for (const float value : values) add(value);
}

std::size_t ValueRanks::slot_of(float value) const {
  const std::uint32_t bits = bits_of(value);
  std::size_t i = (bits * 0x9E3779B1u) >> 22;
  // At most a quarter of the slots are taken: an empty one ends the search.
  while (slots_[i].rank >= 0 && slots_[i].bits != bits) i = (i + 1) % slots_.size();
  return i;
}

void ValueRanks::add(float value) { slots_[slot_of(value)] = {bits_of(value), size_++}; }

BlockQuantizer::BlockQuantizer(const Levels& levels, const Layout& layout)
    : levels_(levels), layout_(layout) {
  if (levels.is_explicit()) {
    ranks_ = std::make_unique<ValueRanks>(levels.explicit_values);
  } else {
    grid_ = make_grid(levels);
  }
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
    if (levels_.is_open && (levels[i] == 0 || levels[i] == grid_.num_levels - 1)) {
      throw BeyondOpenGrid();
    }
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
    const int rank = ranks_->find(values[i]);
    if (rank < 0) {
      throw Error(ErrorKind::kInvalidInput, "tensor: changed while it was being encoded");
    }
    coded[i] = static_cast<std::uint8_t>(rank);
  }
}

void BlockQuantizer::run(const TensorView& tensor, std::size_t begin, const Part& part,
                         BlockScratch* scratch, std::uint8_t* symbols) const {
  const std::size_t words = divide_up(part.count, layout_.tuple);
  const std::size_t padded = words * layout_.tuple;
  const std::size_t end = part.offset + part.count;
  if (scratch->values.empty()) scratch->values.resize(kPiece);
  if (scratch->levels.empty()) scratch->levels.resize(kPiece);
  if (layout_.raw_bits > 0 && scratch->raw.size() < end) scratch->raw.resize(end);
  if (part.offset == 0) scratch->outliers.clear();
  std::uint8_t* coded = symbols;
  if (layout_.tuple > 1) {
    if (scratch->coded.size() < padded) scratch->coded.resize(padded);
    coded = scratch->coded.data();
    std::memset(coded + part.count, 0, padded - part.count);
  }
  for (std::size_t offset = part.offset; offset < end; offset += kPiece) {
    const std::size_t piece = std::min(kPiece, end - offset);
    const float* values = load_values(tensor, begin + offset, piece, scratch->values.data());
    if (levels_.is_explicit()) {
      quantize_explicit(values, piece, coded + (offset - part.offset));
    } else {
      quantize_grid(values, offset, piece, scratch, coded + (offset - part.offset));
    }
  }
  if (layout_.tuple > 1) {
    kernels().pack_tuples(coded, words, layout_.num_coded, layout_.tuple, symbols);
  }
}

}  // namespace docofl
