#include "core/tensor.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "unit/core/expect_invalid.h"
#include "unit/core/test_tensor.h"

namespace mpfa::internal {
namespace {

using core_test::expect_invalid;
using core_test::kBfloat16;
using core_test::kFloat16;
using core_test::kFloat32;
using core_test::kFloat4Pair;
using core_test::kFloat64;
using core_test::kFloat8E4m3;
using core_test::kInt32;
using core_test::kInt64;
using core_test::kUint8;
using core_test::TestTensor;

TEST(ShapeString, ListsDimensions) {
  TestTensor tensor(kFloat32, {2, 8, 64});
  EXPECT_EQ(shape_string(*tensor), "[2, 8, 64]");
  tensor.set_shape({});
  EXPECT_EQ(shape_string(*tensor), "[]");
  tensor.set_shape({-1});
  EXPECT_EQ(shape_string(*tensor), "[-1]");
}

TEST(DtypeString, NamesTypes) {
  EXPECT_EQ(dtype_string(kUint8), "uint8");
  EXPECT_EQ(dtype_string(kInt32), "int32");
  EXPECT_EQ(dtype_string(kFloat16), "float16");
  EXPECT_EQ(dtype_string(kBfloat16), "bfloat16");
  EXPECT_EQ(dtype_string(kFloat8E4m3), "float8_e4m3fn");
  EXPECT_EQ(dtype_string(kFloat4Pair), "float4_e2m1fnx2");
  EXPECT_EQ(dtype_string({kDLFloat, 32, 4}), "float32x4");
  EXPECT_EQ(dtype_string({kDLComplex, 64, 1}), "DLPack type code 5 of 64 bits");
}

TEST(FloatTypeOf, KnowsTheThreeInputTypes) {
  TestTensor tensor(kFloat32, {1});
  EXPECT_EQ(float_type(*tensor, "q"), FloatType::kFp32);
  tensor->dtype = kFloat16;
  EXPECT_EQ(float_type(*tensor, "q"), FloatType::kFp16);
  tensor->dtype = kBfloat16;
  EXPECT_EQ(float_type(*tensor, "q"), FloatType::kBf16);
  EXPECT_EQ(float_type_size(FloatType::kBf16), 2u);
  EXPECT_EQ(float_type_size(FloatType::kFp16), 2u);
  EXPECT_EQ(float_type_size(FloatType::kFp32), 4u);
}

TEST(FloatTypeOf, RejectsOthersByName) {
  TestTensor tensor(kFloat64, {1});
  for (const DLDataType dtype : {kFloat64, kUint8, kInt32, kFloat8E4m3, DLDataType{kDLFloat, 32, 2},
                                 DLDataType{kDLBfloat, 8, 1}}) {
    tensor->dtype = dtype;
    expect_invalid([&] { float_type(*tensor, "q"); },
                   {"q", dtype_string(dtype), "must be bfloat16, float16 or float32"});
  }
}

TEST(DtypeMatches, EachTypeAndItsAliases) {
  const DLDataType all[] = {kUint8,   kInt32,    kInt64,      kFloat16,    kFloat32,
                            kFloat64, kBfloat16, kFloat8E4m3, kFloat4Pair, {kDLUInt, 8, 2}};
  for (const DLDataType dtype : all) {
    const std::string name = dtype_string(dtype);
    EXPECT_EQ(dtype_matches<float>(dtype), name == "float32") << name;
    EXPECT_EQ(dtype_matches<int32_t>(dtype), name == "int32") << name;
    EXPECT_EQ(dtype_matches<int64_t>(dtype), name == "int64") << name;
    EXPECT_EQ(dtype_matches<Bf16>(dtype), name == "bfloat16") << name;
    EXPECT_EQ(dtype_matches<E4m3>(dtype), name == "float8_e4m3fn" || name == "uint8") << name;
    EXPECT_EQ(dtype_matches<uint8_t>(dtype), name == "float4_e2m1fnx2" || name == "uint8") << name;
  }
  // One e2m1 a byte is another layout.
  EXPECT_FALSE(dtype_matches<uint8_t>({kDLFloat4_e2m1fn, 4, 1}));
  EXPECT_FALSE(dtype_matches<uint8_t>({kDLFloat4_e2m1fn, 8, 1}));
}

TEST(Tensor, NullStridesMeanCompactRowMajor) {
  TestTensor source(kInt32, {2, 3, 5});
  for (int32_t i = 0; i < 30; ++i) source.data<int32_t>()[i] = i;
  const auto tensor = Tensor<int32_t, 3>::from(*source, "t");
  EXPECT_EQ(tensor.shape(), (std::array<int64_t, 3>{2, 3, 5}));
  EXPECT_EQ(tensor.stride(0), 15);
  EXPECT_EQ(tensor.stride(1), 5);
  EXPECT_EQ(tensor.stride(2), 1);
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 3; ++b) {
      for (int c = 0; c < 5; ++c) EXPECT_EQ(*tensor.at(a, b, c), a * 15 + b * 5 + c);
    }
  }
}

