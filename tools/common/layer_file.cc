#include "common/layer_file.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "common/errors.h"
#include "common/glob.h"
#include "core/shapes.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

using internal::Dtype;
using internal::TensorInfo;

constexpr int64_t kMaxTokens = INT32_MAX;  // lengths are int32 everywhere

std::string describe(const TensorInfo& info) {
  return fmt::format("{} {}", internal::dtype_name(info.dtype), internal::shape_text(info.shape));
}

// The layer of "<layer>.q", "<layer>.k", "<layer>.v", "q", "k" or "v".
bool layer_of(const std::string& tensor, std::string& layer) {
  const size_t dot = tensor.rfind('.');
  const std::string last = dot == std::string::npos ? tensor : tensor.substr(dot + 1);
  if (last != "q" && last != "k" && last != "v") return false;
  layer = dot == std::string::npos ? "" : tensor.substr(0, dot);
  return true;
}

class LayerLoader {
 public:
  LayerLoader(const internal::SafetensorsReader& reader, const std::string& layer)
      : reader_(reader), layer_(layer) {}

  TensorView load(const std::string& tensor) const {
    const TensorInfo& info = reader_.at(layer_tensor_name(layer_, tensor));
    const auto require = [&](bool ok, std::string_view expected) {
      if (!ok) fail(info, expected);
    };
    require(info.dtype == Dtype::BF16 || info.dtype == Dtype::F16 || info.dtype == Dtype::F32,
            "BF16, F16 or F32");
    require(info.shape.size() == 3, "[heads, tokens, d]");
    require(info.shape[0] >= 1, "at least one head");
    require(info.shape[1] >= 1 && info.shape[1] <= kMaxTokens, "1 to 2^31 - 1 tokens");
    require(info.shape[2] >= 16 && info.shape[2] % 16 == 0, "d a multiple of 16");
    return TensorView(reader_.view(info.name)).transposed(0, 1);
  }

  [[noreturn]] void fail(const TensorInfo& info, std::string_view expected) const {
    throw IoError(fmt::format("{}: tensor {} is {}: expected {}",
                              internal::quote_path(reader_.path()), internal::quote(info.name),
                              describe(info), expected));
  }
  // `tensor` does not fit to `other`.
  void require_fit(bool ok, const std::string& tensor, const std::string& other,
                   std::string_view expected) const {
    if (ok) return;
    const TensorInfo& reference = reader_.at(layer_tensor_name(layer_, other));
    fail(reader_.at(layer_tensor_name(layer_, tensor)),
         fmt::format("{} {} ({})", expected, internal::quote(reference.name), describe(reference)));
  }

 private:
  const internal::SafetensorsReader& reader_;
  const std::string& layer_;
};

}  // namespace

std::vector<std::string> choose_layers(const LayerFile& file,
                                       const std::vector<std::string>& patterns) {
  return with_context(internal::quote_path(file.reader().path()),
                      [&] { return choose_names(file.names(), patterns, "layer"); });
}

std::string layer_tensor_name(const std::string& layer, const std::string& tensor) {
  return layer.empty() ? tensor : layer + "." + tensor;
}

LayerFile::LayerFile(internal::SafetensorsReader reader) : reader_(std::move(reader)) {
  std::set<std::string> names;
  std::string layer;
  for (const TensorInfo& info : reader_.tensors()) {
    if (layer_of(info.name, layer)) names.insert(layer);
  }
  names_.assign(names.begin(), names.end());
}

LayerFile LayerFile::open(const std::string& path) {
  LayerFile file(internal::SafetensorsReader::open(path));
  if (!file.names_.empty()) return file;
  throw IoError(fmt::format(
      "{}: no tensor is named q, k, v or <layer>.q, <layer>.k, <layer>.v among its {} tensors",
      internal::quote_path(path), file.reader_.tensors().size()));
}

std::string LayerFile::one_name(const std::string& name) const {
  if (name.empty() && names_.size() == 1) return names_.front();
  for (const std::string& candidate : names_) {
    if (candidate == name) return candidate;
  }
  std::string list;
  for (const std::string& candidate : names_) {
    list += (list.empty() ? "" : ", ") + internal::quote(candidate);
  }
  const std::string where = internal::quote_path(reader_.path());
  if (name.empty()) {
    throw UsageError(
        fmt::format("{} has several layers; choose one with --layer: {}", where, list));
  }
  throw IoError(fmt::format("{}: no layer {}: there are {}", where, internal::quote(name), list));
}

Layer LayerFile::load(const std::string& name, LayerNeeds needs) const {
  const LayerLoader loader(reader_, name);
  Layer layer;
  layer.name = name;
  layer.where = internal::quote_path(reader_.path()) +
                (name.empty() ? "" : ": layer " + internal::quote(name));
  if (needs.q) layer.q = loader.load("q");
  if (needs.k) layer.k = loader.load("k");
  if (needs.v) layer.v = loader.load("v");
  if (needs.k && needs.v) {
    for (const int dim : {0, 1, 2}) {
      loader.require_fit(layer.v.size(dim) == layer.k.size(dim), "v", "k", "the shape of");
    }
    loader.require_fit(
        layer.v.dtype.code == layer.k.dtype.code && layer.v.dtype.bits == layer.k.dtype.bits, "v",
        "k", "the type of");
  }
  if (needs.q && needs.k) {
    loader.require_fit(layer.q.size(2) == layer.k.size(2), "q", "k", "the d of");
    loader.require_fit(layer.q.size(1) % layer.k.size(1) == 0, "q", "k",
                       "a multiple of the heads of");
  }
  return layer;
}

void check_cache_head_dim(const Layer& layer) {
  const int64_t d = layer.k.size(2);
  if (internal::is_head_dim(d)) return;
  throw IoError(fmt::format("{}: k and v have d = {}: a cache holds d = {}", layer.where, d,
                            internal::alternatives(internal::kHeadDims)));
}

}  // namespace mpfa::tools
