#include "core/merge_args.h"

#include <string>

#include "core/overlap.h"

namespace mpfa::internal {
namespace {

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

}  // namespace

MergeInputs check_merge_inputs(const DLTensor& out, const DLTensor* lse,
                               std::span<const DLTensor* const> outs,
                               std::span<const DLTensor* const> lses) {
  MPFA_CHECK(!outs.empty(), "outs is empty: needs at least one state");
  MPFA_CHECK(outs.size() == lses.size(), "outs has ", outs.size(), " states and lses ", lses.size(),
             ": must be equal");
  MergeInputs in;
  in.result.out = ActivationTensor::from(out, "out");
  in.result.lse = check_lse(lse, "lse", in.result.out.rows, in.result.out.heads);
  in.head_dim = out.shape[2];
  for (size_t i = 0; i < outs.size(); ++i) {
    const std::string name = str_cat("outs[", i, "]");
    const std::string lse_name = str_cat("lses[", i, "]");
    MPFA_CHECK(outs[i] != nullptr, name, " is null");
    MPFA_CHECK(lses[i] != nullptr, lse_name, " is null");
    const ActivationTensor part = ActivationTensor::from(*outs[i], name);
    for (int dim = 0; dim < 3; ++dim) check_size(*outs[i], name, dim, out.shape[dim], "as out has");
    in.parts.push_back({part, check_lse(lses[i], lse_name, out.shape[0], out.shape[1])});
  }
  check_memory(out, lse, outs, lses);
  return in;
}

}  // namespace mpfa::internal
