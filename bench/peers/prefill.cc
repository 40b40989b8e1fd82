#include "prefill.h"

#include <algorithm>
#include <numeric>

namespace mpfa::peers {
namespace {

bool all_equal(const std::vector<int32_t>& values) {
  return std::all_of(values.begin(), values.end(), [&](int32_t n) { return n == values.front(); });
}

}  // namespace

bool PrefillShape::is_varlen() const { return !all_equal(seqlens_q) || !all_equal(seqlens_k); }

int64_t PrefillShape::total_q() const {
  return std::accumulate(seqlens_q.begin(), seqlens_q.end(), int64_t{0});
}

int64_t PrefillShape::total_k() const {
  return std::accumulate(seqlens_k.begin(), seqlens_k.end(), int64_t{0});
}

int PrefillShape::max_seqlen_q() const {
  return *std::max_element(seqlens_q.begin(), seqlens_q.end());
}

int PrefillShape::max_seqlen_k() const {
  return *std::max_element(seqlens_k.begin(), seqlens_k.end());
}

double PrefillShape::flops() const {
  double pairs = 0.0;
  for (size_t i = 0; i < seqlens_q.size(); ++i) {
    const double rows = seqlens_q[i];
    pairs += rows * (is_causal ? seqlens_k[i] - rows / 2 : seqlens_k[i]);
  }
  return 4.0 * pairs * head_dim * num_q_heads;
}

}  // namespace mpfa::peers
