#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "docofl/error.h"
#include "docofl/frame.h"
#include "ecuq/payload.h"
#include "ecuq/rans_payload.h"
#include "fuzz_input.h"
#include "fuzz_options.h"
#include "fuzz_payload.h"

// Writes the first inputs of all fuzz targets, from the golden frames: make_seeds FOLDER FRAMES...
namespace docofl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSeed = 4000;

class SeedWriter {
 public:
  explicit SeedWriter(fs::path folder) : folder_(std::move(folder)) {}

  void write(const std::string& target, const std::string& name, const fuzz::Bytes& bytes) const {
    if (bytes.size() > kMaxSeed) return;
    const fs::path folder = folder_ / target;
    fs::create_directories(folder);
    std::ofstream file(folder / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

 private:
  fs::path folder_;
};

fuzz::Bytes with_first(std::uint8_t first, fuzz::Bytes bytes) {
  bytes.insert(bytes.begin(), first);
  return bytes;
}

// A table with the blocks that follow it.
void write_tables(const SeedWriter& seeds, const std::string& name, const Frame& frame) {
  if (frame.size == 0) return;
  const bool rans = has_rans_payload(frame);
  std::size_t alphabet = 0;
  fuzz::Bytes table;
  std::size_t blocks = 0;
  if (rans) {
    const RansHeader header = read_rans_header(frame);
    alphabet = header.code.alphabet();
    table.resize(rans_table_size(header.code.tables[0], alphabet));
    write_rans_table(header.code.tables[0], alphabet, table.data());
    blocks = header.block_offsets[0];
  } else {
    const PayloadHeader header = read_payload_header(frame);
    alphabet = header.code.tables[0].layout.alphabet();
    if (alphabet < 2) return;
    table.resize(code_table_size(header.code.tables[0].lengths, alphabet));
    write_code_table(header.code.tables[0].lengths, alphabet, table.data());
    blocks = header.block_offsets[0];
  }
  table.insert(table.end(), frame.payload.data + blocks, frame.payload.data + frame.payload.size);
  if (rans) table = with_first(static_cast<std::uint8_t>(frame.size % 3), table);
  seeds.write(rans ? "fuzz_rans_table" : "fuzz_huffman_table", name,
              with_first(static_cast<std::uint8_t>(alphabet - 2), table));
}

// A few of the values that the frame decodes to, as inputs of encoders.
void write_values(const SeedWriter& seeds, const std::string& name, const Frame& frame) {
  constexpr std::size_t kValues = 100;
  const DType dtype = frame.header.dtype;
  fuzz::FuzzTensor values(frame.size, dtype);
  fuzz::decode(frame, 1, &values);
  fuzz::Bytes memory = *values.bytes();
  memory.resize(std::min(memory.size(), kValues * item_size(dtype)));
  // Sizes and options that go with the frame's name, so that seeds differ.
  std::uint8_t sum = 0;
  for (const char letter : name) sum = static_cast<std::uint8_t>(31 * sum + letter);
  for (const std::uint8_t extent : {std::uint8_t(0), std::uint8_t(0x51), std::uint8_t(0x52),
                                    std::uint8_t(0x55), std::uint8_t(0x56)}) {
    const std::string seed = name + "-" + std::to_string(extent);
    fuzz::Bytes options;
    fuzz::put(&options, static_cast<std::uint8_t>(static_cast<unsigned>(dtype) | (sum & 0xfc)));
    fuzz::put(&options, extent);
    fuzz::put(&options, static_cast<std::uint16_t>(sum * 257));  // bits
    fuzz::Bytes eden = options;
    fuzz::put(&eden, std::uint64_t(sum));                   // seed
    fuzz::put(&options, static_cast<std::uint16_t>(1000));  // tolerance
    fuzz::Bytes frames = with_first(1, options);            // two tensors with the same values
    fuzz::put(&frames, 0.25f);                              // step
    const std::size_t shared = std::min(memory.size(), fuzz::kSharedPattern);
    frames.insert(frames.end(), memory.begin(), memory.begin() + shared);
    frames.insert(frames.end(), options.begin(), options.begin() + 2);
    frames.insert(frames.end(), memory.begin(), memory.end());
    seeds.write("fuzz_encode_frames", seed, frames);
    if ((sum >> 3 & 3) == 1) fuzz::put(&options, 0.25f);  // step, where there is no budget
    fuzz::Bytes qsgd;
    fuzz::put(&qsgd, 2.0 * sum);           // norm
    fuzz::put(&qsgd, std::uint32_t(sum));  // levels
    fuzz::put(&qsgd, std::uint64_t(7));    // key
    fuzz::put(&qsgd, static_cast<std::uint8_t>(dtype));
    fuzz::put(&qsgd, extent);
    for (fuzz::Bytes* bytes : {&options, &eden, &qsgd}) {
      bytes->insert(bytes->end(), memory.begin(), memory.end());
    }
    seeds.write("fuzz_ecuq_round_trip", seed, options);
    seeds.write("fuzz_eden_round_trip", seed, eden);
    seeds.write("fuzz_qsgd_round_trip", seed, qsgd);
    seeds.write("fuzz_variants_encode", seed + "-ecuq", with_first(0, options));
    seeds.write("fuzz_variants_encode", seed + "-eden", with_first(1, eden));
  }
}

// A payload of QSGD: its stream comes after a norm, the levels and a mode.
void write_gamma(const SeedWriter& seeds, const std::string& name, const Frame& frame) {
  for (std::size_t start = 0; start < frame.payload.size && start < 20; ++start) {
    for (const std::uint8_t sparse : {std::uint8_t(0), std::uint8_t(1)}) {
      fuzz::Bytes bytes = {sparse};
      fuzz::put(&bytes, static_cast<std::uint16_t>(frame.size));
      bytes.insert(bytes.end(), frame.payload.data + start,
                   frame.payload.data + frame.payload.size);
      seeds.write("fuzz_gamma_decode",
                  name + "-" + std::to_string(start) + "-" + std::to_string(sparse), bytes);
    }
  }
}

void write_seeds(const SeedWriter& seeds, const std::string& name, const fuzz::Bytes& bytes) {
  seeds.write("fuzz_frame", name, bytes);
  const Frame frame = parse_frame(fuzz::view_of(bytes));
  if (frame.header.codec == CodecId::kQsgd) write_gamma(seeds, name, frame);
  if (has_foreign_payload(frame.header.codec)) return;
  write_values(seeds, name, frame);
  const fuzz::Bytes payload = fuzz::PayloadInput::from_frame(frame);
  if (frame.header.codec == CodecId::kEden) {
    seeds.write("fuzz_eden_decode", name, payload);
    seeds.write("fuzz_variants_decode", name, with_first(2, payload));
  }
  if (has_ecuq_payload(frame.header.codec)) {
    const bool rans = has_rans_payload(frame);
    seeds.write(rans ? "fuzz_rans_decode" : "fuzz_ecuq_decode", name, payload);
    seeds.write("fuzz_variants_decode", name, with_first(rans ? 1 : 0, payload));
    write_tables(seeds, name, frame);
  }
}

}  // namespace
}  // namespace docofl

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: make_seeds FOLDER FRAMES...\n");
    return 2;
  }
  const docofl::SeedWriter seeds(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const std::filesystem::path path = argv[i];
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::string name = path.parent_path().filename().string() + "-" + path.stem().string();
    try {
      docofl::write_seeds(seeds, name, docofl::fuzz::Bytes(text.begin(), text.end()));
    } catch (const docofl::Error& error) {
      std::fprintf(stderr, "%s: %s\n", argv[i], error.what());
      return 1;
    }
  }
  return 0;
}
