// Values at the ends of their ranges: no NaN where docs/spec.md gives a value.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "mpfa/attention.h"
#include "support/attention_case.h"

namespace mpfa::testing {
namespace {

void check(AttentionCase& problem) {
  SCOPED_TRACE(describe(problem.shape()));
  problem.run();
  problem.expect_matches_reference();
}

void check(const AttentionShape& shape) {
  AttentionCase problem(shape, 20);
  check(problem);
}

void set_row(TestTensor& tensor, const TestTensor::Shape& row, const std::vector<float>& values) {
  TestTensor::Shape index = row;
  index.push_back(0);
  for (int64_t i = 0; i < tensor.shape().back(); ++i) {
    index.back() = i;
    const auto n = static_cast<size_t>(i);
    tensor.set(index, n < values.size() ? values[n] : 0.0f);
  }
}

// Every byte of one of the cache's tensors [pages, Hkv, page_size, n].
void set_bytes(TestTensor& tensor, uint8_t value) {
  tensor.for_each(
      [&](const TestTensor::Shape& i) { tensor.at<uint8_t>(i[0], i[1], i[2], i[3]) = value; });
}

AttentionShape one_row(DLDataType type) {
  return {.seqlens_q = {1}, .seqlens_k = {40}, .num_kv_heads = 1, .group_size = 1, .q_type = type};
}

// One row under everything that rowbias meets: softcap, sinks, and the sum alone.
std::vector<AttentionShape> rowbias_shapes() {
  std::vector<AttentionShape> shapes;
  for (const DLDataType type : {kBF16, kF32}) {
    for (const float softcap : {0.0f, 30.0f}) {
      for (const bool sinks : {false, true}) {
        AttentionShape shape = one_row(type);
        shape.params.softcap = softcap;
        shape.sinks = sinks;
        shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

// Products of q and k_mean leave FP32's range although their sum does not.
TEST(AttentionExtremes, RowBiasWhoseTermsOverflow) {
  for (const AttentionShape& shape : rowbias_shapes()) {
    AttentionCase problem(shape, 21);
    set_row(problem.q(), {0, 0}, {3e38f, 3e38f, 1.0f});
    set_row(problem.k_mean(), {0, 0}, {2.0f, -2.0f, 0.5f});
    set_bytes(problem.k_scales(), 0);
    check(problem);
  }
}

// The scores are huge, rowbias is as huge, and they cancel.
TEST(AttentionExtremes, RowBiasBeyondFp32CancelsTheScore) {
  for (const AttentionShape& shape : rowbias_shapes()) {
    AttentionCase problem(shape, 22);
    set_row(problem.q(), {0, 0}, std::vector<float>(64, 0x1p123f));
    set_row(problem.k_mean(), {0, 0}, std::vector<float>(64, -8.0f));
    // K^ = 8 everywhere: scale 2, code 6 (4.0).
    set_bytes(problem.k_codes(), 0x66);
    set_bytes(problem.k_scales(), e4m3_from_float(2.0f).bits);
    check(problem);
    if (shape.sinks) continue;
    EXPECT_NEAR(problem.lse().get({0, 0}), std::log(40.0f), 1e-5f);
  }
}

// An LSE that FP32 cannot hold must not become -inf, which says that a row has no keys.
TEST(AttentionExtremes, LseBeyondFp32Saturates) {
  for (const float sign : {1.0f, -1.0f}) {
    AttentionCase problem(one_row(kF32), 23);
    set_row(problem.q(), {0, 0}, std::vector<float>(64, 1e38f));
    set_row(problem.k_mean(), {0, 0}, std::vector<float>(64, sign * 100.0f));
    check(problem);
    EXPECT_EQ(problem.lse().get({0, 0}), sign * std::numeric_limits<float>::max());
  }
}

// Logits so small that FP32 cannot hold the factor that makes them: every visible key counts alike.
TEST(AttentionExtremes, VanishingScales) {
  for (const DLDataType type : {kBF16, kF32}) {
    for (const bool delta_s : {false, true}) {
      check({.seqlens_q = {3},
             .seqlens_k = {40},
             .delta_s = delta_s,
             .q_type = type,
             .q_magnitude = 1e-20f,
             .mean_magnitude = 1e-20f,
             .delta_magnitude = 1e-20f,
             .params = {.softmax_scale = 1e-30f}});
      check({.seqlens_q = {3},
             .seqlens_k = {40},
             .residual_rank = 4,
             .delta_s = delta_s,
             .first_key = true,
             .scales = true,
             .q_type = type,
             .q_magnitude = 1e-37f,
             .mean_magnitude = 1e-37f,
             .scale_magnitude = 1e-8f,
             .delta_magnitude = 1e-20f,
             .params = {.window_left = 20}});
    }
  }
}

TEST(AttentionExtremes, KScaleAtBothEnds) {
  for (const DLDataType type : {kBF16, kF32}) {
    for (const float magnitude : {1e-38f, 1e-30f, 1e30f}) {
      for (const bool delta_s : {false, true}) {
        check({.seqlens_q = {3},
               .seqlens_k = {40},
               .residual_rank = 8,
               .delta_s = delta_s,
               .first_key = true,
               .scales = true,
               .q_type = type,
               .scale_magnitude = magnitude,
               .residual_magnitude = 1000.0f});
      }
    }
  }
}

TEST(AttentionExtremes, LargeCompensations) {
  for (const float magnitude : {1e10f, 1e30f, 1e36f}) {
    check({.seqlens_q = {2}, .seqlens_k = {40}, .delta_s = true, .delta_magnitude = magnitude});
    check({.seqlens_q = {2}, .seqlens_k = {40}, .first_key = true, .first_magnitude = magnitude});
    check(
        {.seqlens_q = {2}, .seqlens_k = {40}, .residual_rank = 8, .residual_magnitude = magnitude});
  }
}

TEST(AttentionExtremes, QueryThatIsAlmostItsMean) {
  AttentionShape shape = one_row(kF32);
  shape.delta_s = true;
  for (const float rest : {0.0f, 1e-38f, 1e-44f}) {
    AttentionCase problem(shape, 24);
    for (int64_t i = 0; i < 64; ++i) {
      problem.q_mean().set({0, 0, i}, 0.0f);
      problem.q().set({0, 0, i}, i == 7 ? rest : 0.0f);
    }
    check(problem);
  }
}

TEST(AttentionExtremes, SoftcapAtBothEnds) {
  for (const float softcap : {1e-45f, 1e-39f, 1e-10f, 1e10f, 1e30f, 3e38f}) {
    for (const DLDataType type : {kBF16, kF32}) {
      check({.seqlens_q = {3},
             .seqlens_k = {40},
             .residual_rank = 4,
             .first_key = true,
             .q_type = type,
             .params = {.softcap = softcap}});
    }
  }
}

TEST(AttentionExtremes, SinksAtBothEnds) {
  for (const float sink : {-std::numeric_limits<float>::infinity(), -3e38f, -1e-45f, 3e38f}) {
    AttentionCase problem({.seqlens_q = {2}, .seqlens_k = {40}, .sinks = true}, 25);
    for (int64_t h = 0; h < problem.num_q_heads(); ++h) problem.sinks().set({h}, sink);
    check(problem);
  }
}

TEST(AttentionExtremes, HugeAndTinyQueries) {
  for (const float magnitude : {1e-30f, 1e-6f, 1e6f, 1e20f, 1e35f}) {
    AttentionCase problem({.seqlens_q = {5, 1},
                           .seqlens_k = {90, 40},
                           .residual_rank = 8,
                           .first_key = true,
                           .q_magnitude = magnitude},
                          7);
    SCOPED_TRACE(magnitude);
    problem.run();
    problem.expect_matches_reference();
  }
}

TEST(AttentionExtremes, ZeroKeysGiveTheMeanOfV) {
  AttentionCase problem({.seqlens_q = {1}, .seqlens_k = {70}, .q_type = kF32}, 8);
  set_bytes(problem.k_scales(), 0);
  problem.run();
  problem.expect_matches_reference();
}

// A NaN in V or K reaches the rows that see its token, and no other.
TEST(AttentionExtremes, NanStaysWithTheRowsThatSeeIt) {
  for (const bool in_v : {true, false}) {
    for (const DLDataType type : {kBF16, kF32}) {
      AttentionCase problem({.seqlens_q = {40},
                             .seqlens_k = {40},
                             .num_kv_heads = 1,
                             .group_size = 2,
                             .page_size = 64,
                             .q_type = type},
                            9);
      const int64_t page = problem.block_table().at<int32_t>(0, 0);
      constexpr int64_t kToken = 25;
      if (in_v) {
        problem.v().at<uint8_t>(page, 0, kToken, 3) = kE4m3NanCode;
      } else {
        problem.k_scales().at<uint8_t>(page, 0, kToken, 1) = kE4m3NanCode;
      }
      problem.run();
      for (int64_t row = 0; row < 40; ++row) {
        for (int64_t i = 0; i < 64; ++i) {
          const bool nan = row >= kToken && (!in_v || i == 3);
          ASSERT_EQ(std::isnan(problem.out().get({row, 1, i})), nan) << row << ' ' << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mpfa::testing
