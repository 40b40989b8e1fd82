#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "expect_invalid.h"
#include "mpfa/tensor.h"

namespace mpfa {
namespace {

using core_test::expect_invalid;

// 0, 1, 2, ...
std::vector<float> counting(size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// Read as the library reads it, so that what a view hands out is what is checked.
float at(const DLTensor& tensor, int64_t i, int64_t j) {
  return *internal::Tensor<float, 2>::from(tensor, "tensor", false).at(i, j);
}
float at(const DLTensor& tensor, int64_t i, int64_t j, int64_t k) {
  return *internal::Tensor<float, 3>::from(tensor, "tensor", false).at(i, j, k);
}

TEST(DtypeOf, IsWhatTheLibraryExpectsOfEachType) {
  const auto matches = []<typename T>(T) { return internal::dtype_matches<T>(dtype_of<T>()); };
  EXPECT_TRUE(matches(Bf16{}));
  EXPECT_TRUE(matches(float{}));
  EXPECT_TRUE(matches(E4m3{}));
  EXPECT_TRUE(matches(uint8_t{}));
  EXPECT_TRUE(matches(int32_t{}));
  EXPECT_TRUE(matches(int64_t{}));
  EXPECT_EQ(internal::dtype_string(dtype_of<Fp16>()), "float16");
  EXPECT_EQ(internal::dtype_string(dtype_of<E4m3>()), "float8_e4m3fn");
}

TEST(TensorView, IsACompactTensorOfItsPointer) {
  std::vector<float> values = counting(24);
  const TensorView view(values.data(), {2, 3, 4});
  EXPECT_EQ(view.ndim, 3);
  EXPECT_EQ(view.elements(), 24);
  EXPECT_EQ(view.device.device_type, kDLCPU);
  EXPECT_EQ(view.byte_offset, 0u);
  EXPECT_EQ(view.stride(0), 12);
  EXPECT_EQ(view.stride(2), 1);
  EXPECT_EQ(at(view, 1, 2, 3), 23.0f);
}

TEST(TensorView, TakesStrides) {
  std::vector<float> values = counting(24);
  const TensorView view(values.data() + 1, {2, 2}, {10, 3});
  EXPECT_EQ(at(view, 0, 0), 1.0f);
  EXPECT_EQ(at(view, 1, 1), 14.0f);
}

TEST(TensorView, AContainerMustHoldExactlyTheShape) {
  std::vector<float> values = counting(24);
  const std::vector<float> constant = values;
  std::array<float, 24> array{};
  EXPECT_EQ(at(TensorView(values, {4, 6}), 3, 5), 23.0f);
  EXPECT_EQ(at(TensorView(constant, {4, 6}), 3, 5), 23.0f);
  EXPECT_EQ(TensorView(array, {24}).data, array.data());
  EXPECT_EQ(TensorView(std::span<float>(values), {24}).data, values.data());
  expect_invalid([&] { TensorView(values, {4, 5}); }, {"24 elements", "must have 20"});
  expect_invalid([&] { TensorView(values, {4, 7}); }, {"24 elements", "must have 28"});
}

TEST(TensorView, CopiesAndMovesKeepTheirShape) {
  std::vector<float> values = counting(24);
  TensorView first = TensorView(values, {2, 3, 4}).slice(2, 1, 3);
  const TensorView copy = first;
  const TensorView moved = std::move(first);
  TensorView assigned;
  assigned = copy;
  first = TensorView(values, {24});
  for (const TensorView& view : std::vector<TensorView>{copy, moved, assigned}) {
    EXPECT_NE(view.shape, first.shape);
    ASSERT_EQ(view.ndim, 3);
    EXPECT_EQ(view.size(2), 2);
    EXPECT_EQ(at(view, 1, 2, 1), 22.0f);
  }
  assigned = *&assigned;
  EXPECT_EQ(at(assigned, 1, 2, 1), 22.0f);
  assigned = assigned.row(1);
  EXPECT_EQ(at(assigned, 2, 1), 22.0f);
}

TEST(TensorView, OfAnotherTensorOutlivesItsShape) {
  std::vector<float> values = counting(24);
  TensorView view;
  {
    std::vector<int64_t> shape = {3, 4};
    const DLTensor compact = {values.data(),       {kDLCPU, 0},       2,
                              {kDLFloat, 32, 1},   shape.data(),
                              /*strides*/ nullptr, 12 * sizeof(float)};
    view = TensorView(compact);
    shape = {0, 0};
  }
  EXPECT_EQ(at(view, 0, 0), 12.0f);
  EXPECT_EQ(at(view, 2, 3), 23.0f);
  EXPECT_EQ(at(view.slice(0, 1, 2), 0, 0), 16.0f);
  EXPECT_EQ(*data_as<float>(view.row(2)), 20.0f);
}

TEST(TensorView, SlicesAndTransposes) {
  std::vector<float> values = counting(24);
  const TensorView view = TensorView(values, {2, 3, 4}).transposed(0, 1).slice(0, 1, 3);
  EXPECT_EQ(view.size(0), 2);
  EXPECT_EQ(view.size(1), 2);
  EXPECT_EQ(view.elements(), 16);
  EXPECT_EQ(at(view, 0, 0, 0), 4.0f);   // [0, 1, 0]
  EXPECT_EQ(at(view, 1, 1, 3), 23.0f);  // [1, 2, 3]
  EXPECT_EQ(view.slice(1, 2, 2).elements(), 0);
}

TEST(TensorView, RowLosesTheFirstDimension) {
  std::vector<float> values = counting(24);
  const TensorView row = row_of(TensorView(values, {2, 3, 4}), 1);
  ASSERT_EQ(row.ndim, 2);
  EXPECT_EQ(row.size(0), 3);
  EXPECT_EQ(row.size(1), 4);
  EXPECT_EQ(at(row, 2, 3), 23.0f);
  const TensorView column = row_of(TensorView(values, {4, 6}).transposed(0, 1), 5);
  EXPECT_EQ(column.size(0), 4);
  EXPECT_EQ(column.stride(0), 6);
  EXPECT_EQ(row_of(TensorView(values, {24}), 7).ndim, 0);
}

TEST(TensorView, WhatIsNotThereIsAnError) {
  std::vector<float> values = counting(24);
  const TensorView view(values, {2, 12});
  expect_invalid([&] { view.slice(0, -1, 1); }, {"slice [-1, 1)", "its 2 indices"});
  expect_invalid([&] { view.slice(0, 2, 1); }, {"slice [2, 1)"});
  expect_invalid([&] { view.slice(1, 0, 13); }, {"slice [0, 13)", "its 12 indices"});
  expect_invalid([&] { view.slice(2, 0, 0); }, {"dimension 2", "the 2 that"});
  expect_invalid([&] { view.transposed(0, -1); }, {"dimension -1"});
  expect_invalid([&] { row_of(view, 2); }, {"row 2", "the 2 it has"});
  expect_invalid([&] { row_of(TensorView(), 0); }, {"row 0"});
}

TEST(TensorView, ShapesThatCannotBeAreErrors) {
  float value = 0.0f;
  const std::vector<int64_t> nine(9, 1);
  expect_invalid([&] { TensorView(&value, dtype_of<float>(), nine); }, {"9 dimensions", "8"});
  expect_invalid([&] { TensorView(&value, {1, 1}, {1}); }, {"strides has 1 elements", "shape, 2"});
  expect_invalid([&] { TensorView(&value, {1, -1}); }, {"shape[1] = -1"});
  constexpr int64_t kHuge = int64_t{1} << 40;
  expect_invalid([&] { TensorView(&value, {kHuge, kHuge}); }, {"2^63"});
}

TEST(TensorView, NamesAnyDevice) {
  const std::vector<int64_t> shape = {2, 3};
  const std::vector<int64_t> strides = {8, 1};
  auto* const pointer = reinterpret_cast<void*>(uintptr_t{4096});
  const TensorView view(pointer, dtype_of<Bf16>(), shape, strides, {kDLCUDA, 1});
  EXPECT_EQ(view.device.device_type, kDLCUDA);
  EXPECT_EQ(view.device.device_id, 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view.row(1).data), 4096u + 8 * 2);
  expect_invalid([&] { data_as<Bf16>(view); }, {"device type 2", "host memory"});
}

TEST(DataAs, WritesThroughAndChecksTheType) {
  std::vector<int32_t> values = {1, 2, 3};
  const TensorView view(values, {3});
  data_as<int32_t>(view)[1] = 7;
  EXPECT_EQ(values[1], 7);
  EXPECT_EQ(data_as<int32_t>(view.slice(0, 2, 3))[0], 3);
  EXPECT_EQ(data_as<float>(TensorView()), nullptr);
  expect_invalid([&] { data_as<int64_t>(view); }, {"32 bits", "must have code 0, 64 bits"});
  expect_invalid([&] { data_as<float>(view); }, {"code 0", "must have code 2"});
}

}  // namespace
}  // namespace mpfa
