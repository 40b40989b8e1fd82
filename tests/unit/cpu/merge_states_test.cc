// merge_states against its definition, and the faults that other libraries have had with it.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "cpu/reference.h"
#include "mpfa/attention.h"
#include "support/attention_case.h"

namespace mpfa::testing {
namespace {

constexpr DLDataType kF64{kDLFloat, 64, 1};

struct States {
  explicit States(int count, DLDataType type, const TestTensor::Shape& shape) {
    for (int i = 0; i < count; ++i) {
      outs.push_back(std::make_unique<TestTensor>(TestTensor::with_gaps(type, shape)));
      lses.push_back(
          std::make_unique<TestTensor>(TestTensor::with_gaps(kF32, {shape[0], shape[1]})));
      outs.back()->fill_normal(100 + i);
      lses.back()->fill_normal(200 + i, 3.0f);
    }
  }
  std::vector<const DLTensor*> out_views() {
    std::vector<const DLTensor*> views;
    for (auto& t : outs) views.push_back(t->ptr());
    return views;
  }
  std::vector<const DLTensor*> lse_views() {
    std::vector<const DLTensor*> views;
    for (auto& t : lses) views.push_back(t->ptr());
    return views;
  }
  std::vector<std::unique_ptr<TestTensor>> outs;
  std::vector<std::unique_ptr<TestTensor>> lses;
};

// attention() over two shards whose keys were centred by different means, merged: rowbias in each
// LSE, and softcap on the whole score, make it attention over all keys.
TEST(MergeStates, ShardsCentredByDifferentMeans) {
  for (const DLDataType type : {kBF16, kF32}) {
    for (const float softcap : {0.0f, 4.0f}) {
      const AttentionShape shape = {.seqlens_q = {5},
                                    .seqlens_k = {70},
                                    .residual_rank = 8,
                                    .first_key = true,
                                    .q_type = type,
                                    .params = {.causal = false, .softcap = softcap}};
      AttentionCase a(shape, 1);
      AttentionCase b(shape, 2);
      a.q().for_each([&](const TestTensor::Shape& i) { b.q().set(i, a.q().get(i)); });
      ASSERT_NE(a.k_mean().snapshot(), b.k_mean().snapshot());
      a.run();
      b.run();
      const std::vector<const DLTensor*> outs = {a.out().ptr(), b.out().ptr()};
      const std::vector<const DLTensor*> lses = {a.lse().ptr(), b.lse().ptr()};
      TestTensor out(type, a.out().shape());
      TestTensor lse(kF32, a.lse().shape());
      merge_states(*out.ptr(), lse.ptr(), outs, lses);

      States exact(0, kF64, {});
      for (AttentionCase* shard : {&a, &b}) {
        exact.outs.push_back(std::make_unique<TestTensor>(kF64, a.out().shape()));
        exact.lses.push_back(std::make_unique<TestTensor>(kF64, a.lse().shape()));
        internal::attention_reference(
            *exact.outs.back()->ptr(), exact.lses.back()->ptr(), *shard->q().ptr(), shard->cache(),
            *shard->block_table().ptr(), shard->seq_lens(), shard->cu_seqlens_q(), shard->params());
      }
      TestTensor want(kF64, a.out().shape());
      TestTensor want_lse(kF64, a.lse().shape());
      internal::merge_states_reference(*want.ptr(), want_lse.ptr(), exact.out_views(),
                                       exact.lse_views());
      const double tolerance = type.bits == 32 ? 2e-5 : 2e-2;
      for (int64_t row = 0; row < a.total_q(); ++row) {
        for (int64_t h = 0; h < a.num_q_heads(); ++h) {
          ASSERT_NEAR(lse.get({row, h}), want_lse.at<double>(row, h), 5e-4);
          for (int64_t i = 0; i < 64; ++i) {
            ASSERT_NEAR(out.get({row, h, i}), want.at<double>(row, h, i), tolerance);
          }
        }
      }
    }
  }
}

TEST(MergeStates, MatchesTheReference) {
  for (const DLDataType type : {kBF16, kF16, kF32}) {
    for (const int count : {1, 2, 5}) {
      States states(count, type, {7, 3, 64});
      TestTensor out(type, {7, 3, 64});
      TestTensor lse(kF32, {7, 3});
      TestTensor want(kF64, {7, 3, 64});
      TestTensor want_lse(kF64, {7, 3});
      const auto outs = states.out_views();
      const auto lses = states.lse_views();
      merge_states(*out.ptr(), lse.ptr(), outs, lses);
      internal::merge_states_reference(*want.ptr(), want_lse.ptr(), outs, lses);
      const double tolerance = type.bits == 32 ? 1e-6 : type.code == kDLFloat ? 2e-3 : 1e-2;
      out.for_each([&](const TestTensor::Shape& i) {
        ASSERT_NEAR(out.get(i), want.at<double>(i[0], i[1], i[2]), tolerance);
      });
      lse.for_each([&](const TestTensor::Shape& i) {
        ASSERT_NEAR(lse.get(i), want_lse.at<double>(i[0], i[1]), 1e-5);
      });
    }
  }
}

TEST(MergeStates, TwoEmptyStatesGiveZeroAndMinusInfinity) {
  States states(2, kF32, {1, 1, 64});
  for (auto& t : states.lses) t->set({0, 0}, -INFINITY);
  // An empty state's output counts for nothing, whatever it holds.
  states.outs[0]->set({0, 0, 0}, NAN);
  TestTensor out(kF32, {1, 1, 64});
  TestTensor lse(kF32, {1, 1});
  merge_states(*out.ptr(), lse.ptr(), states.out_views(), states.lse_views());
  EXPECT_EQ(lse.get({0, 0}), -INFINITY);
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out.get({0, 0, i}), 0.0f);
}

TEST(MergeStates, AStateWithoutWeightCountsForNothing) {
  States states(2, kF32, {1, 1, 64});
  states.lses[0]->set({0, 0}, -2000.0f);
  states.lses[1]->set({0, 0}, 0.0f);
  states.outs[0]->set({0, 0, 0}, INFINITY);
  TestTensor out(kF32, {1, 1, 64});
  merge_states(*out.ptr(), nullptr, states.out_views(), states.lse_views());
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out.get({0, 0, i}), states.outs[1]->get({0, 0, i}));
  }
}

