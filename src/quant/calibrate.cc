#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/overlap.h"
#include "core/parallel.h"
#include "core/shapes.h"
#include "core/tensor.h"
#include "core/value_checks.h"
#include "mpfa/quant.h"
#include "quant/key_error.h"
#include "quant/residual_basis.h"
#include "quant/row_math.h"

namespace mpfa {
namespace {

using internal::Tensor;

constexpr int64_t kMaxHeadDim = internal::kHeadDims.back();
static_assert(kMaxHeadDim <= internal::kMaxRowSize);  // of dot_by_halves()
constexpr int64_t kMaxRank = internal::kResidualRanks.back();
// What the largest residual of the sample becomes in e4m3; 448 / 64 = 7 is the headroom.
constexpr float kResidualTarget = 64.0f;

constexpr int64_t kTokenGrain = 64;  // tokens a task

struct Sizes {
  int64_t key_tokens = 0;  // those that are used
  int64_t num_kv_heads = 0;
  int64_t group_size = 0;
  int64_t head_dim = 0;
  int64_t rank = 0;  // 0 without a residual basis
};

void check_inputs(const DLTensor& q, const DLTensor& k, const CalibrateParams& params, Sizes& s) {
  internal::float_type(q, "q");
  internal::float_type(k, "k");
  internal::check_layout(q, "q", 3, true);
  internal::check_layout(k, "k", 3, true);
  s.num_kv_heads = k.shape[1];
  s.head_dim = k.shape[2];
  MPFA_CHECK(s.num_kv_heads >= 1, "k has shape ", internal::shape_string(k),
             ": needs at least one KV head");
  MPFA_CHECK(internal::is_head_dim(s.head_dim), "head_dim = ", s.head_dim, " (k has shape ",
             internal::shape_string(k), "): must be ", internal::alternatives(internal::kHeadDims));
  internal::check_size(q, "q", 2, s.head_dim, "as k has");
  MPFA_CHECK(q.shape[1] >= 1 && q.shape[1] % s.num_kv_heads == 0, "q has shape ",
             internal::shape_string(q), ": its heads must be a multiple of the ", s.num_kv_heads,
             " KV heads");
  s.group_size = q.shape[1] / s.num_kv_heads;
  s.key_tokens = k.shape[0];
  const auto cu = Tensor<int32_t, 1>::from(params.cu_seqlens, "cu_seqlens", false);
  if (cu) {
    s.key_tokens = *cu.at(internal::check_cu_seqlens(cu, "cu_seqlens", k.shape[0]));
    MPFA_CHECK(s.key_tokens >= 1, "cu_seqlens ends at ", s.key_tokens,
               ": calibration needs at least one token");
  }
  MPFA_CHECK(s.key_tokens >= 1, "k has shape ", internal::shape_string(k),
             ": calibration needs at least one token");
}

void check_k_scale(const DLTensor* tensor, const Sizes& s) {
  const auto scales = Tensor<float, 1>::from(tensor, "k_scale", false);
  if (!scales) return;
  internal::check_size(*tensor, "k_scale", 0, s.num_kv_heads, "the number of KV heads");
  internal::check_positive(scales, "k_scale");
}

void check_mean(const DLTensor& tensor, std::string_view name, int64_t heads, const Sizes& s) {
  Tensor<float, 2>::from(tensor, name);
  internal::check_size(tensor, name, 0, heads, "the number of heads");
  internal::check_size(tensor, name, 1, s.head_dim, "head_dim");
}

void check_outputs(const CalibrationOut& out, const DLTensor& q, Sizes& s) {
  MPFA_CHECK(out.k_mean != nullptr, "k_mean is missing: it is required");
  check_mean(*out.k_mean, "k_mean", s.num_kv_heads, s);
  if (out.q_mean != nullptr) check_mean(*out.q_mean, "q_mean", q.shape[1], s);
  MPFA_CHECK(out.q_mean == nullptr || q.shape[0] >= 1, "q has shape ", internal::shape_string(q),
             ": q_mean needs at least one query");
  MPFA_CHECK(out.residual_scale == nullptr || out.residual_basis != nullptr,
             "residual_basis is missing: it is required with residual_scale");
  if (out.residual_basis == nullptr) return;
  const DLTensor& basis = *out.residual_basis;
  s.rank = Tensor<float, 3>::from(basis, "residual_basis").size(1);
  MPFA_CHECK(internal::is_residual_rank(s.rank), "residual_basis has shape ",
             internal::shape_string(basis), ": its middle dimension, the residual rank, must be ",
             internal::alternatives(internal::kResidualRanks));
  internal::check_size(basis, "residual_basis", 0, s.num_kv_heads, "the number of KV heads");
  internal::check_size(basis, "residual_basis", 2, s.head_dim, "head_dim");
  MPFA_CHECK(q.shape[0] >= 1, "q has shape ", internal::shape_string(q),
             ": residual_basis needs at least one query");
  if (out.residual_scale == nullptr) return;
  Tensor<float, 2>::from(*out.residual_scale, "residual_scale", false);
  internal::check_size(*out.residual_scale, "residual_scale", 0, s.num_kv_heads,
                       "the number of KV heads");
  internal::check_size(*out.residual_scale, "residual_scale", 1, s.rank, "as residual_basis has");
}

void check_memory(const DLTensor& q, const DLTensor& k, const CalibrationOut& out,
                  const CalibrateParams& params) {
  const internal::NamedTensor written[] = {{out.k_mean, "k_mean"},
                                           {out.q_mean, "q_mean"},
                                           {out.residual_basis, "residual_basis"},
                                           {out.residual_scale, "residual_scale"}};
  const internal::NamedTensor inputs[] = {
      {&q, "q"}, {&k, "k"}, {params.k_scale, "k_scale"}, {params.cu_seqlens, "cu_seqlens"}};
  internal::check_written(written, inputs);
}

template <typename T>
bool row_is_finite(const T* row, int64_t size) {
  bool finite = true;
  for (int64_t i = 0; i < size; ++i) finite &= std::isfinite(internal::widen(row[i]));
  return finite;
}

// The smallest token index wins, so the message does not depend on threads.
template <typename T>
void check_finite(const Tensor<T, 3>& x, int64_t tokens, std::string_view name) {
  const auto token_is_finite = [&](int64_t t) {
    for (int64_t h = 0; h < x.size(1); ++h) {
      if (!row_is_finite(x.at(t, h), x.size(2))) return false;
    }
    return true;
  };
  const int64_t first = internal::parallel_reduce(
      tokens, kTokenGrain, tokens,
      [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          if (!token_is_finite(t)) return t;
        }
        return tokens;
      },
      [](int64_t a, int64_t b) { return std::min(a, b); });
  if (first == tokens) return;
  for (int64_t h = 0; h < x.size(1); ++h) {
    for (int64_t i = 0; i < x.size(2); ++i) {
      const float value = internal::widen(x.at(first, h)[i]);
      MPFA_CHECK(std::isfinite(value), name, "[", first, ", ", h, ", ", i, "] = ", value,
                 ": must be finite");
    }
  }
}

// Mean over tokens [0, tokens) of all sequences together: [heads, d].
std::vector<float> mean_of_tokens(const DLTensor& x, int64_t tokens) {
  DLTensor used = x;
  std::array<int64_t, 3> used_shape = {tokens, x.shape[1], x.shape[2]};
  used.shape = used_shape.data();
  std::array<int64_t, 3> used_strides = {internal::stride_of(x, 0), internal::stride_of(x, 1),
                                         internal::stride_of(x, 2)};
  used.strides = used_strides.data();
  std::vector<float> means(static_cast<size_t>(x.shape[1] * x.shape[2]));
  std::array<int64_t, 3> shape = {1, x.shape[1], x.shape[2]};
  DLTensor out{};
  out.data = means.data();
  out.device = {kDLCPU, 0};
  out.ndim = 3;
  out.dtype = {kDLFloat, 32, 1};
  out.shape = shape.data();
  compute_means(used, nullptr, out);
  return means;
}

// U [Hkv, r, d].
std::vector<float> residual_basis(const DLTensor& q, const Sizes& s) {
  std::vector<float> basis(static_cast<size_t>(s.num_kv_heads * s.rank * s.head_dim));
  internal::visit_float_tensor<3>(q, "q", [&](const auto& queries) {
    internal::parallel_for(s.num_kv_heads, [&](int64_t head) {
      std::array<float*, kMaxRank> rows{};
      for (int64_t j = 0; j < s.rank; ++j) {
        rows[j] = basis.data() + (head * s.rank + j) * s.head_dim;
      }
      internal::compute_residual_basis(queries, head * s.group_size, s.group_size, s.rank,
                                       rows.data());
    });
  });
  return basis;
}

using Largest = std::array<float, kMaxRank>;

// max |U_j . E| over keys of one head, whose mean and U are given. A maximum does not depend on the
// order.
template <typename T>
Largest largest_residuals(const Tensor<T, 3>& k, const Sizes& s, int64_t head, const float* mean,
                          const float* basis, float k_scale, ScaleRule rule) {
  const auto body = [&](int64_t begin, int64_t end) {
    Largest largest{};
    float centred[kMaxHeadDim];
    float error[kMaxHeadDim];
    for (int64_t t = begin; t < end; ++t) {
      const T* row = k.at(t, head);
      for (int64_t i = 0; i < s.head_dim; ++i) centred[i] = internal::widen(row[i]) - mean[i];
      internal::key_error(centred, s.head_dim, k_scale, rule, error);
      for (int64_t j = 0; j < s.rank; ++j) {
        const float dot = internal::dot_by_halves(basis + j * s.head_dim, error, s.head_dim);
        largest[j] = std::max(largest[j], std::abs(dot));
      }
    }
    return largest;
  };
  const auto join = [](Largest a, const Largest& b) {
    for (size_t j = 0; j < a.size(); ++j) a[j] = std::max(a[j], b[j]);
    return a;
  };
  return internal::parallel_reduce(s.key_tokens, kTokenGrain, Largest{}, body, join);
}

// 1 where the sample has no error, so that the scale is always above 0; errors beyond FP32, which
// only keys near its end have, give the largest finite scale.
float residual_scale(float largest) {
  const float scale = std::min(largest, std::numeric_limits<float>::max()) / kResidualTarget;
  return scale > 0 ? scale : 1.0f;
}

// p_scale [Hkv, r].
std::vector<float> residual_scales(const DLTensor& k, const Sizes& s, const CalibrateParams& params,
                                   const std::vector<float>& k_mean,
                                   const std::vector<float>& basis) {
  const auto k_scale = Tensor<float, 1>::from(params.k_scale, "k_scale", false);
  std::vector<float> scales(static_cast<size_t>(s.num_kv_heads * s.rank));
  internal::visit_float_tensor<3>(k, "k", [&](const auto& keys) {
    internal::parallel_for(s.num_kv_heads, [&](int64_t head) {
      const Largest largest = largest_residuals(keys, s, head, k_mean.data() + head * s.head_dim,
                                                basis.data() + head * s.rank * s.head_dim,
                                                k_scale ? *k_scale.at(head) : 1, params.scale_rule);
      for (int64_t j = 0; j < s.rank; ++j) scales[head * s.rank + j] = residual_scale(largest[j]);
    });
  });
  return scales;
}

// Copies compact values into a tensor with any strides.
template <int Rank>
void write(const std::vector<float>& values, const DLTensor& tensor, std::string_view name) {
  const auto out = Tensor<float, Rank>::from(tensor, name, false);
  const float* value = values.data();
  for (int64_t i = 0; i < out.size(0); ++i) {
    for (int64_t j = 0; j < out.size(1); ++j) {
      if constexpr (Rank == 2) {
        *out.at(i, j) = *value++;
      } else {
        for (int64_t n = 0; n < out.size(2); ++n) *out.at(i, j, n) = *value++;
      }
    }
  }
}

}  // namespace

