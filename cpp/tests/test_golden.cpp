#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "common/endian.h"
#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/frame.h"
#include "docofl/identity.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"
#include "test_sha256.h"

// Row 23 without Python, for machines that are emulated: the golden frames of tests/golden decode
// to the recorded values at every ISA level, and are what the encoders write.
namespace docofl {
namespace {

const std::string kFolder = DOCOFL_GOLDEN;

test::Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) test::fail(__FILE__, __LINE__, path + " cannot be read");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return {text.begin(), text.end()};
}

// Fields of each frame that are strings.
using Manifest = std::map<std::string, std::map<std::string, std::string>>;

// A manifest has a line for each field, and lines that open an entry are indented by one space.
Manifest read_manifest(const std::string& version) {
  std::ifstream file(kFolder + "/" + version + "/manifest.json");
  Manifest manifest;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> quoted;
    for (std::size_t begin = line.find('"'); begin != std::string::npos;) {
      const std::size_t end = line.find('"', begin + 1);
      quoted.push_back(line.substr(begin + 1, end - begin - 1));
      begin = line.find('"', end + 1);
    }
    if (line.size() > 1 && line[0] == ' ' && line[1] == '"') name = quoted[0];
    if (quoted.size() == 2 && line.compare(0, 3, "  \"") == 0)
      manifest[name][quoted[0]] = quoted[1];
  }
  DOCOFL_CHECK(manifest.size() > 5);
  return manifest;
}

// Of the values, little-endian; bfloat16 as float32.
std::string values_hash(const test::Tensor& tensor) {
  if (tensor.view().dtype == DType::kBFloat16) {
    return values_hash(test::Tensor(tensor.values(), DType::kFloat32));
  }
  const std::size_t item = item_size(tensor.view().dtype);
  test::Bytes bytes(tensor.bytes(), tensor.bytes() + tensor.num_bytes());
  if (kBigEndian) {
    for (std::size_t i = 0; i < bytes.size(); i += item) {
      std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                   bytes.begin() + static_cast<std::ptrdiff_t>(i + item));
    }
  }
  return test::Sha256::of(bytes.data(), bytes.size());
}

test::Tensor decode_frame(const test::Bytes& bytes, int threads) {
  const Frame frame = parse_frame({bytes.data(), bytes.size()}, threads);
  if (frame.header.codec != CodecId::kIdentity)
    return test::decode(bytes, frame.header.dtype, threads);
  test::Tensor out(frame.size, frame.header.dtype);
  identity_decode(frame, out.mutable_view(), threads);
  return out;
}

void check_folder(const std::string& version) {
  for (const auto& [name, fields] : read_manifest(version)) {
    const test::Bytes bytes = read_file(kFolder + "/" + version + "/" + name + ".docofl");
    DOCOFL_CHECK_EQUAL(test::Sha256::of(bytes.data(), bytes.size()), fields.at("frame_sha256"));
    const Frame frame = parse_frame({bytes.data(), bytes.size()});
    if (has_foreign_payload(frame.header.codec)) continue;
    test::for_each_isa([&, &name = name, &fields = fields](const std::string& isa) {
      for (const int threads : {1, 3}) {
        const test::Note note(name, ", isa ", isa, ", threads ", threads);
        DOCOFL_CHECK_EQUAL(values_hash(decode_frame(bytes, threads)), fields.at("decoded_sha256"));
      }
    });
  }
}

DOCOFL_TEST(hash_of_the_standard) {
  const std::string text = "abc";
  DOCOFL_CHECK_EQUAL(
      test::Sha256::of(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()),
      std::string("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
}

DOCOFL_TEST(version_1) { check_folder("v1"); }
DOCOFL_TEST(version_2) { check_folder("v2"); }
DOCOFL_TEST(latest) { check_folder("latest"); }
DOCOFL_TEST(latest_best) { check_folder("latest-best"); }
DOCOFL_TEST(baselines) { check_folder("v1-baselines"); }

// --- the inputs of tests/golden/cases.py ---------------------------------------------------------

std::vector<std::int64_t> random_integers(std::size_t size, std::uint64_t seed, unsigned bits) {
  std::vector<std::int64_t> numbers(size);
  for (std::size_t i = 0; i < size; ++i) {
    numbers[i] =
        static_cast<std::int64_t>(counter_random(seed * 0xD1B54A32D192ED03u, i) >> (64 - bits));
  }
  return numbers;
}

std::vector<float> bell(std::size_t size, std::uint64_t seed) {
  std::vector<std::int64_t> total(size);
  for (unsigned k = 0; k < 4; ++k) {
    const std::vector<std::int64_t> part = random_integers(size, 4 * seed + k, 16);
    for (std::size_t i = 0; i < size; ++i) total[i] += part[i];
  }
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(static_cast<double>(total[i] - (1 << 17)) / 65536);
  }
  return values;
}

std::vector<float> heavy(std::size_t size, std::uint64_t seed) {
  const std::vector<std::int64_t> divisor = random_integers(size, seed + 100, 12);
  std::vector<float> values = bell(size, seed);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(double(values[i]) / static_cast<double>(divisor[i] + 16));
  }
  return values;
}

