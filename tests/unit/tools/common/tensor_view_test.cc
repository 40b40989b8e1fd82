#include "common/tensor_view.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/tensor.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

// [2, 3, 4] of 0, 1, 2, ...
OwnedTensor counting() {
  OwnedTensor tensor("t", internal::kFloat32Type, {2, 3, 4});
  std::iota(tensor.data<float>(), tensor.data<float>() + 24, 0.0f);
  return tensor;
}

float at(const TensorView& view, int64_t i, int64_t j, int64_t k) {
  return *internal::Tensor<float, 3>::from(view.dl(), "view").at(i, j, k);
}

TEST(TensorView, TransposedAndSliced) {
  const OwnedTensor tensor = counting();
  const TensorView view = tensor.view().transposed(0, 1).slice(0, 1, 3);
  EXPECT_EQ(view.size(0), 2);
  EXPECT_EQ(view.size(1), 2);
  EXPECT_EQ(view.elements(), 16);
  EXPECT_EQ(at(view, 0, 0, 0), 4.0f);   // [0, 1, 0]
  EXPECT_EQ(at(view, 1, 1, 3), 23.0f);  // [1, 2, 3]
}

TEST(TensorView, CopiesAndMovesKeepTheirShape) {
  const OwnedTensor tensor = counting();
  TensorView first = tensor.view().slice(2, 1, 3);
  const TensorView copy = first;
  const TensorView moved = std::move(first);
  first = TensorView();
  EXPECT_EQ(at(copy, 1, 2, 1), 22.0f);
  EXPECT_EQ(at(moved, 0, 0, 0), 1.0f);
}

TEST(TensorView, ByteOffsetIsHonoured) {
  const OwnedTensor tensor = counting();
  DLTensor shifted = tensor.dl();
  shifted.byte_offset = 12 * sizeof(float);
  int64_t shape[] = {1, 3, 4};
  shifted.shape = shape;
  EXPECT_EQ(at(TensorView(shifted), 0, 0, 0), 12.0f);
}

TEST(TensorView, SliceOutsideIsAnError) {
  const TensorView view = counting().view();
  EXPECT_THROW(view.slice(0, -1, 1), InvalidArgument);
  EXPECT_THROW(view.slice(0, 2, 1), InvalidArgument);
  EXPECT_THROW(view.slice(1, 0, 4), InvalidArgument);
}

TEST(TensorView, Reshaped) {
  const OwnedTensor tensor = counting();
  const TensorView view = tensor.view().reshaped({4, 3, 2});
  EXPECT_EQ(at(view, 3, 2, 1), 23.0f);
  EXPECT_EQ(at(view, 1, 0, 0), 6.0f);
  EXPECT_THROW(tensor.view().reshaped({5, 5}), InvalidArgument);
}

TEST(CopyFloats, CountsMustAgree) {
  const OwnedTensor from = counting();
  const OwnedTensor to("to", internal::kFloat32Type, {4, 6});
  copy_floats(from.dl(), to.dl());
  EXPECT_EQ(to.data<float>()[23], 23.0f);
  const OwnedTensor small("small", internal::kFloat32Type, {23});
  EXPECT_THROW(copy_floats(from.dl(), small.dl()), InvalidArgument);
}

}  // namespace
}  // namespace mpfa::tools
