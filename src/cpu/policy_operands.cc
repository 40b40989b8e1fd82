#include "cpu/policy_operands.h"

#include <cmath>
#include <limits>

#include "cache/allocated_tensor.h"
#include "core/tensor.h"
#include "mpfa/quant.h"
#include "quant/row_math.h"

namespace mpfa::internal {
namespace {

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// ---- Statistics -------------------------------------------------------------------------------

// A view of some rows of a tensor [rows, heads, d].
class RowSlice {
 public:
  RowSlice(const DLTensor& tensor, const RowRange& range, const char* name) : view_(tensor) {
    const int64_t rows = tensor.shape[0];
    const int64_t end = range.end < 0 ? rows : range.end;
    MPFA_CHECK(range.begin >= 0 && range.begin < end && end <= rows, name, " = [", range.begin,
               ", ", end, "): must hold at least one row and lie within the ", rows, " there are");
    for (int i = 0; i < 3; ++i) {
      shape_[i] = tensor.shape[i];
      strides_[i] = stride_of(tensor, i);
    }
    shape_[0] = end - range.begin;
    view_.shape = shape_;
    view_.strides = strides_;
    view_.byte_offset += static_cast<uint64_t>(range.begin * strides_[0]) * tensor.dtype.bits / 8;
  }
  RowSlice(const RowSlice&) = delete;
  RowSlice& operator=(const RowSlice&) = delete;

  const DLTensor& get() const { return view_; }

 private:
  DLTensor view_;
  int64_t shape_[3];
  int64_t strides_[3];
};

std::vector<float> values_of(const AllocatedTensor& tensor, int64_t size) {
  return {tensor.data<float>(), tensor.data<float>() + size};
}

std::vector<float> means_of(const DLTensor& x, const char* name) {
  AllocatedTensor out;
  out.allocate(name, kFloat32Type, {1, x.shape[1], x.shape[2]});
  compute_means(x, nullptr, *out.get());
  return values_of(out, x.shape[1] * x.shape[2]);
}

// The ranks that calibrate() takes; the first r rows of a larger basis are the basis of rank r.
int64_t calibrated_rank(int64_t rank) { return rank <= 4 ? 4 : rank <= 8 ? 8 : 16; }

// q - q_mean [rows, Hq, d] in FP32.
void subtract_mean(const DLTensor& q, const std::vector<float>& mean, const AllocatedTensor& out) {
  const int64_t heads = q.shape[1];
  const int64_t d = q.shape[2];
  visit_float_tensor<3>(q, "q", [&](const auto& x) {
    for (int64_t i = 0; i < q.shape[0]; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t c = 0; c < d; ++c) {
          out.data<float>()[(i * heads + h) * d + c] = to_float(x.at(i, h)[c]) - mean[h * d + c];
        }
      }
    }
  });
}

void calibrate_residual(const Policy& policy, const DLTensor& q, const DLTensor& k,
                        PolicyStats& stats) {
  const int64_t heads = k.shape[1];
  const int64_t d = k.shape[2];
  const int64_t rank = calibrated_rank(policy.residual_rank);
  AllocatedTensor mean;
  AllocatedTensor basis;
  AllocatedTensor scale;
  mean.allocate("k_mean", kFloat32Type, {heads, d});
  basis.allocate("residual_basis", kFloat32Type, {heads, rank, d});
  scale.allocate("residual_scale", kFloat32Type, {heads, rank});
  CalibrateParams params;
  params.scale_rule = policy.k_scale_rule;
  calibrate(q, k, {mean.get(), nullptr, basis.get(), scale.get()}, params);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t j = 0; j < policy.residual_rank; ++j) {
      const float* row = basis.data<float>() + (h * rank + j) * d;
      stats.residual_basis.insert(stats.residual_basis.end(), row, row + d);
      stats.residual_scale.push_back(scale.data<float>()[h * rank + j]);
    }
  }
}

// ---- Formats ----------------------------------------------------------------------------------

// Reads `count` (at most 16) values from x, `stride` apart, quantises them as one block, zeros
// behind them, and writes what it reads back as to y.
void nvfp4_round_block(const float* x, int64_t stride, int64_t count, ScaleRule rule, float* y) {
  float block[kNvfp4BlockSize] = {};
  for (int64_t i = 0; i < count; ++i) block[i] = x[i * stride];
  const Nvfp4Block codes = nvfp4_quantize(block, rule);
  for (int64_t i = 0; i < count; ++i) {
    y[i * stride] = nvfp4_value(codes.scale, nvfp4_code(codes, static_cast<int>(i)));
  }
}

