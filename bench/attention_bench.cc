// Decode and prefill of the CPU back end over a paged cache with scattered pages.
//
//   decode:  one query row a sequence; GB/s are the bytes of the cache that are read
//   prefill: causal, as many query rows as keys; FLOPS count 4 d per visible pair
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "mpfa/attention.h"
#include "mpfa/cache.h"
#include "mpfa/formats.h"

namespace mpfa {
namespace {

struct BenchShape {
  int64_t batch_size;
  int64_t seqlen_q;
  int64_t seqlen_k;
  int64_t num_q_heads;
  int64_t num_kv_heads;
  int64_t head_dim;
  int64_t residual_rank;
};

template <typename T>
struct Buffer {
  Buffer(std::vector<int64_t> dims, DLDataType dtype) : shape(std::move(dims)) {
    const int64_t count =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    values.resize(count);
    tensor = {values.data(),
              {kDLCPU, 0},
              static_cast<int32_t>(shape.size()),
              dtype,
              shape.data(),
              nullptr,
              0};
  }
  std::vector<int64_t> shape;
  std::vector<T> values;
  DLTensor tensor{};
};

// A cache of random keys and values, its pages in random order.
class Problem {
 public:
  explicit Problem(const BenchShape& s)
      : rows_(s.batch_size * s.seqlen_q),
        cache_(config(s)),
        q_({rows_, s.num_q_heads, s.head_dim}, {kDLBfloat, 16, 1}),
        out_({rows_, s.num_q_heads, s.head_dim}, {kDLBfloat, 16, 1}),
        cu_seqlens_q_({s.batch_size + 1}, {kDLInt, 32, 1}) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (Bf16& x : q_.values) x = bf16_from_float(normal(random));
    for (int64_t b = 0; b <= s.batch_size; ++b) {
      cu_seqlens_q_.values[b] = static_cast<int32_t>(b * s.seqlen_q);
    }
    fill_tables(s, random);
    fill_cache(s, random);
    plan_ = plan({.batch_size = s.batch_size,
                  .num_q_heads = s.num_q_heads,
                  .num_kv_heads = s.num_kv_heads,
                  .head_dim = s.head_dim,
                  .total_seqlen_q = rows_,
                  .max_seqlen_k = s.seqlen_k});
    workspace_.resize(plan_.workspace_bytes);
  }

  void run() {
    int64_t size = static_cast<int64_t>(workspace_.size());
    const DLTensor space = {workspace_.data(), {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, &size, nullptr, 0};
    attention(out_.tensor, nullptr, q_.tensor, cache_.view(), *cache_.block_table(),
              *cache_.seq_lens(), &cu_seqlens_q_.tensor, {}, plan_, &space);
  }

 private:
  static KvCacheConfig config(const BenchShape& s) {
    KvCacheConfig c;
    c.page_size = 64;
    c.max_pages_per_seq = (s.seqlen_k + c.page_size - 1) / c.page_size;
    c.num_pages = s.batch_size * c.max_pages_per_seq;
    c.num_q_heads = s.num_q_heads;
    c.num_kv_heads = s.num_kv_heads;
    c.head_dim = s.head_dim;
    c.residual_rank = s.residual_rank;
    c.first_key = s.residual_rank > 0;
    c.batch_size = s.batch_size;
    return c;
  }

  void fill_tables(const BenchShape& s, std::mt19937& random) {
    const int64_t count = s.batch_size * cache_.config().max_pages_per_seq;
    auto* table = static_cast<int32_t*>(cache_.block_table()->data);
    std::iota(table, table + count, 0);
    std::shuffle(table, table + count, random);
    auto* lens = static_cast<int32_t*>(cache_.seq_lens()->data);
    std::fill_n(lens, s.batch_size, static_cast<int32_t>(s.seqlen_k));
  }

  // In chunks, so that no BF16 copy of a long cache is needed.
  void fill_cache(const BenchShape& s, std::mt19937& random) {
    const int64_t total = cache_.config().num_pages * cache_.config().page_size;
    constexpr int64_t kChunk = 1024;
    std::normal_distribution<float> normal;
    Buffer<Bf16> k({kChunk, s.num_kv_heads, s.head_dim}, {kDLBfloat, 16, 1});
    Buffer<int64_t> slots({kChunk}, {kDLInt, 64, 1});
    for (Bf16& x : k.values) x = bf16_from_float(normal(random));
    for (int64_t begin = 0; begin < total; begin += kChunk) {
      for (int64_t i = 0; i < kChunk; ++i) slots.values[i] = begin + i < total ? begin + i : -1;
      append_kv(cache_.view(), k.tensor, k.tensor, slots.tensor);
    }
  }

  int64_t rows_;
  KvCache cache_;
  Buffer<Bf16> q_;
  Buffer<Bf16> out_;
  Buffer<int32_t> cu_seqlens_q_;
  Plan plan_;
  std::vector<uint8_t> workspace_;
};

void decode(benchmark::State& state) {
  const BenchShape s = {
      state.range(0), 1, state.range(1), state.range(2), state.range(3), state.range(4),
      state.range(5)};
  Problem problem(s);
  for (auto _ : state) problem.run();
  const double tokens = static_cast<double>(s.batch_size * s.seqlen_k * s.num_kv_heads);
  const double bytes =
      tokens * (static_cast<double>(s.head_dim) * 25 / 16 + static_cast<double>(s.residual_rank));
  state.counters["cache_bytes"] =
      benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate);
}

void prefill(benchmark::State& state) {
  const BenchShape s = {1,
                        state.range(0),
                        state.range(0),
                        state.range(1),
                        state.range(2),
                        state.range(3),
                        state.range(4)};
  Problem problem(s);
  for (auto _ : state) problem.run();
  const double pairs = 0.5 * static_cast<double>(s.seqlen_q) * static_cast<double>(s.seqlen_q + 1);
  state.counters["flops"] =
      benchmark::Counter(4.0 * pairs * static_cast<double>(s.head_dim * s.num_q_heads),
                         benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(decode)
    ->ArgNames({"b", "len", "Hq", "Hkv", "d", "r"})
    ->Args({1, 4096, 32, 8, 128, 8})
    ->Args({1, 32768, 32, 8, 128, 8})
    ->Args({1, 32768, 32, 8, 128, 0})
    ->Args({1, 32768, 40, 8, 128, 8})
    ->Args({8, 4096, 32, 8, 128, 8})
    ->Args({1, 32768, 9, 3, 64, 8})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

BENCHMARK(prefill)
    ->ArgNames({"len", "Hq", "Hkv", "d", "r"})
    ->Args({512, 9, 3, 64, 8})
    ->Args({2048, 32, 8, 128, 8})
    ->Args({2048, 32, 8, 128, 0})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace mpfa

BENCHMARK_MAIN();
