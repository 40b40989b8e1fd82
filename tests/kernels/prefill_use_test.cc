// Attention with long queries as serving engines use it: batches of prompts and single tokens, CUDA
// graphs whose replays find other lengths, steps that are scheduled, what the host cannot see.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/attention_steps.h"
#include "kernels/device_case.h"
#include "kernels/stream_and_graph.h"

namespace mpfa::testing {
namespace {

AttentionShape serving_shape() {
  AttentionShape shape;
  shape.seqlens_q = {1, 40, 0, 21};
  shape.seqlens_k = {100, 64, 30, 75};
  shape.num_kv_heads = 2;
  shape.group_size = 2;
  shape.head_dim = 64;
  shape.page_size = 16;
  shape.residual_rank = 8;
  shape.first_key = true;
  return shape;
}

constexpr double kRounding = kCompensationRounding;

TEST(PrefillUse, GraphsFollowLengthsTablesAndQueries) {
  AttentionCase host(serving_shape(), 1);
  PlanParams limits;
  limits.max_seqlen_k = 500;
  limits.max_seqlen_q = 62;
  limits.batch_size = 8;
  DeviceCase device(host, limits);
  const std::vector<std::vector<int32_t>> steps = {{100, 64, 30, 75}, {5, 40, 0, 0}, {0, 0, 0, 3}};
  expect_graph_follows(host, device, steps, {1, 3}, kRounding);
}

TEST(PrefillUse, LimitsMayBeHuge) {
  AttentionCase host(serving_shape(), 6);
  PlanParams limits;
  limits.max_seqlen_k = INT32_MAX;
  limits.max_seqlen_q = int64_t{1} << 32;
  DeviceCase device(host, limits);
  attend_and_expect_right(host, device, kRounding);
}

TEST(PrefillUse, StepsMayBeScheduled) {
  AttentionCase host(serving_shape(), 2);
  DeviceCase device(host);
  attend_and_expect_right(host, device, kRounding, true);
}

TEST(PrefillUse, PagesMayLieFarApart) {
  AttentionShape shape = serving_shape();
  shape.seqlens_k = {100, 64, 0, 75};
  expect_right_with_far_pages(shape, 8);
}

// Parts of a fixed size for every tile of a prompt's rows would take gigabytes.
TEST(PrefillUse, WorkspacesHaveNoRoomForPrompts) {
  AttentionShape shape = serving_shape();
  shape.decode_form = true;
  shape.seqlens_q = {1, 1, 1, 1};
  shape.seqlens_k = {9000, 64, 0, 75};
  AttentionCase host(shape, 7);
  PlanParams limits;
  limits.total_seqlen_q = 8192;
  limits.max_seqlen_q = 8192;
  limits.max_seqlen_k = 1 << 17;
  limits.batch_invariant = true;
  limits.prefill_precision = PrefillPrecision::kFp16;  // others unpack the cache into it
  DeviceCase device(host, limits);
  EXPECT_LT(device.plan().workspace_bytes, 1 << 24);
  // Steps of single rows may use such a plan as well.
  for (const bool is_scheduled : {false, true}) {
    attend_and_expect_right(host, device, kRounding, is_scheduled);
  }
}

// What a sequence's rows of `out` hold.
std::vector<std::byte> rows_of(TestTensor& out, int64_t begin, int64_t end) {
  const DLTensor view = out.dl();
  const int64_t row = view.strides[0] * out.item_size();
  const auto* data = static_cast<const std::byte*>(view.data) + view.byte_offset;
  return {data + begin * row, data + end * row};
}

TEST(PrefillUse, BitsDoNotDependOnTheBatch) {
  AttentionCase host(serving_shape(), 3);
  DeviceCase device(host);
  device.attend();
  const std::vector<std::byte> before = rows_of(host.out(), 1, 41);
  host.seq_lens_tensor().at<int32_t>(0) = 3;
  host.seq_lens_tensor().at<int32_t>(3) = 0;
  device.copies().upload(device.seq_lens);
  device.attend();
  expect_matches(host, device, kRounding);
  EXPECT_EQ(rows_of(host.out(), 1, 41), before);
}

// Whether the step is scheduled or not.
class PrefillFaults : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(IsScheduled, PrefillFaults, ::testing::Bool());

TEST_P(PrefillFaults, WhatTheHostCannotSeeIsCountedAndReadsNothingElse) {
  AttentionCase host(serving_shape(), 4);
  DeviceCase device(host);
  TestTensor& lengths = host.seq_lens_tensor();
  // A length beyond the table, a negative one, and pages that are not there.
  lengths.at<int32_t>(0) = 1 << 30;
  lengths.at<int32_t>(1) = -5;
  host.block_table().at<int32_t>(3, 1) = 1 << 29;
  host.block_table().at<int32_t>(3, 0) = -1;
  device.copies().upload(device.seq_lens);
  device.copies().upload(device.block_table);
  device.attend(GetParam());
  EXPECT_GE(device.errors(), 4);
  EXPECT_EQ(host.lse().get({1, 0}), -std::numeric_limits<double>::infinity());
}

TEST(PrefillUse, RowsThatNobodyAndSeveralClaim) {
  AttentionCase host(serving_shape(), 5);
  DeviceCase device(host);
  // Not what the host would take: rows that overlap, run backwards, lie beyond q.
  const std::vector<int32_t> wrong = {0, 1 << 20, 3, -4, 1 << 30};
  check(cudaMemcpy(
      static_cast<std::byte*>(device.cu_seqlens_q->data) + device.cu_seqlens_q->byte_offset,
      wrong.data(), wrong.size() * sizeof(int32_t), cudaMemcpyHostToDevice));
  device.enqueue(false, nullptr);
  check(cudaDeviceSynchronize());
  EXPECT_GE(device.errors(), 1);
}

}  // namespace
}  // namespace mpfa::testing
