#include "common/layer_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "common/errors.h"
#include "core/shapes.h"
#include "core/tensor.h"
#include "io/quote.h"
#include "mpfa/quant.h"
#include "mpfa/tensor.h"

namespace mpfa::tools {
namespace {

using internal::SafetensorsReader;
using internal::TensorInfo;

constexpr DLDataType kFloat32 = dtype_of<float>();

// x - mean in FP32: x [rows, heads, d], mean [heads, d] compact.
OwnedTensor subtract_mean(const TensorView& x, const DLTensor& mean) {
  OwnedTensor out("q", kFloat32, {x.size(0), x.size(1), x.size(2)});
  const int64_t row_size = x.size(1) * x.size(2);
  const int64_t d = x.size(2);
  internal::visit_float_tensor<3>(x, "q", [&](const auto& values) {
    for (int64_t row = 0; row < x.size(0); ++row) {
      for (int64_t i = 0; i < row_size; ++i) {
        out.data<float>()[row * row_size + i] =
            internal::to_float(values.at(row, i / d)[i % d]) - data_as<float>(mean)[i];
      }
    }
  });
  return out;
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
                              internal::shape_text(std::span<const int64_t>(expected))));
  }
  return TensorView(reader.view(name));
}

// Statistics that nothing can be quantised with are the file's fault, and are told as such.
template <typename Fits>
void check_values(const SafetensorsReader& reader, const std::string& name,
                  const TensorView& stored, std::string_view expected, const Fits& fits) {
  const float* values = data_as<float>(stored);
  for (int64_t i = 0; i < stored.elements(); ++i) {
    if (fits(values[i])) continue;
    throw IoError(fmt::format("{}: tensor {}, element {} of {}: {}: must be {}",
                              internal::quote_path(reader.path()), internal::quote(name), i,
                              internal::shape_text(reader.at(name).shape), values[i], expected));
  }
}

void check_finite(const SafetensorsReader& reader, const std::string& name,
                  const TensorView& stored) {
  check_values(reader, name, stored, "finite", [](float x) { return std::isfinite(x); });
}

void load_mean(const SafetensorsReader& reader, const std::string& name, const DLTensor& out) {
  const TensorView mean = row_of(out, 0);
  const TensorView stored = load_checked(reader, name, {1, mean.size(0), mean.size(1)});
  check_finite(reader, name, stored);
  std::copy_n(data_as<float>(stored), stored.elements(), data_as<float>(mean));
}

// Copies the first rows of each head: [heads, stored, width] -> [heads, rank, width].
void copy_first_rows(const TensorView& from, const TensorView& to, int64_t width) {
  for (int64_t head = 0; head < to.size(0); ++head) {
    std::copy_n(data_as<float>(from.row(head)), to.size(1) * width, data_as<float>(to.row(head)));
  }
}

void load_residual(const SafetensorsReader& reader, const std::string& layer,
                   const StatsView& out) {
  const TensorView basis = row_of(*out.residual_basis, 0);
  const std::string name = layer_tensor_name(layer, "residual_basis");
  const TensorView stored_basis =
      load_checked(reader, name, {1, basis.size(0), -1, basis.size(2)}).row(0);
  const std::string scale_name = layer_tensor_name(layer, "residual_scale");
  const TensorView stored_scale =
      load_checked(reader, scale_name, {1, basis.size(0), stored_basis.size(1)}).row(0);
  // Rows of the basis are unit vectors.
  check_values(reader, name, stored_basis, "-1 to 1, an element of a unit vector",
               [](float x) { return std::abs(x) <= 1.001f; });
  check_values(reader, scale_name, stored_scale, "finite and above 0",
               [](float x) { return std::isfinite(x) && x > 0.0f; });
  if (stored_basis.size(1) < basis.size(1)) {
    throw IoError(fmt::format("{}: tensor {} has shape {}: expected a residual rank of at least {}",
                              internal::quote_path(reader.path()), internal::quote(name),
                              internal::shape_text(reader.at(name).shape), basis.size(1)));
  }
  copy_first_rows(stored_basis, basis, basis.size(2));
  copy_first_rows(stored_scale, row_of(*out.residual_scale, 0), 1);
}

}  // namespace

LayerStats::LayerStats(int64_t num_q_heads, int64_t num_kv_heads, int64_t head_dim,
                       int64_t residual_rank)
    : k_mean("k_mean", kFloat32, {1, num_kv_heads, head_dim}),
      q_mean("q_mean", kFloat32, {1, num_q_heads, head_dim}) {
  if (residual_rank == 0) return;
  residual_basis =
      OwnedTensor("residual_basis", kFloat32, {1, num_kv_heads, residual_rank, head_dim});
  residual_scale = OwnedTensor("residual_scale", kFloat32, {1, num_kv_heads, residual_rank});
}

StatsView LayerStats::view() const {
  return {.k_mean = k_mean.get(),
          .q_mean = q_mean.get(),
          .residual_basis = residual_basis.get(),
          .residual_scale = residual_scale.get()};
}

void calibrate_layer(const Layer& layer, const StatsView& out, const StatsOptions& options) {
  const auto first = [](const TensorView& x, int64_t n) {
    return x.slice(0, 0, n < 0 ? x.size(0) : std::min(n, x.size(0)));
  };
  const TensorView k = first(layer.k, options.mean_tokens);
  const TensorView q = first(layer.q, options.mean_tokens);
  const TensorView basis_q =
      first(layer.q, options.basis_queries < 0 ? options.mean_tokens : options.basis_queries);
  const OwnedTensor own_q_mean("q_mean", kFloat32, {1, q.size(1), q.size(2)});
  const TensorView k_mean = row_of(*out.k_mean, 0);
  const TensorView q_mean = row_of(out.q_mean != nullptr ? *out.q_mean : own_q_mean.dl(), 0);
  const CalibrateParams params = {.scale_rule = options.scale_rule};
  with_layer(layer, [&] {
    calibrate(q, k, {.k_mean = &k_mean, .q_mean = &q_mean}, params);
    if (out.residual_basis == nullptr) return;
    const TensorView basis = row_of(*out.residual_basis, 0);
    const TensorView scale = row_of(*out.residual_scale, 0);
    const CalibrationOut residual = {
        .k_mean = &k_mean, .residual_basis = &basis, .residual_scale = &scale};
    if (options.delta_s) {
      calibrate(subtract_mean(basis_q, q_mean).dl(), k, residual, params);
    } else {
      calibrate(basis_q, k, residual, params);
    }
  });
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
  if (basis == nullptr || basis->shape.size() != 4) return 0;
  const int64_t rank = basis->shape[2];
  if (internal::is_residual_rank(rank)) return rank;
  throw IoError(fmt::format(
      "{}: tensor {} has shape {}: dimension 2, the residual rank, must be "
      "{}, or --residual-rank must choose a smaller one",
      internal::quote_path(reader.path()), internal::quote(basis->name),
      internal::shape_text(basis->shape), internal::alternatives(internal::kResidualRanks)));
}

void load_stats(const SafetensorsReader& reader, const std::string& layer, const StatsView& out) {
  load_mean(reader, layer_tensor_name(layer, "k_mean"), *out.k_mean);
  if (out.q_mean != nullptr) load_mean(reader, layer_tensor_name(layer, "q_mean"), *out.q_mean);
  if (out.residual_basis != nullptr) load_residual(reader, layer, out);
}

}  // namespace mpfa::tools
