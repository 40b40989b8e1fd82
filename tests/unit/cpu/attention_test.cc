// The fast CPU attention against the oracle and against properties that must hold to the bit.
#include "mpfa/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/attention_case.h"

namespace mpfa::testing {
namespace {

void check(const AttentionShape& shape, uint32_t seed = 1) {
  SCOPED_TRACE(describe(shape));
  AttentionCase problem(shape, seed);
  problem.run();
  problem.expect_matches_reference();
}

// ---- shapes -------------------------------------------------------------------------------------

TEST(AttentionShapes, GroupSizesDimsAndTypes) {
  for (const int64_t group : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    for (const int64_t d : {64, 128}) {
      for (const DLDataType type : {kBF16, kF16, kF32}) {
        check({.seqlens_q = {1, 3},
               .seqlens_k = {131, 70},
               .group_size = group,
               .head_dim = d,
               .residual_rank = 8,
               .first_key = true,
               .q_type = type});
      }
    }
  }
}

TEST(AttentionShapes, PageSizesAndOddLengths) {
  for (const int64_t page : {16, 32, 64, 128}) {
    for (const int32_t length : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 300}) {
      check({.seqlens_q = {1}, .seqlens_k = {length}, .num_kv_heads = 1, .page_size = page});
    }
  }
}

TEST(AttentionShapes, RaggedBatchesWithEmptySequences) {
  check({.seqlens_q = {0, 5, 1, 0, 130, 7},
         .seqlens_k = {40, 5, 0, 0, 200, 3},
         .head_dim = 128,
         .page_size = 32,
         .residual_rank = 4});
  check({.seqlens_q = {1, 1, 1}, .seqlens_k = {0, 17, 400}, .decode_form = true});
  check({.seqlens_q = {}, .seqlens_k = {}, .num_kv_heads = 1});
}

TEST(AttentionShapes, ManyRowsOfOneSequence) {
  check({.seqlens_q = {333}, .seqlens_k = {333}, .num_kv_heads = 1, .group_size = 3});
  check({.seqlens_q = {100},
         .seqlens_k = {500},
         .num_kv_heads = 1,
         .group_size = 5,
         .head_dim = 128,
         .page_size = 128,
         .residual_rank = 16,
         .q_type = kF32});
}

TEST(AttentionShapes, GroupLargerThanAnItem) {
  check({.seqlens_q = {3}, .seqlens_k = {90}, .num_kv_heads = 1, .group_size = 128});
}

TEST(AttentionShapes, Strided) {
  for (const DLDataType type : {kBF16, kF16, kF32}) {
    check({.seqlens_q = {4, 1},
           .seqlens_k = {77, 50},
           .residual_rank = 4,
           .delta_s = true,
           .first_key = true,
           .scales = true,
           .strided = true,
           .q_type = type});
  }
}

// ---- compensations ------------------------------------------------------------------------------

TEST(AttentionCompensation, EveryCombination) {
  for (const int64_t rank : {0, 4, 8, 16}) {
    for (const bool delta_s : {false, true}) {
      for (const bool first_key : {false, true}) {
        for (const bool scales : {false, true}) {
          for (const DLDataType type : {kBF16, kF16, kF32}) {
            check({.seqlens_q = {2, 9},
                   .seqlens_k = {80, 30},
                   .residual_rank = rank,
                   .delta_s = delta_s,
                   .first_key = first_key,
                   .scales = scales,
                   .num_stats = 3,
                   .q_type = type});
          }
        }
      }
    }
  }
}

// ---- masks --------------------------------------------------------------------------------------

TEST(AttentionMasks, CausalIsBottomRightAligned) {
  for (const int32_t seqlen_q : {1, 2, 16, 17, 64, 65, 100}) {
    for (const int32_t seqlen_k : {1, 64, 65, 100, 200}) {
      check({.seqlens_q = {seqlen_q}, .seqlens_k = {seqlen_k}, .num_kv_heads = 1, .group_size = 2});
    }
  }
}

TEST(AttentionMasks, MoreQueriesThanKeysLeavesEmptyRows) {
  AttentionCase problem({.seqlens_q = {10}, .seqlens_k = {4}}, 3);
  problem.run();
  problem.expect_matches_reference();
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(problem.lse().get({row, 0}), -INFINITY);
    EXPECT_EQ(problem.out().get({row, 0, 5}), 0.0f);
  }
  EXPECT_TRUE(std::isfinite(problem.lse().get({6, 0})));
}

