#include "demo/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "common/errors.h"
#include "common/head_errors.h"
#include "common/layer_stats.h"
#include "common/sequence_attention.h"
#include "common/sequence_cache.h"

namespace mpfa::tools {
namespace {

using internal::Policy;
using internal::PolicyInputs;
using internal::PolicyResult;

constexpr int64_t kMaxSteps = 64;
constexpr int64_t kBasisQueries = 128;
constexpr int64_t kMinTokens = 16;
constexpr int kRepetitions = 7;  // of the timed path; the fastest counts, others were disturbed

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Prefill and decode through the library, as a program would run them.
class RealRun {
 public:
  RealRun(const Layer& layer, const DemoShape& shape, const DemoMethod& method)
      : layer_(layer),
        shape_(shape),
        cache_(config(shape, method)),
        attention_(
            cache_.cache(),
            {.num_q_heads = shape.num_q_heads, .max_rows = shape.prompt, .max_keys = shape.tokens}),
        out_("out", layer.q.dtype, {shape.tokens, shape.num_q_heads, shape.head_dim}) {
    calibrate_layer(layer, cache_.cache().view().stats,
                    {.mean_tokens = shape.prompt, .basis_queries = kBasisQueries});
  }

  void run() {
    cache_.clear();
    const auto start = std::chrono::steady_clock::now();
    step(0, shape_.prompt);
    prefill_seconds_ = std::min(prefill_seconds_, seconds_since(start));
    const auto decode_start = std::chrono::steady_clock::now();
    for (int64_t token = shape_.prompt; token < shape_.tokens; ++token) step(token, token + 1);
    decode_seconds_ = std::min(decode_seconds_, seconds_since(decode_start));
  }

  TensorView out() const { return out_.view(); }
  double prefill_tokens_per_s() const {
    return static_cast<double>(shape_.prompt) / prefill_seconds_;
  }
  double decode_tokens_per_s() const { return static_cast<double>(shape_.steps) / decode_seconds_; }

 private:
  static SequenceCacheConfig config(const DemoShape& shape, const DemoMethod& method) {
    SequenceCacheConfig config;
    config.capacity = shape.tokens;
    config.num_q_heads = shape.num_q_heads;
    config.num_kv_heads = shape.num_kv_heads;
    config.head_dim = shape.head_dim;
    config.residual_rank = method.residual_rank;
    return config;
  }

  void step(int64_t begin, int64_t end) {
    cache_.append(layer_.k.slice(0, begin, end), layer_.v.slice(0, begin, end));
    attention_.run(out_.view().slice(0, begin, end), nullptr, layer_.q.slice(0, begin, end));
  }

