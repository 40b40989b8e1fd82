// The arguments of quantize_q(), checked once and turned into typed tensors; shared by all back
// ends.
#pragma once

#include "core/attention_args.h"
#include "mpfa/quant.h"

namespace mpfa::internal {

// What the function reads beside q, and the sizes that they must agree on. 0: not known (yet).
struct QueryStatistics {
  Tensor<float, 3> q_mean;
  Tensor<float, 3> k_mean;
  Tensor<float, 4> residual_basis;
  Tensor<Bf16, 3> k_first;
  Tensor<int32_t, 1> stats_index;
  Tensor<int32_t, 1> cu_seqlens_q;
  int64_t batch_size = 1;
  int64_t num_kv_heads = 0;
  int64_t num_stats = 0;
};

struct QueryOutputs {
  Tensor<uint8_t, 3> codes, codes2;
  Tensor<E4m3, 3> scales, scales2;
  Tensor<float, 2> rowbias, first_key;
  Tensor<float, 3> residual;
};

struct QuantizeQArgs {
  ActivationTensor q;  // [tokens, Hq, d]
  int64_t head_dim = 0;
  QueryStatistics stats;
  QueryOutputs out;
};

// Throws InvalidArgument naming what does not fit, overlaps included.
QuantizeQArgs check_quantize_q(const DLTensor& q, const QuantizedQ& out,
                               const QuantizeQParams& params, Values values = Values::kKnown);

}  // namespace mpfa::internal
