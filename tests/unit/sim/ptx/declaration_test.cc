#include "sim/ptx/declaration.h"

#include <gtest/gtest.h>

#include <bit>

#include "expect_ptx_error.h"

namespace mpfa::sim {
namespace {

std::vector<Variable> parse(std::string_view text, StateSpace space = StateSpace::kGlobal) {
  TokenStream in(text);
  std::vector<Variable> result = parse_variables(in, space, Linkage::kInternal);
  EXPECT_TRUE(in.at_end()) << text;
  return result;
}

std::vector<uint64_t> bits(const Variable& variable) {
  std::vector<uint64_t> result;
  for (const InitialValue& value : variable.initial) result.push_back(value.bits);
  return result;
}

using Bits = std::vector<uint64_t>;

TEST(Declaration, Registers) {
  const auto registers = parse(".b32 %r<3>, %other;", StateSpace::kReg);
  ASSERT_EQ(registers.size(), 4u);
  EXPECT_EQ(registers[0].name, "%r0");
  EXPECT_EQ(registers[2].name, "%r2");
  EXPECT_EQ(registers[3].name, "%other");
  EXPECT_EQ(registers[3].type.bits, 32);
}

TEST(Declaration, AlignmentIsNaturalUnlessWritten) {
  EXPECT_EQ(parse(".f64 a;")[0].alignment, 8);
  EXPECT_EQ(parse(".v4 .f32 a;")[0].alignment, 16);
  EXPECT_EQ(parse(".align 128 .b8 a[7];")[0].alignment, 128);
  EXPECT_EQ(parse(".align 128 .b8 a[7];")[0].bytes(), 7);
  EXPECT_EQ(parse(".v4 .f32 a[2][3];")[0].bytes(), 96);
}

TEST(Declaration, OpenArraysTakeTheirExtentFromTheValues) {
  EXPECT_EQ(parse(".b8 a[];")[0].bytes(), 0);
  EXPECT_EQ(parse(".u32 a[] = {1, 2, 3};")[0].extents, (std::vector<int64_t>{3}));
  EXPECT_EQ(parse(".u32 a[][2] = {{1, 2}, {3}};")[0].extents, (std::vector<int64_t>{2, 2}));
}

TEST(Declaration, NestedValuesFillTheirRowsWithZeros) {
  EXPECT_EQ(bits(parse(".u8 a[2][2][2] = {{{1}, {2, 3}}, {{4}}};")[0]),
            (Bits{1, 0, 2, 3, 4, 0, 0, 0}));
  EXPECT_EQ(bits(parse(".s32 a[4] = {-1, 0x10};")[0]), (Bits{UINT64_MAX, 16}));
}

TEST(Declaration, FloatingPointValues) {
  EXPECT_EQ(bits(parse(".f32 a[3] = {0f3F800000, -0f3F800000, 2};")[0]),
            (Bits{0x3F800000, 0xBF800000, 0x40000000}));
  EXPECT_EQ(bits(parse(".f64 a = 1.5;")[0]), (Bits{std::bit_cast<uint64_t>(1.5)}));
  EXPECT_EQ(bits(parse(".f32 a = 0.5;")[0]), (Bits{0x3F000000}));
}

TEST(Declaration, AddressesOfOtherNames) {
  const auto initial = parse(".u64 a[4] = {f, generic(b)+8, c-4, 0xFF00(d)};")[0].initial;
  ASSERT_EQ(initial.size(), 4u);
  EXPECT_EQ(initial[0].symbol, "f");
  EXPECT_FALSE(initial[0].generic);
  EXPECT_EQ(initial[1].symbol, "b");
  EXPECT_TRUE(initial[1].generic);
  EXPECT_EQ(initial[1].bits, 8u);
  EXPECT_EQ(static_cast<int64_t>(initial[2].bits), -4);
  EXPECT_EQ(initial[3].symbol, "d");
  EXPECT_EQ(initial[3].byte_mask, 0xFF00u);
}

TEST(Declaration, Parameters) {
  TokenStream in("(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[24], .reg .f32 %f)");
  const auto parameters = parse_parameters(in);
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_TRUE(parameters[0].is_pointer);
  EXPECT_EQ(parameters[1].bytes(), 24);
  EXPECT_EQ(parameters[1].alignment, 8);
  EXPECT_EQ(parameters[2].space, StateSpace::kReg);
  TokenStream empty("()");
  EXPECT_TRUE(parse_parameters(empty).empty());
}

TEST(Declaration, Errors) {
  expect_ptx_error("power of two", [] { parse(".align 12 .b8 a;"); });
  expect_ptx_error("without a type", [] { parse("a;"); });
  expect_ptx_error("the attribute .sideways", [] { parse(".sideways .b8 a;"); });
  expect_ptx_error("more values than a has", [] { parse(".u32 a[2] = {1, 2, 3};"); });
  expect_ptx_error("more values than the array", [] { parse(".u8 a[2][2] = {{1, 2, 3}};"); });
  expect_ptx_error("too many registers", [] { parse(".b32 %r<99999999>;", StateSpace::kReg); });
  expect_ptx_error("a negative extent", [] { parse(".b8 a[-1];"); });
  expect_ptx_error("expected ';'", [] { parse(".b8 a"); });
}

}  // namespace
}  // namespace mpfa::sim
