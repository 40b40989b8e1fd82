#include "bench/workload.h"

#include <algorithm>
#include <numeric>

#include "common/machine.h"
#include "common/table.h"
#include "core/ceil_div.h"
#include "core/tensor.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

// A linear congruential generator: the same numbers on every machine, and fast enough for
// gigabytes.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // The sum of four uniform numbers: bell-shaped, variance 1.
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    int sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<int16_t>(state_ >> (16 * i));
    return static_cast<float>(sum) * (0.8660254f / 32768.0f);
  }

 private:
  uint64_t state_;
};

template <typename T>
void fill(T* data, int64_t count, Random& random) {
  for (int64_t i = 0; i < count; ++i) data[i] = internal::from_float<T>(random.next());
}

// A shape too large would not fail at once: memory is handed out as it is touched.
const BenchShape& checked(BenchMode mode, const BenchShape& shape, const WorkloadOptions& options) {
  const double memory = physical_memory();
  const KvCacheConfig config = cache_config(shape, options);
  const auto batch_size = static_cast<double>(shape.batch_size);
  const auto d = static_cast<double>(shape.head_dim);
  const double tokens = batch_size * static_cast<double>(shape.length);
  const double heads = mode == BenchMode::kAppend    ? static_cast<double>(shape.num_kv_heads)
                       : mode == BenchMode::kPrefill ? static_cast<double>(shape.num_q_heads)
                                                     : 0.0;
  // K and V, or Q and out; and a slot for each token.
  const double needed = memory_bytes(config) + tokens * (4 * d * heads + sizeof(int64_t));
  MPFA_CHECK(memory == 0.0 || needed < memory, "needs ", bytes_text(needed),
             ": must be below the machine's ", bytes_text(memory));
  return shape;
}

}  // namespace

DLDataType dtype_from_name(const std::string& name) {
  if (name == "fp16") return dtype_of<Fp16>();
  if (name == "fp32") return dtype_of<float>();
  return dtype_of<Bf16>();
}

void fill_random(const OwnedTensor& tensor, uint64_t seed) {
  Random random(seed);
  const int64_t count = tensor.view().elements();
  switch (internal::float_type(tensor.dl(), "tensor")) {
    case internal::FloatType::kBf16:
      return fill(tensor.data<Bf16>(), count, random);
    case internal::FloatType::kFp16:
      return fill(tensor.data<Fp16>(), count, random);
    default:
      return fill(tensor.data<float>(), count, random);
  }
}

KvCacheConfig cache_config(const BenchShape& shape, const WorkloadOptions& options) {
  KvCacheConfig config;
  config.page_size = options.page_size;
  config.max_pages_per_seq = internal::ceil_div(shape.length, options.page_size);
  config.num_pages = shape.batch_size * config.max_pages_per_seq;
  config.num_q_heads = shape.num_q_heads;
  config.num_kv_heads = shape.num_kv_heads;
  config.head_dim = shape.head_dim;
  config.residual_rank = options.residual_rank;
  config.first_key = options.first_key;
  config.delta_s = options.delta_s;
  config.batch_size = shape.batch_size;
  return config;
}

double memory_bytes(const KvCacheConfig& config) {
  // Every page has its own k_first.
  const double page_bytes =
      bytes_per_token_and_kv_head(config) * static_cast<double>(config.page_size) +
      (config.first_key ? 2.0 * static_cast<double>(config.head_dim) : 0.0);
  return static_cast<double>(config.num_pages) * static_cast<double>(config.num_kv_heads) *
         page_bytes;
}

std::string mode_name(BenchMode mode) {
  switch (mode) {
    case BenchMode::kAppend:
      return "append";
    case BenchMode::kDecode:
      return "decode";
    default:
      return "prefill";
  }
}

Workload::Workload(BenchMode mode, const BenchShape& shape, const WorkloadOptions& options)
    : mode_(mode),
      shape_(checked(mode, shape, options)),
      options_(options),
      cache_(cache_config(shape, options)) {
  const int64_t tokens = shape.batch_size * shape.length;
  const int64_t chunk = mode == BenchMode::kAppend ? tokens : std::min(tokens, kChunkTokens);
  const DLDataType dtype = dtype_from_name(options.dtype);
  k_ = OwnedTensor("k", dtype, {chunk, shape.num_kv_heads, shape.head_dim});
  v_ = OwnedTensor("v", dtype, {chunk, shape.num_kv_heads, shape.head_dim});
  fill_random(k_, 1);
  fill_random(v_, 2);
  slots_ = OwnedTensor("slots", dtype_of<int64_t>(), {tokens});
  const int64_t slots_per_seq = cache_.config().max_pages_per_seq * options.page_size;
  for (int64_t i = 0; i < tokens; ++i) {
    slots_.data<int64_t>()[i] = i / shape.length * slots_per_seq + i % shape.length;
  }
  auto* pages = data_as<int32_t>(*cache_.block_table());
  std::iota(pages, pages + cache_.config().num_pages, 0);
  std::fill_n(data_as<int32_t>(*cache_.seq_lens()), shape.batch_size,
              static_cast<int32_t>(shape.length));
  if (mode != BenchMode::kAppend) {
    fill_cache();
    make_queries();
  }
}

