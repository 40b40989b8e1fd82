#include "io/dtype.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

struct Expected {
  Dtype dtype;
  std::string name;
  std::size_t size;
  int code;  // as numbered by DLPack, written out so that a wrong row cannot agree with itself
};

const std::vector<Expected>& all_dtypes() {
  static const std::vector<Expected> kAll = {
      {Dtype::BOOL, "BOOL", 1, 6},
      {Dtype::U8, "U8", 1, 1},
      {Dtype::I8, "I8", 1, 0},
      {Dtype::F8_E5M2, "F8_E5M2", 1, 12},
      {Dtype::F8_E4M3, "F8_E4M3", 1, 10},
      {Dtype::I16, "I16", 2, 0},
      {Dtype::U16, "U16", 2, 1},
      {Dtype::F16, "F16", 2, 2},
      {Dtype::BF16, "BF16", 2, 4},
      {Dtype::I32, "I32", 4, 0},
      {Dtype::U32, "U32", 4, 1},
      {Dtype::F32, "F32", 4, 2},
      {Dtype::F64, "F64", 8, 2},
      {Dtype::I64, "I64", 8, 0},
      {Dtype::U64, "U64", 8, 1},
  };
  return kAll;
}

TEST(Dtype, NamesSizesAndDlpackTypes) {
  ASSERT_EQ(all_dtypes().size(), 15u);
  for (const Expected& e : all_dtypes()) {
    EXPECT_EQ(dtype_name(e.dtype), e.name);
    EXPECT_EQ(dtype_size(e.dtype), e.size) << e.name;
    EXPECT_EQ(dtype_from_name(e.name), e.dtype) << e.name;
    const DLDataType type = dtype_to_dlpack(e.dtype);
    EXPECT_EQ(type.code, e.code) << e.name;
    EXPECT_EQ(type.bits, e.size * 8) << e.name;
    EXPECT_EQ(type.lanes, 1) << e.name;
    EXPECT_EQ(dtype_from_dlpack(type), e.dtype) << e.name;
    EXPECT_NE(dtype_names().find(e.name), std::string::npos) << e.name;
  }
}

TEST(Dtype, UnknownNames) {
  for (const char* name : {"", "f32", "F32 ", "FLOAT", "BF1", "F8_E8M0", "C64", "F4"}) {
    EXPECT_EQ(dtype_from_name(name), std::nullopt) << name;
  }
}

TEST(Dtype, DlpackTypesThatTheFormatHasNot) {
  const std::vector<DLDataType> types = {
      {kDLFloat, 32, 4},  // lanes
      {kDLFloat, 128, 1},  {kDLInt, 4, 1},  {kDLFloat4_e2m1fn, 4, 1},
      {kDLComplex, 64, 1}, {kDLBool, 1, 1}, {255, 8, 1},
  };
  for (const DLDataType type : types) {
    EXPECT_THROW(dtype_from_dlpack(type), InvalidArgument) << int{type.code};
  }
  try {
    dtype_from_dlpack({kDLFloat4_e2m1fn, 4, 2});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("code 17, bits 4, lanes 2"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace mpfa::internal
