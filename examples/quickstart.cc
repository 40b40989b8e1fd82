// One layer of one sequence: a prompt goes into the low-bit cache and is attended to, then tokens
// are decoded one by one. Prints how far the outputs are from attention over the unquantised keys
// and values, and what the cache takes. Exits with 1 if that is further than it ought to be.
// README.md shows how to build against the library with CMake.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "mpfa/attention.h"
#include "mpfa/cache.h"
#include "mpfa/quant.h"
#include "mpfa/tensor.h"

namespace {

using mpfa::TensorView;

constexpr int64_t kQHeads = 8;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kPrompt = 200;
constexpr int64_t kSteps = 16;
constexpr int64_t kTokens = kPrompt + kSteps;
constexpr int64_t kPageSize = 64;
constexpr int64_t kPages = (kTokens + kPageSize - 1) / kPageSize;

// In a real program these come out of the model, q and k after the rotary embedding. As in a real
// model, each channel has a mean of its own, which is what makes keys hard to quantise.
std::vector<mpfa::Bf16> make_activations(int64_t heads, float mean_size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> means(heads * kHeadDim);
  for (float& mean : means) mean = mean_size * normal(random);
  std::vector<mpfa::Bf16> values(kTokens * heads * kHeadDim);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = mpfa::bf16_from_float(means[i % means.size()] + normal(random));
  }
  return values;
}

// The cache and its attention, for this program's shapes.
std::vector<mpfa::Bf16> run(const TensorView& q, const TensorView& k, const TensorView& v) {
  // [readme]
  mpfa::KvCache cache({.num_pages = kPages,
                       .page_size = kPageSize,
                       .num_q_heads = kQHeads,
                       .num_kv_heads = kKvHeads,
                       .head_dim = kHeadDim,
                       .batch_size = 1,
                       .max_pages_per_seq = kPages});

  // Calibrate once, on a sample; the statistics go straight into row 0 of the cache's.
  const mpfa::StatsView& stats = cache.view().stats;
  const TensorView k_mean = mpfa::row_of(*stats.k_mean, 0);
  const TensorView basis = mpfa::row_of(*stats.residual_basis, 0);
  const TensorView scale = mpfa::row_of(*stats.residual_scale, 0);
  mpfa::calibrate(q.slice(0, 0, kPrompt), k.slice(0, 0, kPrompt),
                  {.k_mean = &k_mean, .residual_basis = &basis, .residual_scale = &scale});

  // Which pages the sequence has, and where each of its tokens goes: here in order.
  auto* pages = mpfa::data_as<int32_t>(*cache.block_table());
  std::iota(pages, pages + kPages, 0);
  std::vector<int64_t> slot_values(kTokens);
  std::iota(slot_values.begin(), slot_values.end(), 0);
  const TensorView slots(slot_values, {kTokens});

  const mpfa::Plan plan = mpfa::plan({.batch_size = 1,
                                      .num_q_heads = kQHeads,
                                      .num_kv_heads = kKvHeads,
                                      .head_dim = kHeadDim,
                                      .total_seqlen_q = kPrompt,
                                      .max_seqlen_k = kTokens});
  std::vector<uint8_t> workspace_bytes(plan.workspace_bytes);
  const TensorView workspace(workspace_bytes, {plan.workspace_bytes});
  std::vector<mpfa::Bf16> out_values(kTokens * kQHeads * kHeadDim);
  const TensorView out(out_values, {kTokens, kQHeads, kHeadDim});

  // Prefill and decode are the same two calls: first the new tokens are appended, then attended to.
  const auto step = [&](int64_t begin, int64_t end) {
    mpfa::append_kv(cache.view(), k.slice(0, begin, end), v.slice(0, begin, end),
                    slots.slice(0, begin, end));
    mpfa::data_as<int32_t>(*cache.seq_lens())[0] = static_cast<int32_t>(end);
    const int32_t rows[] = {0, static_cast<int32_t>(end - begin)};
    const TensorView cu_seqlens_q(rows, {2});
    mpfa::attention(out.slice(0, begin, end), nullptr, q.slice(0, begin, end), cache.view(),
                    *cache.block_table(), *cache.seq_lens(), &cu_seqlens_q, {}, plan, &workspace);
  };
  step(0, kPrompt);
  for (int64_t token = kPrompt; token < kTokens; ++token) step(token, token + 1);
  // [readme]

  const double bytes = mpfa::bytes_per_token_and_kv_head(cache.config());
  const double bf16_bytes = 2.0 * 2.0 * kHeadDim;
  std::printf("cache: %.0f bytes per token and KV head, %.0f in BF16: %.2f times fewer\n", bytes,
              bf16_bytes, bf16_bytes / bytes);
  return out_values;
}

