// attention() on a GPU: checks what the host can see, fills in the kernels' parameters, launches.
#include "cuda/attention.h"

#include <algorithm>

#include "core/plan.h"
#include "core/stats_index.h"
#include "cuda/decode_plan.h"
#include "cuda/device.h"
#include "cuda/device_args.h"
#include "cuda/kernel_params.h"
#include "cuda/sm90_prefill.h"
#include "cuda/tensor_map.h"
#include "kernels/any/decode/schedule.h"
#include "kernels/any/prefill/prefill.h"
#include "kernels/sm90/prefill/prefill.h"

namespace mpfa::internal {
namespace {

using kernels::DecodeParams;
using kernels::ScheduleParams;

// Beyond this it no longer pays that what is read leaves the L2 cache first.
constexpr int64_t kLargeCacheBytes = 600'000'000;
constexpr size_t kWorkspaceAlignment = 256;

// ---- what the kernels ask of a cache beside what all back ends do -------------------------------

template <class T, int Rank>
void check_rows_aligned(const Tensor<T, Rank>& tensor, const char* name, int64_t alignment) {
  if (!tensor) return;
  MPFA_CHECK(reinterpret_cast<uintptr_t>(tensor.at()) % alignment == 0, name,
             " starts at an address that is ", reinterpret_cast<uintptr_t>(tensor.at()) % alignment,
             " modulo ", alignment, ": must be aligned to ", alignment, " bytes on a GPU");
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  for (int dim = 0; dim < Rank - 1; ++dim) {
    MPFA_CHECK(tensor.size(dim) <= 1 || tensor.stride(dim) * kSize % alignment == 0, name,
               " has stride ", tensor.stride(dim), " in dimension ", dim,
               ": must be a multiple of ", alignment / kSize, " elements on a GPU");
  }
}

void check_cache_for_gpu(const CacheTensors& cache) {
  check_rows_aligned(cache.k_codes, "k_codes", 16);
  check_rows_aligned(cache.v, "v", 16);
  check_rows_aligned(cache.k_scales, "k_scales", 4);
  check_rows_aligned(cache.k_residual, "k_residual", 4);
  check_rows_aligned(cache.delta_s, "delta_s", 4);
  MPFA_CHECK(cache.num_pages <= INT32_MAX, "k_codes has ", cache.num_pages,
             " pages: must be at most ", INT32_MAX, ", as pages are numbered in int32");
}

// Whether a page's tokens of a head lie one after the other, in pieces that the copy engine takes.
// delta_s has no dimension but tokens there.
template <class T, int Rank>
bool is_bulk(const Tensor<T, Rank>& tensor) {
  if (!tensor) return true;
  bool fits = reinterpret_cast<uintptr_t>(tensor.at()) % 16 == 0;
  if constexpr (Rank == 4) fits = fits && tensor.stride(2) == tensor.size(3);
  for (int dim = 0; dim < 2; ++dim) {
    fits = fits && (tensor.size(dim) <= 1 ||
                    tensor.stride(dim) * static_cast<int64_t>(sizeof(T)) % 16 == 0);
  }
  return fits;
}

bool takes_bulk_copies(const CacheTensors& cache, const DeviceInfo& info) {
  return info.compute_capability >= 90 && is_bulk(cache.k_codes) && is_bulk(cache.k_scales) &&
         is_bulk(cache.k_residual) && is_bulk(cache.delta_s) && fits_tensor_map(cache.v);
}

// ---- parameters ---------------------------------------------------------------------------------

void set_rows(const AttentionInputs& in, const ActivationTensor& out, const Tensor<float, 2>& lse,
              DecodeParams& p) {
  p.q = in.q.data;
  p.q_rows = static_cast<int32_t>(in.q.rows);
  p.q_row_stride = in.q.row_stride / 2;
  p.q_head_stride = in.q.head_stride / 2;
  p.out = out.data;
  p.out_row_stride = out.row_stride / 2;
  p.out_head_stride = out.head_stride / 2;
  p.is_bf16 = in.q.type == FloatType::kBf16 ? 1 : 0;
  if (lse) {
    p.lse = lse.at();
    p.lse_row_stride = lse.stride(0);
    p.lse_head_stride = lse.stride(1);
  }
  if (in.sinks) {
    p.sinks = in.sinks.at();
    p.sinks_stride = in.sinks.stride(0);
  }
}

DecodeParams decode_params(const AttentionInputs& in, const ActivationTensor& out,
                           const Tensor<float, 2>& lse, const DecodePlan& plan,
                           std::byte* workspace, int32_t* error_count) {
  DecodeParams p;
  set_pages(in.cache, p);
  p.v = bytes_of(in.cache.v);
  p.v_strides = strides_of(in.cache.v);
  set_stats(in.cache.stats, p);
  set_rows(in, out, lse, p);
  p.block_table = in.block_table.at();
  p.block_table_stride = in.block_table.stride(0);
  p.block_table_inner_stride = in.block_table.stride(1);
  p.workspace = workspace;
  p.layout = plan.layout;
  p.error_count = error_count;
  p.softmax_scale = in.softmax_scale;
  p.softcap = in.softcap;
  p.window_left = static_cast<int32_t>(std::min<int64_t>(in.window_left, INT32_MAX));
  p.causal = in.causal ? 1 : 0;
  p.group_size = static_cast<int32_t>(in.group_size);
  if (in.group_size > 1) {
    p.group_inverse =
        static_cast<uint32_t>(((uint64_t{1} << 32) + in.group_size - 1) / in.group_size);
  }
  return p;
}

// What schedule() and attention() tell the schedule kernel.
struct StepTensors {
  const CacheTensors& cache;
  Tensor<int32_t, 2> block_table;
  Tensor<int32_t, 1> seq_lens;
  Tensor<int32_t, 1> cu_seqlens_q;
};

ScheduleParams schedule_params(const StepTensors& step, int64_t total_seqlen_q, int64_t window_left,
                               const Plan& plan, const DecodePlan& decode, std::byte* workspace,
                               int32_t* error_count) {
  ScheduleParams p;
  p.workspace = workspace;
  p.layout = decode.layout;
  p.seq_lens = step.seq_lens.at();
  p.seq_lens_stride = step.seq_lens.stride(0);
  if (step.cu_seqlens_q) {
    p.cu_seqlens_q = step.cu_seqlens_q.at();
    p.cu_seqlens_q_stride = step.cu_seqlens_q.stride(0);
  }
  p.block_table = step.block_table.at();
  p.block_table_stride = step.block_table.stride(0);
  p.block_table_inner_stride = step.block_table.stride(1);
  if (step.cache.stats_index) {
    p.stats_index = step.cache.stats_index.at();
    p.stats_index_stride = step.cache.stats_index.stride(0);
  }
  p.error_count = error_count;
  p.batch_size = static_cast<int32_t>(step.seq_lens.size(0));
  // Without pages no length can be right.
  const int64_t max_pages = step.cache.num_pages == 0 ? 0 : step.block_table.size(1);
  p.max_pages = static_cast<int32_t>(std::min<int64_t>(max_pages, INT32_MAX / 128));
  p.page_size = static_cast<int32_t>(step.cache.page_size);
  p.num_kv_heads = static_cast<int32_t>(plan.params.num_kv_heads);
  p.num_stats = static_cast<int32_t>(step.cache.num_stats);
  p.group_size = static_cast<int32_t>(plan.params.num_q_heads / plan.params.num_kv_heads);
  p.total_seqlen_q = static_cast<int32_t>(total_seqlen_q);
  p.max_seqlen_q = static_cast<int32_t>(max_rows(plan.params));
  p.max_seqlen_k = static_cast<int32_t>(plan.params.max_seqlen_k);
  p.window_left = static_cast<int32_t>(std::min<int64_t>(window_left, INT32_MAX));
  p.rows_per_tile = 8 * decode.row_tiles;
  p.split_tiles = decode.split_tiles;
  return p;
}

void check_plan_device(const Plan& plan, int device, const char* name) {
  MPFA_CHECK(plan.params.device.device_type == kDLCUDA && plan.params.device.device_id == device,
             "plan.params.device is type ", static_cast<int>(plan.params.device.device_type),
             ", number ", plan.params.device.device_id, ": must be type 2 (CUDA), number ", device,
             ", as that of ", name);
}

// The largest cache that a plan's calls may read.
bool is_large_step(const PlanParams& p, const CacheTensors& cache) {
  const int64_t token_bytes =
      cache.num_kv_heads * (cache.head_dim / 2 + cache.head_dim / 16 + cache.head_dim);
  return p.batch_size * p.max_seqlen_k > kLargeCacheBytes / token_bytes;
}

// What attention() checks of q as well.
void check_step(const StepTensors& step, const Plan& plan) {
  const PlanParams& p = plan.params;
  const int64_t batch_size = step.seq_lens.size(0);
  MPFA_CHECK(batch_size <= p.batch_size, "seq_lens has ", batch_size,
             " elements: exceeds plan.params.batch_size = ", p.batch_size);
  MPFA_CHECK(step.block_table.size(0) == batch_size, "block_table has ", step.block_table.size(0),
             " rows: must have one per sequence of seq_lens, ", batch_size);
  MPFA_CHECK(!step.cu_seqlens_q || step.cu_seqlens_q.size(0) == batch_size + 1, "cu_seqlens_q has ",
             step.cu_seqlens_q.size(0), " elements: must have one more than sequences, ",
             batch_size + 1);
  MPFA_CHECK(step.cache.num_kv_heads == p.num_kv_heads && step.cache.head_dim == p.head_dim,
             "the cache has ", step.cache.num_kv_heads, " KV heads and head_dim ",
             step.cache.head_dim, ": the plan was made for ", p.num_kv_heads, " and ", p.head_dim);
  check_stats_index(step.cache.stats_index, batch_size, 0);
}

// ---- launches -----------------------------------------------------------------------------------

// What a call's launches have in common.
struct CheckedCall {
  const AttentionInputs& in;
  const ActivationTensor& out;
  const Tensor<float, 2>& lse;
  const Plan& plan;
  std::byte* workspace;
  int32_t* error_count;
  const DeviceInfo& info;
  bool is_scheduled;
  int64_t unpacked_bytes;
};

ScheduleParams schedule_params(const CheckedCall& call, const DecodePlan& decode) {
  const StepTensors step{call.in.cache, call.in.block_table, call.in.seq_lens,
                         call.in.cu_seqlens_q};
  return schedule_params(step, call.in.q.rows, call.in.window_left, call.plan, decode,
                         call.workspace, call.error_count);
}

// Whether the kernel for long queries takes a call.
bool is_prefill(const Plan& plan, const CacheTensors& cache,
                const Tensor<int32_t, 1>& cu_seqlens_q) {
  return cu_seqlens_q && is_for_prefill(plan.params, static_cast<bool>(cache.delta_s));
}

// Whether rows can be moved 16 bytes at a time.
bool has_pieces(const ActivationTensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0 && tensor.row_stride % 16 == 0 &&
         tensor.head_stride % 16 == 0;
}

// What the call itself needs at most, as far as the host sees it.
PlanParams limits_of(const CheckedCall& call) {
  PlanParams limits = call.plan.params;
  limits.total_seqlen_q = call.in.q.rows;
  limits.batch_size = call.in.batch_size;
  const int64_t pages = call.in.block_table.size(1);
  const int64_t page_size = call.in.cache.page_size;
  if (pages < limits.max_seqlen_k / page_size) limits.max_seqlen_k = pages * page_size;
  return limits;
}

void enqueue_prefill(const CheckedCall& call, cudaStream_t stream) {
  const AttentionInputs& in = call.in;
  const PlanParams limits = limits_of(call);
  kernels::PrefillParams p;
  p.attention = decode_params(in, call.out, call.lse, {}, nullptr, call.error_count);
  p.step = schedule_params(call, {});
  p.num_row_tiles = static_cast<int32_t>(max_row_tiles(limits, kernels::kPrefillRows));
  p.q_has_pieces = has_pieces(in.q) ? 1 : 0;
  p.out_has_pieces = has_pieces(call.out) ? 1 : 0;
  if (!in.cache.delta_s && is_for_sm90_prefill(call.plan.params)) {
    static_assert(kernels::sm90::kPrefillRows == kernels::kPrefillRows);
    std::byte* const workspace =
        call.workspace + prefill_workspace_begin(make_decode_plan(call.plan.params));
    enqueue_sm90_prefill({p, call.plan.params, limits, workspace, call.unpacked_bytes}, stream);
    return;
  }
  const kernels::PrefillLaunch launch{in.cache.head_dim, in.cache.delta_s || in.softcap > 0};
  check_cuda(kernels::launch_prefill(launch, p, stream), "launch of the prefill kernel");
}

void enqueue_decode(const CheckedCall& call, cudaStream_t stream) {
  const AttentionInputs& in = call.in;
  const DecodePlan decode = make_decode_plan(call.plan.params);
  if (!call.is_scheduled) {
    check_cuda(kernels::launch_schedule(schedule_params(call, decode), stream),
               "launch of the schedule kernel");
  }
  DecodeParams p = decode_params(in, call.out, call.lse, decode, call.workspace, call.error_count);
  // docs/perf/decode-h200.md, "What was tried".
  p.evict_first = is_large_step(call.plan.params, in.cache) ? 0 : 1;
  kernels::DecodeLaunch launch;
  launch.head_dim = in.cache.head_dim;
  launch.row_tiles = decode.row_tiles;
  if (takes_bulk_copies(in.cache, call.info)) {
    const bool has_extra = in.cache.delta_s || in.softcap > 0;
    launch.variant = has_extra ? kernels::Variant::kBulkExtra : kernels::Variant::kBulk;
    const auto tokens = std::min<int64_t>(in.cache.page_size, kernels::kTileTokens);
    encode_tensor_map(in.cache.v, static_cast<int>(tokens), p.v_map);
  }
  launch.warps = choose_warps(launch, in.cache.residual_rank, static_cast<bool>(in.cache.delta_s),
                              call.info.shared_bytes);
  check_cuda(kernels::launch_decode(launch, p, stream), "launch of the decode kernel");
}

}  // namespace

void cuda_schedule(const KvCacheView& cache, const DLTensor& block_table, const DLTensor& seq_lens,
                   const DLTensor* cu_seqlens_q, const AttentionParams& params, const Plan& plan,
                   const DLTensor& workspace, cudaStream_t stream) {
  DeviceArgs args(seq_lens, "seq_lens");
  check_plan_device(plan, args.device(), "seq_lens");
  const DeviceGuard guard(args.device());
  check_plan(plan);
  const CacheTensors tensors = check_cache(args.take(cache), Values::kOnDevice);
  check_cache_for_gpu(tensors);
  const StepTensors step{
      tensors,
      Tensor<int32_t, 2>::from(args.take(block_table, "block_table"), "block_table", false),
      Tensor<int32_t, 1>::from(args.take(seq_lens, "seq_lens"), "seq_lens", false),
      Tensor<int32_t, 1>::from(args.take(cu_seqlens_q, "cu_seqlens_q"), "cu_seqlens_q", false)};
  check_step(step, plan);
  std::byte* const space =
      check_workspace(args.take(&workspace, "workspace"), plan, kWorkspaceAlignment);
  if (is_prefill(plan, tensors, step.cu_seqlens_q)) return;  // whose kernel finds its own work
  const ScheduleParams p =
      schedule_params(step, plan.params.total_seqlen_q, params.window_left, plan,
                      make_decode_plan(plan.params), space, args.error_counter(params.error_count));
  check_cuda(kernels::launch_schedule(p, stream), "launch of the schedule kernel");
}

void cuda_attention(const AttentionCall& call, const AttentionParams& params, const Plan& plan,
                    cudaStream_t stream, int64_t unpacked_bytes) {
  DeviceArgs args(call.q, "q");
  check_plan_device(plan, args.device(), "q");
  const KvCacheView cache = args.take(call.cache);
  const AttentionCall host{args.take(call.out, "out"),
                           args.take(call.lse, "lse"),
                           args.take(call.q, "q"),
                           cache,
                           args.take(call.block_table, "block_table"),
                           args.take(call.seq_lens, "seq_lens"),
                           args.take(call.cu_seqlens_q, "cu_seqlens_q"),
                           args.take(call.workspace, "workspace")};
  const DeviceInfo& info = device_info(args.device());
  const DeviceGuard guard(args.device());
  AttentionParams host_params = params;
  host_params.sinks = args.take(params.sinks, "sinks");
  const AttentionInputs in =
      check_attention_inputs(host.q, cache, host.block_table, host.seq_lens, host.cu_seqlens_q,
                             host_params, Values::kOnDevice);
  MPFA_CHECK(in.q.type != FloatType::kFp32, "q has type float32: must be bfloat16 or float16 on a ",
             "GPU");
  check_cache_for_gpu(in.cache);
  const ActivationTensor out = check_attention_output(host.out, host.q);
  const Tensor<float, 2> lse = check_lse(host.lse, "lse", in.q.rows, in.q.heads);
  check_fits_plan(in, plan);
  std::byte* const workspace = check_workspace(host.workspace, plan, kWorkspaceAlignment);
  check_memory(host, host_params.sinks, true);
  int32_t* const error_count = args.error_counter(params.error_count);
  if (in.q.rows == 0 || in.batch_size == 0) return;

  const CheckedCall checked{
      in, out, lse, plan, workspace, error_count, info, params.is_scheduled, unpacked_bytes};
  if (is_prefill(plan, in.cache, in.cu_seqlens_q)) {
    enqueue_prefill(checked, stream);
  } else {
    enqueue_decode(checked, stream);
  }
}

void cuda_attention(const AttentionCall& call, const AttentionParams& params, const Plan& plan,
                    cudaStream_t stream) {
  cuda_attention(call, params, plan, stream, kUnpackedBytes);
}

}  // namespace mpfa::internal
