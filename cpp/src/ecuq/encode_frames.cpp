#include <algorithm>
#include <atomic>
#include <memory>
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

// Tensors of at most so many values are one piece of work, as those of an open grid are not.
constexpr std::size_t kSmall = 2 * kBlockSize;

// A frame that is made block by block, or all at once.
class FrameWork {
 public:
  explicit FrameWork(const EcuqInput& input) : header_(input.header), tensor_(input.tensor) {
    header_.codec = CodecId::kEcuq;
  }

  const TensorView& tensor() const { return tensor_; }
  bool is_planned() const { return encoder_ != nullptr || whole_ != nullptr; }
  const BlockEncoder* encoder() const { return encoder_.get(); }
  ByteView whole() const { return {whole_.get(), size_}; }

  void plan_blocks(const EcuqOptions& options) {
    const std::size_t size = tensor_.size;
    std::optional<OpenCode> open = fit_open_grid(tensor_, options);
    if (!open) return;
    encoder_ = std::make_unique<BlockEncoder>(open->levels, open->code);
    plan_.levels = std::move(open->levels);
    plan_.code = open->code;
    plan_.blocks.stream_sizes.resize(num_streams(size));
    plan_.blocks.block_outliers.resize(num_blocks(size));
    payload_bytes_ = static_cast<std::size_t>(plan_.code.bits * static_cast<double>(size) / 8);
  }

  void encode_whole(const EcuqOptions& options) {
    encoder_.reset();
    const std::size_t capacity = encoded_capacity(header_, options);
    whole_.reset(new std::uint8_t[capacity]);
    const EcuqPlan plan = ecuq_plan(header_, tensor_, options, {whole_.get(), capacity});
    size_ = encoded_size(plan);
    if (size_ > capacity) whole_.reset(new std::uint8_t[size_]);
    ecuq_encode(plan, tensor_, options.threads, whole_.get());
  }

  // The bytes before the blocks: these depend a little on those, of which there is a guess.
  std::size_t prefix() const {
    return frame_size(header_, payload_bytes_) - payload_bytes_ - kChecksumBytes +
           payload_header_size(plan_.levels, plan_.code, tensor_.size);
  }

  BlockEncoder::Encoded encode_block(std::size_t block, BlockEncoder::Scratch* scratch) {
    const BlockEncoder::Encoded encoded = encoder_->encode(tensor_, block, scratch);
    std::copy(encoded.stream_sizes, encoded.stream_sizes + encoded.num_streams,
              &plan_.blocks.stream_sizes[block * kHuffmanStreams]);
    plan_.blocks.block_outliers[block] = encoded.num_outliers;
    return encoded;
  }

  // To be called when all blocks are there. Tells whether the prefix had its size.
  bool finish_blocks() {
    const std::size_t guessed = prefix();
    plan_.blocks.num_outliers = 0;
    for (const std::uint32_t count : plan_.blocks.block_outliers) {
      plan_.blocks.num_outliers += count;
    }
    payload_bytes_ = payload_size(plan_, tensor_.size);
    size_ = frame_size(header_, payload_bytes_);
    return prefix() == guessed;
  }

  std::size_t size() const { return size_; }

  // Writes what lies around the blocks.
  void seal(std::uint8_t* out, int threads) const {
    if (whole_) return;
    FrameHeader header = header_;
    if (plan_.levels.is_displaced()) header.version = kSecondVersion;
    std::uint8_t* const payload = write_frame_header(header, payload_bytes_, out);
    write_payload_header(plan_, tensor_.size, payload);
    seal_frame(out, size_, threads);
  }

 private:
  FrameHeader header_;
  TensorView tensor_;
  std::unique_ptr<const BlockEncoder> encoder_;
  PayloadPlan plan_;
  std::size_t payload_bytes_ = 0;
  std::unique_ptr<std::uint8_t[]> whole_;  // not cleared: most of it may never be touched
  std::size_t size_ = 0;
};

