// Includes every public header and calls into the library; exits with 0 if it works.
#include <mpfa/attention.h>
#include <mpfa/cache.h>
#include <mpfa/check.h>
#include <mpfa/formats.h>
#include <mpfa/quant.h>
#include <mpfa/stream.h>
#include <mpfa/tensor.h>

#include <vector>

int main() {
  constexpr int64_t kTokens = 5;
  constexpr int64_t kHeadDim = 64;
  mpfa::KvCache cache({.num_pages = 1,
                       .num_q_heads = 1,
                       .num_kv_heads = 1,
                       .head_dim = kHeadDim,
                       .batch_size = 1,
                       .max_pages_per_seq = 1});
  const std::vector<float> ones(kTokens * kHeadDim, 1.0f);
  const mpfa::TensorView kv(ones, {kTokens, 1, kHeadDim});
  const std::vector<int64_t> slots = {0, 1, 2, 3, 4};
  mpfa::append_kv(cache.view(), kv, kv, mpfa::TensorView(slots, {kTokens}));
  mpfa::data_as<int32_t>(*cache.seq_lens())[0] = kTokens;

  const mpfa::Plan plan = mpfa::plan({.batch_size = 1,
                                      .num_q_heads = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = kHeadDim,
                                      .total_seqlen_q = 1,
                                      .max_seqlen_k = kTokens});
  std::vector<uint8_t> workspace(plan.workspace_bytes);
  const mpfa::TensorView workspace_view(workspace, {plan.workspace_bytes});
  std::vector<float> out(kHeadDim);
  mpfa::attention(mpfa::TensorView(out, {1, 1, kHeadDim}), nullptr, kv.slice(0, 0, 1), cache.view(),
                  *cache.block_table(), *cache.seq_lens(), nullptr, {}, plan, &workspace_view);
  for (const float value : out) {
    if (value != 1.0f) return 1;  // the mean of ones
  }
  return 0;
}
