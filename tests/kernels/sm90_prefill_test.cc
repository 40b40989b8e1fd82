// Prefill by the kernels for sm_90a: how accurate it is, KV heads a few at a time, workspaces, what
// does not change a result.
#include "cuda/sm90_prefill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/attention.h"
#include "kernels/attention_steps.h"
#include "kernels/device_case.h"
#include "kernels/prefill_precision.h"

namespace mpfa::testing {
namespace {

AttentionShape sm90_shape() {
  AttentionShape shape;
  shape.seqlens_q = {70};
  shape.seqlens_k = {300};
  shape.num_kv_heads = 1;
  shape.head_dim = 128;
  shape.page_size = 64;
  return shape;
}

std::vector<std::byte> bytes_of(TestTensor& tensor) {
  const DLTensor view = tensor.dl();
  const auto* data = static_cast<const std::byte*>(view.data) + view.byte_offset;
  return {data, data + (view.shape[0] - 1) * view.strides[0] * tensor.item_size()};
}

class Sm90Prefill : public PrefillPrecisionTest {
 protected:
  static bool has_fp16_scores() { return GetParam() == PrefillPrecision::kFp8Fp16Scores; }

  // Runs a problem, compares it with the oracle and returns its relative error.
  static double error_of(AttentionCase& host) {
    DeviceCase device(host, limits());
    EXPECT_TRUE(internal::is_for_sm90_prefill(device.plan().params));
    attend_and_expect_right(host, device, rounding_of(host.shape()));
    return host.relative_error();
  }
  static double error_of(const AttentionShape& shape, uint32_t seed = 1) {
    SCOPED_TRACE(describe(shape));
    AttentionCase host(shape, seed);
    return error_of(host);
  }

