// Prefill by the kernels for sm_90a: which calls they take, where the unpacked cache lies in the
// workspace, and the launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/any/prefill/params.h"
#include "mpfa/attention.h"

namespace mpfa::internal {

// KV heads are unpacked so many at a time that they take no more than this; one at least.
inline constexpr int64_t kUnpackedBytes = int64_t{512} << 20;
// Of one KV head, at most: where it may need more, the general kernel takes the call.
inline constexpr int64_t kUnpackedHeadBytes = int64_t{4} << 30;

// Whether these kernels take a plan's calls, except those with delta_s or without cu_seqlens_q:
// not on other GPUs, for other precisions or short queries, with too many keys for
// kUnpackedHeadBytes, or in a build without the kernels. Errors: CudaError.
bool is_for_sm90_prefill(const PlanParams& params);

// Workspace of such a plan's calls, beside what other kernels need.
int64_t sm90_prefill_workspace_bytes(const PlanParams& params);

// A call whose arguments have been checked.
struct Sm90PrefillCall {
  kernels::PrefillParams common;
  PlanParams plan;
  PlanParams limits;  // what the call itself needs at most, as far as the host sees it
  std::byte* workspace = nullptr;
  int64_t unpacked_bytes = kUnpackedBytes;  // a smaller bound, for tests
};

// Enqueues unpacking and attention, a few KV heads at a time. Errors: CudaError.
void enqueue_sm90_prefill(const Sm90PrefillCall& call, cudaStream_t stream);

}  // namespace mpfa::internal