  const Layer& layer_;
  const DemoShape& shape_;
  SequenceCache cache_;
  SequenceAttention attention_;
  OwnedTensor out_;
  double prefill_seconds_ = std::numeric_limits<double>::infinity();  // of the fastest run
  double decode_seconds_ = std::numeric_limits<double>::infinity();
};

// The emulated methods, and with them the FP64 reference, for prefill or for decode.
struct Emulation {
  std::vector<PolicyResult> results;
  std::vector<double> reference;  // [rows, Hq, d]
};

Emulation emulate(const Layer& layer, const DemoShape& shape, bool decode,
                  const std::vector<DemoMethod>& methods) {
  std::vector<Policy> policies;
  for (const DemoMethod& method : methods) {
    if (!method.real) policies.push_back(method.policy);
  }
  PolicyInputs inputs;
  inputs.mean_keys = {0, shape.prompt};
  inputs.mean_queries = {0, shape.prompt};
  inputs.basis_queries = {0, std::min(kBasisQueries, shape.prompt)};
  inputs.first_query_row = decode ? shape.prompt : 0;
  inputs.keep_output = true;
  const int64_t tokens = decode ? shape.tokens : shape.prompt;
  Emulation emulation;
  emulation.results =
      run_policies(policies, layer.q.slice(0, 0, tokens), layer.k.slice(0, 0, tokens),
                   layer.v.slice(0, 0, tokens), inputs);
  emulation.reference = emulation.results.front().reference;
  return emulation;
}

DemoScore score_real(const Layer& layer, const DemoShape& shape, const DemoMethod& method,
                     const Emulation& prefill, const Emulation& decode) {
  RealRun run(layer, shape, method);
  for (int i = 0; i < kRepetitions; ++i) run.run();
  const HeadErrors prefill_errors =
      head_errors(run.out().slice(0, 0, shape.prompt), prefill.reference);
  const HeadErrors decode_errors =
      head_errors(run.out().slice(0, shape.prompt, shape.tokens), decode.reference);
  return {.prefill_error = prefill_errors.mean_relative_l2(),
          .prefill_cosine = prefill_errors.mean_cosine(),
          .decode_error = decode_errors.mean_relative_l2(),
          .decode_cosine = decode_errors.mean_cosine(),
          .prefill_tokens_per_s = run.prefill_tokens_per_s(),
          .decode_tokens_per_s = run.decode_tokens_per_s()};
}

DemoMethod emulated(std::string name, std::string id, std::string description, Policy policy,
                    const DemoShape& shape) {
  const int64_t group = shape.num_q_heads / shape.num_kv_heads;
  DemoMethod method;
  method.name = std::move(name);
  method.id = std::move(id);
  method.description = std::move(description);
  method.bytes =
      policy_k_bytes(policy, shape.head_dim, group) + policy_v_bytes(policy, shape.head_dim);
  method.policy = std::move(policy);
  return method;
}

DemoMethod real(std::string name, std::string id, std::string description, int64_t rank,
                const DemoShape& shape) {
  KvCacheConfig config;
  config.num_q_heads = shape.num_q_heads;
  config.num_kv_heads = shape.num_kv_heads;
  config.head_dim = shape.head_dim;
  config.residual_rank = rank;
  DemoMethod method;
  method.name = std::move(name);
  method.id = std::move(id);
  method.description = std::move(description);
  method.bytes = bytes_per_token_and_kv_head(config);
  method.real = true;
  method.residual_rank = rank;
  return method;
}

Policy with_bf16_p(Policy policy) {
  policy.p = internal::PFormat::kBf16;
  return policy;
}

void check_same_shape(const LayerFile& file, const DemoShape& a, const DemoShape& b) {
  if (a.tokens == b.tokens && a.num_q_heads == b.num_q_heads && a.num_kv_heads == b.num_kv_heads &&
      a.head_dim == b.head_dim) {
    return;
  }
  throw IoError(fmt::format("{}: the layers differ in shape: the demo needs layers of one model",
                            file.reader().path()));
}

DemoShape demo_shape(const Layer& layer) {
  check_cache_head_dim(layer);
  DemoShape shape;
  shape.tokens = layer.k.size(0);
  if (layer.q.size(0) != shape.tokens || shape.tokens < kMinTokens) {
    throw IoError(
        fmt::format("{}: {} queries and {} keys: the demo needs as many queries as keys, "
                    "at least {}",
                    layer.where, layer.q.size(0), shape.tokens, kMinTokens));
  }
  shape.steps = std::min(kMaxSteps, shape.tokens / 8);
  shape.prompt = shape.tokens - shape.steps;
  shape.num_q_heads = layer.q.size(1);
  shape.num_kv_heads = layer.k.size(1);
  shape.head_dim = layer.k.size(2);
  return shape;
}

std::vector<DemoMethod> demo_methods(const DemoShape& shape) {
  Policy bf16;
  bf16.name = "bf16_bf16";
  return {
      emulated("BF16 cache", "bf16", "Q, K and V as given, P in BF16.", with_bf16_p(bf16), shape),
      emulated("FP8 cache", "fp8_k", "K and V in e4m3, uncentred: what engines ship.",
               with_bf16_p(internal::fp8_k_policy()), shape),
      emulated("NVFP4, naive", "nvfp4_naive", "NVFP4 Q and K, uncentred, V and P in e4m3.",
               internal::naive_policy(), shape),
      emulated("the paper", "paper", "NVFP4 Q and K, both centred, delta_s; V and P in e4m3.",
               internal::paper_policy(), shape),
      real("MpFA, no residual", "mpfa_r0",
           "This library: NVFP4 K by scale search, first key; V in e4m3.", 0, shape),
      real("MpFA (default)", kDefaultMethod, "This library: the same and a residual of rank 8.", 8,
           shape),
  };
}

DemoLayer measure_layer(const Layer& layer, const DemoShape& shape,
                        const std::vector<DemoMethod>& methods) {
  return with_layer(layer, [&] {
    const Emulation prefill = emulate(layer, shape, false, methods);
    const Emulation decode = emulate(layer, shape, true, methods);
    DemoLayer result;
    result.name = layer.name;
    size_t next = 0;
    for (const DemoMethod& method : methods) {
      if (method.real) {
        result.scores.push_back(score_real(layer, shape, method, prefill, decode));
        continue;
      }
      const PolicyResult& p = prefill.results[next];
      const PolicyResult& d = decode.results[next++];
      result.scores.push_back({.prefill_error = p.mean_relative_l2(),
                               .prefill_cosine = p.mean_cosine(),
                               .decode_error = d.mean_relative_l2(),
                               .decode_cosine = d.mean_cosine()});
    }
    return result;
  });
}

std::vector<double> measure_table(const Layer& layer) {
  std::vector<Policy> policies;
  for (const internal::TableRow& row : internal::table_rows()) policies.push_back(row.policy);
  PolicyInputs inputs = internal::table_inputs();
  inputs.basis_queries.end = std::min(inputs.basis_queries.end, layer.q.size(0));
  std::vector<double> errors;
  with_layer(layer, [&] {
    for (const PolicyResult& result : run_policies(policies, layer.q, layer.k, layer.v, inputs)) {
      errors.push_back(result.mean_relative_l2());
    }
  });
  return errors;
}

}  // namespace

std::vector<DemoScore> DemoResult::means() const {
  std::vector<DemoScore> means(methods.size());
  const auto count = static_cast<double>(layers.size());
  for (const DemoLayer& layer : layers) {
    for (size_t m = 0; m < methods.size(); ++m) {
      means[m].prefill_error += layer.scores[m].prefill_error / count;
      means[m].prefill_cosine += layer.scores[m].prefill_cosine / count;
      means[m].decode_error += layer.scores[m].decode_error / count;
      means[m].decode_cosine += layer.scores[m].decode_cosine / count;
      means[m].prefill_tokens_per_s += layer.scores[m].prefill_tokens_per_s / count;
      means[m].decode_tokens_per_s += layer.scores[m].decode_tokens_per_s / count;
    }
  }
  return means;
}

DemoResult measure_demo(const LayerFile& file, Progress& progress) {
  constexpr LayerNeeds kAll = {.q = true, .k = true, .v = true};
  DemoResult result;
  for (const internal::TableRow& row : internal::table_rows()) result.table.push_back({row, 0.0});
  double strongest = -1.0;
  for (const std::string& name : file.names()) {
    const Layer layer = file.load(name, kAll);
    const DemoShape shape = demo_shape(layer);
    if (result.layers.empty()) {
      result.shape = shape;
      result.methods = demo_methods(shape);
    }
    check_same_shape(file, shape, result.shape);
    result.layers.push_back(measure_layer(layer, shape, result.methods));
    const std::vector<double> errors = measure_table(layer);
    for (size_t i = 0; i < errors.size(); ++i) {
      result.table[i].measured += errors[i] / static_cast<double>(file.names().size());
    }
    DemoChannel channel = strongest_channel(layer, shape.prompt);
    if (channel.strength > strongest) {
      strongest = channel.strength;
      result.channel = std::move(channel);
    }
    progress.step();
  }
  return result;
}

}  // namespace mpfa::tools
