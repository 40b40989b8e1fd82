// plan(): its errors, its arithmetic, and that attention() takes no other plan than it makes.
#include "core/plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "support/attention_case.h"

namespace mpfa::testing {
namespace {

PlanParams valid_params() {
  PlanParams p;
  p.batch_size = 3;
  p.num_q_heads = 8;
  p.num_kv_heads = 2;
  p.head_dim = 128;
  p.total_seqlen_q = 5;
  p.max_seqlen_k = 1000;
  return p;
}

// What a split's row takes, from the header that defines it.
int64_t row_bytes(int64_t head_dim) { return 4 * (head_dim + internal::kPartialStateFloats); }

TEST(Plan, ErrorsNameParameterValueAndWhatIsAllowed) {
  const auto expect = [](const std::string& start, const std::function<void(PlanParams&)>& damage) {
    PlanParams p = valid_params();
    damage(p);
    expect_error(start, [&] { plan(p); });
    // The same in a plan that somebody filled in.
    Plan made = plan(valid_params());
    made.params = p;
    expect_error("plan.params." + start, [&] { internal::check_plan(made); });
  };
  expect("device.device_type = 8: must be 1 (CPU) or 2 (CUDA)", [](PlanParams& p) {
    p.device = {kDLMetal, 0};
  });
  expect("batch_size = -1: must not be negative", [](PlanParams& p) { p.batch_size = -1; });
  expect("num_kv_heads = 0: must be at least 1", [](PlanParams& p) { p.num_kv_heads = 0; });
  expect("num_q_heads = 0: must be a multiple of num_kv_heads = 2",
         [](PlanParams& p) { p.num_q_heads = 0; });
  expect("num_q_heads = 7: must be a multiple of num_kv_heads = 2",
         [](PlanParams& p) { p.num_q_heads = 7; });
  expect("num_q_heads = -4: must be a multiple", [](PlanParams& p) { p.num_q_heads = -4; });
  for (const int64_t d : {0, 32, 80, 96, 256}) {
    expect("head_dim = " + std::to_string(d) + ": must be 64 or 128",
           [&](PlanParams& p) { p.head_dim = d; });
  }
  expect("total_seqlen_q = -1: must not be negative", [](PlanParams& p) { p.total_seqlen_q = -1; });
  expect("max_seqlen_k = -1: must be 0 to 2147483647", [](PlanParams& p) { p.max_seqlen_k = -1; });
  expect("max_seqlen_k = 2147483648: must be 0 to 2147483647",
         [](PlanParams& p) { p.max_seqlen_k = int64_t{1} << 31; });
  for (const int64_t split : {int64_t{-128}, int64_t{1}, int64_t{16}, int64_t{64}, INT64_MAX}) {
    expect("kv_split_size = " + std::to_string(split) +
               ": must be 0 (chosen by plan) or a multiple of 128",
           [&](PlanParams& p) { p.kv_split_size = split; });
  }
}

TEST(Plan, SplitsAndWorkspace) {
  PlanParams p = valid_params();
  Plan made = plan(p);
  EXPECT_EQ(made.max_num_splits, 1);
  EXPECT_EQ(made.workspace_bytes, 0);
  EXPECT_GT(made.params.kv_split_size, 1000);
  EXPECT_EQ(made.params.kv_split_size % 128, 0);
  EXPECT_EQ(made.params.max_seqlen_k, 1000);
  for (const int64_t length : {0, 1, 255, 256, 257, 512, 1000}) {
    p.max_seqlen_k = length;
    p.kv_split_size = 256;
    made = plan(p);
    const int64_t splits = length <= 256 ? 1 : length <= 512 ? 2 : 4;
    EXPECT_EQ(made.max_num_splits, splits) << length;
    EXPECT_EQ(made.workspace_bytes, splits == 1 ? 0 : splits * 5 * 8 * row_bytes(128)) << length;
  }
  // Long sequences of queries are not split, so their rows take no room.
  p.total_seqlen_q = 1'000'000;
  EXPECT_EQ(plan(p).workspace_bytes, 4 * (3 * 16) * 8 * row_bytes(128));
  p.head_dim = 64;
  p.total_seqlen_q = 48;
  EXPECT_EQ(plan(p).workspace_bytes, 4 * 48 * 8 * row_bytes(64));
  p.batch_size = 0;
  EXPECT_EQ(plan(p).workspace_bytes, 0);
}

// A plan is a fixed point: planning its parameters again gives it.
TEST(Plan, MadePlansAreAccepted) {
  for (const int64_t split : {int64_t{0}, int64_t{128}, int64_t{4096}, INT64_MAX / 128 * 128}) {
    for (const int64_t length : {0, 128, 5000, INT32_MAX}) {
      PlanParams p = valid_params();
      p.kv_split_size = split;
      p.max_seqlen_k = length;
      internal::check_plan(plan(p));
    }
  }
}

TEST(Plan, HugeSizesAreErrorsOrRightNeverWrapped) {
  PlanParams p = valid_params();
  p.kv_split_size = INT64_MAX / 128 * 128;  // adding a length to it would overflow
  EXPECT_EQ(plan(p).max_num_splits, 1);
  p.max_seqlen_k = INT32_MAX;
  EXPECT_EQ(plan(p).max_num_splits, 1);

  p.kv_split_size = 128;
  const int64_t splits = int64_t{1} << 24;
  p.batch_size = INT64_MAX;  // times 16 it would overflow
  EXPECT_EQ(plan(p).workspace_bytes, splits * 5 * 8 * row_bytes(128));
  p.batch_size = int64_t{1} << 60;
  p.total_seqlen_q = INT64_MAX;
  expect_error("workspace_bytes would exceed 2^63 - 1: total_seqlen_q = 9223372036854775807",
               [&] { plan(p); });
  // A product of exactly 2^64 times a small number, which would wrap to a small workspace.
  p.num_kv_heads = 1;
  p.num_q_heads = int64_t{1} << 40;
  p.total_seqlen_q = p.batch_size = 1;
  expect_error("workspace_bytes would exceed 2^63 - 1", [&] { plan(p); });
  // The largest that fits still does.
  p.num_q_heads = INT64_MAX / (splits * row_bytes(128));
  EXPECT_EQ(plan(p).workspace_bytes, p.num_q_heads * splits * row_bytes(128));
  ++p.num_q_heads;
  expect_error("workspace_bytes would exceed 2^63 - 1", [&] { plan(p); });
}

// ---- attention() and a plan that does not fit ---------------------------------------------------

class PlanOfAttention : public ::testing::Test {
 protected:
  PlanOfAttention()
      : problem_({.seqlens_q = {2, 1}, .seqlens_k = {700, 40}, .kv_split_size = 256}, 1) {}