TEST(Tensor, OuterStridesAreFree) {
  // [2, 3, 4] out of [3, 2, 8]: outer dimensions swapped, half of each row.
  TestTensor source(kInt32, {3, 2, 8});
  for (int32_t i = 0; i < 48; ++i) source.data<int32_t>()[i] = i;
  source.set_shape({2, 3, 4});
  source.set_strides({8, 16, 1});
  const auto tensor = Tensor<int32_t, 3>::from(*source, "t");
  EXPECT_EQ(tensor.size(1), 3);
  EXPECT_EQ(tensor.stride(0), 8);
  EXPECT_EQ(*tensor.at(1, 2, 3), 1 * 8 + 2 * 16 + 3);
  EXPECT_EQ(*tensor.at(0, 1, 0), 16);
}

TEST(Tensor, NegativeAndZeroOuterStrides) {
  TestTensor source(kInt32, {4, 2});
  for (int32_t i = 0; i < 8; ++i) source.data<int32_t>()[i] = i;
  source->byte_offset = 6 * sizeof(int32_t);
  source.set_strides({-2, 1});
  EXPECT_EQ(*(Tensor<int32_t, 2>::from(*source, "t").at(3, 1)), 1);
  source.set_strides({0, 1});
  EXPECT_EQ(*(Tensor<int32_t, 2>::from(*source, "t").at(3, 1)), 7);
}

TEST(Tensor, LeavingOutTrailingIndicesGivesTheRow) {
  TestTensor source(kFloat32, {2, 3, 5});
  const auto tensor = Tensor<float, 3>::from(*source, "t");
  EXPECT_EQ(tensor.at(), source.data<float>());
  EXPECT_EQ(tensor.at(1), source.data<float>() + 15);
  EXPECT_EQ(tensor.at(1, 2), source.data<float>() + 25);
}

TEST(Tensor, ByteOffsetIsAdded) {
  TestTensor source(kInt32, {10});
  for (int32_t i = 0; i < 10; ++i) source.data<int32_t>()[i] = i;
  source.set_shape({4});
  source->byte_offset = 5 * sizeof(int32_t);
  EXPECT_EQ(*(Tensor<int32_t, 1>::from(*source, "t").at(3)), 8);
  EXPECT_EQ(data_of(*source), reinterpret_cast<std::byte*>(source.data<int32_t>() + 5));
}

// Only addresses are made, nothing is read.
TEST(Tensor, OffsetsAre64Bit) {
  TestTensor source(kFloat8E4m3, {1, 1});
  source.set_shape({int64_t{1} << 36, 128});
  const auto tensor = Tensor<E4m3, 2>::from(*source, "t");
  const auto address = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  const int64_t row = (int64_t{1} << 35) + 3;
  EXPECT_EQ(address(tensor.at(row, 5)) - address(tensor.at()),
            static_cast<uintptr_t>(row) * 128 + 5);
  const int small_index = 1 << 30;  // an int must not overflow on the way
  EXPECT_EQ(address(tensor.at(small_index, 0)) - address(tensor.at()),
            static_cast<uintptr_t>(small_index) * 128);
}

TEST(Tensor, AbsentTensorIsFalseAndEmpty) {
  const auto tensor = Tensor<float, 2>::from(nullptr, "k_scale");
  EXPECT_FALSE(static_cast<bool>(tensor));
  EXPECT_TRUE(tensor.empty());
  TestTensor source(kFloat32, {2, 2});
  const DLTensor* present = source.get();
  EXPECT_TRUE(static_cast<bool>(Tensor<float, 2>::from(present, "k_scale")));
  EXPECT_FALSE((Tensor<float, 2>::from(present, "k_scale").empty()));
}

TEST(Tensor, EmptyTensorMayHaveNoData) {
  TestTensor source(kFloat32, {0, 4});
  source->data = nullptr;
  const auto tensor = Tensor<float, 2>::from(*source, "q");
  EXPECT_TRUE(static_cast<bool>(tensor));
  EXPECT_TRUE(tensor.empty());
  EXPECT_EQ(tensor.size(1), 4);
  // Its strides say nothing either.
  source.set_strides({1, 7});
  EXPECT_NO_THROW((Tensor<float, 2>::from(*source, "q")));
}