void nvfp4_round_row(const float* x, int64_t size, ScaleRule rule, float* y) {
  for (int64_t c = 0; c < size; c += kNvfp4BlockSize) {
    nvfp4_round_block(x + c, 1, kNvfp4BlockSize, rule, y + c);
  }
}

void e4m3_round(const float* x, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = e4m3_to_float(e4m3_from_float(x[i]));
}

// K^ of one key.
void round_key(const Policy& policy, const float* x, int64_t d, float* y) {
  switch (policy.k) {
    case KFormat::kInput:
      std::copy(x, x + d, y);
      return;
    case KFormat::kNvfp4:
      nvfp4_round_row(x, d, policy.k_scale_rule, y);
      return;
    case KFormat::kE4m3:
      e4m3_round(x, d, y);
  }
}

std::vector<float> round_values(const Policy& policy, const Activations& v, int64_t head,
                                int64_t padded) {
  const int64_t d = v.head_dim;
  std::vector<float> out(padded * d, 0.0f);
  const float* x = v.row(head, 0);
  switch (policy.v) {
    case VFormat::kInput:
      std::copy(x, x + v.rows * d, out.begin());
      break;
    case VFormat::kE4m3:
      e4m3_round(x, v.rows * d, out.data());
      break;
    case VFormat::kNvfp4Tokens:
      for (int64_t t = 0; t < v.rows; t += kNvfp4BlockSize) {
        const int64_t count = std::min<int64_t>(kNvfp4BlockSize, v.rows - t);
        for (int64_t c = 0; c < d; ++c) {
          nvfp4_round_block(x + t * d + c, d, count, ScaleRule::kPlain, &out[t * d + c]);
        }
      }
  }
  return out;
}

// p_scale_j * p_j of one key's error (docs/spec.md, section 2).
float round_residual(const Policy& policy, float u_error, float p_scale) {
  if (policy.residual_format == ResidualFormat::kBf16) {
    return bf16_to_float(bf16_from_float(u_error));
  }
  return p_scale * e4m3_to_float(e4m3_from_float(u_error / p_scale));
}

// bf16((Kc_0 - K^_0) - U^T (p_scale p_0)), summed in the order of the cache writer.
std::vector<float> make_k_first(const Policy& policy, const std::vector<float>& error,
                                const float* basis, const KeyValueOperands& kv) {
  const auto d = static_cast<int64_t>(error.size());
  std::vector<float> k_first(d);
  for (int64_t c = 0; c < d; ++c) {
    float t = 0.0f;
    for (int64_t j = 0; j < policy.residual_rank; ++j) {
      t = add_rn(t, mul_rn(basis[j * d + c], kv.residual[j * kv.padded]));
    }
    k_first[c] = bf16_to_float(bf16_from_float(error[c] - t));
  }
  return k_first;
}

}  // namespace

Activations load_activations(const DLTensor& tensor, const char* name) {
  return visit_float_tensor<3>(tensor, name, [&](const auto& x) {
    Activations out{x.size(1), x.size(0), x.size(2), {}};
    out.values.resize(out.heads * out.rows * out.head_dim);
    for (int64_t h = 0; h < out.heads; ++h) {
      for (int64_t i = 0; i < out.rows; ++i) {
        for (int64_t c = 0; c < out.head_dim; ++c) {
          const float value = to_float(x.at(i, h)[c]);
          MPFA_CHECK(std::isfinite(value), name, "[", i, ", ", h, ", ", c, "] = ", value,
                     ": must be finite");
          out.row(h, i)[c] = value;
        }
      }
    }
    return out;
  });
}

PolicyStats make_stats(const Policy& policy, const DLTensor& q, const DLTensor& k,
                       const PolicyInputs& inputs) {
  PolicyStats stats;
  const RowSlice keys(k, inputs.mean_keys, "mean_keys");
  const RowSlice queries(q, inputs.mean_queries, "mean_queries");
  const RowSlice basis_queries(q, inputs.basis_queries, "basis_queries");
  stats.k_mean.assign(k.shape[1] * k.shape[2], 0.0f);
  stats.q_mean.assign(q.shape[1] * q.shape[2], 0.0f);
  if (policy.centre_k) stats.k_mean = means_of(keys.get(), "k_mean");
  if (policy.delta_s) stats.q_mean = means_of(queries.get(), "q_mean");
  if (policy.residual_rank == 0) return stats;
  if (!policy.delta_s) {
    calibrate_residual(policy, basis_queries.get(), keys.get(), stats);
    return stats;
  }
  // delta_s already cancels the error along Q_mean: the basis is better spent on what is left.
  const DLTensor& used = basis_queries.get();
  AllocatedTensor centred;
  centred.allocate("q", kFloat32Type, {used.shape[0], used.shape[1], used.shape[2]});
  subtract_mean(used, stats.q_mean, centred);
  calibrate_residual(policy, *centred.get(), keys.get(), stats);
  return stats;
}