void calibrate(const DLTensor& q, const DLTensor& k, const CalibrationOut& out,
               const CalibrateParams& params, cudaStream_t /*stream*/) {
  Sizes sizes;
  internal::check_scale_rule(params.scale_rule);
  check_inputs(q, k, params, sizes);
  check_k_scale(params.k_scale, sizes);
  check_outputs(out, q, sizes);
  check_memory(q, k, out, params);
  internal::visit_float_tensor<3>(q, "q", [](const auto& x) { check_finite(x, x.size(0), "q"); });
  internal::visit_float_tensor<3>(k, "k",
                                  [&](const auto& x) { check_finite(x, sizes.key_tokens, "k"); });

  // Everything before anything is written: the eigenvectors may not converge, memory may run out.
  const std::vector<float> k_mean = mean_of_tokens(k, sizes.key_tokens);
  std::vector<float> q_mean;
  std::vector<float> basis;
  std::vector<float> scales;
  if (out.q_mean != nullptr) q_mean = mean_of_tokens(q, q.shape[0]);
  if (out.residual_basis != nullptr) basis = residual_basis(q, sizes);
  if (out.residual_scale != nullptr) scales = residual_scales(k, sizes, params, k_mean, basis);

  write<2>(k_mean, *out.k_mean, "k_mean");
  if (out.q_mean != nullptr) write<2>(q_mean, *out.q_mean, "q_mean");
  if (out.residual_basis != nullptr) write<3>(basis, *out.residual_basis, "residual_basis");
  if (out.residual_scale != nullptr) write<2>(scales, *out.residual_scale, "residual_scale");
}

}  // namespace mpfa
