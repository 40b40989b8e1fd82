#include "quant/quantize_q_check.h"

#include <bit>
#include <string_view>

#include "core/overlap.h"
#include "core/stats_index.h"
#include "core/value_checks.h"
#include "quant/row_math.h"

namespace mpfa::internal {
namespace {

ActivationTensor check_q(const DLTensor& q) {
  const ActivationTensor result = ActivationTensor::from(q, "q");
  MPFA_CHECK(q.shape[2] >= kNvfp4BlockSize && q.shape[2] <= kMaxRowSize &&
                 q.shape[2] % kNvfp4BlockSize == 0,
             "q has shape ", shape_string(q),
             ": its last dimension, head_dim, must be a multiple of 16 from 16 to ", kMaxRowSize);
  return result;
}

// A statistics tensor [stats, heads, ...]: its rows must be as many as the others have.
void check_rows(const DLTensor& tensor, std::string_view name, QueryStatistics& s) {
  MPFA_CHECK(tensor.shape[0] >= 1, name, " has shape ", shape_string(tensor),
             ": needs at least one row of statistics");
  if (s.num_stats == 0) s.num_stats = tensor.shape[0];
  check_size(tensor, name, 0, s.num_stats, "as the other statistics have");
}

void check_kv_heads(const DLTensor& tensor, std::string_view name, int64_t num_q_heads,
                    QueryStatistics& s) {
  const int64_t heads = tensor.shape[1];
  if (s.num_kv_heads == 0) {
    MPFA_CHECK(heads >= 1 && num_q_heads % heads == 0, name, " has shape ", shape_string(tensor),
               ": its KV heads must divide the ", num_q_heads, " heads of q");
    s.num_kv_heads = heads;
  }
  check_size(tensor, name, 1, s.num_kv_heads, "the number of KV heads");
}

// What says which token belongs to which sequence.
void check_sequences(const DLTensor& q, const QuantizeQParams& p, Values values,
                     QueryStatistics& s) {
  s.cu_seqlens_q = Tensor<int32_t, 1>::from(p.cu_seqlens_q, "cu_seqlens_q", false);
  if (!s.cu_seqlens_q) return;
  s.batch_size = values == Values::kKnown
                     ? check_cu_seqlens(s.cu_seqlens_q, "cu_seqlens_q", q.shape[0])
                     : count_sequences(s.cu_seqlens_q, "cu_seqlens_q");
}

QueryStatistics check_statistics(const DLTensor& q, const QuantizeQParams& p, Values values) {
  const int64_t heads = q.shape[1];
  const int64_t d = q.shape[2];
  QueryStatistics s;
  check_sequences(q, p, values, s);
  s.q_mean = Tensor<float, 3>::from(p.q_mean, "q_mean");
  if (s.q_mean) {
    check_rows(*p.q_mean, "q_mean", s);
    check_size(*p.q_mean, "q_mean", 1, heads, "as q has");
    check_size(*p.q_mean, "q_mean", 2, d, "as q has");
  }
  s.k_mean = Tensor<float, 3>::from(p.k_mean, "k_mean");
  if (s.k_mean) {
    check_rows(*p.k_mean, "k_mean", s);
    check_kv_heads(*p.k_mean, "k_mean", heads, s);
    check_size(*p.k_mean, "k_mean", 2, d, "as q has");
  }
  s.residual_basis = Tensor<float, 4>::from(p.residual_basis, "residual_basis");
  if (s.residual_basis) {
    check_rows(*p.residual_basis, "residual_basis", s);
    check_kv_heads(*p.residual_basis, "residual_basis", heads, s);
    check_size(*p.residual_basis, "residual_basis", 3, d, "as q has");
  }
  s.k_first = Tensor<Bf16, 3>::from(p.k_first, "k_first");
  if (s.k_first) {
    check_size(*p.k_first, "k_first", 0, s.batch_size, "the number of sequences");
    check_kv_heads(*p.k_first, "k_first", heads, s);
    check_size(*p.k_first, "k_first", 2, d, "as q has");
  }
  s.stats_index = Tensor<int32_t, 1>::from(p.stats_index, "stats_index", false);
  check_stats_index(s.stats_index, s.batch_size, values == Values::kKnown ? s.num_stats : 0);
  if (!s.cu_seqlens_q) {
    check_one_sequence(s.stats_index, s.num_stats, q.shape[0], "cu_seqlens_q");
  }
  return s;
}

void check_tokens_and_heads(const DLTensor& tensor, std::string_view name, const DLTensor& q) {
  check_size(tensor, name, 0, q.shape[0], "as q has");
  check_size(tensor, name, 1, q.shape[1], "as q has");
}

Tensor<uint8_t, 3> check_codes(const DLTensor& tensor, std::string_view name, const DLTensor& q) {
  const auto codes = Tensor<uint8_t, 3>::from(tensor, name);
  check_tokens_and_heads(tensor, name, q);
  check_size(tensor, name, 2, q.shape[2] / 2, "head_dim / 2");
  return codes;
}

Tensor<E4m3, 3> check_scales(const DLTensor& tensor, std::string_view name, const DLTensor& q) {
  const auto scales = Tensor<E4m3, 3>::from(tensor, name);
  check_tokens_and_heads(tensor, name, q);
  check_size(tensor, name, 2, q.shape[2] / kNvfp4BlockSize, "head_dim / 16");
  return scales;
}

// Outputs that are dot products over d, with what they are made of.
void check_dots(const DLTensor& q, const QuantizedQ& out, const QueryStatistics& s,
                QueryOutputs& o) {
  const auto check_source = [&](const DLTensor* tensor, std::string_view name, bool has_source,
                                std::string_view source) {
    if (tensor == nullptr) return;
    MPFA_CHECK(has_source, source, " is missing: it is required with ", name);
    MPFA_CHECK(std::has_single_bit(static_cast<uint64_t>(q.shape[2])), "q has shape ",
               shape_string(q), ": head_dim must be a power of two for ", name);
    check_tokens_and_heads(*tensor, name, q);
  };
  o.rowbias = Tensor<float, 2>::from(out.rowbias, "rowbias", false);
  check_source(out.rowbias, "rowbias", static_cast<bool>(s.k_mean), "k_mean");
  o.residual = Tensor<float, 3>::from(out.residual, "residual");
  check_source(out.residual, "residual", static_cast<bool>(s.residual_basis), "residual_basis");
  if (out.residual != nullptr) {
    check_size(*out.residual, "residual", 2, s.residual_basis.size(2), "as residual_basis has");
  }
  o.first_key = Tensor<float, 2>::from(out.first_key, "first_key", false);
  check_source(out.first_key, "first_key", static_cast<bool>(s.k_first), "k_first");
}

QueryOutputs check_outputs(const DLTensor& q, const QuantizedQ& out, const QueryStatistics& s) {
  MPFA_CHECK(out.codes != nullptr, "codes is missing: it is required");
  MPFA_CHECK(out.scales != nullptr, "scales is missing: it is required");
  MPFA_CHECK((out.codes2 == nullptr) == (out.scales2 == nullptr),
             out.codes2 == nullptr ? "codes2" : "scales2", " is missing: it is required with ",
             out.codes2 == nullptr ? "scales2" : "codes2");
  QueryOutputs o;
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
  const NamedTensor written[] = {{out.codes, "codes"},        {out.scales, "scales"},
                                 {out.codes2, "codes2"},      {out.scales2, "scales2"},
                                 {out.rowbias, "rowbias"},    {out.residual, "residual"},
                                 {out.first_key, "first_key"}};
  const NamedTensor inputs[] = {{&q, "q"},
                                {p.q_mean, "q_mean"},
                                {p.k_mean, "k_mean"},
                                {p.residual_basis, "residual_basis"},
                                {p.k_first, "k_first"},
                                {p.stats_index, "stats_index"},
                                {p.cu_seqlens_q, "cu_seqlens_q"}};
  check_written(written, inputs);
}

}  // namespace

QuantizeQArgs check_quantize_q(const DLTensor& q, const QuantizedQ& out,
                               const QuantizeQParams& params, Values values) {
  check_scale_rule(params.scale_rule);
  QuantizeQArgs args;
  args.q = check_q(q);
  args.head_dim = q.shape[2];
  args.stats = check_statistics(q, params, values);
  args.out = check_outputs(q, out, args.stats);
  check_memory(q, out, params);
  return args;
}

}  // namespace mpfa::internal
