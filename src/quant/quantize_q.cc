// quantize_q: the tensors' device picks the back end. On the CPU: checks, then one parallel pass
// over tokens.
#include "cuda/quantize_q.h"

#include <algorithm>

#include "core/parallel.h"
#include "mpfa/quant.h"
#include "quant/quantize_q_check.h"
#include "quant/row_math.h"

namespace mpfa {
namespace {

using internal::QueryOutputs;
using internal::QueryStatistics;
using internal::Tensor;

// Writes NVFP4(x) and leaves in x what it lost, the input of a second term.
void quantize_row(float* x, int64_t d, ScaleRule rule, uint8_t* codes, E4m3* scales) {
  for (int64_t b = 0; b < d / kNvfp4BlockSize; ++b) {
    float values[kNvfp4BlockSize];
    std::copy_n(x + b * kNvfp4BlockSize, kNvfp4BlockSize, values);
    const Nvfp4Block block = nvfp4_quantize(values, rule);
    std::copy_n(block.codes, kNvfp4BlockSize / 2, codes + b * kNvfp4BlockSize / 2);
    scales[b] = {block.scale};
    for (int i = 0; i < kNvfp4BlockSize; ++i) {
      x[b * kNvfp4BlockSize + i] = values[i] - nvfp4_value(block.scale, nvfp4_code(block, i));
    }
  }
}

// Where a row of q stands.
struct Place {
  int64_t sequence = 0;
  int64_t token = 0;
  int64_t head = 0;
};

// Everything that is a dot product. q: the row in FP32; x: the same without its mean.
void write_dots(const float* q, const float* x, int64_t d, const QueryStatistics& s,
                const QueryOutputs& out, const Place& at, int64_t row) {
  // Every output here has a source with KV heads, so their number is known.
  const int64_t kv_head = at.head / (out.codes.size(1) / s.num_kv_heads);
  if (out.rowbias) {
    *out.rowbias.at(at.token, at.head) = internal::dot_by_halves(q, s.k_mean.at(row, kv_head), d);
  }
  if (out.residual) {
    for (int64_t j = 0; j < out.residual.size(2); ++j) {
      out.residual.at(at.token, at.head)[j] =
          internal::dot_by_halves(s.residual_basis.at(row, kv_head, j), x, d);
    }
  }
  if (out.first_key) {
    float first[internal::kMaxRowSize];
    internal::load_row(s.k_first.at(at.sequence, kv_head), d, first);
    *out.first_key.at(at.token, at.head) = internal::dot_by_halves(x, first, d);
  }
}

// q: the row in FP32.
void quantize_head(const float* q, int64_t d, const QueryStatistics& s, const QueryOutputs& out,
                   ScaleRule rule, const Place& at) {
  const int64_t row = s.stats_index ? *s.stats_index.at(at.sequence) : 0;
  float x[internal::kMaxRowSize];
  std::copy_n(q, d, x);
  if (s.q_mean) {
    const float* mean = s.q_mean.at(row, at.head);
    for (int64_t i = 0; i < d; ++i) x[i] = q[i] - mean[i];
  }
  if (out.rowbias || out.residual || out.first_key) write_dots(q, x, d, s, out, at, row);
  quantize_row(x, d, rule, out.codes.at(at.token, at.head), out.scales.at(at.token, at.head));
  if (out.codes2) {
    quantize_row(x, d, rule, out.codes2.at(at.token, at.head), out.scales2.at(at.token, at.head));
  }
}

template <typename T>
void quantize_sequence(const Tensor<T, 3>& q, const QueryStatistics& s, const QueryOutputs& out,
                       ScaleRule rule, int64_t sequence, int64_t begin, int64_t end) {
  const int64_t d = q.size(2);
  constexpr int64_t kGrain = 8;  // tokens a task
  internal::parallel_for_ranges(end - begin, kGrain, [&](int64_t first, int64_t last) {
    float row[internal::kMaxRowSize];
    for (int64_t t = begin + first; t < begin + last; ++t) {
      for (int64_t h = 0; h < q.size(1); ++h) {
        internal::load_row(q.at(t, h), d, row);
        quantize_head(row, d, s, out, rule, {sequence, t, h});
      }
    }
  });
}

}  // namespace

void quantize_q(const DLTensor& q, const QuantizedQ& out, const QuantizeQParams& params,
                cudaStream_t stream) {
  if (q.device.device_type == kDLCUDA) {
    internal::cuda_quantize_q(q, out, params, stream);
    return;
  }
  const internal::QuantizeQArgs args = internal::check_quantize_q(q, out, params);
  internal::visit_float_tensor<3>(q, "q", [&](const auto& queries) {
    internal::parallel_for(args.stats.batch_size, [&](int64_t sequence) {
      const auto& cu = args.stats.cu_seqlens_q;
      const int64_t begin = cu ? *cu.at(sequence) : 0;
      const int64_t end = cu ? *cu.at(sequence + 1) : queries.size(0);
      quantize_sequence(queries, args.stats, args.out, params.scale_rule, sequence, begin, end);
    });
  });
}

}  // namespace mpfa
