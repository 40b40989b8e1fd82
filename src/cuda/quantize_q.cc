// quantize_q() on a GPU: checks what the host can see, fills in the kernel's parameters, launches.
#include "cuda/quantize_q.h"

#include "cuda/device.h"
#include "cuda/device_args.h"
#include "cuda/kernel_params.h"
#include "kernels/any/quantize_q/quantize_q.h"
#include "quant/quantize_q_check.h"

namespace mpfa::internal {
namespace {

QuantizedQ take(DeviceArgs& args, const QuantizedQ& out) {
  QuantizedQ host;
  host.codes = args.take(out.codes, "codes");
  host.scales = args.take(out.scales, "scales");
  host.codes2 = args.take(out.codes2, "codes2");
  host.scales2 = args.take(out.scales2, "scales2");
  host.rowbias = args.take(out.rowbias, "rowbias");
  host.residual = args.take(out.residual, "residual");
  host.first_key = args.take(out.first_key, "first_key");
  return host;
}

QuantizeQParams take(DeviceArgs& args, const QuantizeQParams& params) {
  QuantizeQParams host = params;
  host.q_mean = args.take(params.q_mean, "q_mean");
  host.k_mean = args.take(params.k_mean, "k_mean");
  host.residual_basis = args.take(params.residual_basis, "residual_basis");
  host.k_first = args.take(params.k_first, "k_first");
  host.stats_index = args.take(params.stats_index, "stats_index");
  host.cu_seqlens_q = args.take(params.cu_seqlens_q, "cu_seqlens_q");
  return host;
}

void set_statistics(const QueryStatistics& stats, kernels::QuantizeQParams& p) {
  p.q_mean = stats.q_mean.at();
  p.k_mean = stats.k_mean.at();
  p.residual_basis = stats.residual_basis.at();
  p.k_first = bytes_of(stats.k_first);
  set_strides(p.q_mean_strides, stats.q_mean);
  set_strides(p.k_mean_strides, stats.k_mean);
  set_strides(p.residual_basis_strides, stats.residual_basis);
  set_byte_strides(p.k_first_strides, stats.k_first);
  if (stats.num_kv_heads > 0) p.num_kv_heads = static_cast<int32_t>(stats.num_kv_heads);
  if (stats.residual_basis) p.residual_rank = static_cast<int32_t>(stats.residual_basis.size(2));
}

void set_outputs(const QueryOutputs& out, kernels::QuantizeQParams& p) {
  p.codes = bytes_of(out.codes);
  p.scales = bytes_of(out.scales);
  p.codes2 = bytes_of(out.codes2);
  p.scales2 = bytes_of(out.scales2);
  p.rowbias = out.rowbias.at();
  p.residual = out.residual.at();
  p.first_key = out.first_key.at();
  set_byte_strides(p.codes_strides, out.codes);
  set_byte_strides(p.scales_strides, out.scales);
  set_byte_strides(p.codes2_strides, out.codes2);
  set_byte_strides(p.scales2_strides, out.scales2);
  set_strides(p.rowbias_strides, out.rowbias);
  set_strides(p.residual_strides, out.residual);
  set_strides(p.first_key_strides, out.first_key);
}

// Rows of statistics are picked only where there are some.
kernels::SequenceTable sequence_table(const QueryStatistics& stats) {
  const bool has_rows = stats.num_stats > 0;
  return sequence_table(stats.cu_seqlens_q, has_rows ? stats.stats_index : Tensor<int32_t, 1>{},
                        stats.num_stats);
}

}  // namespace

void cuda_quantize_q(const DLTensor& q, const QuantizedQ& out, const QuantizeQParams& params,
                     cudaStream_t stream) {
  DeviceArgs args(q, "q");
  const DLTensor& host_q = args.take(q, "q");
  const QuantizeQArgs in =
      check_quantize_q(host_q, take(args, out), take(args, params), Values::kOnDevice);
  MPFA_CHECK(in.q.heads <= INT32_MAX, "q has shape ", shape_string(q), ": at most ", INT32_MAX,
             " heads are taken on a GPU");
  kernels::QuantizeQParams p;
  set_statistics(in.stats, p);
  set_outputs(in.out, p);
  p.q = in.q.data;
  p.q_strides[0] = in.q.row_stride;
  p.q_strides[1] = in.q.head_stride;
  p.sequences = sequence_table(in.stats);
  p.num_tokens = in.q.rows;
  p.num_q_heads = static_cast<int32_t>(in.q.heads);
  p.head_dim = static_cast<int32_t>(in.head_dim);
  p.type = input_type(in.q.type);
  p.scale_rule = params.scale_rule;
  p.error_count = args.error_counter(params.error_count);
  if (in.q.rows == 0 || in.q.heads == 0 || in.stats.batch_size == 0) return;
  static_cast<void>(device_info(args.device()));
  const DeviceGuard guard(args.device());
  check_cuda(kernels::launch_quantize_q(p, stream), "launch of the kernel that quantises queries");
}

}  // namespace mpfa::internal
