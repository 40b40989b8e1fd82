// append_kv() on a GPU: checks what the host can see, fills in the kernel's parameters, launches.
#include "cuda/append.h"

#include "cache/append_check.h"
#include "cuda/device.h"
#include "cuda/device_args.h"
#include "cuda/kernel_params.h"
#include "kernels/any/append/append.h"

namespace mpfa::internal {
namespace {

void set_cache(const CacheTensors& cache, kernels::AppendParams& p) {
  set_pages(cache, p);
  p.v_out = bytes_of(cache.v);
  p.v_out_strides = strides_of(cache.v);
  p.num_kv_heads = static_cast<int32_t>(cache.num_kv_heads);
  p.group_size = cache.delta_s ? static_cast<int32_t>(cache.num_q_heads / cache.num_kv_heads) : 0;
  p.head_dim = cache.head_dim;
}

}  // namespace

void cuda_append_kv(const KvCacheView& cache, const DLTensor& k, const DLTensor& v,
                    const DLTensor& slot_mapping, const AppendParams& params, cudaStream_t stream) {
  DeviceArgs args(k, "k");
  const KvCacheView view = args.take(cache);
  AppendParams host_params = params;
  host_params.cu_seqlens = args.take(params.cu_seqlens, "cu_seqlens");
  const AppendArgs in =
      check_append(view, args.take(k, "k"), args.take(v, "v"),
                   args.take(slot_mapping, "slot_mapping"), host_params, Values::kOnDevice);
  MPFA_CHECK(in.num_tokens <= kernels::kMaxAppendTokens, "k has ", in.num_tokens,
             " tokens; at most ", kernels::kMaxAppendTokens, " can be appended at once on a GPU");
  kernels::AppendParams p;
  set_cache(in.cache, p);
  set_stats(in.cache.stats, p);
  p.sequences =
      sequence_table(Tensor<int32_t, 1>::from(host_params.cu_seqlens, "cu_seqlens", false),
                     in.cache.stats_index, in.cache.num_stats);
  p.k = in.k.data;
  p.k_token_stride = in.k.token_stride;
  p.k_head_stride = in.k.head_stride;
  p.v = in.v.data;
  p.v_token_stride = in.v.token_stride;
  p.v_head_stride = in.v.head_stride;
  p.slots = in.slots.at();
  p.slots_stride = in.slots.stride(0);
  p.num_tokens = in.num_tokens;
  p.type = input_type(in.type);
  p.scale_rule = params.scale_rule;
  p.error_count = args.error_counter(params.error_count);
  if (in.num_tokens == 0) return;
  static_cast<void>(device_info(args.device()));
  const DeviceGuard guard(args.device());
  check_cuda(kernels::launch_append(p, stream), "launch of the append kernel");
}

}  // namespace mpfa::internal
