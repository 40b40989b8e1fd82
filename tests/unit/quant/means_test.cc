#include <gtest/gtest.h>

#include <limits>

#include "mpfa/quant.h"
#include "support/test_tensor.h"

namespace mpfa {
namespace {

using testing::TestTensor;

constexpr DLDataType kFloatTypes[] = {testing::kBF16, testing::kF16, testing::kF32};

// Mean of one element over tokens [begin, end) in 64 bits of mantissa.
float mean_oracle(const TestTensor& x, int64_t begin, int64_t end, int64_t head, int64_t i) {
  long double sum = 0;
  for (int64_t t = begin; t < end; ++t) sum += static_cast<long double>(x.get({t, head, i}));
  return static_cast<float>(begin == end ? 0 : sum / static_cast<long double>(end - begin));
}

void expect_means(const TestTensor& x, const std::vector<int32_t>& cu, const TestTensor& out) {
  out.for_each([&](const TestTensor::Shape& at) {
    const float expected = mean_oracle(x, cu[static_cast<size_t>(at[0])],
                                       cu[static_cast<size_t>(at[0]) + 1], at[1], at[2]);
    // The last bit may differ: the reference is rounded from a longer sum.
    EXPECT_NEAR(out.get(at), expected, std::abs(expected) * 1.2e-7f)
        << at[0] << " " << at[1] << " " << at[2];
  });
}

class MeansTest : public ::testing::TestWithParam<DLDataType> {};

INSTANTIATE_TEST_SUITE_P(Types, MeansTest, ::testing::ValuesIn(kFloatTypes),
                         [](const auto& info) { return internal::dtype_string(info.param); });

TEST_P(MeansTest, MatchesLongDouble) {
  for (const int64_t d : {1, 5, 64, 128, 131}) {
    TestTensor x(GetParam(), {37, 3, d});
    x.fill_normal(static_cast<uint32_t>(d), 3, 1);
    TestTensor out(testing::kF32, {1, 3, d});
    compute_means(x.dl(), nullptr, out.dl());
    expect_means(x, {0, 37}, out);
  }
}

TEST_P(MeansTest, RaggedStridedAndNothingOutsideIsRead) {
  const std::vector<int32_t> cu = {0, 0, 5, 5, 6, 20, 20};
  for (const bool heads_first : {false, true}) {
    TestTensor x = heads_first ? TestTensor::heads_first(GetParam(), {23, 4, 64})
                               : TestTensor::with_gaps(GetParam(), {23, 4, 64});
    x.fill_normal(7, 1, -2);
    for (int64_t t = 20; t < 23; ++t) {
      for (int64_t h = 0; h < 4; ++h) x.set({t, h, 9}, std::nanf(""));
    }
    const std::vector<std::byte> before = x.snapshot();
    TestTensor cu_tensor = testing::int_tensor(cu);
    TestTensor out = TestTensor::with_gaps(testing::kF32, {6, 4, 64});
    TestTensor gaps = out;
    compute_means(x.dl(), cu_tensor.ptr(), out.dl());
    expect_means(x, cu, out);
    EXPECT_EQ(x.snapshot(), before);
    // Only elements were written: with them put aside, out is as it was.
    TestTensor rest = out;
    rest.for_each([&](const TestTensor::Shape& at) { rest.at<float>(at[0], at[1], at[2]) = 0; });
    gaps.for_each([&](const TestTensor::Shape& at) { gaps.at<float>(at[0], at[1], at[2]) = 0; });
    EXPECT_EQ(rest.snapshot(), gaps.snapshot());
  }
}

TEST_P(MeansTest, SameBytesForAnyThreadCount) {
  TestTensor x(GetParam(), {301, 7, 128});
  x.fill_normal(3, 2, 5);
  TestTensor cu = testing::int_tensor({0, 100, 101, 301});
  TestTensor expected(testing::kF32, {3, 7, 128});
  compute_means(x.dl(), cu.ptr(), expected.dl());
  testing::for_thread_counts([&] {
    TestTensor out(testing::kF32, {3, 7, 128});
    compute_means(x.dl(), cu.ptr(), out.dl());
    EXPECT_EQ(out.snapshot(), expected.snapshot());
  });
}

// One token: the mean is the value itself, for every bit pattern of the 16-bit types.
TEST(MeansConversionTest, Every16BitPatternIsReadExactly) {
  for (const DLDataType type : {testing::kBF16, testing::kF16}) {
    TestTensor x(type, {1, 1, 65536});
    for (int64_t i = 0; i < 65536; ++i) x.at<uint16_t>(0, 0, i) = static_cast<uint16_t>(i);
    TestTensor out(testing::kF32, {1, 1, 65536});
    compute_means(x.dl(), nullptr, out.dl());
    for (int64_t i = 0; i < 65536; ++i) {
      const float expected = x.get({0, 0, i});
      const float actual = out.get({0, 0, i});
      // The sum starts at +0, so a mean of -0 is +0.
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(actual) : actual == expected)
          << i << ": " << actual << " " << expected;
    }
  }
}

TEST(MeansOrderTest, SumsInDoubleAndTokenOrder) {
  TestTensor x(testing::kF32, {4, 1, 2});
  const float big = 0x1p60f;
  const float values[4][2] = {{1e8f, big}, {1, 1}, {-1e8f, -big}, {1, 1}};
  x.fill([&](const TestTensor::Shape& at) { return values[at[0]][at[2]]; });
  TestTensor out(testing::kF32, {1, 1, 2});
  compute_means(x.dl(), nullptr, out.dl());
  EXPECT_EQ(out.get({0, 0, 0}), 0.5f);   // FP32 sums would lose the first 1
  EXPECT_EQ(out.get({0, 0, 1}), 0.25f);  // FP64 in token order loses the first 1, and only it
}

TEST(MeansOrderTest, SumsBeyondFp32StayFinite) {
  TestTensor x(testing::kF32, {3, 1, 1});
  x.fill([](const TestTensor::Shape&) { return std::numeric_limits<float>::max(); });
  TestTensor out(testing::kF32, {1, 1, 1});
  compute_means(x.dl(), nullptr, out.dl());
  EXPECT_EQ(out.get({0, 0, 0}), std::numeric_limits<float>::max());
}

TEST(MeansEmptyTest, NoTokensAndNoSequences) {
  TestTensor x(testing::kBF16, {0, 2, 64});
  TestTensor out(testing::kF32, {1, 2, 64});
  compute_means(x.dl(), nullptr, out.dl());
  out.for_each([&](const TestTensor::Shape& at) { EXPECT_EQ(out.get(at), 0.0f); });
  TestTensor cu = testing::int_tensor({0});
  TestTensor none(testing::kF32, {0, 2, 64});
  EXPECT_NO_THROW(compute_means(x.dl(), cu.ptr(), none.dl()));
}

TEST(MeansErrorTest, NamesArgumentValueAndWhatIsAllowed) {
  TestTensor x(testing::kBF16, {6, 2, 64});
  x.fill_normal(1);
  TestTensor out(testing::kF32, {2, 2, 64});
  const std::vector<std::byte> before = out.snapshot();
  const auto expect = [&](const std::string& start, DLTensor x_, const std::vector<int32_t>& cu,
                          DLTensor out_) {
    TestTensor cu_tensor = testing::int_tensor(cu);
    testing::expect_error(start, [&] { compute_means(x_, cu_tensor.ptr(), out_); });
    EXPECT_EQ(out.snapshot(), before);
  };
  expect("cu_seqlens[0] = 1: must be 0", x.dl(), {1, 2, 3}, out.dl());
  expect("cu_seqlens[2] = 1: must not be below cu_seqlens[1] = 4", x.dl(), {0, 4, 1}, out.dl());
  expect("cu_seqlens[2] = 7: must not exceed the number of rows, 6", x.dl(), {0, 4, 7}, out.dl());
  expect("cu_seqlens is empty", x.dl(), {}, out.dl());
  expect("out has shape [2, 2, 64]: dimension 0 must be 1", x.dl(), {0, 6}, out.dl());
  TestTensor bad_heads(testing::kF32, {2, 3, 64});
  expect("out has shape [2, 3, 64]: dimension 1 must be 2", x.dl(), {0, 3, 6}, bad_heads.dl());
  TestTensor bad_d(testing::kF32, {2, 2, 32});
  expect("out has shape [2, 2, 32]: dimension 2 must be 64", x.dl(), {0, 3, 6}, bad_d.dl());
  TestTensor bad_type(testing::kBF16, {2, 2, 64});
  expect("out has type bfloat16: must be float32", x.dl(), {0, 3, 6}, bad_type.dl());
  expect("x has type int32: must be bfloat16, float16 or float32",
         TestTensor(testing::kI32, {6, 2, 64}).dl(), {0, 3, 6}, out.dl());
  TestTensor flat(testing::kBF16, {6, 128});
  expect("x has shape [6, 128]: must have 3 dimensions", flat.dl(), {0, 3, 6}, out.dl());
  TestTensor inner(testing::kBF16, {6, 2, 64}, {256, 128, 2});
  expect("x has stride 2 in its last dimension", inner.dl(), {0, 3, 6}, out.dl());
  DLTensor gpu = out.dl();
  gpu.device = {kDLCUDA, 0};
  expect("out lies on DLPack device type 2", x.dl(), {0, 3, 6}, gpu);
  DLTensor odd = x.dl();
  odd.byte_offset += 1;
  expect("x starts at an address that is 1 modulo 2: must be aligned", odd, {0, 3, 6}, out.dl());
  DLTensor null = x.dl();
  null.data = nullptr;
  expect("x has shape [6, 2, 64] but its data pointer is null", null, {0, 3, 6}, out.dl());
}

TEST(MeansErrorTest, Overlap) {
  TestTensor x(testing::kF32, {6, 2, 64});
  x.fill_normal(1);
  TestTensor cu = testing::int_tensor({0, 3, 6});
  const auto before = x.snapshot();
  testing::ViewOver inside(x.dl(), testing::kF32, {2, 2, 64});
  testing::expect_error("x overlaps out in memory: what is written must not share memory",
                        [&] { compute_means(x.dl(), cu.ptr(), *inside.ptr()); });
  TestTensor memory = testing::large_memory<int32_t>(testing::kI32, {0, 3, 6});
  testing::ViewOver small_cu(memory.dl(), testing::kI32, {3});
  testing::ViewOver over_cu(memory.dl(), testing::kF32, {2, 2, 64});
  testing::expect_error("cu_seqlens overlaps out in memory",
                        [&] { compute_means(x.dl(), small_cu.ptr(), *over_cu.ptr()); });
  TestTensor folded(testing::kF32, {2, 2, 64}, {64, 64, 1});
  testing::expect_error("out has shape [2, 2, 64] and a stride of 64 that makes",
                        [&] { compute_means(x.dl(), cu.ptr(), folded.dl()); });
  EXPECT_EQ(x.snapshot(), before);
}

}  // namespace
}  // namespace mpfa
