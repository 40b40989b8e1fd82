// merge_states() on a GPU: checks, fills in the kernel's parameters, launches.
#include "cuda/merge_states.h"

#include <string>

#include "core/merge_args.h"
#include "cuda/device.h"
#include "cuda/device_args.h"
#include "cuda/kernel_params.h"
#include "kernels/any/merge_states/merge_states.h"

namespace mpfa::internal {
namespace {

std::vector<const DLTensor*> take_all(DeviceArgs& args, std::span<const DLTensor* const> tensors,
                                      const char* name) {
  std::vector<const DLTensor*> views;
  for (size_t i = 0; i < tensors.size(); ++i) {
    views.push_back(args.take(tensors[i], str_cat(name, "[", i, "]")));
  }
  return views;
}

kernels::MergeState state_of(const AttentionState& state) {
  kernels::MergeState s;
  s.out = state.out.data;
  s.out_strides[0] = state.out.row_stride;
  s.out_strides[1] = state.out.head_stride;
  s.type = input_type(state.out.type);
  s.lse = state.lse.at();
  set_strides(s.lse_strides, state.lse);
  return s;
}

}  // namespace

void cuda_merge_states(const DLTensor& out, const DLTensor* lse,
                       std::span<const DLTensor* const> outs, std::span<const DLTensor* const> lses,
                       cudaStream_t stream) {
  DeviceArgs args(out, "out");
  const DLTensor& host_out = args.take(out, "out");
  const DLTensor* host_lse = args.take(lse, "lse");
  const std::vector<const DLTensor*> host_outs = take_all(args, outs, "outs");
  const std::vector<const DLTensor*> host_lses = take_all(args, lses, "lses");
  const MergeInputs in = check_merge_inputs(host_out, host_lse, host_outs, host_lses);
  MPFA_CHECK(in.parts.size() <= kernels::kMaxMergeParts, "outs has ", in.parts.size(),
             " states: at most ", kernels::kMaxMergeParts, " can be merged at once on a GPU");
  const int64_t rows = in.result.out.rows;
  const int64_t heads = in.result.out.heads;
  if (rows == 0 || heads == 0) return;
  MPFA_CHECK(rows <= kernels::kMaxMergeRows / heads && in.head_dim <= kernels::kMaxMergeDim,
             "out has shape ", shape_string(out), ": at most ", kernels::kMaxMergeRows,
             " rows times heads can be merged at once on a GPU, and head_dim must be at most ",
             kernels::kMaxMergeDim);
  kernels::MergeParams p;
  p.result = state_of(in.result);
  p.rows = static_cast<int32_t>(rows);
  p.heads = static_cast<int32_t>(heads);
  p.head_dim = static_cast<int32_t>(in.head_dim);
  std::vector<kernels::MergeState> parts;
  parts.reserve(in.parts.size());
  for (const AttentionState& part : in.parts) parts.push_back(state_of(part));
  static_cast<void>(device_info(args.device()));
  const DeviceGuard guard(args.device());
  check_cuda(kernels::launch_merge_states(p, parts, stream), "launch of the kernel that merges");
}

}  // namespace mpfa::internal
