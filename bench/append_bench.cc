// append_kv: bytes of BF16 input (K and V) a second. One argument set per cache kind; the token
// count of 1 and 64 is a decode step, 8192 a prefill. Threads: as many as oneTBB takes, or one.
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

void run_append(benchmark::State& state, const Shape& shape, int64_t tokens, size_t threads) {
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
  for (auto _ : state) append_kv(cache.view(), k.tensor, v.tensor, slots.tensor, params);
  const auto bytes = static_cast<int64_t>(sizeof(Bf16) * (k.values.size() + v.values.size()));
  state.SetBytesProcessed(state.iterations() * bytes);
}

constexpr Shape kDefault = {128, 8, 4, 8, true, false, ScaleRule::kSearch};

Shape with(Shape shape, int64_t rank, bool first_key, bool delta_s, ScaleRule rule) {
  shape.rank = rank;
  shape.first_key = first_key;
  shape.delta_s = delta_s;
  shape.rule = rule;
  return shape;
}

void add(const char* name, const Shape& shape, int64_t tokens, size_t threads) {
  benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
    run_append(state, shape, tokens, threads);
  })->UseRealTime();
}

int register_all() {
  const Shape d64 = {64, 8, 4, 8, true, false, ScaleRule::kSearch};
  const Shape none = with(kDefault, 0, false, false, ScaleRule::kSearch);
  add("append/default/d128/8192/1thread", kDefault, 8192, 1);
  add("append/default/d128/8192/all", kDefault, 8192, 64);
  add("append/default/d64/8192/1thread", d64, 8192, 1);
  add("append/r16/d128/8192/1thread", with(kDefault, 16, true, false, ScaleRule::kSearch), 8192, 1);
  add("append/r0/d128/8192/1thread", none, 8192, 1);
  add("append/r0_plain/d128/8192/1thread", with(none, 0, false, false, ScaleRule::kPlain), 8192, 1);
  add("append/delta_s/d128/8192/1thread", with(none, 0, true, true, ScaleRule::kSearch), 8192, 1);
  add("append/default/d128/1/all", kDefault, 1, 64);
  add("append/default/d128/64/all", kDefault, 64, 64);
  return 0;
}

const int kRegistered = register_all();

}  // namespace
}  // namespace mpfa

BENCHMARK_MAIN();