TEST(AttentionMasks, WindowsAndFullAttention) {
  for (const int64_t window : {0, 1, 15, 63, 64, 65, 1000}) {
    for (const bool causal : {false, true}) {
      check({.seqlens_q = {70, 1, 30},
             .seqlens_k = {150, 200, 10},
             .num_kv_heads = 1,
             .residual_rank = 4,
             .first_key = true,
             .params = {.causal = causal, .window_left = window}});
    }
  }
  check({.seqlens_q = {5}, .seqlens_k = {100}, .params = {.window_left = INT64_MAX}});
}

TEST(AttentionMasks, SoftcapActsOnTheFullScore) {
  for (const float softcap : {0.5f, 5.0f, 50.0f}) {
    for (const bool delta_s : {false, true}) {
      check({.seqlens_q = {20, 1},
             .seqlens_k = {90, 33},
             .residual_rank = 8,
             .delta_s = delta_s,
             .first_key = true,
             .scales = true,
             .q_type = kF32,
             .params = {.softcap = softcap}});
    }
  }
}

TEST(AttentionMasks, Sinks) {
  for (const DLDataType type : {kBF16, kF32}) {
    check({.seqlens_q = {20, 1, 3},
           .seqlens_k = {90, 33, 2},
           .first_key = true,
           .sinks = true,
           .q_type = type,
           .params = {.window_left = 20}});
  }
}

TEST(AttentionMasks, SoftmaxScale) {
  check({.seqlens_q = {7}, .seqlens_k = {90}, .params = {.softmax_scale = 0.01f}});
  check({.seqlens_q = {7}, .seqlens_k = {90}, .q_type = kF32, .params = {.softmax_scale = 1.0f}});
}

// ---- splits -------------------------------------------------------------------------------------

TEST(AttentionSplits, SplitsMergeToTheWhole) {
  for (const int64_t split : {128, 256, 1024}) {
    for (const DLDataType type : {kBF16, kF32}) {
      check({.seqlens_q = {1, 16, 2, 17},
             .seqlens_k = {1000, 700, 128, 300},
             .residual_rank = 8,
             .first_key = true,
             .sinks = true,
             .q_type = type,
             .kv_split_size = split});
      check({.seqlens_q = {3},
             .seqlens_k = {900},
             .delta_s = true,
             .q_type = type,
             .params = {.window_left = 100, .softcap = 20.0f},
             .kv_split_size = split});
    }
  }
}

TEST(AttentionSplits, ResultsDoNotDependOnThreads) {
  AttentionCase problem({.seqlens_q = {1, 40, 5},
                         .seqlens_k = {1000, 700, 300},
                         .residual_rank = 8,
                         .first_key = true,
                         .kv_split_size = 128},
                        5);
  problem.run();
  const auto expected = problem.out().snapshot();
  const auto expected_lse = problem.lse().snapshot();
  for_thread_counts([&] {
    problem.run();
    EXPECT_EQ(problem.out().snapshot(), expected);
    EXPECT_EQ(problem.lse().snapshot(), expected_lse);
  });
}