  // Runs a problem with a bound for what is unpacked at once.
  static std::vector<std::byte> attend_with_bound(AttentionCase& host, DeviceCase& device,
                                                  int64_t unpacked_bytes) {
    host.poison_results();
    device.copies().upload(device.out);
    device.copies().upload(device.lse);
    const DLTensor workspace = device.workspace_tensor();
    internal::cuda_attention({*device.out, device.lse, *device.q, device.cache, *device.block_table,
                              *device.seq_lens, device.cu_seqlens_q, &workspace},
                             device.params, device.plan(), nullptr, unpacked_bytes);
    device.fetch();
    expect_right(host, device, rounding_of(host.shape()));
    return bytes_of(host.out());
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, Sm90Prefill,
                         ::testing::Values(PrefillPrecision::kFp8,
                                           PrefillPrecision::kFp8Fp16Scores),
                         PrefillPrecisionTest::name);

// ---- accuracy -----------------------------------------------------------------------------------

// Keys that count alike: what is left is rounding of probabilities to e4m3.
TEST_P(Sm90Prefill, ErrorOfFlatRows) {
  for (const int64_t head_dim : {64, 128}) {
    AttentionShape shape = sm90_shape();
    shape.head_dim = head_dim;
    shape.seqlens_k = {1000};
    shape.q_magnitude = 0.3f;
    const double error = error_of(shape);
    EXPECT_LT(error, 0.033);
    EXPECT_GT(error, 0.005) << "more than e4m3 has";
  }
}

// A few keys of a row have all of its weight: those round alike in the sum and in the output.
TEST_P(Sm90Prefill, ErrorOfSharpRows) {
  AttentionShape shape = sm90_shape();
  shape.seqlens_k = {520};
  shape.q_magnitude = 30.0f;
  EXPECT_LT(error_of(shape), has_fp16_scores() ? 0.05 : 0.012);
}

// A tensor core that adds up products in FP8 for long loses what a sum grows by: invisible where
// values have no mean.
TEST_P(Sm90Prefill, ErrorOfLongRowsWhoseValuesHaveAMean) {
  AttentionShape shape = sm90_shape();
  shape.head_dim = 64;
  shape.group_size = 2;
  shape.seqlens_q = {32};
  shape.seqlens_k = {32768};
  shape.page_size = 128;
  shape.q_magnitude = 0.1f;
  AttentionCase host(shape, 1);
  std::mt19937 random(5);
  std::normal_distribution<float> normal(1.0f, 1.0f);
  host.v().for_each([&](const TestTensor::Shape& i) {
    auto& code = host.v().at<uint8_t>(i[0], i[1], i[2], i[3]);
    if (code != 0xFF) code = e4m3_from_float(normal(random)).bits;
  });
  EXPECT_LT(error_of(host), 0.004);
}

TEST_P(Sm90Prefill, ScoresBeyondFp16BeforeTheyAreScaled) {
  AttentionShape shape = sm90_shape();
  shape.q_magnitude = 8000.0f;
  shape.params.softmax_scale = 5e-5f;
  shape.residual_rank = 8;
  EXPECT_LT(error_of(shape), 0.03);
  shape.q_magnitude = 1.0f;
  shape.scales = true;
  shape.scale_magnitude = 5000.0f;
  EXPECT_LT(error_of(shape), 0.03);
}

// ---- shapes -------------------------------------------------------------------------------------

// A random problem with everything that the kernels take.
AttentionShape random_shape(std::mt19937& random) {
  const auto any_of = [&](auto... values) {
    const std::vector<int64_t> list = {values...};
    return list[random() % list.size()];
  };
  const auto is = [&](int one_in) { return random() % one_in == 0; };
  AttentionShape shape;
  shape.group_size = any_of(1, 2, 3, 4, 5, 6, 7, 8, 16);
  shape.num_kv_heads = any_of(1, 1, 2, 3);
  shape.head_dim = any_of(64, 128);
  shape.page_size = any_of(16, 32, 64, 128);
  shape.residual_rank = any_of(0, 0, 4, 8, 16);
  shape.first_key = is(2);
  shape.scales = is(3);
  shape.strided = is(4);
  shape.gap = 16;
  shape.nan_inside = is(6);
  shape.sinks = is(3);
  shape.num_stats = any_of(1, 2);
  shape.q_type = is(2) ? kBF16 : kF16;
  shape.params.causal = !is(3);
  shape.params.window_left = is(3) ? any_of(0, 17, 128, 200) : -1;
  shape.seqlens_q.clear();
  shape.seqlens_k.clear();
  const int64_t batch_size = any_of(1, 2, 5);
  for (int64_t b = 0; b < batch_size; ++b) {
    const int64_t rows = b == 0 ? 17 + static_cast<int64_t>(random() % 60) : any_of(0, 1, 9, 40);
    const int64_t more = any_of(0, 0, 1, 60, 129, -5);
    shape.seqlens_q.push_back(static_cast<int32_t>(rows));
    shape.seqlens_k.push_back(is(5) ? 0 : static_cast<int32_t>(std::max<int64_t>(0, rows + more)));
  }
  return shape;
}

TEST_P(Sm90Prefill, RandomProblems) {
  std::mt19937 random(11);
  for (int i = 0; i < 24; ++i) {
    const AttentionShape shape = random_shape(random);
    SCOPED_TRACE(describe(shape));
    AttentionCase host(shape, static_cast<uint32_t>(i));
    DeviceCase device(host, limits());
    attend_and_expect_right(host, device, rounding_of(shape));
  }
}

// More tiles of rows than there are multiprocessors, which take them in turn.
TEST_P(Sm90Prefill, MoreTilesThanMultiprocessors) {
  AttentionShape shape = sm90_shape();
  shape.num_kv_heads = 2;
  shape.group_size = 1;
  shape.head_dim = 64;
  shape.page_size = 16;
  shape.seqlens_q = {150};
  shape.seqlens_k = {260};
  for (int i = 0; i < 160; ++i) {
    shape.seqlens_q.push_back(1 + i % 2);
    shape.seqlens_k.push_back(i % 9 * 3);
  }
  error_of(shape);
}

TEST_P(Sm90Prefill, KvHeadsAFewAtATime) {
  AttentionShape shape = sm90_shape();
  shape.num_kv_heads = 3;
  shape.group_size = 2;
  shape.seqlens_q = {70, 1, 30};
  shape.seqlens_k = {300, 130, 20};
  shape.residual_rank = 8;
  shape.first_key = true;
  AttentionCase host(shape, 3);
  DeviceCase device(host, limits());
  const std::vector<std::byte> all = attend_with_bound(host, device, internal::kUnpackedBytes);
  const int64_t head_bytes = 3 * (384 * 3) * shape.head_dim;
  for (const int64_t heads : {1, 2}) {
    EXPECT_EQ(attend_with_bound(host, device, heads * head_bytes), all) << heads << " heads";
  }
}

// ---- what does not change a result --------------------------------------------------------------

TEST_P(Sm90Prefill, BitsDoNotDependOnTheBatch) {
  AttentionShape shape = sm90_shape();
  shape.seqlens_q = {33, 70, 5};
  shape.seqlens_k = {200, 300, 140};
  AttentionCase host(shape, 4);
  DeviceCase device(host, limits());
  const auto rows = [&] {
    device.attend();
    expect_right(host, device, rounding_of(shape));
    const DLTensor view = host.out().dl();
    const int64_t row_bytes = view.strides[0] * host.out().item_size();
    const std::vector<std::byte> all = bytes_of(host.out());
    return std::vector<std::byte>(all.begin() + 33 * row_bytes, all.begin() + 103 * row_bytes);
  };
  const std::vector<std::byte> before = rows();
  host.seq_lens_tensor().at<int32_t>(0) = 40;
  host.seq_lens_tensor().at<int32_t>(2) = 0;
  device.copies().upload(device.seq_lens);
  EXPECT_EQ(rows(), before);
}

// The last `rows` rows of a prompt, as a chunk of their own over the same cache.
std::vector<std::byte> attend_chunk(AttentionCase& host, DeviceCase& device, int64_t rows) {
  const int64_t all = host.total_q();
  const std::vector<int32_t> first_rows = {0, static_cast<int32_t>(rows)};
  check(cudaMemcpy(
      static_cast<std::byte*>(device.cu_seqlens_q->data) + device.cu_seqlens_q->byte_offset,
      first_rows.data(), first_rows.size() * sizeof(int32_t), cudaMemcpyHostToDevice));
  const auto last = [&](const DLTensor& tensor, int64_t* shape) {
    DLTensor part = tensor;
    std::copy_n(tensor.shape, tensor.ndim, shape);
    shape[0] = rows;
    part.shape = shape;
    part.byte_offset +=
        static_cast<uint64_t>((all - rows) * tensor.strides[0] * (tensor.dtype.bits / 8));
    return part;
  };
  int64_t shapes[3][3];
  const DLTensor q = last(*device.q, shapes[0]);
  const DLTensor out = last(*device.out, shapes[1]);
  const DLTensor lse = last(*device.lse, shapes[2]);
  const DLTensor* const whole[] = {device.q, device.out, device.lse};
  device.q = &q;
  device.out = &out;
  device.lse = &lse;
  device.enqueue(false, nullptr);
  device.q = whole[0];
  device.out = whole[1];
  device.lse = whole[2];
  device.fetch();
  return bytes_of(host.out());
}

TEST_P(Sm90Prefill, ChunksGiveWhatOneCallGives) {
  AttentionShape shape = sm90_shape();
  shape.group_size = 2;
  shape.seqlens_q = {300};
  shape.first_key = true;
  AttentionCase host(shape, 6);
  DeviceCase device(host, limits());
  device.attend();
  expect_right(host, device, rounding_of(shape));
  const std::vector<std::byte> all = bytes_of(host.out());
  // A tile has 64 queries: chunks that begin at one see the same tiles of keys in the same order.
  EXPECT_EQ(attend_chunk(host, device, 300 - 128), all);
  EXPECT_EQ(attend_chunk(host, device, 300 - 64), all);
  // Others agree within rounding.
  attend_chunk(host, device, 111);
  expect_right(host, device, rounding_of(shape));
}

// ---- plans --------------------------------------------------------------------------------------

PlanParams plan_params(PrefillPrecision precision, int64_t batch_size, int64_t max_seqlen_k) {
  PlanParams params;
  params.device = {kDLCUDA, 0};
  params.batch_size = batch_size;
  params.num_q_heads = 32;
  params.num_kv_heads = 8;
  params.head_dim = 128;
  params.total_seqlen_q = 4096;
  params.max_seqlen_k = max_seqlen_k;
  params.prefill_precision = precision;
  return params;
}

// Bytes of a plan's workspace that the kernels for all GPUs do not need.
int64_t unpacked_bytes(PrefillPrecision precision, int64_t batch_size, int64_t max_seqlen_k) {
  return plan(plan_params(precision, batch_size, max_seqlen_k)).workspace_bytes -
         plan(plan_params(PrefillPrecision::kFp16, batch_size, max_seqlen_k)).workspace_bytes;
}

TEST_P(Sm90Prefill, WorkspacesHoldUnpackedKeysAndValues) {
  constexpr int64_t kToken = 3 * 128;
  constexpr int64_t kMib = int64_t{1} << 20;
  constexpr int64_t kMore = 384 * 1024;  // flags of tiles, alignment
  const auto expect_near = [&](int64_t bytes, int64_t expected) {
    EXPECT_GE(bytes, expected);
    EXPECT_LE(bytes, expected + kMore);
  };
  expect_near(unpacked_bytes(GetParam(), 1, 1000), 1024 * 8 * kToken);
  // Two sequences, each rounded up to whole tiles.
  expect_near(unpacked_bytes(GetParam(), 2, 1000), 2 * 1024 * 8 * kToken);
  // Heads: all 8, 5, 1, and 1 that takes more than the bound by itself.
  expect_near(unpacked_bytes(GetParam(), 1, 131072), 131072 * 8 * kToken);
  expect_near(unpacked_bytes(GetParam(), 2, 131072), 2 * 131072 * 5 * kToken);
  EXPECT_LE(2 * 131072 * 5 * kToken, 512 * kMib);
  expect_near(unpacked_bytes(GetParam(), 8, 131072), 8 * 131072 * kToken);
  expect_near(unpacked_bytes(GetParam(), 64, 131072), 64 * 131072 * kToken);
  // Too many keys for one head: the other kernel, without room.
  EXPECT_EQ(unpacked_bytes(GetParam(), 128, 131072), 0);
}

TEST_P(Sm90Prefill, PlansWithoutRoomHaveTheOtherKernel) {
  AttentionCase host(sm90_shape(), 7);
  PlanParams huge = limits();
  huge.max_seqlen_k = INT32_MAX;
  DeviceCase device(host, huge);
  device.attend();
  host.expect_matches_reference();
  const std::vector<std::byte> results = bytes_of(host.out());
  PlanParams fp16;
  fp16.prefill_precision = PrefillPrecision::kFp16;
  DeviceCase other(host, fp16);
  other.attend();
  EXPECT_EQ(bytes_of(host.out()), results);
}

// So have caches with delta_s, whatever the plan.
TEST_P(Sm90Prefill, DeltaHasTheOtherKernel) {
  AttentionShape shape = sm90_shape();
  shape.delta_s = true;
  AttentionCase host(shape, 8);
  DeviceCase device(host, limits());
  device.attend();
  host.expect_matches_reference(kCompensationRounding);
}

TEST(PlanPrecision, NumbersOutOfRangeAreErrors) {
  PlanParams params = plan_params(static_cast<PrefillPrecision>(4), 1, 100);
  EXPECT_THROW(plan(params), InvalidArgument);
  params.prefill_precision = static_cast<PrefillPrecision>(-1);
  EXPECT_THROW(plan(params), InvalidArgument);
}

}  // namespace
}  // namespace mpfa::testing
