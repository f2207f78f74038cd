#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "common/float_mode.h"
#include "common/ordered_writer.h"
#include "common/parallel.h"
#include "docofl/ecuq.h"
#include "docofl/error.h"
#include "ecuq/block_encoder.h"
#include "ecuq/blocks.h"
#include "ecuq/payload.h"
#include "ecuq/payload_fields.h"
#include "ecuq/step_plan.h"

namespace docofl {
namespace {

// Tensors of at most so many values are one piece of work.
constexpr std::size_t kSmall = 2 * kBlockSize;

// A frame that is made block by block, or whole.
class FrameWork {
 public:
  explicit FrameWork(const EcuqInput& input) : header_(input.header), tensor_(input.tensor) {
    header_.codec = CodecId::kEcuq;
  }

  const TensorView& tensor() const { return tensor_; }
  bool is_planned() const { return encoder_ != nullptr || whole_ != nullptr; }
  bool is_whole() const { return whole_ != nullptr; }
  std::size_t num_pieces() const { return is_whole() ? 1 : Blocks(tensor_.size).count(); }

  // Makes a code for the blocks, if there is one without a pass over the tensor.
  void plan_blocks(const EcuqOptions& options) {
    const std::size_t size = tensor_.size;
    std::optional<OpenCode> open = fit_open_grid(tensor_, options);
    if (!open) return;
    encoder_ = std::make_unique<BlockEncoder>(open->levels, open->code, size);
    plan_.levels = std::move(open->levels);
    plan_.code = open->code;
    plan_.blocks.stream_sizes.resize(Blocks(size).num_streams());
    plan_.blocks.block_outliers.resize(Blocks(size).count());
    payload_bytes_ = static_cast<std::size_t>(plan_.code.bits * static_cast<double>(size) / 8);
  }

  void encode_whole(const EcuqOptions& options) {
    const std::size_t capacity = encoded_capacity(header_, options);
    whole_.reset(new std::uint8_t[capacity]);
    const EcuqPlan plan = ecuq_plan(header_, tensor_, options, {whole_.get(), capacity});
    size_ = encoded_size(plan);
    if (size_ > capacity) whole_.reset(new std::uint8_t[size_]);
    ecuq_encode(plan, tensor_, options.threads, whole_.get());
  }

  // The bytes before the blocks: they depend a little on these, and are a guess before finish.
  std::size_t prefix() const {
    if (is_whole()) return 0;
    return frame_size(header_, payload_bytes_) - payload_bytes_ - kChecksumBytes +
           payload_header_size(plan_.levels, plan_.code, tensor_.size);
  }
  std::size_t suffix() const { return is_whole() ? 0 : kChecksumBytes; }

  // A block, or the whole frame. Blocks end with the first that has a value beyond the grid.
  ByteView piece(std::size_t block, std::size_t following, BlockEncoder::Scratch* scratch) {
    if (is_whole()) return {whole_.get(), size_};
    if (is_beyond_->load(std::memory_order_relaxed)) return {};
    try {
      const BlockEncoder::Encoded encoded = encoder_->encode(tensor_, block, following, scratch);
      std::copy(encoded.stream_sizes, encoded.stream_sizes + encoded.num_streams,
                &plan_.blocks.stream_sizes[block * kHuffmanStreams]);
      plan_.blocks.block_outliers[block] = encoded.num_outliers;
      return encoded.bytes;
    } catch (const BeyondOpenGrid&) {
      is_beyond_->store(true);
      return {};
    }
  }

  // To be called after the pieces: learns their size, or makes a frame of another kind.
  void finish(const EcuqOptions& options) {
    if (is_whole()) return;
    if (is_beyond_->load()) return encode_whole(options);
    payload_bytes_ = payload_size(plan_, tensor_.size);
    size_ = frame_size(header_, payload_bytes_);
  }

  std::size_t size() const { return size_; }

  // Writes what lies around the pieces, and a whole frame where it is missing.
  void seal(bool is_missing, std::uint8_t* out, int threads) const {
    if (is_whole() && is_missing) std::memcpy(out, whole_.get(), size_);
    if (is_whole()) return;
    FrameHeader header = header_;
    header.version = payload_version(plan_);
    std::uint8_t* const payload = write_frame_header(header, payload_bytes_, out);
    write_payload_header(plan_, tensor_.size, payload);
    seal_frame(out, size_, threads);
  }