struct Piece {
  std::size_t frame;
  std::size_t block;
  std::size_t gap;  // before it
};

std::vector<Piece> list_pieces(const std::vector<FrameWork>& frames) {
  std::vector<Piece> pieces;
  std::size_t gap = 0;
  for (std::size_t frame = 0; frame < frames.size(); ++frame) {
    const bool in_blocks = frames[frame].encoder() != nullptr;
    if (in_blocks) gap += frames[frame].prefix();
    const std::size_t count = in_blocks ? num_blocks(frames[frame].tensor().size) : 1;
    for (std::size_t block = 0; block < count; ++block) {
      pieces.push_back({frame, block, gap});
      gap = 0;
    }
    if (in_blocks) gap = kChecksumBytes;
  }
  return pieces;
}

// Puts the blocks of all frames into the room. Returns a frame that has a value beyond its grid,
// or their number.
std::size_t write_blocks(std::vector<FrameWork>* frames, MutableByteView room, int threads) {
  const std::vector<Piece> pieces = list_pieces(*frames);
  OrderedWriter writer(room);
  std::vector<BlockEncoder::Scratch> scratch(num_workers(pieces.size(), threads));
  std::atomic<std::size_t> beyond{frames->size()};
  parallel_for(pieces.size(), threads, [&](std::size_t number, int worker) {
    if (beyond.load(std::memory_order_relaxed) < frames->size()) return;
    const Piece& piece = pieces[number];
    FrameWork& frame = (*frames)[piece.frame];
    if (frame.encoder() == nullptr) return writer.put(number, frame.whole(), piece.gap);
    try {
      writer.put(number, frame.encode_block(piece.block, &scratch[worker]).bytes, piece.gap);
    } catch (const BeyondOpenGrid&) {
      beyond.store(piece.frame);
    }
  });
  return beyond.load();
}

}  // namespace

std::vector<std::size_t> ecuq_encode_frames(const std::vector<EcuqInput>& inputs,
                                            const EcuqOptions& options, MutableByteView room) {
  const DefaultFloatMode float_mode;
  const int threads = options.threads;
  const bool in_blocks = options.budget == Budget::kNone && options.quality == Quality::kFast &&
                         options.coder == Coder::kHuffman;

  // 1. Codes side by side, and small frames. What is left uses all threads for one frame.
  std::vector<FrameWork> frames(inputs.begin(), inputs.end());
  parallel_for(frames.size(), threads, [&](std::size_t number, int) {
    FrameWork& frame = frames[number];
    if (in_blocks) frame.plan_blocks(options);
    if (!frame.is_planned() && frame.tensor().size <= kSmall) frame.encode_whole(options);
  });
  for (FrameWork& frame : frames) {
    if (!frame.is_planned()) frame.encode_whole(options);
  }

  // 2. The blocks of all frames, again where one turns out not to have an open grid, or a size
  // takes another number of bytes than was guessed.
  for (bool is_placed = false; !is_placed;) {
    const std::size_t beyond = write_blocks(&frames, room, threads);
    is_placed = beyond == frames.size();
    if (!is_placed) {
      frames[beyond].encode_whole(options);
      continue;
    }
    for (FrameWork& frame : frames) {
      if (frame.encoder() != nullptr && !frame.finish_blocks()) is_placed = false;
    }
  }

  // 3. What lies around them.
  std::vector<std::size_t> sizes, starts;
  std::size_t total = 0;
  for (const FrameWork& frame : frames) {
    starts.push_back(total);
    sizes.push_back(frame.size());
    total += frame.size();
  }
  if (total > room.size) return sizes;
  // SAFETY: the frames end at `total`, and that is within the room.
  parallel_for(frames.size(), threads, [&](std::size_t number, int) {
    frames[number].seal(room.data + starts[number], threads);
  });
  return sizes;
}

}  // namespace docofl
