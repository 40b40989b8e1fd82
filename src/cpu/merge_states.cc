// merge_states() on the CPU.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/merge_args.h"
#include "core/parallel.h"
#include "cpu/attention.h"

namespace mpfa::internal {
namespace {

float load_float(const std::byte* p, FloatType type, int64_t i) {
  return visit_float_type(type, [&](auto value) {
    std::memcpy(&value, p + i * static_cast<int64_t>(sizeof(value)), sizeof(value));
    return to_float(value);
  });
}

void store_float(std::byte* p, FloatType type, int64_t i, float x) {
  visit_float_type(type, [&](auto value) {
    value = from_float<decltype(value)>(x);
    std::memcpy(p + i * static_cast<int64_t>(sizeof(value)), &value, sizeof(value));
  });
}

// One row and head. All inputs are read before anything is written, so out and lse may be one of
// the parts.
void merge_row_states(const std::vector<AttentionState>& states, const AttentionState& result,
                      int64_t row, int64_t head, int64_t d) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  double maximum = kHidden;
  for (const AttentionState& s : states) maximum = std::fmax(maximum, *s.lse.at(row, head));
  std::vector<double> merged(d, 0.0);
  double sum = 0.0;
  for (const AttentionState& s : states) {
    const double lse = *s.lse.at(row, head);
    if (lse == kHidden) continue;  // its output counts for nothing, whatever it holds
    const double weight = lse == maximum ? 1.0 : std::exp(lse - maximum);
    if (weight == 0.0) continue;  // and neither may an infinite output that far below the others
    sum += weight;
    const std::byte* out = s.out.at(row, head);
    for (int64_t i = 0; i < d; ++i) merged[i] += weight * load_float(out, s.out.type, i);
  }
  const double factor = sum == 0.0 ? 0.0 : 1.0 / sum;
  std::byte* out = result.out.at(row, head);
  for (int64_t i = 0; i < d; ++i) {
    store_float(out, result.out.type, i, static_cast<float>(merged[i] * factor));
  }
  if (result.lse) {
    *result.lse.at(row, head) = static_cast<float>(sum == 0.0 ? kHidden : maximum + std::log(sum));
  }
}

}  // namespace

void cpu_merge_states(const DLTensor& out, const DLTensor* lse,
                      std::span<const DLTensor* const> outs,
                      std::span<const DLTensor* const> lses) {
  const MergeInputs in = check_merge_inputs(out, lse, outs, lses);
  constexpr int64_t kGrain = 16;  // rows a task
  parallel_for_ranges(in.result.out.rows, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t h = 0; h < in.result.out.heads; ++h) {
        merge_row_states(in.parts, in.result, row, h, in.head_dim);
      }
    }
  });
}

}  // namespace mpfa::internal