 private:
  FrameHeader header_;
  TensorView tensor_;
  std::unique_ptr<const BlockEncoder> encoder_;
  std::unique_ptr<std::atomic<bool>> is_beyond_ = std::make_unique<std::atomic<bool>>(false);
  PayloadPlan plan_;
  std::size_t payload_bytes_ = 0;
  std::unique_ptr<std::uint8_t[]> whole_;  // not cleared: most of it may never be touched
  std::size_t size_ = 0;
};

// Where the pieces of a frame are, if they are those of the frame.
struct Place {
  std::size_t begin = 0;
  std::size_t size = 0;
};
struct Places {
  std::vector<Place> frames;
  std::size_t end = 0;
};

// Codes the pieces of all frames, one after the other into the room, and finishes the frames.
Places write_pieces(std::vector<FrameWork>* frames, const EcuqOptions& options,
                    MutableByteView room) {
  struct Piece {
    std::size_t frame, block, gap, size;
  };
  std::vector<Piece> pieces;
  std::size_t gap = 0;
  for (std::size_t frame = 0; frame < frames->size(); ++frame) {
    gap += (*frames)[frame].prefix();
    for (std::size_t block = 0; block < (*frames)[frame].num_pieces(); ++block) {
      pieces.push_back({frame, block, std::exchange(gap, 0), 0});
    }
    gap += (*frames)[frame].suffix();
  }
  OrderedWriter writer(room);
  std::vector<BlockEncoder::Scratch> scratch(num_workers(pieces.size(), options.threads));
  parallel_for(pieces.size(), options.threads, [&](std::size_t number, int worker) {
    Piece& piece = pieces[number];
    const std::size_t following = piece.block + scratch.size();
    const ByteView bytes = (*frames)[piece.frame].piece(piece.block, following, &scratch[worker]);
    piece.size = bytes.size;
    writer.put(number, bytes, piece.gap);
  });
  Places places;
  places.frames.resize(frames->size());
  for (const Piece& piece : pieces) {
    Place& place = places.frames[piece.frame];
    places.end += piece.gap;
    if (piece.block == 0) place.begin = places.end;
    place.size += piece.size;
    places.end += piece.size;
  }
  for (std::size_t frame = 0; frame < frames->size(); ++frame) {
    const bool was_whole = (*frames)[frame].is_whole();
    (*frames)[frame].finish(options);
    if ((*frames)[frame].is_whole() != was_whole) places.frames[frame].size = 0;
  }
  return places;
}

// Moves pieces whose place is another than was guessed.
void move_pieces(const std::vector<Place>& from, const std::vector<std::size_t>& to,
                 std::uint8_t* room) {
  const auto move = [&](std::size_t frame) {
    std::memmove(room + to[frame], room + from[frame].begin, from[frame].size);
  };
  // To the left from the first on, then to the right from the last on: as their order stays,
  // nothing lands on what is still to be moved.
  for (std::size_t frame = 0; frame < to.size(); ++frame) {
    if (to[frame] < from[frame].begin) move(frame);
  }
  for (std::size_t frame = to.size(); frame-- > 0;) {
    if (to[frame] > from[frame].begin) move(frame);
  }
}

}  // namespace

std::vector<std::size_t> ecuq_encode_frames(const std::vector<EcuqInput>& inputs,
                                            const EcuqOptions& options, MutableByteView room) {
  const DefaultFloatMode float_mode;
  const int threads = options.threads;
  const bool in_blocks = options.budget == Budget::kNone && options.quality == Quality::kFast &&
                         options.coder == Coder::kHuffman;

  // 1. Codes, and small frames, side by side, those that take longest first. What is left uses all
  // threads for one frame.
  std::vector<FrameWork> frames(inputs.begin(), inputs.end());
  std::vector<std::size_t> order(frames.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return frames[a].tensor().size > frames[b].tensor().size;
  });
  parallel_for(frames.size(), threads, [&](std::size_t number, int) {
    FrameWork& frame = frames[order[number]];
    if (in_blocks) frame.plan_blocks(options);
    if (!frame.is_planned() && frame.tensor().size <= kSmall) frame.encode_whole(options);
  });
  for (FrameWork& frame : frames) {
    if (!frame.is_planned()) frame.encode_whole(options);
  }

  // 2. The blocks of all frames; again where guesses of sizes took room that was there.
  Places places;
  std::vector<std::size_t> sizes(frames.size()), starts(frames.size());
  do {
    places = write_pieces(&frames, options, room);
    std::size_t total = 0;
    for (std::size_t number = 0; number < frames.size(); ++number) {
      starts[number] = total;
      sizes[number] = frames[number].size();
      total += sizes[number];
    }
    if (total > room.size) return sizes;
  } while (places.end > room.size);

  // 3. Each to its place, and what lies around them.
  std::vector<std::size_t> begins(frames.size());
  for (std::size_t number = 0; number < frames.size(); ++number) {
    begins[number] = starts[number] + frames[number].prefix();
  }
  // SAFETY: frames end within the room, and so did their pieces before.
  move_pieces(places.frames, begins, room.data);
  parallel_for(frames.size(), threads, [&](std::size_t number, int) {
    const bool is_missing = places.frames[number].size == 0;
    frames[number].seal(is_missing, room.data + starts[number], threads);
  });
  return sizes;
}

}  // namespace docofl
