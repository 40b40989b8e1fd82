// Decode attention as serving engines use it: CUDA graphs whose replays find other lengths, tables
// and queries, several streams, shared pages, arguments that are wrong.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention_steps.h"
#include "kernels/device_case.h"
#include "kernels/stream_and_graph.h"
#include "mpfa/check.h"

namespace mpfa::testing {
namespace {

AttentionShape serving_shape() {
  AttentionShape shape;
  shape.seqlens_k = {700, 64, 0, 130};
  shape.seqlens_q.assign(shape.seqlens_k.size(), 1);
  shape.num_kv_heads = 2;
  shape.head_dim = 128;
  shape.page_size = 16;
  shape.residual_rank = 8;
  shape.first_key = true;
  shape.decode_form = true;
  return shape;
}

constexpr double kRounding = kCompensationRounding;

TEST(DecodeUse, GraphsFollowLengthsTablesAndQueries) {
  AttentionCase host(serving_shape(), 7);
  PlanParams limits;
  limits.max_seqlen_k = 4096;
  limits.batch_size = 16;
  DeviceCase device(host, limits);
  // The last row of the batch becomes padding, and the others change places.
  const std::vector<std::vector<int32_t>> steps = {
      {700, 64, 0, 130}, {650, 1, 0, 0}, {0, 0, 0, 0}, {5, 63, 0, 129}, {700, 64, 0, 130}};
  expect_graph_follows(host, device, steps, {3, 5}, kRounding);
}

TEST(DecodeUse, OneScheduleServesManyLayers) {
  AttentionCase host(serving_shape(), 8);
  DeviceCase device(host);
  const Stream stream;
  const Graph graph(stream, [&] {
    device.enqueue_schedule(stream);
    for (int layer = 0; layer < 3; ++layer) device.enqueue(true, stream);
  });
  for (int replay = 0; replay < 2; ++replay) {
    host.poison_results();
    device.copies().upload(device.out);
    graph.launch(stream);
    device.fetch();
    host.expect_matches_reference(kRounding);
  }
}

TEST(DecodeUse, StreamsWithWorkspacesOfTheirOwn) {
  AttentionCase first(serving_shape(), 9);
  AttentionShape other = serving_shape();
  other.seqlens_k = {1200, 3, 77, 0};
  other.head_dim = 64;
  AttentionCase second(other, 10);
  DeviceCase on_first(first);
  DeviceCase on_second(second);
  const Stream streams[2];
  for (int i = 0; i < 3; ++i) {
    on_first.enqueue(false, streams[0]);
    on_second.enqueue(false, streams[1]);
  }
  on_first.fetch();
  on_second.fetch();
  first.expect_matches_reference(kRounding);
  second.expect_matches_reference(kRounding);
}

TEST(DecodeUse, CallsWithOtherScales) {
  for (const float scale : {0.03f, 0.5f}) {
    AttentionShape shape = serving_shape();
    shape.params.softmax_scale = scale;
    AttentionCase host(shape, 11);
    DeviceCase device(host);
    device.attend();
    host.expect_matches_reference(kRounding);
  }
}

TEST(DecodeUse, SequencesMayShareTheirFirstPage) {
  AttentionCase host(serving_shape(), 12);
  host.block_table().at<int32_t>(3, 0) = host.block_table().at<int32_t>(0, 0);
  host.block_table().at<int32_t>(1, 0) = host.block_table().at<int32_t>(0, 0);
  DeviceCase device(host);
  device.attend();
  host.expect_matches_reference(kRounding);
}

TEST(DecodeUse, WhatTheHostCannotSeeIsCountedAndReadsNothingElse) {
  AttentionShape shape = serving_shape();
  AttentionCase host(shape, 13);
  DeviceCase device(host);
  TestTensor& lengths = host.seq_lens_tensor();
  // A length beyond the table, a negative one, and pages that are not there.
  lengths.at<int32_t>(0) = 1 << 30;
  lengths.at<int32_t>(1) = -5;
  host.block_table().at<int32_t>(3, 1) = 1 << 29;
  host.block_table().at<int32_t>(3, 2) = -1;
  device.copies().upload(device.seq_lens);
  device.copies().upload(device.block_table);
  device.attend();
  EXPECT_GE(device.errors(), 4);
  EXPECT_EQ(host.lse().get({1, 0}), -std::numeric_limits<double>::infinity());
  // The next step is right again.
  lengths.at<int32_t>(0) = shape.seqlens_k[0];
  lengths.at<int32_t>(1) = shape.seqlens_k[1];
  AttentionCase same(shape, 13);
  DeviceCase again(same);
  again.attend();
  same.expect_matches_reference(kRounding);
}

TEST(DecodeUse, RowsThatNobodyAndSeveralClaim) {
  AttentionShape shape = serving_shape();
  shape.decode_form = false;
  shape.seqlens_q = {2, 1, 1, 3};
  AttentionCase host(shape, 14);
  DeviceCase device(host);
  // Not what the host would take: rows that overlap, run backwards, lie beyond q.
  const std::vector<int32_t> wrong = {0, 1 << 20, 3, -4, 1 << 30};
  check(cudaMemcpy(
      static_cast<std::byte*>(device.cu_seqlens_q->data) + device.cu_seqlens_q->byte_offset,
      wrong.data(), wrong.size() * sizeof(int32_t), cudaMemcpyHostToDevice));
  device.attend();
  EXPECT_GE(device.errors(), 1);
}

// Lengths have 32 bits, a plan's maxima 64.
TEST(DecodeUse, LimitsMayBeHuge) {
  AttentionShape shape = serving_shape();
  shape.head_dim = 64;
  shape.seqlens_k = {8000, 64, 0, 2600};
  for (const int64_t split : {int64_t{0}, int64_t{128} * ((int64_t{1} << 30) + 1)}) {
    SCOPED_TRACE(split);
    shape.kv_split_size = split;
    AttentionCase host(shape, 19);
    PlanParams limits;
    limits.max_seqlen_k = INT32_MAX;
    limits.max_seqlen_q = int64_t{1} << 32;
    DeviceCase device(host, limits);
    attend_and_expect_right(host, device, kRounding);
  }
}

TEST(DecodeUse, PagesMayLieFarApart) {
  AttentionShape shape = serving_shape();
  shape.seqlens_k = {100, 64, 0, 75};
  expect_right_with_far_pages(shape, 21);
}

// An engine's first steps may come before it has given its cache any page.
TEST(DecodeUse, CachesMayHaveNoPages) {
  AttentionShape shape = serving_shape();
  shape.seqlens_k = {0, 0, 0, 0};
  AttentionCase host(shape, 20);
  PlanParams limits;
  limits.max_seqlen_k = 100;
  DeviceCase device(host, limits);
  const KvCacheView& cache = device.cache;
  for (const DLTensor* pages :
       {cache.k_codes, cache.k_scales, cache.v, cache.k_residual, cache.k_first}) {
    pages->shape[0] = 0;
  }
  device.attend();
  host.expect_matches_reference();
  EXPECT_EQ(device.errors(), 0);
}

// ---- errors of arguments ------------------------------------------------------------------------

TEST(DecodeUse, AllTensorsMustBeOnOneGpu) {
  AttentionCase host(serving_shape(), 15);
  DeviceCase device(host);
  device.seq_lens = &host.seq_lens();
  expect_error(
      "seq_lens lies on DLPack device type 1, number 0: must be type 2 (CUDA), number 0, as "
      "that of q",
      [&] { device.enqueue(false, nullptr); });
}

TEST(DecodeUse, Fp32QueriesAreForTheCpu) {
  AttentionShape shape = serving_shape();
  shape.q_type = kF32;
  AttentionCase host(shape, 16);
  DeviceCase device(host);
  expect_error("q has type float32: must be bfloat16 or float16 on a GPU",
               [&] { device.enqueue(false, nullptr); });
}

TEST(DecodeUse, StridesThatNoCopyTakesAreRefused) {
  AttentionShape shape = serving_shape();
  shape.strided = true;  // with gaps of 3 bytes
  AttentionCase host(shape, 17);
  DeviceCase device(host);
  expect_error("k_codes has stride 2153 in dimension 0: must be a multiple of 16 elements on a GPU",
               [&] { device.enqueue(false, nullptr); });
}

TEST(DecodeUse, ThePlanMustBeForTheGpu) {
  AttentionCase host(serving_shape(), 18);
  DeviceCase device(host);
  AttentionParams params = device.params;
  const Plan cpu_plan = host.make_plan();
  expect_error("plan.params.device is type 1, number 0: must be type 2 (CUDA), number 0", [&] {
    attention(*device.out, device.lse, *device.q, device.cache, *device.block_table,
              *device.seq_lens, device.cu_seqlens_q, params, cpu_plan, nullptr);
  });
  expect_error("workspace is null: the plan needs", [&] {
    attention(*device.out, device.lse, *device.q, device.cache, *device.block_table,
              *device.seq_lens, device.cu_seqlens_q, params, device.plan(), nullptr);
  });
}

}  // namespace
}  // namespace mpfa::testing
