#include <algorithm>
#include <bit>
#include <string_view>

#include "core/overlap.h"
#include "core/parallel.h"
#include "core/stats_index.h"
#include "core/tensor.h"
#include "core/value_checks.h"
#include "mpfa/quant.h"
#include "quant/row_math.h"

namespace mpfa {
namespace {

using internal::Tensor;

// What the function reads beside q, and the sizes that they must agree on. 0: not known (yet).
struct Statistics {
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

struct Outputs {
  Tensor<uint8_t, 3> codes, codes2;
  Tensor<E4m3, 3> scales, scales2;
  Tensor<float, 2> rowbias, first_key;
  Tensor<float, 3> residual;
};

void check_q(const DLTensor& q) {
  internal::float_type(q, "q");
  internal::check_layout(q, "q", 3, true);
  MPFA_CHECK(q.shape[2] >= kNvfp4BlockSize && q.shape[2] <= internal::kMaxRowSize &&
                 q.shape[2] % kNvfp4BlockSize == 0,
             "q has shape ", internal::shape_string(q),
             ": its last dimension, head_dim, must be a multiple of 16 from 16 to ",
             internal::kMaxRowSize);
}

// A statistics tensor [stats, heads, ...]: its rows must be as many as the others have.
void check_rows(const DLTensor& tensor, std::string_view name, Statistics& s) {
  MPFA_CHECK(tensor.shape[0] >= 1, name, " has shape ", internal::shape_string(tensor),
             ": needs at least one row of statistics");
  if (s.num_stats == 0) s.num_stats = tensor.shape[0];
  internal::check_size(tensor, name, 0, s.num_stats, "as the other statistics have");
}

void check_kv_heads(const DLTensor& tensor, std::string_view name, int64_t num_q_heads,
                    Statistics& s) {
  const int64_t heads = tensor.shape[1];
  if (s.num_kv_heads == 0) {
    MPFA_CHECK(heads >= 1 && num_q_heads % heads == 0, name, " has shape ",
               internal::shape_string(tensor), ": its KV heads must divide the ", num_q_heads,
               " heads of q");
    s.num_kv_heads = heads;
  }
  internal::check_size(tensor, name, 1, s.num_kv_heads, "the number of KV heads");
}

Statistics check_statistics(const DLTensor& q, const QuantizeQParams& p) {
  const int64_t heads = q.shape[1];
  const int64_t d = q.shape[2];
  Statistics s;
  s.cu_seqlens_q = Tensor<int32_t, 1>::from(p.cu_seqlens_q, "cu_seqlens_q", false);
  if (s.cu_seqlens_q) {
    s.batch_size = internal::check_cu_seqlens(s.cu_seqlens_q, "cu_seqlens_q", q.shape[0]);
  }
  s.q_mean = Tensor<float, 3>::from(p.q_mean, "q_mean");
  if (s.q_mean) {
    check_rows(*p.q_mean, "q_mean", s);
    internal::check_size(*p.q_mean, "q_mean", 1, heads, "as q has");
    internal::check_size(*p.q_mean, "q_mean", 2, d, "as q has");
  }
  s.k_mean = Tensor<float, 3>::from(p.k_mean, "k_mean");
  if (s.k_mean) {
    check_rows(*p.k_mean, "k_mean", s);
    check_kv_heads(*p.k_mean, "k_mean", heads, s);
    internal::check_size(*p.k_mean, "k_mean", 2, d, "as q has");
  }
  s.residual_basis = Tensor<float, 4>::from(p.residual_basis, "residual_basis");
  if (s.residual_basis) {
    check_rows(*p.residual_basis, "residual_basis", s);
    check_kv_heads(*p.residual_basis, "residual_basis", heads, s);
    internal::check_size(*p.residual_basis, "residual_basis", 3, d, "as q has");
  }
  s.k_first = Tensor<Bf16, 3>::from(p.k_first, "k_first");
  if (s.k_first) {
    internal::check_size(*p.k_first, "k_first", 0, s.batch_size, "the number of sequences");
    check_kv_heads(*p.k_first, "k_first", heads, s);
    internal::check_size(*p.k_first, "k_first", 2, d, "as q has");
  }
  s.stats_index = Tensor<int32_t, 1>::from(p.stats_index, "stats_index", false);
  internal::check_stats_index(s.stats_index, s.batch_size, s.num_stats);
  if (!s.cu_seqlens_q) {
    internal::check_one_sequence(s.stats_index, s.num_stats, q.shape[0], "cu_seqlens_q");
  }
  return s;
}

void check_tokens_and_heads(const DLTensor& tensor, std::string_view name, const DLTensor& q) {
  internal::check_size(tensor, name, 0, q.shape[0], "as q has");
  internal::check_size(tensor, name, 1, q.shape[1], "as q has");
}

Tensor<uint8_t, 3> check_codes(const DLTensor& tensor, std::string_view name, const DLTensor& q) {
  const auto codes = Tensor<uint8_t, 3>::from(tensor, name);
  check_tokens_and_heads(tensor, name, q);
  internal::check_size(tensor, name, 2, q.shape[2] / 2, "head_dim / 2");
  return codes;
}

Tensor<E4m3, 3> check_scales(const DLTensor& tensor, std::string_view name, const DLTensor& q) {
  const auto scales = Tensor<E4m3, 3>::from(tensor, name);
  check_tokens_and_heads(tensor, name, q);
  internal::check_size(tensor, name, 2, q.shape[2] / kNvfp4BlockSize, "head_dim / 16");
  return scales;
}

// Outputs that are dot products over d, with what they are made of.
void check_dots(const DLTensor& q, const QuantizedQ& out, const Statistics& s, Outputs& o) {
  const auto check_source = [&](const DLTensor* tensor, std::string_view name, bool has_source,
                                std::string_view source) {
    if (tensor == nullptr) return;
    MPFA_CHECK(has_source, source, " is missing: it is required with ", name);
    MPFA_CHECK(std::has_single_bit(static_cast<uint64_t>(q.shape[2])), "q has shape ",
               internal::shape_string(q), ": head_dim must be a power of two for ", name);
    check_tokens_and_heads(*tensor, name, q);
  };
  o.rowbias = Tensor<float, 2>::from(out.rowbias, "rowbias", false);
  check_source(out.rowbias, "rowbias", static_cast<bool>(s.k_mean), "k_mean");
  o.residual = Tensor<float, 3>::from(out.residual, "residual");
  check_source(out.residual, "residual", static_cast<bool>(s.residual_basis), "residual_basis");
  if (out.residual != nullptr) {
    internal::check_size(*out.residual, "residual", 2, s.residual_basis.size(2),
                         "as residual_basis has");
  }
  o.first_key = Tensor<float, 2>::from(out.first_key, "first_key", false);
  check_source(out.first_key, "first_key", static_cast<bool>(s.k_first), "k_first");
}

Outputs check_outputs(const DLTensor& q, const QuantizedQ& out, const Statistics& s) {
  MPFA_CHECK(out.codes != nullptr, "codes is missing: it is required");
  MPFA_CHECK(out.scales != nullptr, "scales is missing: it is required");
  MPFA_CHECK((out.codes2 == nullptr) == (out.scales2 == nullptr),
             out.codes2 == nullptr ? "codes2" : "scales2", " is missing: it is required with ",
             out.codes2 == nullptr ? "scales2" : "codes2");
  Outputs o;
  o.codes = check_codes(*out.codes, "codes", q);
  o.scales = check_scales(*out.scales, "scales", q);
  if (out.codes2 != nullptr) {
    o.codes2 = check_codes(*out.codes2, "codes2", q);
    o.scales2 = check_scales(*out.scales2, "scales2", q);
  }
  check_dots(q, out, s, o);
  return o;
}

void check_memory(const DLTensor& q, const QuantizedQ& out, const QuantizeQParams& p) {
  const internal::NamedTensor written[] = {{out.codes, "codes"},        {out.scales, "scales"},
                                           {out.codes2, "codes2"},      {out.scales2, "scales2"},
                                           {out.rowbias, "rowbias"},    {out.residual, "residual"},
                                           {out.first_key, "first_key"}};
  const internal::NamedTensor inputs[] = {{&q, "q"},
                                          {p.q_mean, "q_mean"},
                                          {p.k_mean, "k_mean"},
                                          {p.residual_basis, "residual_basis"},
                                          {p.k_first, "k_first"},
                                          {p.stats_index, "stats_index"},
                                          {p.cu_seqlens_q, "cu_seqlens_q"}};
  internal::check_written(written, inputs);
}

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
void write_dots(const float* q, const float* x, int64_t d, const Statistics& s, const Outputs& out,
                const Place& at, int64_t row) {
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
void quantize_head(const float* q, int64_t d, const Statistics& s, const Outputs& out,
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
void quantize_sequence(const Tensor<T, 3>& q, const Statistics& s, const Outputs& out,
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
                cudaStream_t /*stream*/) {
  internal::check_scale_rule(params.scale_rule);
  check_q(q);
  const Statistics statistics = check_statistics(q, params);
  const Outputs outputs = check_outputs(q, out, statistics);
  check_memory(q, out, params);
  internal::visit_float_tensor<3>(q, "q", [&](const auto& queries) {
    internal::parallel_for(statistics.batch_size, [&](int64_t sequence) {
      const auto& cu = statistics.cu_seqlens_q;
      const int64_t begin = cu ? *cu.at(sequence) : 0;
      const int64_t end = cu ? *cu.at(sequence + 1) : queries.size(0);
      quantize_sequence(queries, statistics, outputs, params.scale_rule, sequence, begin, end);
    });
  });
}

}  // namespace mpfa
