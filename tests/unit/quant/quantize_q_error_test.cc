#include <gtest/gtest.h>

#include "mpfa/quant.h"
#include "support/test_tensor.h"

namespace mpfa {
namespace {

using testing::expect_error;
using testing::kBF16;
using testing::kF32;
using testing::kF8;
using testing::kU8;
using testing::TestTensor;

// A call that works; every test breaks one thing of it.
class QuantizeQErrorTest : public ::testing::Test {
 protected:
  QuantizeQErrorTest() {
    for (TestTensor* t : {&q, &q_mean, &k_mean, &basis, &k_first}) t->fill_normal(1);
    good_out = {codes.ptr(),   scales.ptr(),   codes2.ptr(),   scales2.ptr(),
                rowbias.ptr(), residual.ptr(), first_key.ptr()};
    good.q_mean = q_mean.ptr();
    good.k_mean = k_mean.ptr();
    good.residual_basis = basis.ptr();
    good.k_first = k_first.ptr();
    good.stats_index = stats_index.ptr();
    good.cu_seqlens_q = cu.ptr();
    reset();
    before = written();
  }

  void reset() {
    out = good_out;
    params = good;
  }
  std::vector<std::vector<std::byte>> written() const {
    return {codes.snapshot(),   scales.snapshot(),   codes2.snapshot(),   scales2.snapshot(),
            rowbias.snapshot(), residual.snapshot(), first_key.snapshot()};
  }
  void expect(const std::string& start, const DLTensor& q_) {
    expect_error(start, [&] { quantize_q(q_, out, params); });
    EXPECT_EQ(written(), before) << "something was written";
    reset();
  }
  void expect(const std::string& start) { expect(start, q.dl()); }
  void expect_with(const std::string& start, const DLTensor* QuantizedQ::*member,
                   TestTensor tensor) {
    out.*member = tensor.ptr();
    expect(start);
  }
  void expect_with(const std::string& start, const DLTensor* QuantizeQParams::*member,
                   TestTensor tensor) {
    params.*member = tensor.ptr();
    expect(start);
  }

