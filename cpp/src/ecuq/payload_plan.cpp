#include "ecuq/payload_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/source.h"
#include "ecuq/bytes_search.h"
#include "ecuq/entropy_search.h"
#include "ecuq/explicit_levels.h"
#include "ecuq/rans_search.h"
#include "ecuq/sample.h"
#include "ecuq/step_plan.h"
#include "ecuq/symbol_code.h"

namespace docofl {
namespace {

// Enough that the estimate of bits is off by a few thousandths, and little beside the tensor.
std::size_t sample_size(std::size_t tensor_size) {
  constexpr std::size_t kLeast = 131072;
  constexpr std::size_t kMost = 262144;
  return std::min(kMost, std::max(kLeast, tensor_size / 8));
}

PayloadPlan plan_of(RansPlan rans) {
  PayloadPlan plan;
  plan.mean_squared_error = rans.mean_squared_error;
  plan.rans = std::move(rans);
  return plan;
}

bool may_have_rans(const EcuqOptions& options) {
  return options.quality == Quality::kBest || options.coder != Coder::kHuffman;
}

// Whether both coders have a try.
bool compares_coders(const EcuqOptions& options) {
  return options.quality == Quality::kFast && options.coder == Coder::kEither;
}

std::optional<RansPlan> plan_rans(const PlanRequest& request, const ValueRange& range) {
  if (!may_have_rans(request.options)) return std::nullopt;
  return search_rans(request, range, request.options.quality == Quality::kBest);
}

// In both of these the coder that comes last has the room.

// Without a budget: rANS where it is wanted and pays, the smaller payload where either will do.
PayloadPlan plan_given_step(const PlanRequest& request, const Sample& sample,
                            const ValueRange& range) {
  const std::size_t size = request.tensor.size;
  if (!compares_coders(request.options)) {
    std::optional<RansPlan> rans = plan_rans(request, range);
    return rans ? plan_of(*std::move(rans)) : plan_step(request, sample, range);
  }
  PayloadPlan plan = plan_step(request, sample, range);
  std::optional<RansPlan> rans = plan_rans(request, range);
  if (rans && payload_size(*rans, size) < payload_size(plan, size)) {
    return plan_of(*std::move(rans));
  }
  plan.blocks.bytes = nullptr;
  return plan;
}

// As fine as fits the budget.
PayloadPlan plan_finest(const PlanRequest& request, const Sample& sample, const ValueRange& range) {
  const EcuqOptions& options = request.options;
  if (!may_have_rans(options)) return search_bytes(request, sample, range);
  if (options.quality == Quality::kFast && options.coder == Coder::kRans) {
    std::optional<RansPlan> rans = plan_rans(request, range);
    if (!rans) return search_bytes(request, sample, range);
    // Clusters far apart may leave it with a small part of the budget, and others with more.
    constexpr double kLeftBits = 0.25;
    const double size = static_cast<double>(request.tensor.size);
    const double used = 8.0 * static_cast<double>(charged_bytes(*rans, request.tensor.size)) / size;
    if (used >= options.bits - std::max(options.tolerance, kLeftBits)) {
      return plan_of(*std::move(rans));
    }
    leave_room(&*rans);
    PayloadPlan plan = search_bytes(request, sample, range);
    if (rans->mean_squared_error > plan.mean_squared_error) return plan;
    return plan_of(*std::move(rans));
  }
  // 128 levels may be too few for many bits, and a model of levels may miss what they share with
  // their neighbours: then a plain grid is better.
  PayloadPlan plan = search_bytes(request, sample, range);
  std::optional<RansPlan> rans = plan_rans(request, range);
  if (rans && rans->mean_squared_error <= plan.mean_squared_error) {
    return plan_of(*std::move(rans));
  }
  plan.blocks.bytes = nullptr;
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
  const bool is_given = options.budget == Budget::kNone;
  if (is_given && !may_have_rans(options)) {
    if (std::optional<PayloadPlan> plan = plan_step_in_one_pass(request)) return *std::move(plan);
  }

  // 1. The range and a sample; a constant needs no levels but itself (a mixture of -0 and +0
  // becomes +0).
  Sample sample(tensor, is_given ? step_sample_size(tensor.size) : sample_size(tensor.size),
                is_given ? Sample::kLongRun : Sample::kShortRun, options.budget == Budget::kBytes);
  const ValueRange range = value_range(
      tensor, threads, [&](std::size_t begin, std::size_t end) { sample.gather(begin, end); });
  if (range.x_min == range.x_max) {
    Levels constant;
    constant.explicit_values = {range.x_max};
    return make_plan(request, constant, fixed_width_code(0));
  }
  sample.finish();

  // 2. No budget.
  if (is_given) return plan_given_step(request, sample, range);

  // 3. The paper's rule. Levels without end mean that the different values themselves fit the
  // budget, unless some are closer than any grid tells apart.
  if (options.budget == Budget::kEntropy) {
    EntropySearch search(tensor, sample, range, options);
    const std::int32_t num_levels = search.run();
    if (search.is_unbounded()) {
      const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
      const double entropy = exact ? explicit_entropy(tensor, *exact, threads) : 0;
      if (exact && entropy <= options.bits + EntropySearch::kSlack) {
        SymbolCode code = choose_code(sample, *exact, Blocks(tensor.size), threads);
        code.entropy = entropy;
        return make_plan(request, *exact, code);
      }
    }
    const Levels levels = uniform_levels(range.x_min, range.x_max, num_levels);
    SymbolCode code = choose_code(sample, levels, Blocks(tensor.size), threads);
    code.entropy = search.entropy(num_levels);
    return make_plan(request, levels, code);
  }

  // 4. The bytes rule: exact where few different values fit the budget, otherwise as fine as fits.
  const std::optional<Levels> exact = distinct_values(tensor, sample, threads);
  if (exact) {
    const SymbolCode code = choose_code(sample, *exact, Blocks(tensor.size), threads);
    PayloadPlan plan = make_plan(request, *exact, code);
    const double charged_bits = 8.0 * static_cast<double>(charged_bytes(plan, tensor.size));
    if (charged_bits <= options.bits * static_cast<double>(tensor.size)) return plan;
  }
  return plan_finest(request, sample, range);
}

}  // namespace docofl