// Rows of one sequence in a batch equal, bit for bit, those of the same sequence alone.
TEST(AttentionSplits, ResultsDoNotDependOnNeighbours) {
  AttentionCase problem({.seqlens_q = {1, 1, 1},
                         .seqlens_k = {5000, 700, 9000},
                         .num_kv_heads = 1,
                         .page_size = 64,
                         .first_key = true},
                        6);
  problem.run();
  const auto together = problem.out().snapshot();
  const auto together_lse = problem.lse().snapshot();
  problem.poison_results();
  const Plan plan = problem.make_plan();
  TestTensor workspace(kU8, {plan.workspace_bytes});
  for (int64_t b = 0; b < 3; ++b) {
    const auto row = [&](DLTensor t) {
      t.byte_offset += b * t.strides[0] * (t.dtype.bits / 8);
      return t;
    };
    std::vector<int64_t> out_shape = {1, 4, 64};
    std::vector<int64_t> lse_shape = {1, 4};
    std::vector<int64_t> one = {1};
    std::vector<int64_t> table_shape = {1, problem.block_table().shape()[1]};
    DLTensor q = row(problem.q().dl());
    DLTensor out = row(problem.out().dl());
    DLTensor lse = row(problem.lse().dl());
    DLTensor table = row(problem.block_table().dl());
    DLTensor lens = row(problem.seq_lens());
    q.shape = out.shape = out_shape.data();
    lse.shape = lse_shape.data();
    table.shape = table_shape.data();
    lens.shape = one.data();
    attention(out, &lse, q, problem.cache(), table, lens, nullptr, problem.params(), plan,
              workspace.ptr());
  }
  EXPECT_EQ(problem.out().snapshot(), together);
  EXPECT_EQ(problem.lse().snapshot(), together_lse);
}

// ---- arguments ----------------------------------------------------------------------------------

class AttentionErrors : public ::testing::Test {
 protected:
  AttentionErrors() : problem_({.seqlens_q = {2, 1}, .seqlens_k = {70, 40}}, 10) {}

  void expect(const std::string& start) {
    const auto before = problem_.out().snapshot();
    expect_error(start, [&] { problem_.run(); });
    EXPECT_EQ(problem_.out().snapshot(), before);
  }

  AttentionCase problem_;
};

TEST_F(AttentionErrors, BlockTableOutOfRange) {
  problem_.block_table().at<int32_t>(1, 2) = 99;
  expect("block_table[1, 2] = 99: must be 0 to ");
  problem_.block_table().at<int32_t>(1, 2) = -1;
  expect("block_table[1, 2] = -1: must be 0 to ");
}

TEST(AttentionArguments, ParamsAreChecked) {
  const auto expect = [](const std::string& start, const AttentionParams& params) {
    AttentionCase problem({.params = params}, 11);
    expect_error(start, [&] { problem.run(); });
  };
  expect("softmax_scale = 0: must be finite and above 0", {.softmax_scale = 0.0f});
  expect("softmax_scale = nan", {.softmax_scale = NAN});
  expect("window_left = -2: must be -1", {.window_left = -2});
  expect("softcap = -1: must be finite", {.softcap = -1.0f});
}

TEST(AttentionArguments, PlanAndWorkspaceAreChecked) {
  AttentionCase problem({.seqlens_k = {300}, .kv_split_size = 128}, 12);
  Plan plan = problem.make_plan();
  ASSERT_GT(plan.workspace_bytes, 0);
  const auto call = [&](const DLTensor* workspace) {
    attention(*problem.out().ptr(), nullptr, *problem.q().ptr(), problem.cache(),
              *problem.block_table().ptr(), problem.seq_lens(), problem.cu_seqlens_q(), {}, plan,
              workspace);
  };
  expect_error("workspace is null: the plan needs ", [&] { call(nullptr); });
  TestTensor small(kU8, {plan.workspace_bytes - 1});
  expect_error("workspace has ", [&] { call(small.ptr()); });
  plan.params.max_seqlen_k = 299;
  TestTensor enough(kU8, {plan.workspace_bytes});
  expect_error("seq_lens[0] = 300: exceeds plan.params.max_seqlen_k = 299",
               [&] { call(enough.ptr()); });
}

TEST(AttentionArguments, OutputMustLookLikeQ) {
  AttentionCase problem({}, 13);
  const Plan plan = problem.make_plan();
  const auto call = [&](TestTensor& out) {
    attention(*out.ptr(), nullptr, *problem.q().ptr(), problem.cache(),
              *problem.block_table().ptr(), problem.seq_lens(), problem.cu_seqlens_q(), {}, plan,
              nullptr);
  };
  TestTensor wrong_type(kF32, problem.q().shape());
  expect_error("out has type float32: must be that of q, bfloat16", [&] { call(wrong_type); });
  TestTensor wrong_shape(kBF16, {1, 8, 64});
  expect_error("out has shape [1, 8, 64]: dimension 0 must be 3", [&] { call(wrong_shape); });
}

}  // namespace
}  // namespace mpfa::testing
