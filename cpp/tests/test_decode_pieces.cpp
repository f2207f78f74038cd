#include <algorithm>
#include <vector>

#include "docofl/ecuq.h"
#include "ecuq/decode_pieces.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

// Pieces, one after the other or several at a time, are the values that a whole decode writes.
namespace docofl {
namespace {

struct Way {
  const char* name;
  Quality quality;
  Coder coder;
};

constexpr Way kWays[] = {
    {"Huffman", Quality::kFast, Coder::kHuffman},
    {"rANS", Quality::kFast, Coder::kRans},
    {"dependent levels", Quality::kBest, Coder::kRans},
};

DOCOFL_TEST(pieces_are_the_values_of_a_whole_decode) {
  // Two blocks and a little of each coder, with an outlier.
  std::vector<float> values = test::normal_values(2 * 131072 + 77);
  values[131072 + 5] = 1e20f;
  const test::Tensor tensor(values, DType::kFloat32);
  for (const Way& way : kWays) {
    for (const double bits : {0.5, 3.0}) {
      EcuqOptions options;
      options.bits = bits;
      options.quality = way.quality;
      options.coder = way.coder;
      const test::Bytes bytes = test::encode(tensor, options);
      const std::vector<float> whole = test::decode(bytes, DType::kFloat32, 1).values();
      const Frame frame = parse_frame({bytes.data(), bytes.size()}, 1);
      DOCOFL_CHECK_EQUAL(ecuq_inspect(frame).rans, way.coder == Coder::kRans);
      for (const int threads : {1, 3}) {
        const test::Note note(way.name, ", bits ", bits, ", threads ", threads);
        std::vector<float> found(values.size());
        const UsePiece keep = [&](std::size_t begin, const float* piece, std::size_t count, int) {
          std::copy(piece, piece + count, found.data() + begin);
        };
        ecuq_decode_pieces(frame, threads, keep);
        DOCOFL_CHECK_SAME(found.data(), whole.data(), found.size());
      }
    }
  }
}

}  // namespace
}  // namespace docofl
