#include <gtest/gtest.h>

#include <limits>

#include "mpfa/quant.h"
#include "support/test_tensor.h"

namespace mpfa {
namespace {

using testing::expect_error;
using testing::kBF16;
using testing::kF32;
using testing::TestTensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A call that works; every test breaks one thing of it.
class CalibrateErrorTest : public ::testing::Test {
 protected:
  CalibrateErrorTest() {
    q.fill_normal(1);
    k.fill_normal(2);
    out = {k_mean.ptr(), q_mean.ptr(), basis.ptr(), scale.ptr()};
    before = written();
  }

  std::vector<std::vector<std::byte>> written() const {
    return {k_mean.snapshot(), q_mean.snapshot(), basis.snapshot(), scale.snapshot()};
  }
  void expect(const std::string& start) { expect(start, q.dl(), k.dl()); }
  void expect(const std::string& start, const DLTensor& q_, const DLTensor& k_) {
    expect_error(start, [&] { calibrate(q_, k_, out, params); });
    EXPECT_EQ(written(), before) << "something was written";
  }

  TestTensor q{kBF16, {20, 4, 64}}, k{kBF16, {30, 2, 64}};
  TestTensor k_mean{kF32, {2, 64}}, q_mean{kF32, {4, 64}}, basis{kF32, {2, 8, 64}},
      scale{kF32, {2, 8}};
  CalibrationOut out;
  CalibrateParams params;
  std::vector<std::vector<std::byte>> before;
};

TEST_F(CalibrateErrorTest, TheUnbrokenCallWorks) {
  EXPECT_NO_THROW(calibrate(q.dl(), k.dl(), out, params));
}

TEST_F(CalibrateErrorTest, NonFiniteInputIsNamedByTensorAndIndex) {
  q.set({19, 0, 0}, kInfinity);
  expect("q[19, 0, 0] = inf: must be finite");
  q.set({3, 2, 61}, std::nanf(""));
  q.set({3, 3, 0}, -kInfinity);
  expect("q[3, 2, 61] = nan: must be finite");
  q.fill_normal(1);
  k.set({29, 1, 63}, -kInfinity);
  expect("k[29, 1, 63] = -inf: must be finite");
}

TEST_F(CalibrateErrorTest, TheFirstNonFiniteElementIsNamedForAnyThreadCount) {
  TestTensor many(kBF16, {5000, 2, 64});
  many.fill_normal(3);
  for (const int64_t t : {4999, 2500, 1234, 777}) many.set({t, 1, 5}, kInfinity);
  testing::for_thread_counts(
      [&] { expect("k[777, 1, 5] = inf: must be finite", q.dl(), many.dl()); });
}

TEST_F(CalibrateErrorTest, ShapesOfInputs) {
  expect("k has shape [30, 0, 64]: needs at least one KV head", q.dl(),
         TestTensor(kBF16, {30, 0, 64}).dl());
  expect("head_dim = 80 (k has shape [30, 2, 80]): must be 64 or 128", q.dl(),
         TestTensor(kBF16, {30, 2, 80}).dl());
  expect("q has shape [20, 4, 128]: dimension 2 must be 64", TestTensor(kBF16, {20, 4, 128}).dl(),
         k.dl());
  expect("q has shape [20, 5, 64]: its heads must be a multiple of the 2 KV heads",
         TestTensor(kBF16, {20, 5, 64}).dl(), k.dl());
  expect("q has shape [20, 0, 64]: its heads must be a multiple of the 2 KV heads",
         TestTensor(kBF16, {20, 0, 64}).dl(), k.dl());
  expect("q has shape [20, 64]: must have 3 dimensions", TestTensor(kBF16, {20, 64}).dl(), k.dl());
  expect("k has type int32: must be bfloat16, float16 or float32", q.dl(),
         TestTensor(testing::kI32, {30, 2, 64}).dl());
  expect("k has shape [0, 2, 64]: calibration needs at least one token", q.dl(),
         TestTensor(kBF16, {0, 2, 64}).dl());
  expect("q has shape [0, 4, 64]: q_mean needs at least one query",
         TestTensor(kBF16, {0, 4, 64}).dl(), k.dl());
  out.q_mean = nullptr;
  expect("q has shape [0, 4, 64]: residual_basis needs at least one query",
         TestTensor(kBF16, {0, 4, 64}).dl(), k.dl());
}

TEST_F(CalibrateErrorTest, CuSeqlens) {
  TestTensor past = testing::int_tensor({0, 31});
  params.cu_seqlens = past.ptr();
  expect("cu_seqlens[1] = 31: must not exceed the number of rows, 30");
  TestTensor empty = testing::int_tensor({0, 0, 0});
  params.cu_seqlens = empty.ptr();
  expect("cu_seqlens ends at 0: calibration needs at least one token");
}

TEST_F(CalibrateErrorTest, KScale) {
  TestTensor k_scale(kF32, {2});
  params.k_scale = k_scale.ptr();
  for (const float bad : {0.0f, -1.0f, kInfinity, std::nanf("")}) {
    k_scale.at<float>(0) = 1;
    k_scale.at<float>(1) = bad;
    expect(internal::str_cat("k_scale[1] = ", bad, ": must be finite and above 0"));
  }
  TestTensor three(kF32, {3});
  params.k_scale = three.ptr();
  expect("k_scale has shape [3]: dimension 0 must be 2");
}

TEST_F(CalibrateErrorTest, ScaleRule) {
  params.scale_rule = static_cast<ScaleRule>(2);
  expect("scale_rule = 2: must be kPlain or kSearch");
}

TEST_F(CalibrateErrorTest, MisalignedInputs) {
  DLTensor odd = q.dl();
  odd.byte_offset += 1;
  expect("q starts at an address that is 1 modulo 2: must be aligned", odd, k.dl());
  odd = k.dl();
  odd.byte_offset += 1;
  expect("k starts at an address that is 1 modulo 2: must be aligned", q.dl(), odd);
}

TEST_F(CalibrateErrorTest, Overlap) {
  const CalibrationOut good = out;
  TestTensor scale_memory = testing::large_memory<float>(kF32, {1.0f, 1.0f});
  TestTensor cu_memory = testing::large_memory<int32_t>(testing::kI32, {0, 30});
  testing::ViewOver k_scale(scale_memory.dl(), kF32, {2}), cu(cu_memory.dl(), testing::kI32, {2});
  params.k_scale = k_scale.ptr();
  params.cu_seqlens = cu.ptr();
  const std::string all = " in memory: what is written must not share memory";
  const auto expect_over = [&](const std::string& start, const DLTensor* CalibrationOut::*member,
                               const DLTensor& target, TestTensor::Shape shape) {
    testing::ViewOver view(target, kF32, std::move(shape));
    out = good;
    out.*member = view.ptr();
    expect(start);
  };
  expect_over("q overlaps k_mean" + all, &CalibrationOut::k_mean, q.dl(), {2, 64});
  expect_over("k overlaps q_mean" + all, &CalibrationOut::q_mean, k.dl(), {4, 64});
  expect_over("k_scale overlaps residual_basis" + all, &CalibrationOut::residual_basis,
              scale_memory.dl(), {2, 8, 64});
  expect_over("cu_seqlens overlaps residual_scale" + all, &CalibrationOut::residual_scale,
              cu_memory.dl(), {2, 8});
  expect_over("q_mean overlaps k_mean" + all, &CalibrationOut::k_mean, q_mean.dl(), {2, 64});
  expect_over("residual_scale overlaps residual_basis" + all, &CalibrationOut::residual_scale,
              basis.dl(), {2, 8});
  TestTensor folded(kF32, {2, 64}, {0, 1});
  out = good;
  out.k_mean = folded.ptr();
  expect("k_mean has shape [2, 64] and a stride of 0 that makes its elements share memory");
}

TEST_F(CalibrateErrorTest, Outputs) {
  const CalibrationOut good = out;
  const auto expect_with = [&](const std::string& start, const DLTensor* CalibrationOut::*member,
                               TestTensor tensor) {
    out = good;
    out.*member = tensor.ptr();
    expect(start);
  };
  expect_with("k_mean has shape [3, 64]: dimension 0 must be 2", &CalibrationOut::k_mean,
              TestTensor(kF32, {3, 64}));
  expect_with("k_mean has shape [2, 32]: dimension 1 must be 64", &CalibrationOut::k_mean,
              TestTensor(kF32, {2, 32}));
  expect_with("k_mean has type bfloat16: must be float32", &CalibrationOut::k_mean,
              TestTensor(kBF16, {2, 64}));
  expect_with("q_mean has shape [2, 64]: dimension 0 must be 4", &CalibrationOut::q_mean,
              TestTensor(kF32, {2, 64}));
  expect_with(
      "residual_basis has shape [2, 5, 64]: its middle dimension, the residual rank, must "
      "be 4, 8 or 16",
      &CalibrationOut::residual_basis, TestTensor(kF32, {2, 5, 64}));
  expect_with("residual_basis has shape [3, 8, 64]: dimension 0 must be 2",
              &CalibrationOut::residual_basis, TestTensor(kF32, {3, 8, 64}));
  expect_with("residual_basis has shape [2, 8, 16]: dimension 2 must be 64",
              &CalibrationOut::residual_basis, TestTensor(kF32, {2, 8, 16}));
  expect_with("residual_basis has stride 2 in its last dimension", &CalibrationOut::residual_basis,
              TestTensor(kF32, {2, 8, 64}, {1024, 128, 2}));
  expect_with("residual_scale has shape [1, 8]: dimension 0 must be 2",
              &CalibrationOut::residual_scale, TestTensor(kF32, {1, 8}));
  expect_with("residual_scale has shape [2, 4]: dimension 1 must be 8",
              &CalibrationOut::residual_scale, TestTensor(kF32, {2, 4}));
  out = good;
  out.k_mean = nullptr;
  expect("k_mean is missing: it is required");
  out = good;
  out.residual_basis = nullptr;
  expect("residual_basis is missing: it is required with residual_scale");
}

}  // namespace
}  // namespace mpfa
