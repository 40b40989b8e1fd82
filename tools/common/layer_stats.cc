#include "common/layer_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "common/errors.h"
#include "core/tensor.h"
#include "io/quote.h"
#include "mpfa/quant.h"

namespace mpfa::tools {
namespace {

using internal::kFloat32Type;
using internal::SafetensorsReader;
using internal::TensorInfo;

std::string list_text(const std::vector<int64_t>& shape) {
  return internal::shape_text(std::span<const int64_t>(shape));
}

// The tensor, if it is FP32 and its extents are those expected (-1: any).
TensorView load_checked(const SafetensorsReader& reader, const std::string& name,
                        const std::vector<int64_t>& expected) {
  const TensorInfo& info = reader.at(name);
  bool fits = info.dtype == internal::Dtype::F32 && info.shape.size() == expected.size();
  for (size_t i = 0; fits && i < expected.size(); ++i) {
    fits = expected[i] < 0 ? info.shape[i] >= 1 : info.shape[i] == expected[i];
  }
  if (!fits) {
    throw IoError(fmt::format("{}: tensor {} is {} {}: expected F32 {} (-1: any)",
                              internal::quote_path(reader.path()), internal::quote(name),
                              internal::dtype_name(info.dtype), internal::shape_text(info.shape),
                              list_text(expected)));
  }
  return TensorView(reader.view(name));
}

// Copies the first `rank` of each head's rows: [1, heads, stored, width] -> [1, heads, rank,
// width].
void copy_first_rows(const TensorView& from, int64_t width, int64_t rank, float* to) {
  const int64_t stored = from.size(2);
  for (int64_t head = 0; head < from.size(1); ++head) {
    std::copy_n(from.data<float>() + head * stored * width, rank * width, to + head * rank * width);
  }
}

void load_residual(const SafetensorsReader& reader, const std::string& layer,
                   const StatsShape& shape, LayerStats& stats) {
  const int64_t heads = shape.num_kv_heads;
  const int64_t rank = shape.residual_rank;
  const std::string name = layer_tensor_name(layer, "residual_basis");
  const TensorView basis = load_checked(reader, name, {1, heads, -1, shape.head_dim});
  const TensorView scale =
      load_checked(reader, layer_tensor_name(layer, "residual_scale"), {1, heads, basis.size(2)});
  if (basis.size(2) < rank) {
    throw IoError(fmt::format("{}: tensor {} has shape {}: expected a residual rank of at least {}",
                              internal::quote_path(reader.path()), internal::quote(name),
                              internal::shape_string(basis.dl()), rank));
  }
  stats.residual_basis =
      OwnedTensor("residual_basis", kFloat32Type, {1, heads, rank, shape.head_dim});
  stats.residual_scale = OwnedTensor("residual_scale", kFloat32Type, {1, heads, rank});
  copy_first_rows(basis, shape.head_dim, rank, stats.residual_basis.data<float>());
  copy_first_rows(scale, 1, rank, stats.residual_scale.data<float>());
}

}  // namespace

int64_t LayerStats::residual_rank() const {
  return residual_basis ? residual_basis.dl().shape[2] : 0;
}

LayerStats calibrate_layer(const Layer& layer, int64_t residual_rank, ScaleRule scale_rule,
                           StatsRows rows) {
  const auto first = [](const TensorView& x, int64_t n) {
    return x.slice(0, 0, n < 0 ? x.size(0) : std::min(n, x.size(0)));
  };
  const TensorView k = first(layer.k, rows.mean_tokens);
  const TensorView q = first(layer.q, rows.mean_tokens);
  const TensorView basis_q =
      first(layer.q, rows.basis_queries < 0 ? rows.mean_tokens : rows.basis_queries);
  const int64_t num_kv_heads = k.size(1);
  const int64_t d = k.size(2);

  LayerStats stats;
  stats.k_mean = OwnedTensor("k_mean", kFloat32Type, {1, num_kv_heads, d});
  stats.q_mean = OwnedTensor("q_mean", kFloat32Type, {1, q.size(1), d});
  const TensorView k_mean = stats.k_mean.view().reshaped({num_kv_heads, d});
  CalibrationOut out;
  out.k_mean = k_mean.get();
  TensorView basis;
  TensorView scale;
  if (residual_rank > 0) {
    stats.residual_basis =
        OwnedTensor("residual_basis", kFloat32Type, {1, num_kv_heads, residual_rank, d});
    stats.residual_scale =
        OwnedTensor("residual_scale", kFloat32Type, {1, num_kv_heads, residual_rank});
    basis = stats.residual_basis.view().reshaped({num_kv_heads, residual_rank, d});
    scale = stats.residual_scale.view().reshaped({num_kv_heads, residual_rank});
    out.residual_basis = basis.get();
    out.residual_scale = scale.get();
  }
  CalibrateParams params;
  params.scale_rule = scale_rule;
  with_context(layer.where, [&] {
    calibrate(basis_q.dl(), k.dl(), out, params);
    compute_means(q.dl(), nullptr, stats.q_mean.dl());
  });
  return stats;
}

void add_stats(internal::SafetensorsWriter& writer, const std::string& layer,
               const LayerStats& stats) {
  const auto add = [&](const char* name, const OwnedTensor& tensor) {
    if (tensor) writer.add(layer_tensor_name(layer, name), tensor.dl());
  };
  add("k_mean", stats.k_mean);
  add("q_mean", stats.q_mean);
  add("residual_basis", stats.residual_basis);
  add("residual_scale", stats.residual_scale);
}

int64_t stored_residual_rank(const SafetensorsReader& reader, const std::string& layer) {
  const TensorInfo* basis = reader.find(layer_tensor_name(layer, "residual_basis"));
  return basis == nullptr || basis->shape.size() != 4 ? 0 : basis->shape[2];
}

LayerStats load_stats(const SafetensorsReader& reader, const std::string& layer,
                      const StatsShape& shape) {
  const auto load = [&](const char* name, int64_t heads) {
    const TensorView stored =
        load_checked(reader, layer_tensor_name(layer, name), {1, heads, shape.head_dim});
    OwnedTensor copy(name, kFloat32Type, {1, heads, shape.head_dim});
    copy_floats(stored.dl(), copy.dl());
    return copy;
  };
  LayerStats stats;
  stats.k_mean = load("k_mean", shape.num_kv_heads);
  if (shape.q_mean) stats.q_mean = load("q_mean", shape.num_q_heads);
  if (shape.residual_rank > 0) load_residual(reader, layer, shape, stats);
  return stats;
}

void set_stats(const LayerStats& stats, const KvCache& cache) {
  const auto set = [](const OwnedTensor& from, const DLTensor* to) {
    if (to != nullptr) copy_floats(from.dl(), *to);
  };
  set(stats.k_mean, cache.view().stats.k_mean);
  set(stats.q_mean, cache.view().stats.q_mean);
  set(stats.residual_basis, cache.view().stats.residual_basis);
  set(stats.residual_scale, cache.view().stats.residual_scale);
}

}  // namespace mpfa::tools