  void run(const Plan& plan) {
    TestTensor workspace(kU8, {problem_.make_plan().workspace_bytes});
    attention(*problem_.out().ptr(), problem_.lse().ptr(), *problem_.q().ptr(), problem_.cache(),
              *problem_.block_table().ptr(), problem_.seq_lens(), problem_.cu_seqlens_q(),
              problem_.params(), plan, workspace.ptr());
  }
  void expect(const std::string& start, const std::function<void(Plan&)>& damage) {
    Plan plan = problem_.make_plan();
    damage(plan);
    problem_.poison_results();
    const auto before = problem_.out().snapshot();
    expect_error(start, [&] { run(plan); });
    EXPECT_EQ(problem_.out().snapshot(), before);
  }

  AttentionCase problem_;
};

TEST_F(PlanOfAttention, ChangedPlansAreRefused) {
  run(problem_.make_plan());
  const std::string made = "; make the plan with plan()";
  expect("plan.params.kv_split_size = 16: must be 0 (chosen by plan) or a multiple of 128",
         [](Plan& p) { p.params.kv_split_size = 16; });
  expect("plan.params.kv_split_size = 0: plan() gives 4096 for these params" + made,
         [](Plan& p) { p.params.kv_split_size = 0; });
  // Valid in itself, but of another workspace.
  expect("plan.max_num_splits = 3: plan() gives 6 for these params" + made,
         [](Plan& p) { p.params.kv_split_size = 128; });
  const int64_t bytes = problem_.make_plan().workspace_bytes;
  expect("plan.workspace_bytes = " + std::to_string(bytes - 4) + ": plan() gives " +
             std::to_string(bytes) + " for these params" + made,
         [](Plan& p) { p.workspace_bytes -= 4; });
  expect("plan.workspace_bytes = 0: plan() gives ", [](Plan& p) { p.workspace_bytes = 0; });
  expect("plan.max_num_splits = 1: plan() gives 3", [](Plan& p) { p.max_num_splits = 1; });
  expect("plan.params.num_kv_heads = 0: must be at least 1", [](Plan& p) { p = Plan{}; });
}

TEST_F(PlanOfAttention, CallsMustStayWithinThePlan) {
  const auto replanned = [](Plan& p) { p = plan(p.params); };
  expect("batch size 2: exceeds plan.params.batch_size = 1", [&](Plan& p) {
    p.params.batch_size = 1;
    replanned(p);
  });
  expect("q has 5 rows: exceeds plan.params.total_seqlen_q = 4", [&](Plan& p) {
    p.params.total_seqlen_q = 4;
    replanned(p);
  });
  const std::string have =
      "q and the cache have 8 query heads, 2 KV heads and head_dim 64: the plan was made for ";
  expect(have + "16, 2 and 64", [&](Plan& p) {
    p.params.num_q_heads = 16;
    replanned(p);
  });
  expect(have + "8, 4 and 64", [&](Plan& p) {
    p.params.num_kv_heads = 4;
    replanned(p);
  });
  expect(have + "8, 2 and 128", [&](Plan& p) {
    p.params.head_dim = 128;
    replanned(p);
  });
  expect("seq_lens[0] = 700: exceeds plan.params.max_seqlen_k = 699", [&](Plan& p) {
    p.params.max_seqlen_k = 699;
    replanned(p);
  });
}

TEST_F(PlanOfAttention, AnySplitSizeIsFine) {
  for (const int64_t split : {int64_t{128}, int64_t{1} << 40, INT64_MAX / 128 * 128}) {
    AttentionCase problem({.seqlens_q = {2, 1}, .seqlens_k = {700, 40}, .kv_split_size = split}, 1);
    problem.run();
    problem.expect_matches_reference();
  }
}

}  // namespace
}  // namespace mpfa::testing
