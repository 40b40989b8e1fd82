// append_kv() and compute_means() with tensors on a GPU: the same bytes as on the CPU, errors that
// the host can see, and counts of those that it cannot.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/device_case.h"
#include "mpfa/cache.h"
#include "mpfa/quant.h"

namespace mpfa::testing {
namespace {

// New tokens for the cache of an attention problem, which gives it statistics.
struct WriterCase {
  explicit WriterCase(DLDataType type)
      : host(shape(), 21),
        k(type, {kTokens, 2, 128}),
        v(type, {kTokens, 2, 128}),
        slots({kDLInt, 64, 1}, {kTokens}),
        cu_seqlens(kI32, {4}) {
    k.fill_normal(1, 2.0f);
    v.fill_normal(2, 1.0f);
    std::mt19937 random(3);
    const int64_t num_slots = host.k_codes().shape()[0] * kPageSize;
    std::vector<int64_t> order(num_slots);
    for (int64_t i = 0; i < num_slots; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (int64_t i = 0; i < kTokens; ++i) slots.at<int64_t>(i) = i % 9 == 4 ? -1 : order[i];
    const int32_t ends[] = {0, 20, 20, kTokens};
    for (int64_t i = 0; i < 4; ++i) cu_seqlens.at<int32_t>(i) = ends[i];
  }

  static AttentionShape shape() {
    AttentionShape s;
    s.seqlens_q = {1, 1, 1};
    s.seqlens_k = {100, 17, 60};
    s.head_dim = 128;
    s.page_size = kPageSize;
    s.residual_rank = 8;
    s.delta_s = true;
    s.first_key = true;
    s.scales = true;
    s.num_stats = 3;
    return s;
  }

  static constexpr int64_t kPageSize = 32;
  static constexpr int32_t kTokens = 77;
  AttentionCase host;
  TestTensor k, v, slots, cu_seqlens;
};

// The bytes of the tensors that append_kv() writes.
std::vector<std::vector<std::byte>> page_bytes(const KvCacheView& cache) {
  std::vector<std::vector<std::byte>> all;
  for (const DLTensor* tensor :
       {cache.k_codes, cache.k_scales, cache.v, cache.delta_s, cache.k_residual, cache.k_first}) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->ndim; ++i) elements *= tensor->shape[i];
    const auto* data = static_cast<const std::byte*>(tensor->data) + tensor->byte_offset;
    all.emplace_back(data, data + elements * tensor->dtype.bits / 8);
  }
  return all;
}

class CudaCacheWriter : public ::testing::TestWithParam<DLDataType> {};

TEST_P(CudaCacheWriter, WritesTheBytesOfTheCpu) {
  WriterCase c(GetParam());
  DeviceCopies copies;
  const KvCacheView on_device = copies.copy(c.host.cache());
  const DLTensor* k = copies.copy(c.k.ptr());
  const DLTensor* v = copies.copy(c.v.ptr());
  const DLTensor* slots = copies.copy(c.slots.ptr());
  AppendParams params;
  params.cu_seqlens = copies.copy(c.cu_seqlens.ptr());
  append_kv(on_device, *k, *v, *slots, params);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);

  AppendParams host_params;
  host_params.cu_seqlens = c.cu_seqlens.ptr();
  append_kv(c.host.cache(), c.k.dl(), c.v.dl(), c.slots.dl(), host_params);
  const auto expected = page_bytes(c.host.cache());
  for (const DLTensor* tensor : {on_device.k_codes, on_device.k_scales, on_device.v,
                                 on_device.delta_s, on_device.k_residual, on_device.k_first}) {
    copies.download(tensor);
  }
  EXPECT_EQ(page_bytes(c.host.cache()), expected);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaCacheWriter, ::testing::Values(kBF16, kF16, kF32));

