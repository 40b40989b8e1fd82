// Every SIMD target and both kinds of arithmetic that this CPU can run, through one set of shapes.
#include <gtest/gtest.h>
#include <hwy/highway.h>

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

TEST(AttentionTargets, EveryTargetMatchesTheReference) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    // Forget the choice that earlier calls made.
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (const auto kind :
         {std::optional<internal::DotKind>(), std::optional(internal::DotKind::kFp32)}) {
      internal::force_dot_kind_for_test(kind);
      for (const AttentionShape& shape : shapes()) {
        SCOPED_TRACE(std::string(hwy::TargetName(target)) + ": " + describe(shape));
        AttentionCase problem(shape, 3);
        problem.run();
        problem.expect_matches_reference();
      }
    }
  }
  internal::force_dot_kind_for_test(std::nullopt);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace mpfa::testing