std::vector<float> with_outliers(std::size_t size, std::uint64_t seed) {
  std::vector<float> values = bell(size, seed);
  for (std::size_t i = 0; i < size; i += size / 6) values[i] = 497160.0f;
  return values;
}

struct Recipe {
  const char* version;
  const char* name;
  std::vector<float> values;
  DType dtype = DType::kFloat32;
  // Of ECUQ, or of EDEN where eden_seed >= 0.
  double bits = 2;
  Quality quality = Quality::kFast;
  int eden_seed = -1;
  bool entropy_coded = false;
  Coder coder = Coder::kHuffman;
};

test::Bytes encode_recipe(const Recipe& recipe, const test::Tensor& tensor, int threads) {
  if (recipe.eden_seed >= 0) {
    EdenOptions options;
    options.bits = recipe.bits;
    options.seed = static_cast<std::uint64_t>(recipe.eden_seed);
    options.entropy_coded = recipe.entropy_coded;
    options.threads = threads;
    return test::encode(tensor, options);
  }
  EcuqOptions options;
  options.bits = recipe.bits;
  options.quality = recipe.quality;
  options.coder = recipe.coder;
  options.threads = threads;
  return test::encode(tensor, options);
}

DOCOFL_TEST(encoders_write_the_golden_frames) {
  const DType f32 = DType::kFloat32;
  const Recipe recipes[] = {
      {"latest", "one-element", bell(1, 1)},
      {"latest", "constant", std::vector<float>(1000, 1.0f / 3)},
      {"latest", "uniform-single", bell(3000, 1), f32, 4},
      {"latest", "uniform-pairs", bell(6000, 1), f32, 2},
      {"latest", "uniform-fours", bell(9000, 7), f32, 0.4},
      {"latest", "raw-bits", bell(2500, 1), f32, 12},
      {"latest", "outliers", with_outliers(3000, 8), f32, 4},
      {"latest", "float64", bell(1000, 1), DType::kFloat64, 3},
      {"latest", "float16", bell(1000, 1), DType::kFloat16, 3},
      {"latest", "bfloat16", bell(1000, 1), DType::kBFloat16, 3},
      {"latest", "displaced-single", heavy(8000, 40), f32, 3},
      {"latest", "many-blocks", heavy(140000, 11), f32, 0.5},
      {"latest", "many-blocks-outliers", with_outliers(140000, 12), f32, 0.8},
      {"latest", "eden-1-bit", bell(1000, 1), f32, 1, Quality::kFast, 0},
      {"latest", "eden-2.5-bits", heavy(1000, 15), f32, 2.5, Quality::kFast, 2},
      {"latest", "eden-8-bits", bell(1000, 1), f32, 8, Quality::kFast, 3},
      {"latest", "eden-coded", heavy(5003, 16), f32, 3, Quality::kFast, 5, true},
      {"latest", "eden-coded-blocks", bell(65536 + 33, 1), f32, 1.5, Quality::kFast, 6, true},
      {"latest", "eden-all-block-sizes", heavy(3 * 32768 - 1, 17), f32, 1, Quality::kFast, 9},
      {"latest-best", "single", bell(5000, 2), f32, 3, Quality::kBest},
      {"latest-best", "centres", bell(1030, 3), f32, 4, Quality::kBest},
      {"latest-best", "heavy", heavy(6000, 2), f32, 2, Quality::kBest},
      {"latest-best", "outliers", with_outliers(3000, 3), f32, 2, Quality::kBest},
      {"latest-best", "many-lanes", bell(70001, 6), f32, 0.3, Quality::kBest},
      {"latest-best", "two-blocks", bell(131072 + 17, 7), f32, 0.2, Quality::kBest},
      {"latest-best", "float16", bell(2000, 9), DType::kFloat16, 2, Quality::kBest},
      {"latest-best", "scalar-pairs", bell(60001, 11), f32, 0.3, Quality::kFast, -1, false,
       Coder::kRans},
      {"latest-best", "scalar-single", bell(5000, 12), f32, 3, Quality::kFast, -1, false,
       Coder::kRans},
  };
  for (const Recipe& recipe : recipes) {
    const test::Note name(recipe.version, "/", recipe.name);
    const auto fields = read_manifest(recipe.version).at(recipe.name);
    const test::Tensor tensor(recipe.values, recipe.dtype);
    DOCOFL_CHECK_EQUAL(values_hash(tensor), fields.at("input_sha256"));
    test::for_each_isa([&](const std::string& isa) {
      const test::Note note("isa ", isa);
      const test::Bytes bytes = encode_recipe(recipe, tensor, 2);
      DOCOFL_CHECK_EQUAL(test::Sha256::of(bytes.data(), bytes.size()), fields.at("frame_sha256"));
    });
  }
}

}  // namespace
}  // namespace docofl