TEST(Tensor, WrongTypeIsNamed) {
  TestTensor source(kFloat64, {2});
  const auto rejected = [&]<typename T>(std::string_view allowed) {
    expect_invalid([&] { (void)Tensor<T, 1>::from(*source, "seq_lens"); },
                   {"seq_lens", "float64", allowed});
  };
  rejected.operator()<float>("must be float32");
  rejected.operator()<int32_t>("must be int32");
  rejected.operator()<int64_t>("must be int64");
  rejected.operator()<Bf16>("must be bfloat16");
  rejected.operator()<E4m3>("must be float8_e4m3fn (or uint8)");
  rejected.operator()<uint8_t>("must be uint8 (or float4_e2m1fn x2)");
}

TEST(Tensor, WrongRankIsNamed) {
  TestTensor source(kFloat32, {2, 3});
  expect_invalid([&] { (void)Tensor<float, 3>::from(*source, "q"); },
                 {"q", "[2, 3]", "must have 3 dimensions"});
  expect_invalid([&] { (void)Tensor<float, 1>::from(*source, "q"); },
                 {"q", "[2, 3]", "must have 1 dimensions"});
}

TEST(Tensor, WrongDeviceIsNamed) {
  TestTensor source(kFloat32, {2});
  source->device = {kDLCUDA, 0};
  expect_invalid([&] { (void)Tensor<float, 1>::from(*source, "lse"); },
                 {"lse", "device type 2", "must be host memory (device type 1)"});
  source->device = {kDLMetal, 0};
  expect_invalid([&] { (void)Tensor<float, 1>::from(*source, "lse"); }, {"lse", "device type 8"});
  source->device = {kDLCUDAHost, 0};  // pinned host memory
  EXPECT_NO_THROW((Tensor<float, 1>::from(*source, "lse")));
}

TEST(Tensor, MisalignedDataIsNamed) {
  TestTensor t(kFloat32, {4});
  t->byte_offset = 2;
  expect_invalid([&] { (void)Tensor<float, 1>::from(*t, "x"); },
                 {"x", "2 modulo 4", "must be aligned to its elements"});
}

TEST(Tensor, NullDataIsNamed) {
  TestTensor source(kFloat32, {2, 3});
  source->data = nullptr;
  expect_invalid([&] { (void)Tensor<float, 2>::from(*source, "k"); },
                 {"k", "[2, 3]", "data pointer is null"});
}

TEST(Tensor, NegativeDimensionIsNamed) {
  TestTensor source(kFloat32, {2, 3});
  source.set_shape({2, -3});
  expect_invalid([&] { (void)Tensor<float, 2>::from(*source, "k"); },
                 {"k", "[2, -3]", "a dimension is negative"});
  source.set_shape({0, -3});  // being empty excuses nothing
  expect_invalid([&] { (void)Tensor<float, 2>::from(*source, "k"); }, {"k", "negative"});
}

TEST(Tensor, ElementCountsBeyond64BitsAreRejected) {
  TestTensor source(kFloat32, {1, 1, 1});
  const int64_t big = int64_t{1} << 31;
  source.set_shape({2, big, big});
  expect_invalid([&] { (void)Tensor<float, 3>::from(*source, "k"); },
                 {"k", "[2, 2147483648, 2147483648]", "fewer than 2^63 elements"});
  source.set_shape({0, INT64_MAX, INT64_MAX});  // empty, but without strides
  expect_invalid([&] { (void)Tensor<float, 3>::from(*source, "k"); }, {"k", "2^63"});
  source.set_shape({1, big, big});
  EXPECT_EQ((Tensor<float, 3>::from(*source, "k").stride(0)), big * big);
}

TEST(Tensor, StridedInnerDimensionIsRejectedUnlessAllowed) {
  TestTensor source(kInt32, {3, 4});
  for (int32_t i = 0; i < 12; ++i) source.data<int32_t>()[i] = i;
  source.set_shape({4, 3});
  source.set_strides({1, 4});  // the transpose
  expect_invalid([&] { (void)Tensor<int32_t, 2>::from(*source, "block_table"); },
                 {"block_table", "stride 4", "last dimension: must be 1"});
  const auto tensor = Tensor<int32_t, 2>::from(*source, "block_table", false);
  EXPECT_EQ(*tensor.at(3, 2), 2 * 4 + 3);
}

TEST(Tensor, StrideOfOneElementDoesNotMatter) {
  TestTensor source(kInt32, {4, 1});
  source.set_strides({1, 99});
  EXPECT_NO_THROW((Tensor<int32_t, 2>::from(*source, "t")));
}

TEST(Tensor, UntypedSkipsOnlyTheTypeCheck) {
  TestTensor source(kFloat64, {2, 2});
  EXPECT_NO_THROW((Tensor<float, 2>::untyped(*source, "q")));
  expect_invalid([&] { (void)Tensor<float, 1>::untyped(*source, "q"); }, {"q", "1 dimensions"});
}

