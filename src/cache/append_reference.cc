#include "cache/append_reference.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace mpfa::internal {
namespace {

// The sign and payload of a computed NaN differ between processors, so every NaN that the writer
// stores is the positive one.
E4m3 e4m3_stored(float x) { return std::isnan(x) ? E4m3{kE4m3NanCode} : e4m3_from_float(x); }

void store_bf16(Bf16* target, float x) {
  const Bf16 value = std::isnan(x) ? Bf16{0x7FC0} : bf16_from_float(x);
  std::memcpy(target, &value, sizeof(value));
}

// sum a_i * b_i: FP32 products, then v_i += v_{i + d/2}, v_i += v_{i + d/4}, ... (section 2,
// "Bits").
float dot_by_halves(const float* a, const float* b, int d) {
  std::vector<float> sum(d);
  for (int i = 0; i < d; ++i) sum[i] = mul_rn(a[i], b[i]);
  for (int half = d / 2; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) sum[i] = add_rn(sum[i], sum[i + half]);
  }
  return sum[0];
}

// A centred key and what quantisation made of it.
struct QuantizedKey {
  std::vector<float> centred;    // Kc = K - K_mean; an infinite element counts as its K^
  std::vector<float> quantized;  // K^
  std::vector<float> error;      // E = Kc - K^; 0 where Kc is infinite
};

// Section 1: NVFP4 of Kc / k_scale, block by block.
QuantizedKey quantize_key(const AppendConfig& config, const AppendStats& stats, const float* k,
                          const AppendTargets& out) {
  const int d = config.head_dim;
  QuantizedKey key{std::vector<float>(d), std::vector<float>(d), std::vector<float>(d)};
  for (int i = 0; i < d; ++i) key.centred[i] = k[i] - stats.k_mean[i];
  for (int begin = 0; begin < d; begin += kNvfp4BlockSize) {
    float x[kNvfp4BlockSize];
    for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = key.centred[begin + i] / stats.k_scale;
    const Nvfp4Block block = nvfp4_quantize(x, config.scale_rule);
    std::memcpy(out.k_codes + begin / 2, block.codes, sizeof(block.codes));
    out.k_scales[begin / kNvfp4BlockSize] = {block.scale};
    for (int i = 0; i < kNvfp4BlockSize; ++i) {
      key.quantized[begin + i] =
          mul_rn(nvfp4_value(block.scale, nvfp4_code(block, i)), stats.k_scale);
    }
  }
  for (int i = 0; i < d; ++i) {
    const bool infinite = std::isinf(key.centred[i]);
    key.error[i] = infinite ? 0.0f : key.centred[i] - key.quantized[i];
    if (infinite) key.centred[i] = key.quantized[i];
  }
  return key;
}

}  // namespace

void append_token_reference(const AppendConfig& config, const AppendStats& stats, const float* k,
                            const float* v, const AppendTargets& out) {
  const int d = config.head_dim;
  const int r = config.residual_rank;
  const QuantizedKey key = quantize_key(config, stats, k, out);

  // Section 1: V is stored as e4m3(V / v_scale), not centred.
  for (int i = 0; i < d; ++i) out.v[i] = e4m3_stored(v[i] / stats.v_scale);

  // Section 2, delta_s: Q_mean . Kc for every query head of the group.
  for (int g = 0; g < config.group_size; ++g) {
    const float* q_mean = stats.q_mean + g * stats.q_mean_stride;
    store_bf16(out.delta_s + g * out.delta_s_stride, dot_by_halves(q_mean, key.centred.data(), d));
  }

  // Section 2, residual: p_j = e4m3((U_j . E) / p_scale_j). What of E they give back is
  // t = U^T (p_scale p), summed over j in order.
  std::vector<float> restored(d, 0.0f);
  for (int j = 0; j < r; ++j) {
    const float* u = stats.residual_basis + j * stats.residual_basis_stride;
    const float p_scale = stats.residual_scale[j];
    const E4m3 p = e4m3_stored(dot_by_halves(u, key.error.data(), d) / p_scale);
    out.k_residual[j] = p;
    const float value = mul_rn(p_scale, e4m3_to_float(p));
    for (int i = 0; i < d; ++i) restored[i] = add_rn(restored[i], mul_rn(u[i], value));
  }

  // Section 2, first key: what is still missing, for the token at offset 0 of a page.
  if (out.k_first == nullptr) return;
  for (int i = 0; i < d; ++i) store_bf16(out.k_first + i, key.error[i] - restored[i]);
}

}  // namespace mpfa::internal