KeyValueOperands make_key_value_operands(const Policy& policy, const Activations& k,
                                         const Activations& v, const PolicyStats& stats,
                                         int64_t kv_head) {
  const int64_t d = k.head_dim;
  const int64_t rank = policy.residual_rank;
  const float* mean = stats.k_mean.data() + kv_head * d;
  const float* basis = stats.residual_basis.data() + kv_head * rank * d;
  const float* p_scale = stats.residual_scale.data() + kv_head * rank;
  KeyValueOperands kv;
  kv.padded = round_up(k.rows, kKeyBlockSize);
  kv.centred.resize(k.rows * d);
  kv.k_transposed.resize(d * kv.padded);
  kv.residual.resize(rank * kv.padded);
  std::vector<float> k_hat(d);
  std::vector<float> error(d);
  for (int64_t t = 0; t < k.rows; ++t) {
    float* centred = &kv.centred[t * d];
    for (int64_t c = 0; c < d; ++c) centred[c] = k.row(kv_head, t)[c] - mean[c];
    round_key(policy, centred, d, k_hat.data());
    for (int64_t c = 0; c < d; ++c) {
      kv.k_transposed[c * kv.padded + t] = k_hat[c];
      error[c] = centred[c] - k_hat[c];
    }
    for (int64_t j = 0; j < rank; ++j) {
      const float u_error = dot_by_halves(basis + j * d, error.data(), d);
      kv.residual[j * kv.padded + t] = round_residual(policy, u_error, p_scale[j]);
    }
    if (t == 0 && policy.first_key) kv.k_first = make_k_first(policy, error, basis, kv);
  }
  kv.v = round_values(policy, v, kv_head, kv.padded);
  return kv;
}

QueryOperands make_query_operands(const Policy& policy, const Activations& q,
                                  const PolicyStats& stats, const KeyValueOperands& kv,
                                  int64_t q_head, int64_t group) {
  const int64_t d = q.head_dim;
  const int64_t rank = policy.residual_rank;
  const float* mean = stats.q_mean.data() + q_head * d;
  const float* basis = stats.residual_basis.data() + q_head / group * rank * d;
  QueryOperands out;
  out.num_terms = policy.q == QFormat::kNvfp4TwoTerms ? 2 : 1;
  for (int n = 0; n < out.num_terms; ++n) out.terms[n].resize(q.rows * d);
  std::vector<float> x(d);
  for (int64_t i = 0; i < q.rows; ++i) {
    for (int64_t c = 0; c < d; ++c) x[c] = q.row(q_head, i)[c] - mean[c];
    // The compensations see the unquantised x: they are by-products of preparing Q.
    for (int64_t j = 0; j < rank; ++j) {
      const float u_q = dot_by_halves(basis + j * d, x.data(), d);
      const bool bf16 = policy.residual_format == ResidualFormat::kBf16;
      out.u_q.push_back(bf16 ? bf16_to_float(bf16_from_float(u_q)) : u_q);
    }
    if (policy.first_key) out.q_first.push_back(dot_by_halves(x.data(), kv.k_first.data(), d));

    float* first_term = &out.terms[0][i * d];
    if (policy.q == QFormat::kInput) {
      std::copy(x.begin(), x.end(), first_term);
      continue;
    }
    nvfp4_round_row(x.data(), d, policy.q_scale_rule, first_term);
    if (out.num_terms == 1) continue;
    for (int64_t c = 0; c < d; ++c) x[c] -= first_term[c];
    nvfp4_round_row(x.data(), d, policy.q_scale_rule, &out.terms[1][i * d]);
  }
  if (!policy.delta_s) return out;
  out.delta_s.resize(kv.padded);
  for (int64_t t = 0; t * d < static_cast<int64_t>(kv.centred.size()); ++t) {
    const float delta_s = dot_by_halves(mean, &kv.centred[t * d], d);
    out.delta_s[t] = bf16_to_float(bf16_from_float(delta_s));
  }
  return out;
}

}  // namespace mpfa::internal
