// Small files of random Q, K and V.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "mpfa/formats.h"

namespace mpfa::tools {

// Collects tensors and writes them; what it holds can be read back by the test.
class QkvFile {
 public:
  explicit QkvFile(uint64_t seed = 1) : random_(seed) {}

  // BF16 [heads, tokens, d]: each channel has a mean of its own, as real keys have.
  QkvFile& add(const std::string& name, int64_t heads, int64_t tokens, int64_t d) {
    std::normal_distribution<float> normal;
    std::vector<Bf16>& values = bf16_[name];
    std::vector<float> means(static_cast<size_t>(heads * d));
    for (float& mean : means) mean = 2.0f * normal(random_);
    for (int64_t i = 0; i < heads * tokens * d; ++i) {
      const int64_t channel = i / (tokens * d) * d + i % d;
      values.push_back(bf16_from_float(means[static_cast<size_t>(channel)] + normal(random_)));
    }
    writer_.add(name, internal::Dtype::BF16, std::vector<int64_t>{heads, tokens, d}, values.data());
    return *this;
  }

  // <layer>.q, <layer>.k, <layer>.v, or without prefix for "".
  QkvFile& add_layer(const std::string& layer, int64_t q_heads, int64_t kv_heads, int64_t tokens,
                     int64_t d) {
    const std::string prefix = layer.empty() ? "" : layer + ".";
    return add(prefix + "q", q_heads, tokens, d)
        .add(prefix + "k", kv_heads, tokens, d)
        .add(prefix + "v", kv_heads, tokens, d);
  }

  // Changes one element of a tensor that add() made.
  void set_bf16(const std::string& name, size_t index, float value) {
    bf16_.at(name)[index] = bf16_from_float(value);
  }

  // F32 of any shape.
  QkvFile& add_f32(const std::string& name, std::vector<int64_t> shape,
                   const std::vector<float>& values) {
    f32_[name] = values;
    writer_.add(name, internal::Dtype::F32, shape, f32_[name].data());
    return *this;
  }

  // Zeros of any type and shape.
  QkvFile& add_zeros(const std::string& name, internal::Dtype dtype, std::vector<int64_t> shape) {
    size_t bytes = internal::dtype_size(dtype);
    for (const int64_t n : shape) bytes *= static_cast<size_t>(n);
    zeros_[name].resize(bytes);
    writer_.add(name, dtype, shape, zeros_[name].data());
    return *this;
  }

  // Overwrites one value of a BF16 tensor, before write().
  QkvFile& set(const std::string& name, size_t index, float value) {
    bf16_.at(name).at(index) = bf16_from_float(value);
    return *this;
  }
  float value(const std::string& name, size_t index) const {
    return bf16_to_float(bf16_.at(name).at(index));
  }

  std::string write(const std::string& path) const {
    writer_.write(path);
    return path;
  }

 private:
  std::mt19937_64 random_;
  std::map<std::string, std::vector<Bf16>> bf16_;
  std::map<std::string, std::vector<float>> f32_;
  std::map<std::string, std::vector<char>> zeros_;
  internal::SafetensorsWriter writer_;
};

}  // namespace mpfa::tools
