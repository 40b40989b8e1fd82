#include "common/owned_tensor.h"

#include <gtest/gtest.h>

#include <utility>

namespace mpfa::tools {
namespace {

TEST(OwnedTensor, IsZeroedAndCompact) {
  const OwnedTensor tensor("t", dtype_of<float>(), {2, 3, 4});
  const TensorView view = tensor.view();
  EXPECT_EQ(view.elements(), 24);
  EXPECT_EQ(view.stride(0), 12);
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(tensor.data<float>()[i], 0.0f);
  tensor.data<float>()[23] = 5.0f;
  EXPECT_EQ(data_as<float>(view.row(1).row(2))[3], 5.0f);
}

TEST(OwnedTensor, AMoveKeepsViewsValid) {
  OwnedTensor first("t", dtype_of<float>(), {4});
  const TensorView view = first.view();
  const OwnedTensor moved = std::move(first);
  moved.data<float>()[3] = 2.0f;
  EXPECT_EQ(data_as<float>(view)[3], 2.0f);
}

TEST(OwnedTensor, ADefaultOneIsAbsent) {
  const OwnedTensor none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.get(), nullptr);
}

}  // namespace
}  // namespace mpfa::tools
