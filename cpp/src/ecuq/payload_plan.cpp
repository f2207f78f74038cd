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
#include "ecuq/entropy_search.h"
#include "ecuq/explicit_levels.h"
#include "ecuq/level_grid.h"
#include "ecuq/level_means.h"
#include "ecuq/rans_search.h"
#include "ecuq/sample.h"
#include "ecuq/symbol_code.h"

namespace docofl {
namespace {

// Enough that the estimate of bits is off by a few thousandths, and little beside the tensor. No
// budget asks for no estimate, and the sample is for the code alone; to pick values costs more than
// to take some more.
std::size_t sample_size(std::size_t tensor_size, Budget budget) {
  constexpr std::size_t kLeast = 131072;
  constexpr std::size_t kMost = 262144;
  const std::size_t size = std::min(kMost, std::max(kLeast, tensor_size / 8));
  if (budget != Budget::kNone) return size;
  return tensor_size < size / 4 + size / 8 ? tensor_size : size / 4;
}

// With more levels than that their means are as good as their centres.
constexpr double kMaxMeanBits = 4.5;

// Levels at the multiples of `step`, so that zero is one of them and tensors coded with one step
// agree on them. Where that cannot be, as few levels as the step allows between the ends of the
// range.
Levels levels_for_step(const ValueRange& range, double step, DType dtype) {
  const double length = static_cast<double>(range.x_max) - range.x_min;
  if (!(length / step < kMaxLevels - 1)) {
    char found[32], least[32];
    std::snprintf(found, sizeof found, "%g", step);
    std::snprintf(least, sizeof least, "%g", length / (kMaxLevels - 1));
    throw Error(ErrorKind::kInvalidInput, std::string("step: found ") + found +
                                              ", expected at least " + least +
                                              " for values of this range");
  }
  if (const std::optional<Levels> levels = levels_at(range, step, 0, dtype)) return *levels;
  const double num_levels = std::max(1.0, std::ceil(length / step));
  return uniform_levels(range.x_min, range.x_max, static_cast<std::int32_t>(num_levels));
}

PayloadPlan finished_plan(RansPlan rans) {
  PayloadPlan plan;
  plan.finished = std::move(rans.payload);
  plan.mean_squared_error = rans.mean_squared_error;
  return plan;
}

// With rANS where the request wants it, or may have it, and there is room.
std::optional<PayloadPlan> plan_rans(const PlanRequest& request, const ValueRange& range) {
  const bool dependent = request.options.quality == Quality::kBest;
  if (!dependent && request.options.coder == Coder::kHuffman) return std::nullopt;
  std::optional<RansPlan> rans = search_rans(request, range, dependent);
  if (!rans) return std::nullopt;
  return finished_plan(std::move(*rans));
}

// No budget: the levels are given.
PayloadPlan plan_for_step(const PlanRequest& request, const Sample& sample,
                          const ValueRange& range) {
  const EcuqOptions& options = request.options;
  const std::size_t size = request.tensor.size;
  std::optional<PayloadPlan> rans = plan_rans(request, range);
  const bool compares = options.quality == Quality::kFast && options.coder == Coder::kEither;
  if (rans && !compares) return *std::move(rans);
  Levels levels = levels_for_step(range, options.step, request.tensor.dtype);
  const SymbolCode code = choose_code(sample, levels, size, options.threads);
  if (options.centroids && code.entropy <= kMaxMeanBits) {
    const LevelMeans means(sample, levels, code.layout);
    if (means.pay(size)) means.displace(&levels);
  }
  PayloadPlan plan = make_plan(request, levels, code);
  if (rans && payload_size(*rans, size) < payload_size(plan, size)) return *std::move(rans);
  return plan;
}

}  // namespace

PayloadPlan make_plan(const PlanRequest& request, const Levels& levels, const SymbolCode& code) {
  MutableByteView room = request.room;
  const std::size_t header = payload_header_size(levels, code, request.tensor.size);
  room = room.size > header ? MutableByteView{room.data + header, room.size - header}
                            : MutableByteView{};
  PayloadPlan plan;
  plan.levels = levels;
  plan.code = code;
  plan.blocks = encode_blocks(request.tensor, levels, code, room, request.options.threads);
  return plan;
}

PayloadPlan plan_payload(const PlanRequest& request) {
  const TensorView& tensor = request.tensor;
  const EcuqOptions& options = request.options;
  const int threads = options.threads;
  // 1. The range and a sample; a constant needs no levels but itself (a mixture of -0 and +0
  // becomes +0).
  const bool compares = options.budget == Budget::kBytes;
  Sample sample(tensor, sample_size(tensor.size, options.budget), compares);
  const ValueRange range = value_range(
      tensor, threads, [&](std::size_t begin, std::size_t end) { sample.gather(begin, end); });
  if (range.x_min == range.x_max) {
    Levels constant;
    constant.explicit_values = {range.x_max};
    return make_plan(request, constant, fixed_width_code(0));
  }
  sample.finish();

  // 2. No budget.
  if (options.budget == Budget::kNone) return plan_for_step(request, sample, range);

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
    const Levels levels = uniform_levels(range.x_min, range.x_max, num_levels);
    SymbolCode code = choose_code(sample, levels, tensor.size, threads);
    code.entropy = search.entropy(num_levels);
    return make_plan(request, levels, code);
  }

  // 4. The bytes rule: exact where few different values fit the budget, otherwise as fine as fits.
  const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
  if (exact) {
    const SymbolCode code = choose_code(sample, *exact, tensor.size, threads);
    PayloadPlan plan = make_plan(request, *exact, code);
    const double charged_bits = 8.0 * static_cast<double>(charged_bytes(plan, tensor.size));
    if (charged_bits <= options.bits * static_cast<double>(tensor.size)) return plan;
  }
  std::optional<PayloadPlan> rans = plan_rans(request, range);
  const bool wants_rans = options.quality == Quality::kFast && options.coder == Coder::kRans;
  if (rans && wants_rans) return *std::move(rans);
  PayloadPlan plan = search_bytes(request, sample, range);
  // 128 levels may be too few for many bits, and a model of levels may miss what they share with
  // their neighbours: then a plain grid is better.
  if (rans && rans->mean_squared_error <= plan.mean_squared_error) return *std::move(rans);
  return plan;
}

}  // namespace docofl