  TestTensor q{kBF16, {7, 4, 64}};
  TestTensor q_mean{kF32, {3, 4, 64}}, k_mean{kF32, {3, 2, 64}}, basis{kF32, {3, 2, 4, 64}};
  TestTensor k_first{kBF16, {2, 2, 64}};
  TestTensor stats_index = testing::int_tensor({2, 0}), cu = testing::int_tensor({0, 3, 7});
  TestTensor codes{kU8, {7, 4, 32}}, scales{kF8, {7, 4, 4}}, codes2{kU8, {7, 4, 32}},
      scales2{kF8, {7, 4, 4}}, rowbias{kF32, {7, 4}}, residual{kF32, {7, 4, 4}},
      first_key{kF32, {7, 4}};
  QuantizedQ good_out, out;
  QuantizeQParams good, params;
  std::vector<std::vector<std::byte>> before;
};

TEST_F(QuantizeQErrorTest, TheUnbrokenCallWorks) {
  EXPECT_NO_THROW(quantize_q(q.dl(), out, params));
  EXPECT_NE(written(), before);
}

TEST_F(QuantizeQErrorTest, Q) {
  expect("q has shape [7, 4, 72]: its last dimension, head_dim, must be a multiple of 16",
         TestTensor(kBF16, {7, 4, 72}).dl());
  expect("q has shape [7, 4, 0]: its last dimension", TestTensor(kBF16, {7, 4, 0}).dl());
  expect("q has shape [7, 4, 2048]: its last dimension", TestTensor(kBF16, {7, 4, 2048}).dl());
  expect("q has shape [7, 64]: must have 3 dimensions", TestTensor(kBF16, {7, 64}).dl());
  expect("q has type uint8: must be bfloat16, float16 or float32",
         TestTensor(kU8, {7, 4, 64}).dl());
  expect("q has stride 2", TestTensor(kBF16, {7, 4, 64}, {512, 128, 2}).dl());
}

TEST_F(QuantizeQErrorTest, Statistics) {
  using P = QuantizeQParams;
  expect_with("q_mean has shape [3, 2, 64]: dimension 1 must be 4", &P::q_mean,
              TestTensor(kF32, {3, 2, 64}));
  expect_with("q_mean has shape [3, 4, 32]: dimension 2 must be 64", &P::q_mean,
              TestTensor(kF32, {3, 4, 32}));
  expect_with("q_mean has shape [0, 4, 64]: needs at least one row", &P::q_mean,
              TestTensor(kF32, {0, 4, 64}));
  expect_with("q_mean has type bfloat16: must be float32", &P::q_mean,
              TestTensor(kBF16, {3, 4, 64}));
  expect_with("k_mean has shape [2, 2, 64]: dimension 0 must be 3", &P::k_mean,
              TestTensor(kF32, {2, 2, 64}));
  expect_with("k_mean has shape [3, 3, 64]: its KV heads must divide the 4 heads of q", &P::k_mean,
              TestTensor(kF32, {3, 3, 64}));
  expect_with("k_mean has shape [3, 2, 80]: dimension 2 must be 64", &P::k_mean,
              TestTensor(kF32, {3, 2, 80}));
  expect_with("residual_basis has shape [3, 4, 4, 64]: dimension 1 must be 2", &P::residual_basis,
              TestTensor(kF32, {3, 4, 4, 64}));
  expect_with("residual_basis has shape [3, 2, 4, 16]: dimension 3 must be 64", &P::residual_basis,
              TestTensor(kF32, {3, 2, 4, 16}));
  expect_with("k_first has shape [3, 2, 64]: dimension 0 must be 2", &P::k_first,
              TestTensor(kBF16, {3, 2, 64}));
  expect_with("k_first has shape [2, 1, 64]: dimension 1 must be 2", &P::k_first,
              TestTensor(kBF16, {2, 1, 64}));
  expect_with("k_first has type float32: must be bfloat16", &P::k_first,
              TestTensor(kF32, {2, 2, 64}));
}

TEST_F(QuantizeQErrorTest, SequencesAndRows) {
  using P = QuantizeQParams;
  expect_with("stats_index[1] = 3: must be 0 to 2", &P::stats_index, testing::int_tensor({0, 3}));
  expect_with("stats_index[0] = -1: must be 0 to 2", &P::stats_index, testing::int_tensor({-1, 0}));
  expect_with("stats_index has 1 elements: must have one per sequence, 2", &P::stats_index,
              testing::int_tensor({0}));
  expect_with("cu_seqlens_q[2] = 8: must not exceed the number of rows, 7", &P::cu_seqlens_q,
              testing::int_tensor({0, 3, 8}));
  expect_with("cu_seqlens_q[0] = 1: must be 0", &P::cu_seqlens_q, testing::int_tensor({1, 3, 7}));
  params.cu_seqlens_q = nullptr;
  expect("k_first has shape [2, 2, 64]: dimension 0 must be 1");
}

// Without cu_seqlens_q every token would silently get the first sequence's statistics.
TEST_F(QuantizeQErrorTest, SeveralRowsOfStatisticsNeedCuSeqlens) {
  out.first_key = nullptr;
  params.k_first = nullptr;
  params.cu_seqlens_q = nullptr;
  expect("cu_seqlens_q is missing: it is required to tell which of 2 sequences");
}

TEST_F(QuantizeQErrorTest, ScaleRule) {
  params.scale_rule = static_cast<ScaleRule>(2);
  expect("scale_rule = 2: must be kPlain or kSearch");
}

TEST_F(QuantizeQErrorTest, MisalignedQ) {
  DLTensor odd = q.dl();
  odd.byte_offset += 1;
  expect("q starts at an address that is 1 modulo 2: must be aligned", odd);
}

TEST_F(QuantizeQErrorTest, Overlap) {
  using Q = QuantizedQ;
  const std::string all = " in memory: what is written must not share memory";
  const auto expect_over = [&](const std::string& start, const DLTensor* Q::*member,
                               const DLTensor& target, DLDataType type, TestTensor::Shape shape) {
    testing::ViewOver view(target, type, std::move(shape));
    out.*member = view.ptr();
    expect(start);
  };
  expect_over("q overlaps codes" + all, &Q::codes, q.dl(), kU8, {7, 4, 32});
  expect_over("q_mean overlaps scales" + all, &Q::scales, q_mean.dl(), kF8, {7, 4, 4});
  expect_over("k_mean overlaps rowbias" + all, &Q::rowbias, k_mean.dl(), kF32, {7, 4});
  expect_over("residual_basis overlaps codes2" + all, &Q::codes2, basis.dl(), kU8, {7, 4, 32});
  expect_over("k_first overlaps scales2" + all, &Q::scales2, k_first.dl(), kF8, {7, 4, 4});
  TestTensor rows = testing::large_memory<int32_t>(testing::kI32, {2, 0});
  testing::ViewOver small_rows(rows.dl(), testing::kI32, {2});
  params.stats_index = small_rows.ptr();
  expect_over("stats_index overlaps first_key" + all, &Q::first_key, rows.dl(), kF32, {7, 4});
  TestTensor ends = testing::large_memory<int32_t>(testing::kI32, {0, 3, 7});
  testing::ViewOver small_ends(ends.dl(), testing::kI32, {3});
  params.cu_seqlens_q = small_ends.ptr();
  expect_over("cu_seqlens_q overlaps residual" + all, &Q::residual, ends.dl(), kF32, {7, 4, 4});
  expect_over("codes2 overlaps codes" + all, &Q::codes2, codes.dl(), kU8, {7, 4, 32});
  expect_over("first_key overlaps rowbias" + all, &Q::first_key, rowbias.dl(), kF32, {7, 4});
  TestTensor folded(kF32, {7, 4}, {2, 1});
  expect_with("rowbias has shape [7, 4] and a stride of 2", &Q::rowbias, folded);
}

// Codes and scales side by side in one record: they share a buffer but no byte.
TEST_F(QuantizeQErrorTest, InterleavedOutputsAreFine) {
  std::vector<uint8_t> records(7 * 4 * 36);
  const auto part = [&](int64_t offset, DLDataType type, int64_t width) {
    DLTensor base{};
    base.data = records.data();
    base.byte_offset = static_cast<uint64_t>(offset);
    base.device = {kDLCPU, 0};
    return testing::ViewOver(base, type, {7, 4, width}, {4 * 36, 36, 1});
  };
  testing::ViewOver some_codes = part(0, kU8, 32);
  testing::ViewOver some_scales = part(32, kF8, 4);
  out.codes = some_codes.ptr();
  out.scales = some_scales.ptr();
  quantize_q(q.dl(), out, params);
  quantize_q(q.dl(), good_out, params);
  for (int64_t row = 0; row < 28; ++row) {
    for (int64_t i = 0; i < 36; ++i) {
      const uint8_t want = i < 32 ? codes.at<uint8_t>(row / 4, row % 4, i)
                                  : scales.at<uint8_t>(row / 4, row % 4, i - 32);
      ASSERT_EQ(records[static_cast<size_t>(row * 36 + i)], want) << row << " " << i;
    }
  }
}

TEST_F(QuantizeQErrorTest, Outputs) {
  using Q = QuantizedQ;
  expect_with("codes has shape [7, 4, 64]: dimension 2 must be 32", &Q::codes,
              TestTensor(kU8, {7, 4, 64}));
  expect_with("codes has shape [6, 4, 32]: dimension 0 must be 7", &Q::codes,
              TestTensor(kU8, {6, 4, 32}));
  expect_with("codes has type float32", &Q::codes, TestTensor(kF32, {7, 4, 32}));
  expect_with("scales has shape [7, 4, 8]: dimension 2 must be 4", &Q::scales,
              TestTensor(kF8, {7, 4, 8}));
  expect_with("codes2 has shape [7, 3, 32]: dimension 1 must be 4", &Q::codes2,
              TestTensor(kU8, {7, 3, 32}));
  expect_with("scales2 has type bfloat16", &Q::scales2, TestTensor(kBF16, {7, 4, 4}));
  expect_with("rowbias has shape [7, 2]: dimension 1 must be 4", &Q::rowbias,
              TestTensor(kF32, {7, 2}));
  expect_with("residual has shape [7, 4, 8]: dimension 2 must be 4", &Q::residual,
              TestTensor(kF32, {7, 4, 8}));
  expect_with("first_key has shape [8, 4]: dimension 0 must be 7", &Q::first_key,
              TestTensor(kF32, {8, 4}));
}

TEST_F(QuantizeQErrorTest, MissingTensors) {
  out.codes = nullptr;
  expect("codes is missing: it is required");
  out.scales = nullptr;
  expect("scales is missing: it is required");
  out.codes2 = nullptr;
  expect("codes2 is missing: it is required with scales2");
  out.scales2 = nullptr;
  expect("scales2 is missing: it is required with codes2");
  params.k_mean = nullptr;
  expect("k_mean is missing: it is required with rowbias");
  params.residual_basis = nullptr;
  expect("residual_basis is missing: it is required with residual");
  params.k_first = nullptr;
  expect("k_first is missing: it is required with first_key");
}

TEST_F(QuantizeQErrorTest, DotProductsNeedAPowerOfTwo) {
  TestTensor wide(kBF16, {7, 4, 48}), mean(kF32, {1, 2, 48});
  TestTensor wide_codes(kU8, {7, 4, 24}), wide_scales(kF8, {7, 4, 3});
  out = {wide_codes.ptr(), wide_scales.ptr()};
  out.rowbias = rowbias.ptr();
  params = {};
  params.k_mean = mean.ptr();
  expect("q has shape [7, 4, 48]: head_dim must be a power of two for rowbias", wide.dl());
}

}  // namespace
}  // namespace mpfa
