// Decode attention on a GPU against the oracle: shapes, masks, compensations, formats.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/attention_steps.h"
#include "kernels/device_case.h"

namespace mpfa::testing {
namespace {

// Runs a problem and compares it with the oracle.
void expect_right(const AttentionShape& shape, uint32_t seed = 1) {
  SCOPED_TRACE(describe(shape) + " seed " + std::to_string(seed));
  AttentionCase host(shape, seed);
  DeviceCase device(host);
  attend_and_expect_right(host, device, rounding_of(shape));
}

AttentionShape decode_shape() {
  AttentionShape shape;
  shape.seqlens_q = {1, 1, 1};
  shape.seqlens_k = {150, 1, 77};
  shape.num_kv_heads = 2;
  shape.head_dim = 128;
  shape.page_size = 64;
  shape.decode_form = true;
  return shape;
}

TEST(Decode, GroupSizes) {
  for (const int64_t head_dim : {64, 128}) {
    for (const int64_t group_size : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20}) {
      AttentionShape shape = decode_shape();
      shape.head_dim = head_dim;
      shape.group_size = group_size;
      expect_right(shape);
    }
  }
}

TEST(Decode, PagesAndCompensations) {
  for (const int64_t page_size : {16, 32, 64, 128}) {
    for (const int64_t rank : {0, 4, 8, 16}) {
      AttentionShape shape = decode_shape();
      shape.head_dim = rank % 8 == 0 ? 128 : 64;
      shape.page_size = page_size;
      shape.residual_rank = rank;
      shape.first_key = rank != 4;
      shape.delta_s = rank >= 8;
      shape.scales = page_size > 16;
      shape.num_stats = 3;
      expect_right(shape);
    }
  }
}

TEST(Decode, Lengths) {
  AttentionShape shape = decode_shape();
  shape.seqlens_k = {0, 1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 0, 1000};
  shape.seqlens_q.assign(shape.seqlens_k.size(), 1);
  shape.first_key = true;
  shape.residual_rank = 8;
  expect_right(shape);
  shape.page_size = 16;
  shape.head_dim = 64;
  expect_right(shape);
}

TEST(Decode, OneLongSequence) {
  AttentionShape shape = decode_shape();
  shape.seqlens_q = {1};
  shape.seqlens_k = {9001};
  shape.residual_rank = 8;
  shape.first_key = true;
  expect_right(shape);
}

TEST(Decode, ManyShortSequencesBesideALongOne) {
  AttentionShape shape = decode_shape();
  shape.seqlens_k = {3000};
  for (int i = 0; i < 90; ++i) shape.seqlens_k.push_back(i % 7 == 0 ? 0 : 1 + i * 3);
  shape.seqlens_q.assign(shape.seqlens_k.size(), 1);
  shape.page_size = 16;
  expect_right(shape);
}

TEST(Decode, MasksAndScores) {
  for (int variant = 0; variant < 8; ++variant) {
    AttentionShape shape = decode_shape();
    shape.sinks = variant % 2 == 1;
    shape.params.softcap = variant % 4 >= 2 ? 20.0f : 0.0f;
    shape.params.window_left = variant >= 4 ? 40 : -1;
    shape.delta_s = variant == 3;
    shape.residual_rank = variant >= 6 ? 8 : 0;
    shape.first_key = variant >= 6;
    expect_right(shape);
  }
}

TEST(Decode, SeveralQueriesOfASequence) {
  for (const int64_t group_size : {1, 3, 4, 8}) {
    AttentionShape shape;
    shape.seqlens_q = {2, 0, 16, 1, 5};
    shape.seqlens_k = {90, 50, 200, 0, 5};
    shape.num_kv_heads = 2;
    shape.group_size = group_size;
    shape.head_dim = group_size % 2 == 1 ? 64 : 128;
    shape.page_size = 32;
    shape.delta_s = group_size == 3;
    shape.residual_rank = 8;
    shape.first_key = true;
    expect_right(shape);
    shape.params.window_left = 9;
    expect_right(shape);
    shape.params.causal = false;
    expect_right(shape);
  }
}

TEST(Decode, Halves) {
  AttentionShape shape = decode_shape();
  shape.q_type = kF16;
  shape.residual_rank = 16;
  shape.sinks = true;
  expect_right(shape);
}

TEST(Decode, NanOfKeysThatAreSeen) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    AttentionShape shape = decode_shape();
    shape.nan_inside = true;
    expect_right(shape, seed);
    // Rows that do not see the key must not see its NaN.
    shape.decode_form = false;
    shape.seqlens_q = {9, 1, 16};
    shape.seqlens_k = {20, 1, 17};
    shape.head_dim = seed % 2 == 0 ? 64 : 128;
    expect_right(shape, seed);
  }
}

