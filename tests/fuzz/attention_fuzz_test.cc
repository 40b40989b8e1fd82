// Differential fuzz: random shapes, features, strides and values through attention() and the
// oracle. A fixed list of seeds by default; MPFA_FUZZ_SECONDS=n goes on with new ones for n
// seconds.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "support/attention_case.h"

namespace mpfa::testing {
namespace {

constexpr uint32_t kFixedSeeds = 200;

class Chooser {
 public:
  explicit Chooser(uint32_t seed) : random_(seed) {}
  bool one_in(uint32_t n) { return random_() % n == 0; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + random_() % values.size());
  }

 private:
  std::mt19937 random_;
};

// Lengths are short most of the time, near multiples of tiles and pages often, long seldom.
int32_t random_length(Chooser& choose) {
  if (choose.one_in(8)) return 0;
  if (choose.one_in(3)) {
    const int64_t near = choose.pick<int64_t>({16, 64, 128, 256, 384}) + choose.between(-1, 1);
    return static_cast<int32_t>(near);
  }
  return static_cast<int32_t>(choose.between(1, choose.one_in(6) ? 1500 : 150));
}

AttentionShape random_shape(Chooser& choose) {
  AttentionShape s;
  s.num_kv_heads = choose.between(1, 3);
  s.group_size = choose.pick<int64_t>({1, 2, 3, 4, 5, 6, 7, 8, 16});
  s.head_dim = choose.pick<int64_t>({64, 128});
  s.page_size = choose.pick<int64_t>({16, 32, 64, 128});
  s.residual_rank = choose.pick<int64_t>({0, 4, 8, 16});
  s.delta_s = choose.one_in(3);
  s.first_key = choose.one_in(2);
  s.scales = choose.one_in(3);
  s.strided = choose.one_in(3);
  s.sinks = choose.one_in(4);
  s.num_stats = choose.between(1, 3);
  s.q_type = choose.pick<DLDataType>({kBF16, kF16, kF32});
  s.q_magnitude = choose.pick<float>({1e-20f, 0.1f, 1.0f, 1.0f, 1.0f, 4.0f, 1e4f, 1e30f});
  if (choose.one_in(6)) s.mean_magnitude = choose.pick<float>({0.0f, 1e-30f, 100.0f, 1e30f});
  if (choose.one_in(6)) s.scale_magnitude = choose.pick<float>({1e-37f, 1e-6f, 1e5f, 1e30f});
  if (choose.one_in(6)) s.delta_magnitude = choose.pick<float>({0.0f, 1e-30f, 1e4f, 1e36f});
  if (choose.one_in(6)) s.first_magnitude = choose.pick<float>({0.0f, 1e-30f, 1e4f, 1e36f});
  if (choose.one_in(6)) s.residual_magnitude = choose.pick<float>({1e-30f, 1e4f, 1e30f});
  s.zero_keys = choose.one_in(12);
  s.nan_inside = choose.one_in(12);
  s.kv_split_size = choose.pick<int64_t>({0, 128, 256, 512});
  s.params.causal = !choose.one_in(4);
  if (choose.one_in(3)) s.params.window_left = choose.between(0, 200);
  if (choose.one_in(4)) s.params.softcap = choose.pick<float>({1e-30f, 1.0f, 20.0f, 50.0f, 1e30f});
  if (choose.one_in(4)) s.params.softmax_scale = choose.pick<float>({1e-30f, 0.05f, 0.3f});

  s.decode_form = choose.one_in(3);
  const int64_t batch = choose.between(1, 4);
  s.seqlens_q.clear();
  s.seqlens_k.clear();
  for (int64_t b = 0; b < batch; ++b) {
    s.seqlens_k.push_back(random_length(choose));
    const int64_t rows = choose.one_in(2) ? choose.between(0, 20) : choose.between(1, 130);
    s.seqlens_q.push_back(s.decode_form ? 1 : static_cast<int32_t>(rows));
  }
  // FP16 holds no 1e4 times a normal variable, and products of such scores need FP64.
  if (s.q_type.code == kDLFloat && s.q_type.bits == 16) s.q_magnitude = 1.0f;
  return s;
}

void run_seed(uint32_t seed) {
  Chooser choose(seed);
  const AttentionShape shape = random_shape(choose);
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(shape));
  AttentionCase problem(shape, seed);
  problem.run();
  problem.expect_matches_reference();
}

TEST(AttentionFuzz, MatchesReference) {
  const char* seconds = std::getenv("MPFA_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(seconds == nullptr ? 0 : std::strtol(seconds, nullptr, 10));
  for (uint32_t seed = 1; seed <= kFixedSeeds || std::chrono::steady_clock::now() < end; ++seed) {
    run_seed(seed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace mpfa::testing
