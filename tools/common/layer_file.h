// Q, K and V of a model's layers in a safetensors file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/errors.h"
#include "io/safetensors.h"
#include "mpfa/tensor.h"

namespace mpfa::tools {

// One layer's tensors, seen as [tokens, heads, d] although the file has [heads, tokens, d]. Views
// into the file that they come from; those that were not asked for are empty.
struct Layer {
  std::string name;   // "layer00"; empty where the tensors have no prefix
  std::string where;  // "'file.safetensors': layer 'layer00'", for messages
  TensorView q;       // [tokens_q, Hq, d]
  TensorView k;       // [tokens, Hkv, d]
  TensorView v;       // [tokens, Hkv, d]
};

// Which tensors a command needs.
struct LayerNeeds {
  bool q = false;
  bool k = false;
  bool v = false;
};

// A file whose tensors are named <layer>.q, <layer>.k, <layer>.v, or just q, k, v; others are
// ignored. Each is BF16, FP16 or FP32 of shape [heads, tokens, d].
class LayerFile {
 public:
  // Throws IoError naming the file if it is not safetensors.
  static LayerFile open(const std::string& path);

  // Layers that have at least one of q, k, v; sorted.
  const std::vector<std::string>& names() const { return names_; }
  // `name`, or where that is empty the file's only layer. Throws IoError if there is no such layer,
  // UsageError if there are several; both list them.
  std::string one_name(const std::string& name) const;

  // Throws IoError naming file, tensor, type, shape and what was expected, unless all tensors asked
  // for are there and fit one another: one d (a multiple of 16), k and v alike, Hq a multiple of
  // Hkv, at least one token.
  Layer load(const std::string& name, LayerNeeds needs) const;

  const internal::SafetensorsReader& reader() const { return reader_; }

 private:
  explicit LayerFile(internal::SafetensorsReader reader);

  internal::SafetensorsReader reader_;
  std::vector<std::string> names_;
};

// The file's layers that fit one of the patterns, in which * stands for any text; all without a
// pattern. Throws InvalidArgument, naming the file, for a pattern that fits none.
std::vector<std::string> choose_layers(const LayerFile& file,
                                       const std::vector<std::string>& patterns);

// "layer00" and "q" -> "layer00.q"; "" and "q" -> "q".
std::string layer_tensor_name(const std::string& layer, const std::string& tensor);

// with_context for the library's functions, whose tensors are [tokens, heads, d] while the file's
// are [heads, tokens, d]: indices in a message are in the former order, and it says so.
template <typename Fn>
decltype(auto) with_layer(const Layer& layer, Fn&& fn) {
  return with_context(layer.where + ", as [tokens, heads, d]", std::forward<Fn>(fn));
}

// Throws IoError unless d is one that a cache can hold (core/shapes.h).
void check_cache_head_dim(const Layer& layer);

}  // namespace mpfa::tools