TEST(CheckSize, NamesDimensionAndReason) {
  TestTensor source(kFloat32, {2, 3});
  EXPECT_NO_THROW(check_size(*source, "q", 1, 3, "head_dim"));
  expect_invalid([&] { check_size(*source, "q", 1, 64, "head_dim"); },
                 {"q", "[2, 3]", "dimension 1 must be 64 (head_dim)"});
}

TEST(VisitFloatTensor, HandsOutTheTypeOfTheData) {
  TestTensor source(kBfloat16, {1, 2});
  source.fill<uint16_t>({0x3F80, 0xC000});
  const auto second = [](const auto& tensor) { return to_float(*tensor.at(0, 1)); };
  EXPECT_EQ(visit_float_tensor<2>(*source, "q", second), -2.0f);
  source->dtype = kFloat16;
  EXPECT_EQ(visit_float_tensor<2>(*source, "q", second), fp16_to_float({0xC000}));
  TestTensor floats(kFloat32, {1, 2});
  floats.fill<float>({1.0f, 3.5f});
  EXPECT_EQ(visit_float_tensor<2>(*floats, "q", second), 3.5f);
  TestTensor doubles(kFloat64, {1, 2});
  expect_invalid([&] { visit_float_tensor<2>(*doubles, "q", second); }, {"q", "float64"});
}

TEST(VisitFloatTensor, MisalignedDataIsNamed) {
  const auto visit = [](TestTensor& tensor) {
    visit_float_tensor<2>(*tensor, "q", [](const auto&) {});
  };
  TestTensor floats(kFloat32, {1, 2});
  floats->byte_offset = 2;
  expect_invalid([&] { visit(floats); }, {"q", "2 modulo 4", "must be aligned to its elements"});
  for (const DLDataType type : {kBfloat16, kFloat16}) {
    TestTensor halves(type, {1, 2});
    halves->byte_offset = 3;
    expect_invalid([&] { visit(halves); }, {"q", "1 modulo 2", "must be aligned"});
    halves->byte_offset = 2;
    visit(halves);
  }
}

TEST(FromFloat, RoundsIntoEachType) {
  EXPECT_EQ(from_float<Bf16>(1.0f), Bf16{0x3F80});
  EXPECT_EQ(from_float<Fp16>(1.0f), Fp16{0x3C00});
  EXPECT_EQ(from_float<float>(1.1f), 1.1f);
}

class CuSeqlensTest : public ::testing::Test {
 protected:
  int64_t check(const std::vector<int32_t>& values, int64_t total) {
    TestTensor source(kInt32, {static_cast<int64_t>(values.size())});
    source.fill(values);
    return check_cu_seqlens(Tensor<int32_t, 1>::from(*source, "cu_seqlens_q"), "cu_seqlens_q",
                            total);
  }
};

TEST_F(CuSeqlensTest, AcceptsWhatIsAllowed) {
  EXPECT_EQ(check({0}, 0), 0);
  EXPECT_EQ(check({0, 7}, 7), 1);
  EXPECT_EQ(check({0, 7}, 9), 1);           // rows outside belong to nobody
  EXPECT_EQ(check({0, 0, 3, 3, 3}, 3), 4);  // sequences without rows
}

TEST_F(CuSeqlensTest, NamesWhatIsWrong) {
  expect_invalid([&] { check({}, 5); }, {"cu_seqlens_q is empty", "one element more"});
  expect_invalid([&] { check({1, 5}, 5); }, {"cu_seqlens_q[0] = 1", "must be 0"});
  expect_invalid([&] { check({-1, 5}, 5); }, {"cu_seqlens_q[0] = -1", "must be 0"});
  expect_invalid(
      [&] {
        check({0, 4, 3, 5}, 5);
      },
      {"cu_seqlens_q[2] = 3", "must not be below", "cu_seqlens_q[1] = 4"});
  expect_invalid([&] { check({0, 4, -3}, 5); }, {"cu_seqlens_q[2] = -3", "must not be below"});
  expect_invalid(
      [&] {
        check({0, 4, 6}, 5);
      },
      {"cu_seqlens_q[2] = 6", "must not exceed the number of rows, 5"});
}

TEST_F(CuSeqlensTest, HonoursAStride) {
  TestTensor source(kInt32, {6});
  source.fill<int32_t>({0, 99, 2, -99, 5, 99});
  source.set_shape({3});
  source.set_strides({2});
  const auto cu_seqlens = Tensor<int32_t, 1>::from(*source, "cu_seqlens", false);
  EXPECT_EQ(check_cu_seqlens(cu_seqlens, "cu_seqlens", 5), 2);
}

}  // namespace
}  // namespace mpfa::internal
