#include "core/attention_args.h"

#include <algorithm>
#include <cmath>

#include "core/block_table.h"
#include "core/stats_index.h"

namespace mpfa::internal {
namespace {

void check_params(const AttentionParams& params) {
  if (params.softmax_scale) {
    const float scale = *params.softmax_scale;
    MPFA_CHECK(std::isfinite(scale) && scale > 0, "softmax_scale = ", scale,
               ": must be finite and above 0");
  }
  MPFA_CHECK(params.window_left >= -1, "window_left = ", params.window_left,
             ": must be -1 (no window) or at least 0");
  MPFA_CHECK(std::isfinite(params.softcap) && params.softcap >= 0, "softcap = ", params.softcap,
             ": must be finite, 0 (none) or above");
}

void check_heads(const DLTensor& q, AttentionInputs& in) {
  const int64_t num_kv_heads = in.cache.num_kv_heads;
  MPFA_CHECK(in.q.heads >= 1 && in.q.heads % num_kv_heads == 0, "q has shape ", shape_string(q),
             ": its heads (dimension 1) must be a multiple of the cache's ", num_kv_heads,
             " KV heads");
  check_size(q, "q", 2, in.cache.head_dim, "the cache's head_dim");
  MPFA_CHECK(in.cache.num_q_heads == 0 || in.cache.num_q_heads == in.q.heads, "q has shape ",
             shape_string(q), ": its heads must be the ", in.cache.num_q_heads,
             " that q_mean and delta_s were made for");
  in.group_size = in.q.heads / num_kv_heads;
}

void check_sinks(const DLTensor* sinks, Values values, AttentionInputs& in) {
  if (sinks == nullptr) return;
  in.sinks = Tensor<float, 1>::from(sinks, "sinks", false);
  check_size(*sinks, "sinks", 0, in.q.heads, "one per query head");
  if (values == Values::kOnDevice) return;
  for (int64_t h = 0; h < in.q.heads; ++h) {
    const float value = *in.sinks.at(h);
    MPFA_CHECK(!std::isnan(value) && value < INFINITY, "sinks[", h, "] = ", value,
               ": must be finite or -inf");
  }
}

void check_sequences(const DLTensor& block_table, const DLTensor& seq_lens, Values values,
                     AttentionInputs& in) {
  in.block_table = Tensor<int32_t, 2>::from(block_table, "block_table", false);
  in.seq_lens = Tensor<int32_t, 1>::from(seq_lens, "seq_lens", false);
  in.batch_size = in.seq_lens.size(0);
  check_size(block_table, "block_table", 0, in.batch_size, "one row per sequence of seq_lens");
  if (values == Values::kKnown) check_block_table(in.cache, in.block_table, in.seq_lens);
}

void check_rows(const DLTensor& q, const DLTensor* cu_seqlens_q, Values values,
                AttentionInputs& in) {
  if (cu_seqlens_q == nullptr) {
    check_size(q, "q", 0, in.batch_size, "one row per sequence, as cu_seqlens_q is not given");
    return;
  }
  in.cu_seqlens_q = Tensor<int32_t, 1>::from(cu_seqlens_q, "cu_seqlens_q", false);
  check_size(*cu_seqlens_q, "cu_seqlens_q", 0, in.batch_size + 1,
             "one element more than sequences");
  if (values == Values::kKnown) check_cu_seqlens(in.cu_seqlens_q, "cu_seqlens_q", in.q.rows);
}

}  // namespace

ActivationTensor ActivationTensor::from(const DLTensor& tensor, std::string_view name) {
  check_layout(tensor, name, 3, true);
  ActivationTensor result;
  result.type = float_type(tensor, name);
  const auto element = static_cast<int64_t>(float_type_size(result.type));
  check_alignment(tensor, name, float_type_size(result.type));
  result.data = data_of(tensor);
  result.rows = tensor.shape[0];
  result.heads = tensor.shape[1];
  result.row_stride = stride_of(tensor, 0) * element;
  result.head_stride = stride_of(tensor, 1) * element;
  return result;
}

KeyRange AttentionInputs::visible_keys(int64_t b, int64_t i) const {
  const int64_t length = seqlen_k(b);
  const int64_t diagonal = i + length - seqlen_q(b);
  KeyRange range{0, length};
  if (causal) range.end = std::min(length, diagonal + 1);
  // Written so that a huge window_left cannot overflow.
  if (window_left >= 0 && window_left < diagonal) range.begin = diagonal - window_left;
  return range;
}

AttentionInputs check_attention_inputs(const DLTensor& q, const KvCacheView& cache,
                                       const DLTensor& block_table, const DLTensor& seq_lens,
                                       const DLTensor* cu_seqlens_q, const AttentionParams& params,
                                       Values values) {
  check_params(params);
  AttentionInputs in;
  in.q = ActivationTensor::from(q, "q");
  in.cache = check_cache(cache, values);
  check_heads(q, in);
  check_sequences(block_table, seq_lens, values, in);
  check_rows(q, cu_seqlens_q, values, in);
  check_stats_index(in.cache.stats_index, in.batch_size,
                    values == Values::kKnown ? in.cache.num_stats : 0);
  check_sinks(params.sinks, values, in);
  in.softmax_scale =
      params.softmax_scale.value_or(1.0f / std::sqrt(static_cast<float>(in.cache.head_dim)));
  in.causal = params.causal;
  in.window_left = params.window_left;
  in.softcap = params.softcap;
  return in;
}

ActivationTensor check_attention_output(const DLTensor& out, const DLTensor& q) {
  const ActivationTensor result = ActivationTensor::from(out, "out");
  MPFA_CHECK(result.type == float_type(q, "q"), "out has type ", dtype_string(out.dtype),
             ": must be that of q, ", dtype_string(q.dtype));
  for (int i = 0; i < 3; ++i) check_size(out, "out", i, q.shape[i], "as q has");
  return result;
}

Tensor<float, 2> check_lse(const DLTensor* lse, std::string_view name, int64_t rows,
                           int64_t heads) {
  if (lse == nullptr) return {};
  const auto result = Tensor<float, 2>::from(*lse, name, false);
  check_size(*lse, name, 0, rows, "rows of q");
  check_size(*lse, name, 1, heads, "query heads");
  return result;
}

}  // namespace mpfa::internal