TEST(MergeStates, AnEmptyStateLeavesTheOtherAlone) {
  States states(2, kBF16, {1, 1, 64});
  states.lses[0]->set({0, 0}, -INFINITY);
  states.outs[0]->set({0, 0, 9}, NAN);
  TestTensor out(kBF16, {1, 1, 64});
  TestTensor lse(kF32, {1, 1});
  merge_states(*out.ptr(), lse.ptr(), states.out_views(), states.lse_views());
  EXPECT_EQ(lse.get({0, 0}), states.lses[1]->get({0, 0}));
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out.get({0, 0, i}), states.outs[1]->get({0, 0, i}));
}

TEST(MergeStates, HugeLogarithmsDoNotOverflow) {
  States states(2, kF32, {1, 1, 64});
  states.lses[0]->set({0, 0}, 3e38f);
  states.lses[1]->set({0, 0}, -3e38f);
  TestTensor out(kF32, {1, 1, 64});
  merge_states(*out.ptr(), nullptr, states.out_views(), states.lse_views());
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out.get({0, 0, i}), states.outs[0]->get({0, 0, i}));
}

TEST(MergeStates, MayWriteOverAnInput) {
  States states(3, kF32, {4, 2, 64});
  TestTensor out(kF32, {4, 2, 64});
  TestTensor lse(kF32, {4, 2});
  merge_states(*out.ptr(), lse.ptr(), states.out_views(), states.lse_views());
  merge_states(*states.outs[1]->ptr(), states.lses[1]->ptr(), states.out_views(),
               states.lse_views());
  out.for_each([&](const TestTensor::Shape& i) { ASSERT_EQ(out.get(i), states.outs[1]->get(i)); });
}

TEST(MergeStates, BadArguments) {
  States states(2, kF32, {2, 2, 64});
  TestTensor out(kF32, {2, 2, 64});
  const auto outs = states.out_views();
  const auto lses = states.lse_views();
  expect_error("outs is empty", [&] { merge_states(*out.ptr(), nullptr, {}, {}); });
  expect_error("outs has 2 states and lses 1",
               [&] { merge_states(*out.ptr(), nullptr, outs, std::span(lses).first(1)); });
  TestTensor other(kF32, {2, 3, 64});
  const DLTensor* mixed[] = {outs[0], other.ptr()};
  expect_error("outs[1] has shape [2, 3, 64]: dimension 1 must be 2",
               [&] { merge_states(*out.ptr(), nullptr, mixed, lses); });
  const DLTensor* missing[] = {outs[0], nullptr};
  expect_error("outs[1] is null", [&] { merge_states(*out.ptr(), nullptr, missing, lses); });
}

}  // namespace
}  // namespace mpfa::testing
