#include "ecuq/payload_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/source.h"
#include "docofl/error.h"
#include "ecuq/bytes_search.h"
#include "ecuq/dependent_search.h"
#include "ecuq/entropy_search.h"
#include "ecuq/explicit_levels.h"
#include "ecuq/sample.h"
#include "ecuq/symbol_code.h"

namespace docofl {
namespace {

// Enough that the estimate of bits is off by a few thousandths, and little beside the tensor.
std::size_t sample_size(std::size_t tensor_size) {
  constexpr std::size_t kLeast = 131072;
  constexpr std::size_t kMost = 262144;
  return std::min(kMost, std::max(kLeast, tensor_size / 8));
}

// The smallest number of levels whose distance is at most `step`. The distance that a frame tells
// gives the number of its levels again: hence the tolerance.
std::int32_t levels_for_step(const ValueRange& range, double step) {
  constexpr double kTolerance = 0x1p-40;
  const double length = static_cast<double>(range.x_max) - range.x_min;
  const double num_levels = std::ceil(length / step * (1 - kTolerance));
  if (num_levels > kMaxLevels) {
    char found[32], least[32];
    std::snprintf(found, sizeof found, "%g", step);
    std::snprintf(least, sizeof least, "%g", length / kMaxLevels);
    throw Error(ErrorKind::kInvalidInput, std::string("step: found ") + found +
                                              ", expected at least " + least +
                                              " for values of this range");
  }
  return static_cast<std::int32_t>(std::max(1.0, num_levels));
}

PayloadPlan finished_plan(std::vector<std::uint8_t> payload) {
  PayloadPlan plan;
  plan.finished = std::move(payload);
  return plan;
}

}  // namespace

PayloadPlan make_plan(const PlanRequest& request, const Levels& levels, const SymbolCode& code) {
  MutableByteView room = request.room;
  const std::size_t header = payload_header_size(levels, code, request.tensor.size);
  room = room.size > header ? MutableByteView{room.data + header, room.size - header}
                            : MutableByteView{};
  return {
      levels, code, encode_blocks(request.tensor, levels, code, room, request.options.threads), {}};
}

PayloadPlan plan_payload(const PlanRequest& request) {
  const TensorView& tensor = request.tensor;
  const EcuqOptions& options = request.options;
  const int threads = options.threads;
  // 1. The range and a sample; a constant needs no levels but itself (a mixture of -0 and +0
  // becomes +0).
  const bool compares = options.budget == Budget::kBytes;
  Sample sample(tensor, sample_size(tensor.size), compares);
  const ValueRange range = value_range(
      tensor, threads, [&](std::size_t begin, std::size_t end) { sample.gather(begin, end); });
  if (range.x_min == range.x_max) {
    Levels constant;
    constant.explicit_values = {range.x_max};
    return make_plan(request, constant, fixed_width_code(0));
  }
  sample.finish();

  // 2. No budget: the levels are given.
  if (options.budget == Budget::kNone) {
    if (options.quality == Quality::kBest) {
      if (auto payload = search_dependent(request, range))
        return finished_plan(std::move(*payload));
    }
    const std::int32_t num_levels = levels_for_step(range, options.step);
    const SymbolCode code =
        choose_code(sample, range.x_min, range.x_max, num_levels, tensor.size, threads);
    return make_plan(request, {range.x_min, range.x_max, num_levels, {}}, code);
  }

  // 3. The paper's rule. Levels without end mean that the different values themselves fit the
  // budget, unless some are closer than any grid tells apart.
  if (options.budget == Budget::kEntropy) {
    EntropySearch search(tensor, sample, range, options);
    const std::int32_t num_levels = search.run();
    if (search.is_unbounded()) {
      const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
      const double entropy = exact ? explicit_entropy(tensor, *exact, threads) : 0;
      if (exact && entropy <= options.bits + EntropySearch::kSlack) {
        SymbolCode code = choose_code(sample, *exact, tensor.size, threads);
        code.entropy = entropy;
        return make_plan(request, *exact, code);
      }
    }
    SymbolCode code =
        choose_code(sample, range.x_min, range.x_max, num_levels, tensor.size, threads);
    code.entropy = search.entropy(num_levels);
    return make_plan(request, {range.x_min, range.x_max, num_levels, {}}, code);
  }

  // 4. The bytes rule: exact where few different values fit the budget, otherwise as fine as fits.
  const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
  if (exact) {
    const SymbolCode code = choose_code(sample, *exact, tensor.size, threads);
    PayloadPlan plan = make_plan(request, *exact, code);
    const double charged_bits = 8.0 * static_cast<double>(charged_bytes(plan, tensor.size));
    if (charged_bits <= options.bits * static_cast<double>(tensor.size)) return plan;
  }
  if (options.quality == Quality::kBest) {
    if (auto payload = search_dependent(request, range)) return finished_plan(std::move(*payload));
  }
  return search_bytes(request, sample, range);
}

}  // namespace docofl
