// Attention with long queries on a GPU against the oracle: shapes, masks, compensations, formats.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention_steps.h"
#include "kernels/device_case.h"
#include "kernels/prefill_precision.h"

namespace mpfa::testing {
namespace {

// The precisions that a plan may ask for.
class Prefill : public PrefillPrecisionTest {
 protected:
  // Runs a problem and compares it with the oracle. delta_s is for the kernel of kFp16 alone.
  static void expect_right(AttentionShape shape, uint32_t seed = 1) {
    if (GetParam() != PrefillPrecision::kFp16) shape.delta_s = false;
    SCOPED_TRACE(describe(shape) + " seed " + std::to_string(seed));
    AttentionCase host(shape, seed);
    DeviceCase device(host, limits());
    ASSERT_GT(device.plan().params.max_seqlen_q, 16) << "this is the decode kernel's";
    attend_and_expect_right(host, device, rounding_of(shape));
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, Prefill,
                         ::testing::Values(PrefillPrecision::kFp16, PrefillPrecision::kFp8,
                                           PrefillPrecision::kFp8Fp16Scores),
                         PrefillPrecisionTest::name);

AttentionShape prefill_shape() {
  AttentionShape shape;
  shape.seqlens_q = {33};
  shape.seqlens_k = {77};
  shape.num_kv_heads = 1;
  shape.head_dim = 128;
  shape.page_size = 64;
  return shape;
}

TEST_P(Prefill, GroupSizes) {
  for (const int64_t head_dim : {64, 128}) {
    for (const int64_t group_size : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
      AttentionShape shape = prefill_shape();
      shape.head_dim = head_dim;
      shape.group_size = group_size;
      shape.num_kv_heads = group_size <= 3 ? 2 : 1;
      shape.seqlens_q = {group_size <= 3 ? 64 : 19};
      expect_right(shape);
    }
  }
}

TEST_P(Prefill, PagesAndCompensations) {
  for (const int64_t page_size : {16, 32, 64, 128}) {
    for (const int64_t rank : {0, 4, 8, 16}) {
      AttentionShape shape = prefill_shape();
      shape.head_dim = (page_size >= 64) == (rank >= 8) ? 128 : 64;
      shape.page_size = page_size;
      shape.residual_rank = rank;
      shape.first_key = rank != 4;
      shape.delta_s = rank >= 8;
      shape.scales = page_size > 16;
      shape.num_stats = 3;
      shape.group_size = rank == 8 ? 3 : 2;
      shape.seqlens_q = {17, 20};
      shape.seqlens_k = {131, 25};
      expect_right(shape);
    }
  }
}

TEST_P(Prefill, Lengths) {
  for (const int64_t head_dim : {64, 128}) {
    AttentionShape shape = prefill_shape();
    shape.head_dim = head_dim;
    shape.page_size = 16;
    // Lengths 0, queries of nothing, single queries, and queries that see no key.
    shape.seqlens_q = {1, 64, 0, 17, 20, 1, 100, 33};
    shape.seqlens_k = {90, 64, 50, 0, 5, 0, 129, 65};
    shape.group_size = 3;
    shape.first_key = true;
    shape.residual_rank = 8;
    expect_right(shape);
  }
}

TEST_P(Prefill, ManySequences) {
  AttentionShape shape = prefill_shape();
  shape.seqlens_q = {40};
  shape.seqlens_k = {43};
  for (int i = 0; i < 70; ++i) {
    shape.seqlens_q.push_back(i % 3);
    shape.seqlens_k.push_back(i % 5 * 2);
  }
  shape.head_dim = 64;
  shape.page_size = 16;
  expect_right(shape);
}

TEST_P(Prefill, LongKeys) {
  AttentionShape shape = prefill_shape();
  shape.seqlens_q = {17};
  shape.seqlens_k = {1203};
  shape.residual_rank = 8;
  shape.first_key = true;
  expect_right(shape);
}

TEST_P(Prefill, MasksAndScores) {
  for (int variant = 0; variant < 8; ++variant) {
    AttentionShape shape = prefill_shape();
    shape.group_size = 2;
    shape.seqlens_q = {70};
    shape.seqlens_k = {143};
    shape.sinks = variant % 2 == 1;
    shape.params.softcap = variant % 4 >= 2 ? 20.0f : 0.0f;
    shape.params.window_left = variant >= 4 ? 40 : -1;
    shape.params.causal = variant % 3 != 2;
    shape.delta_s = variant == 3;
    shape.residual_rank = variant >= 6 ? 8 : 0;
    shape.first_key = variant >= 6;
    expect_right(shape);
  }
}

TEST_P(Prefill, WindowsThatEndBeforeTheDiagonal) {
  for (const int64_t window : std::vector<int64_t>{0, 1, 63, 64, int64_t{1} << 40}) {
    AttentionShape shape = prefill_shape();
    shape.head_dim = 64;
    shape.params.window_left = window;
    shape.params.causal = window != 1;
    shape.first_key = true;
    expect_right(shape);
  }
}

TEST_P(Prefill, Halves) {
  AttentionShape shape = prefill_shape();
  shape.q_type = kF16;
  shape.residual_rank = 16;
  shape.sinks = true;
  expect_right(shape);
}

TEST_P(Prefill, NanOfKeysThatAreSeen) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    AttentionShape shape = prefill_shape();
    shape.nan_inside = true;
    shape.group_size = 2;
    shape.seqlens_q = {20, 1, 33};
    shape.seqlens_k = {30, 3, 66};
    shape.head_dim = seed % 2 == 0 ? 64 : 128;
    if (seed > 4) shape.params.window_left = 5;
    expect_right(shape, seed);
  }
}

TEST_P(Prefill, Magnitudes) {
  if (GetParam() != PrefillPrecision::kFp16) GTEST_SKIP() << "logits beyond what it takes";
  for (const AttentionShape& shape : with_query_magnitudes(prefill_shape())) expect_right(shape);
  AttentionShape small = prefill_shape();
  small.head_dim = 64;
  for (const AttentionShape& shape : with_scale_magnitudes(small)) expect_right(shape);
}

TEST_P(Prefill, Strides) {
  AttentionShape two_heads = prefill_shape();
  two_heads.num_kv_heads = 2;
  for (const AttentionShape& shape : with_gaps(two_heads)) expect_right(shape);
}

// A tensor [rows, heads, d] of 16-bit elements again, each head's row on its own and aligned to
// nothing more than an element.
class OddRows {
 public:
  OddRows(const DLTensor& like)  // NOLINT(google-explicit-constructor)
      : shape_{like.shape[0], like.shape[1], like.shape[2]},
        strides_{(like.shape[2] + 1) * like.shape[1] + 1, like.shape[2] + 1, 1},
        memory_(static_cast<size_t>(2 * (1 + shape_[0] * strides_[0]))) {
    tensor_ = {memory_.data(), {kDLCUDA, 0}, 3, like.dtype, shape_, strides_, 2};
  }
  const DLTensor& operator*() const { return tensor_; }