TEST(Decode, Magnitudes) {
  for (const AttentionShape& shape : with_query_magnitudes(decode_shape())) expect_right(shape);
  for (const AttentionShape& shape : with_scale_magnitudes(decode_shape())) expect_right(shape);
}

TEST(Decode, Strides) {
  for (const AttentionShape& shape : with_gaps(decode_shape())) expect_right(shape);
}

TEST(Decode, PartsOfAFixedSize) {
  AttentionShape shape = decode_shape();
  shape.seqlens_q = {1, 1, 1, 1};
  shape.seqlens_k = {1500, 128, 129, 700};
  shape.kv_split_size = 128;
  shape.residual_rank = 8;
  expect_right(shape);
}

// Several parts for each multiprocessor, pairs that lie in one alone, and pairs that two share.
TEST(Decode, ManySmallPartsOfAFixedSize) {
  AttentionShape shape = decode_shape();
  shape.seqlens_q.assign(100, 1);
  shape.seqlens_k.clear();
  for (int64_t b = 0; b < 100; ++b) shape.seqlens_k.push_back(100 + b * 37 % 300);
  shape.kv_split_size = 128;
  shape.first_key = true;
  expect_right(shape);
}

std::vector<std::byte> bytes_of(TestTensor& tensor) {
  const DLTensor view = tensor.dl();
  const auto* data = static_cast<const std::byte*>(view.data) + view.byte_offset;
  return {data, data + view.shape[0] * view.strides[0] * tensor.item_size()};
}

// The first sequence of a case alone.
std::vector<std::byte> run_first_alone(AttentionCase& host, DeviceCase& device) {
  host.poison_results();
  device.copies().upload(device.out);
  const auto first_of = [](const DLTensor& tensor, std::vector<int64_t>& shape) {
    DLTensor view = tensor;
    shape.assign(tensor.shape, tensor.shape + tensor.ndim);
    shape[0] = 1;
    view.shape = shape.data();
    return view;
  };
  std::vector<int64_t> shapes[5];
  const DLTensor out = first_of(*device.out, shapes[0]);
  const DLTensor q = first_of(*device.q, shapes[1]);
  const DLTensor block_table = first_of(*device.block_table, shapes[2]);
  const DLTensor seq_lens = first_of(*device.seq_lens, shapes[3]);
  int64_t bytes = device.plan().workspace_bytes;
  const DLTensor workspace{device.workspace().data(), {kDLCUDA, 0}, 1, kU8, &bytes, nullptr, 0};
  attention(out, nullptr, q, device.cache, block_table, seq_lens, nullptr, device.params,
            device.plan(), &workspace);
  device.fetch();
  return bytes_of(host.out());
}

TEST(Decode, BitsDoNotDependOnTheBatchWhereTheyMustNot) {
  AttentionShape shape = decode_shape();
  shape.seqlens_k = {5000, 900, 2600};
  shape.residual_rank = 8;
  PlanParams limits;
  limits.batch_invariant = true;
  AttentionCase host(shape, 3);
  DeviceCase device(host, limits);
  device.attend();
  host.expect_matches_reference(5e-5);
  const size_t row = host.num_q_heads() * shape.head_dim * 2;
  std::vector<std::byte> together = bytes_of(host.out());
  std::vector<std::byte> alone = run_first_alone(host, device);
  together.resize(row);
  alone.resize(row);
  EXPECT_EQ(alone, together);
}

TEST(Decode, RunsAgainAlike) {
  AttentionShape shape = decode_shape();
  shape.seqlens_k = {2100, 37, 900};
  shape.residual_rank = 8;
  AttentionCase host(shape, 5);
  DeviceCase device(host);
  device.attend();
  host.expect_matches_reference(5e-5);
  const std::vector<std::byte> first = bytes_of(host.out());
  for (int i = 0; i < 2; ++i) {
    device.attend(i == 1);
    EXPECT_EQ(bytes_of(host.out()), first);
  }
}

}  // namespace
}  // namespace mpfa::testing
