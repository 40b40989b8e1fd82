// merge_states() on the CPU.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/attention_args.h"
#include "core/parallel.h"
#include "mpfa/attention.h"

namespace mpfa {
namespace internal {
namespace {

struct State {
  ActivationTensor out;
  Tensor<float, 2> lse;
};

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

// Whether a and b are views of the same elements in the same order.
bool same_view(const DLTensor& a, const DLTensor& b) {
  bool same = data_of(a) == data_of(b) && a.ndim == b.ndim && a.dtype.code == b.dtype.code &&
              a.dtype.bits == b.dtype.bits;
  for (int i = 0; same && i < a.ndim; ++i) {
    same = a.shape[i] == b.shape[i] && (a.shape[i] <= 1 || stride_of(a, i) == stride_of(b, i));
  }
  return same;
}

// The parts' memory may be that of the output only as a whole: then a row is overwritten by nobody
// but the thread that has read it.
void check_memory(const DLTensor& out, const DLTensor* lse, std::span<const DLTensor* const> outs,
                  std::span<const DLTensor* const> lses) {
  std::vector<std::string> names;  // those of the inputs, which only point to them
  names.reserve(outs.size() + lses.size());
  std::vector<NamedTensor> out_inputs;
  std::vector<NamedTensor> lse_inputs;
  for (size_t i = 0; i < outs.size(); ++i) {
    const NamedTensor part{outs[i], names.emplace_back(str_cat("outs[", i, "]"))};
    const NamedTensor part_lse{lses[i], names.emplace_back(str_cat("lses[", i, "]"))};
    if (!same_view(out, *outs[i])) out_inputs.push_back(part);
    out_inputs.push_back(part_lse);
    lse_inputs.push_back(part);
    if (lse != nullptr && !same_view(*lse, *lses[i])) lse_inputs.push_back(part_lse);
  }
  lse_inputs.push_back({&out, "out"});
  const NamedTensor written_out{&out, "out"};
  const NamedTensor written_lse{lse, "lse"};
  check_written({&written_out, 1}, out_inputs);
  check_written({&written_lse, 1}, lse_inputs);
}

// One row and head. All inputs are read before anything is written, so out and lse may be one of
// the parts.
void merge_row_states(const std::vector<State>& states, const State& result, int64_t row,
                      int64_t head, int64_t d) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  double maximum = kHidden;
  for (const State& s : states) maximum = std::fmax(maximum, *s.lse.at(row, head));
  std::vector<double> merged(d, 0.0);
  double sum = 0.0;
  for (const State& s : states) {
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
}  // namespace internal

void merge_states(const DLTensor& out, const DLTensor* lse, std::span<const DLTensor* const> outs,
                  std::span<const DLTensor* const> lses, cudaStream_t /*stream*/) {
  using namespace internal;  // NOLINT(google-build-using-namespace)
  MPFA_CHECK(!outs.empty(), "outs is empty: needs at least one state");
  MPFA_CHECK(outs.size() == lses.size(), "outs has ", outs.size(), " states and lses ", lses.size(),
             ": must be equal");
  const ActivationTensor merged = ActivationTensor::from(out, "out");
  const State result{merged, check_lse(lse, "lse", merged.rows, merged.heads)};
  std::vector<State> states;
  for (size_t i = 0; i < outs.size(); ++i) {
    const std::string name = "outs[" + std::to_string(i) + "]";
    const std::string lse_name = "lses[" + std::to_string(i) + "]";
    MPFA_CHECK(outs[i] != nullptr, name, " is null");
    MPFA_CHECK(lses[i] != nullptr, lse_name, " is null");
    const ActivationTensor part = ActivationTensor::from(*outs[i], name);
    for (int dim = 0; dim < 3; ++dim) check_size(*outs[i], name, dim, out.shape[dim], "as out has");
    states.push_back({part, check_lse(lses[i], lse_name, out.shape[0], out.shape[1])});
  }
  check_memory(out, lse, outs, lses);
  const int64_t heads = result.out.heads;
  constexpr int64_t kGrain = 16;  // rows a task
  parallel_for_ranges(result.out.rows, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t h = 0; h < heads; ++h) merge_row_states(states, result, row, h, out.shape[2]);
    }
  });
}

}  // namespace mpfa