  // Copies from or to a tensor on the GPU.
  void copy(const DLTensor& other, bool is_source) {
    for (int64_t row = 0; row < shape_[0]; ++row) {
      for (int64_t head = 0; head < shape_[1]; ++head) {
        std::byte* const own = address(tensor_, row, head);
        std::byte* const others = address(other, row, head);
        ASSERT_EQ(cudaMemcpy(is_source ? own : others, is_source ? others : own,
                             static_cast<size_t>(2 * shape_[2]), cudaMemcpyDeviceToDevice),
                  cudaSuccess);
      }
    }
  }

 private:
  static std::byte* address(const DLTensor& tensor, int64_t row, int64_t head) {
    return static_cast<std::byte*>(tensor.data) + tensor.byte_offset +
           2 * (row * tensor.strides[0] + head * tensor.strides[1]);
  }

  int64_t shape_[3];
  int64_t strides_[3];
  DeviceMemory memory_;
  DLTensor tensor_ = {};
};

TEST_P(Prefill, RowsAlignedToTheirElements) {
  AttentionCase host(prefill_shape(), 2);
  DeviceCase device(host, limits());
  OddRows q(*device.q);
  OddRows out(*device.out);
  q.copy(*device.q, true);
  const DLTensor* const even_out = device.out;
  out.copy(*even_out, true);
  device.q = &*q;
  device.out = &*out;
  device.enqueue(false, nullptr);
  out.copy(*even_out, false);
  device.out = even_out;
  device.fetch();
  expect_matches(host, device);
}

}  // namespace
}  // namespace mpfa::testing
