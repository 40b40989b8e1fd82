// append_kv: bytes of BF16 input (K and V) a second. 8192 tokens are a prefill whose input comes
// from memory, 128 tokens stay in the L2 cache, 64 and 1 are decode steps.
#include <benchmark/benchmark.h>
#include <tbb/global_control.h>

#include <cstdint>
#include <random>
#include <vector>

#include "mpfa/cache.h"

namespace mpfa {
namespace {

// A compact tensor that owns its memory.
template <typename T>
class Array {
 public:
  Array(DLDataType dtype, std::vector<int64_t> shape) : shape_(std::move(shape)) {
    int64_t count = 1;
    for (int64_t n : shape_) count *= n;
    values.resize(count);
    tensor.data = values.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int>(shape_.size());
    tensor.dtype = dtype;
    tensor.shape = shape_.data();
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::vector<T> values;
  DLTensor tensor{};

 private:
  std::vector<int64_t> shape_;
};

void fill_normal(std::vector<Bf16>& values, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  for (Bf16& value : values) value = bf16_from_float(normal(rng));
}

struct Shape {
  int64_t head_dim;
  int64_t kv_heads;
  int64_t group;
  int64_t rank;
  bool first_key;
  bool delta_s;
  ScaleRule rule;
};

void append(benchmark::State& state, const Shape& shape, int64_t tokens, size_t threads) {
  tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
  KvCacheConfig config;
  config.head_dim = shape.head_dim;
  config.num_kv_heads = shape.kv_heads;
  config.num_q_heads = shape.kv_heads * shape.group;
  config.residual_rank = shape.rank;
  config.first_key = shape.first_key;
  config.delta_s = shape.delta_s;
  config.num_pages = (tokens + config.page_size - 1) / config.page_size;
  const KvCache cache(config);

  std::mt19937 rng(1);
  Array<Bf16> k({kDLBfloat, 16, 1}, {tokens, shape.kv_heads, shape.head_dim});
  Array<Bf16> v({kDLBfloat, 16, 1}, {tokens, shape.kv_heads, shape.head_dim});
  Array<int64_t> slots({kDLInt, 64, 1}, {tokens});
  fill_normal(k.values, rng);
  fill_normal(v.values, rng);
  for (int64_t i = 0; i < tokens; ++i) slots.values[i] = i;
  AppendParams params;
  params.scale_rule = shape.rule;
  while (state.KeepRunning()) append_kv(cache.view(), k.tensor, v.tensor, slots.tensor, params);
  const auto bytes = static_cast<int64_t>(sizeof(Bf16) * (k.values.size() + v.values.size()));
  state.SetBytesProcessed(state.iterations() * bytes);
}

constexpr ScaleRule kSearch = ScaleRule::kSearch;
constexpr Shape kDefault = {128, 8, 4, 8, true, false, kSearch};
constexpr Shape kHeadDim64 = {64, 8, 4, 8, true, false, kSearch};
constexpr Shape kResidual16 = {128, 8, 4, 16, true, false, kSearch};
constexpr Shape kNoResidual = {128, 8, 4, 0, false, false, kSearch};
constexpr Shape kNoSearch = {128, 8, 4, 0, false, false, ScaleRule::kPlain};
constexpr Shape kDeltaS = {128, 8, 4, 0, true, true, kSearch};
constexpr size_t kAllThreads = 1024;

BENCHMARK_CAPTURE(append, default_8192_tokens_1_thread, kDefault, 8192, 1)->UseRealTime();
BENCHMARK_CAPTURE(append, default_8192_tokens, kDefault, 8192, kAllThreads)->UseRealTime();
BENCHMARK_CAPTURE(append, head_dim_64_8192_tokens_1_thread, kHeadDim64, 8192, 1)->UseRealTime();
BENCHMARK_CAPTURE(append, residual_16_8192_tokens_1_thread, kResidual16, 8192, 1)->UseRealTime();
BENCHMARK_CAPTURE(append, no_residual_8192_tokens_1_thread, kNoResidual, 8192, 1)->UseRealTime();
BENCHMARK_CAPTURE(append, no_search_8192_tokens_1_thread, kNoSearch, 8192, 1)->UseRealTime();
BENCHMARK_CAPTURE(append, delta_s_8192_tokens_1_thread, kDeltaS, 8192, 1)->UseRealTime();
BENCHMARK_CAPTURE(append, default_128_tokens_1_thread, kDefault, 128, 1)->UseRealTime();
BENCHMARK_CAPTURE(append, default_64_tokens, kDefault, 64, kAllThreads)->UseRealTime();
BENCHMARK_CAPTURE(append, default_1_token, kDefault, 1, kAllThreads)->UseRealTime();

}  // namespace
}  // namespace mpfa

BENCHMARK_MAIN();