void Workload::append(int64_t first_token, int64_t tokens) {
  append_kv(cache_.view(), k_.view().slice(0, 0, tokens), v_.view().slice(0, 0, tokens),
            slots_.view().slice(0, first_token, first_token + tokens));
}

void Workload::fill_cache() {
  const int64_t tokens = shape_.batch_size * shape_.length;
  for (int64_t first = 0; first < tokens; first += kChunkTokens) {
    append(first, std::min(kChunkTokens, tokens - first));
  }
}

void Workload::make_queries() {
  const int64_t rows = shape_.batch_size * (mode_ == BenchMode::kPrefill ? shape_.length : 1);
  const DLDataType dtype = dtype_from_name(options_.dtype);
  q_ = OwnedTensor("q", dtype, {rows, shape_.num_q_heads, shape_.head_dim});
  out_ = OwnedTensor("out", dtype, {rows, shape_.num_q_heads, shape_.head_dim});
  lse_ = OwnedTensor("lse", internal::kFloat32Type, {rows, shape_.num_q_heads});
  fill_random(q_, 3);
  cu_seqlens_ = OwnedTensor("cu_seqlens_q", internal::kInt32Type, {shape_.batch_size + 1});
  for (int64_t b = 0; b <= shape_.batch_size; ++b) {
    const int64_t first_row = b * (rows / shape_.batch_size);
    MPFA_CHECK(first_row <= INT32_MAX, "shape ", shape_.str(), " has ", rows,
               " query rows: must be below 2^31");
    cu_seqlens_.data<int32_t>()[b] = static_cast<int32_t>(first_row);
  }
  PlanParams params;
  params.batch_size = shape_.batch_size;
  params.num_q_heads = shape_.num_q_heads;
  params.num_kv_heads = shape_.num_kv_heads;
  params.head_dim = shape_.head_dim;
  params.total_seqlen_q = rows;
  params.max_seqlen_k = shape_.length;
  params.kv_split_size = options_.kv_split_size;
  plan_ = plan(params);
  if (plan_.workspace_bytes > 0) {
    workspace_ = OwnedTensor("workspace", internal::kUint8Type, {plan_.workspace_bytes});
  }
}

void Workload::run() {
  if (mode_ == BenchMode::kAppend) {
    append(0, shape_.batch_size * shape_.length);
    return;
  }
  attention(out_.dl(), lse_.get(), q_.dl(), cache_.view(), *cache_.block_table(),
            *cache_.seq_lens(), cu_seqlens_.get(), {}, plan_, workspace_.get());
}

double Workload::tokens() const {
  const int64_t per_sequence = mode_ == BenchMode::kDecode ? 1 : shape_.length;
  return static_cast<double>(shape_.batch_size * per_sequence);
}

double Workload::cache_bytes() const {
  return bytes_per_token_and_kv_head(cache_.config()) *
         static_cast<double>(shape_.batch_size * shape_.length * shape_.num_kv_heads);
}

double Workload::input_bytes() const {
  const double elements = static_cast<double>(shape_.batch_size * shape_.length) *
                          static_cast<double>(shape_.num_kv_heads * shape_.head_dim);
  const int bytes = dtype_from_name(options_.dtype).bits / 8;
  return 2.0 * elements * bytes;
}

// Two products of d multiplications and additions for every visible pair of query and key.
double Workload::flops() const {
  if (mode_ == BenchMode::kAppend) return 0.0;
  const auto length = static_cast<double>(shape_.length);
  const double pairs = mode_ == BenchMode::kDecode ? length : length * (length + 1.0) / 2.0;
  return 4.0 * pairs * static_cast<double>(shape_.batch_size * shape_.num_q_heads) *
         static_cast<double>(shape_.head_dim);
}

}  // namespace mpfa::tools