// Causal attention as it is written in a textbook, in double, over the unquantised keys and values.
std::vector<double> plain_attention(const std::vector<mpfa::Bf16>& q,
                                    const std::vector<mpfa::Bf16>& k,
                                    const std::vector<mpfa::Bf16>& v) {
  const auto at = [](const std::vector<mpfa::Bf16>& x, int64_t heads, int64_t token, int64_t head,
                     int64_t i) {
    return static_cast<double>(mpfa::bf16_to_float(x[(token * heads + head) * kHeadDim + i]));
  };
  std::vector<double> out(kTokens * kQHeads * kHeadDim);
  for (int64_t row = 0; row < kTokens; ++row) {
    for (int64_t head = 0; head < kQHeads; ++head) {
      const int64_t kv_head = head / (kQHeads / kKvHeads);
      std::vector<double> p(row + 1);
      for (int64_t j = 0; j <= row; ++j) {
        double score = 0.0;
        for (int64_t i = 0; i < kHeadDim; ++i) {
          score += at(q, kQHeads, row, head, i) * at(k, kKvHeads, j, kv_head, i);
        }
        p[j] = score / std::sqrt(static_cast<double>(kHeadDim));
      }
      const double largest = *std::max_element(p.begin(), p.end());
      for (double& x : p) x = std::exp(x - largest);
      const double sum = std::accumulate(p.begin(), p.end(), 0.0);
      for (int64_t j = 0; j <= row; ++j) {
        for (int64_t i = 0; i < kHeadDim; ++i) {
          out[(row * kQHeads + head) * kHeadDim + i] += p[j] / sum * at(v, kKvHeads, j, kv_head, i);
        }
      }
    }
  }
  return out;
}

// |out - expected| / |expected| over rows [begin, end).
double relative_error(const std::vector<mpfa::Bf16>& out, const std::vector<double>& expected,
                      int64_t begin, int64_t end) {
  double difference = 0.0;
  double size = 0.0;
  for (int64_t i = begin * kQHeads * kHeadDim; i < end * kQHeads * kHeadDim; ++i) {
    difference += std::pow(mpfa::bf16_to_float(out[i]) - expected[i], 2);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

int run_quickstart() {
  const std::vector<mpfa::Bf16> q = make_activations(kQHeads, 0.5f, 1);
  const std::vector<mpfa::Bf16> k = make_activations(kKvHeads, 2.0f, 2);
  const std::vector<mpfa::Bf16> v = make_activations(kKvHeads, 0.0f, 3);
  const std::vector<mpfa::Bf16> out =
      run(TensorView(q, {kTokens, kQHeads, kHeadDim}), TensorView(k, {kTokens, kKvHeads, kHeadDim}),
          TensorView(v, {kTokens, kKvHeads, kHeadDim}));
  const std::vector<double> expected = plain_attention(q, k, v);
  const double prefill = relative_error(out, expected, 0, kPrompt);
  const double decode = relative_error(out, expected, kPrompt, kTokens);
  std::printf("relative error: prefill of %d tokens %.4f, %d decode steps %.4f\n",
              static_cast<int>(kPrompt), prefill, static_cast<int>(kSteps), decode);
  constexpr double kAllowed = 0.1;
  return prefill < kAllowed && decode < kAllowed ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run_quickstart();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quickstart: %s\n", error.what());
    return 1;
  }
}
