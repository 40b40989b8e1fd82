// Every SIMD target and both kinds of arithmetic that this CPU can run, through one set of shapes.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "cpu/attention_kernel.h"
#include "support/attention_case.h"

namespace mpfa::testing {
namespace {

std::vector<AttentionShape> shapes() {
  std::vector<AttentionShape> list;
  for (const DLDataType type : {kBF16, kF16, kF32}) {
    for (const int64_t d : {64, 128}) {
      list.push_back({.seqlens_q = {1, 19, 70},
                      .seqlens_k = {300, 33, 90},
                      .group_size = 5,
                      .head_dim = d,
                      .residual_rank = 8,
                      .first_key = true,
                      .q_type = type,
                      .params = {.softcap = 30.0f},
                      .kv_split_size = 128});
      list.push_back({.seqlens_q = {7, 2},
                      .seqlens_k = {65, 200},
                      .head_dim = d,
                      .residual_rank = 4,
                      .delta_s = true,
                      .scales = true,
                      .strided = true,
                      .q_type = type,
                      .params = {.window_left = 50}});
    }
  }
  return list;
}

void for_each_target(const std::function<void()>& fn) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    // Forget the choice that earlier calls made.
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    for (const auto kind :
         {std::optional<internal::DotKind>(), std::optional(internal::DotKind::kFp32)}) {
      internal::force_dot_kind_for_test(kind);
      fn();
    }
  }
  internal::force_dot_kind_for_test(std::nullopt);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(AttentionTargets, EveryTargetMatchesTheReference) {
  for_each_target([] {
    for (const AttentionShape& shape : shapes()) {
      SCOPED_TRACE(describe(shape));
      AttentionCase problem(shape, 3);
      problem.run();
      problem.expect_matches_reference();
    }
  });
}

// A query with a NaN or an infinity spoils its own row, on every target.
TEST(AttentionTargets, QueriesThatAreNotFinite) {
  for_each_target([] {
    for (const DLDataType type : {kBF16, kF16, kF32}) {
      for (const float value : {NAN, INFINITY, -INFINITY}) {
        AttentionCase problem({.seqlens_q = {3}, .seqlens_k = {40}, .q_type = type}, 4);
        problem.q().set({1, 2, 9}, value);
        problem.run();
        problem.expect_matches_reference();
        EXPECT_TRUE(std::isnan(problem.out().get({1, 2, 0})));
        EXPECT_TRUE(std::isnan(problem.lse().get({1, 2})));
      }
    }
  });
}

}  // namespace
}  // namespace mpfa::testing