TEST(CudaCacheWriterErrors, SlotsOutOfRangeAreCounted) {
  WriterCase c(kBF16);
  c.slots.at<int64_t>(0) = int64_t{1} << 40;
  c.slots.at<int64_t>(1) = -2;
  DeviceCopies copies;
  const KvCacheView on_device = copies.copy(c.host.cache());
  TestTensor count(kI32, {1});
  count.at<int32_t>(0) = 5;
  AppendParams params;
  params.cu_seqlens = copies.copy(c.cu_seqlens.ptr());
  params.error_count = copies.copy(count.ptr());
  append_kv(on_device, *copies.copy(c.k.ptr()), *copies.copy(c.v.ptr()),
            *copies.copy(c.slots.ptr()), params);
  copies.download(params.error_count);
  EXPECT_EQ(count.at<int32_t>(0), 7);
}

TEST(CudaCacheWriterErrors, TokensOfNoSequenceAreCounted) {
  WriterCase c(kBF16);
  TestTensor no_ends(kI32, {1});
  no_ends.at<int32_t>(0) = 0;
  TestTensor no_rows(kI32, {0});
  TestTensor count(kI32, {1});
  count.at<int32_t>(0) = 0;
  DeviceCopies copies;
  KvCacheView on_device = copies.copy(c.host.cache());
  const std::vector<std::vector<std::byte>> before = page_bytes(c.host.cache());
  on_device.stats_index = copies.copy(no_rows.ptr());
  AppendParams params;
  params.cu_seqlens = copies.copy(no_ends.ptr());
  params.error_count = copies.copy(count.ptr());
  append_kv(on_device, *copies.copy(c.k.ptr()), *copies.copy(c.v.ptr()),
            *copies.copy(c.slots.ptr()), params);
  copies.download(params.error_count);
  int expected = 0;
  for (int64_t i = 0; i < WriterCase::kTokens; ++i) expected += c.slots.at<int64_t>(i) != -1;
  EXPECT_EQ(count.at<int32_t>(0), expected);
  for (const DLTensor* pages : {on_device.k_codes, on_device.k_scales, on_device.v,
                                on_device.delta_s, on_device.k_residual, on_device.k_first}) {
    copies.download(pages);
  }
  EXPECT_EQ(page_bytes(c.host.cache()), before);
}

TEST(CudaCacheWriterErrors, NameWhatIsWrong) {
  WriterCase c(kBF16);
  DeviceCopies copies;
  const KvCacheView on_device = copies.copy(c.host.cache());
  const DLTensor* k = copies.copy(c.k.ptr());
  const DLTensor* slots = copies.copy(c.slots.ptr());
  expect_error(
      "v lies on DLPack device type 1, number 0: must be type 2 (CUDA), number 0, as that "
      "of k",
      [&] { append_kv(on_device, *k, c.v.dl(), *slots); });
  expect_error("cu_seqlens is missing", [&] { append_kv(on_device, *k, *k, *slots); });
  TestTensor other(kBF16, {WriterCase::kTokens, 2, 64});
  expect_error("v has shape [77, 2, 64]",
               [&] { append_kv(on_device, *k, *copies.copy(other.ptr()), *slots); });
}

TEST(CudaMeans, AgreeWithTheCpu) {
  TestTensor x = TestTensor::with_gaps(kBF16, {90, 3, 64});
  x.fill_normal(4, 3.0f);
  TestTensor cu_seqlens(kI32, {4});
  const int32_t ends[] = {0, 50, 50, 88};
  for (int64_t i = 0; i < 4; ++i) cu_seqlens.at<int32_t>(i) = ends[i];
  TestTensor expected(kF32, {3, 3, 64});
  TestTensor means = TestTensor::with_gaps(kF32, {3, 3, 64});
  compute_means(x.dl(), cu_seqlens.ptr(), expected.dl());
  DeviceCopies copies;
  const DLTensor* out = copies.copy(means.ptr());
  compute_means(*copies.copy(x.ptr()), copies.copy(cu_seqlens.ptr()), *out);
  copies.download(out);
  means.for_each([&](const TestTensor::Shape& i) {
    EXPECT_FLOAT_EQ(static_cast<float>(means.get(i)), static_cast<float>(expected.get(i)));
  });
  const DLTensor wrong = expected.dl();
  expect_error("out lies on DLPack device type 1",
               [&] { compute_means(*copies.copy(x.ptr()), nullptr, wrong); });
}

}  // namespace
}  // namespace mpfa::testing
