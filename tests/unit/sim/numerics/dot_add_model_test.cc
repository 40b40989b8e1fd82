#include "sim/numerics/dot_add_model.h"

#include <gtest/gtest.h>

#include <string>

namespace mpfa::sim {
namespace {

using enum Architecture;
using enum MmaKind;
using enum ElementType;

struct Row {
  Architecture architecture;
  MmaKind kind;
  ElementType type;
  Arithmetic arithmetic;
  int fraction_bits;
  int result_fraction_bits;
  int step_k;
};

TEST(DotAddModelTest, KnowsPublishedNumbers) {
  constexpr Arithmetic kFused = Arithmetic::kFusedDotAdd;
  const Row rows[] = {
      {kAmpere, kMmaSync, kF16, kFused, 24, 23, 8},
      {kAmpere, kMmaSync, kBf16, kFused, 24, 23, 8},
      {kAmpere, kMmaSync, kTf32, kFused, 24, 23, 4},
      {kAda, kMmaSync, kF16, kFused, 24, 23, 8},
      {kAda, kMmaSync, kTf32, kFused, 24, 23, 4},
      {kAda, kMmaSync, kE4m3, kFused, 13, 13, 16},
      {kHopper, kMmaSync, kBf16, kFused, 25, 23, 16},
      {kHopper, kMmaSync, kTf32, kFused, 25, 23, 8},
      {kHopper, kMmaSync, kE5m2, Arithmetic::kFp8AsF16, 25, 23, 32},
      {kHopper, kWgmma, kF16, kFused, 25, 23, 16},
      {kHopper, kWgmma, kTf32, kFused, 25, 23, 8},
      {kHopper, kWgmma, kE4m3, kFused, 13, 13, 32},
      {kBlackwell, kMmaSync, kBf16, kFused, 25, 23, 16},
      {kBlackwell, kMmaSync, kE4m3, Arithmetic::kFp8AsF16, 25, 23, 32},
      {kBlackwell, kTcgen05, kF16, kFused, 25, 23, 16},
      {kBlackwell, kTcgen05, kTf32, kFused, 25, 23, 8},
      {kBlackwell, kTcgen05, kE2m1, kFused, 25, 23, 32},
      {kBlackwellRtx, kMmaSync, kE4m3, kFused, 25, 23, 32},
      {kBlackwellRtx, kMmaSync, kE3m2, kFused, 25, 23, 32},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(name_of(row.architecture)) + " " + std::string(name_of(row.kind)) +
                 " " + std::string(name_of(row.type)));
    const DotAddModel model =
        model_for(row.architecture, row.kind, row.type, row.type, AccumulatorType::kF32);
    EXPECT_EQ(model.arithmetic, row.arithmetic);
    EXPECT_EQ(model.fraction_bits, row.fraction_bits);
    EXPECT_EQ(model.result_fraction_bits, row.result_fraction_bits);
    EXPECT_EQ(model.step_k, row.step_k);
  }
}

TEST(DotAddModelTest, KnowsBlockScales) {
  const DotAddModel mx = block_scaled_model_for(kBlackwellRtx, kMmaSync, BlockScaledKind::kMxf8f6f4,
                                                kE4m3, kE2m3, ScaleType::kUe8m0, 32);
  EXPECT_EQ(mx.arithmetic, Arithmetic::kFusedDotAdd);
  EXPECT_EQ(mx.fraction_bits, 25);
  EXPECT_EQ(mx.step_k, 32);
  EXPECT_EQ(mx.scale_block, 32);
  const DotAddModel nvf4 = block_scaled_model_for(kBlackwell, kTcgen05, BlockScaledKind::kMxf4nvf4,
                                                  kE2m1, kE2m1, ScaleType::kUe4m3, 16);
  EXPECT_EQ(nvf4.arithmetic, Arithmetic::kFusedGroupAdd);
  EXPECT_EQ(nvf4.fraction_bits, 35);
  EXPECT_EQ(nvf4.step_k, 64);
  EXPECT_EQ(nvf4.scale, ScaleType::kUe4m3);
}

TEST(DotAddModelTest, TakesMixedTypes) {
  constexpr AccumulatorType kInt = AccumulatorType::kS32;
  EXPECT_EQ(model_for(kHopper, kWgmma, kE4m3, kE5m2, AccumulatorType::kF16).b, kE5m2);
  EXPECT_EQ(model_for(kBlackwell, kTcgen05, kE2m1, kE5m2, AccumulatorType::kF16).a, kE2m1);
  EXPECT_EQ(model_for(kHopper, kWgmma, kS8, kU8, kInt).arithmetic, Arithmetic::kInteger);
  EXPECT_EQ(model_for(kHopper, kWgmma, kB1, kB1, kInt).arithmetic, Arithmetic::kPopulation);
  EXPECT_EQ(model_for(kAmpere, kMmaSync, kU4, kS4, kInt).arithmetic, Arithmetic::kInteger);
  EXPECT_EQ(model_for(kAmpere, kMmaSync, kF64, kF64, AccumulatorType::kF64).arithmetic,
            Arithmetic::kSequentialFma);
}

template <class Make>
void expect_refused(Make make, const std::string& message) {
  try {
    make();
    ADD_FAILURE() << "accepted, must be refused: " << message;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(DotAddModelTest, RefusesWhatDoesNotExist) {
  const auto refuse = [](Architecture architecture, MmaKind kind, ElementType a, ElementType b,
                         AccumulatorType accumulator, const std::string& message) {
    expect_refused([&] { model_for(architecture, kind, a, b, accumulator); }, message);
  };
  constexpr AccumulatorType kFloat = AccumulatorType::kF32;
  constexpr AccumulatorType kHalf = AccumulatorType::kF16;
  constexpr AccumulatorType kInt = AccumulatorType::kS32;
  refuse(kAmpere, kMmaSync, kE4m3, kE4m3, kFloat, "mma.sync of e4m3 x e4m3 into f32: Ampere");
  refuse(kHopper, kMmaSync, kE3m2, kE3m2, kFloat, "Hopper");
  refuse(kBlackwell, kMmaSync, kE2m1, kE2m1, kFloat, "Blackwell");
  refuse(kBlackwell, kWgmma, kF16, kF16, kFloat, "wgmma");
  refuse(kBlackwellRtx, kTcgen05, kF16, kF16, kFloat, "tcgen05.mma");
  refuse(kHopper, kWgmma, kF16, kBf16, kFloat, "f16 x bf16");
  refuse(kHopper, kWgmma, kBf16, kBf16, kHalf, "into f16");
  refuse(kHopper, kWgmma, kF16, kF16, kInt, "into s32");
  refuse(kHopper, kWgmma, kF64, kF64, AccumulatorType::kF64, "f64");
  refuse(kHopper, kWgmma, kS4, kS4, kInt, "s4 x s4");
  refuse(kHopper, kMmaSync, kS8, kS4, kInt, "s8 x s4");
  refuse(kHopper, kMmaSync, kS8, kS8, kFloat, "s8 x s8 into f32");
  refuse(kBlackwell, kTcgen05, kB1, kB1, kInt, "b1 x b1");
  refuse(kHopper, kMmaSync, kF16, kS8, kFloat, "f16 x s8");
  refuse(kHopper, kMmaSync, kS8, kF16, kInt, "s8 x f16");
}

TEST(DotAddModelTest, RefusesWrongBlockScales) {
  const auto refuse = [](Architecture architecture, MmaKind kind, BlockScaledKind scaled,
                         ElementType a, ScaleType scale, int block, const std::string& message) {
    expect_refused([&] { block_scaled_model_for(architecture, kind, scaled, a, a, scale, block); },
                   message);
  };
  constexpr ScaleType kExponent = ScaleType::kUe8m0;
  constexpr ScaleType kFloat = ScaleType::kUe4m3;
  refuse(kHopper, kMmaSync, BlockScaledKind::kMxf4, kE2m1, kExponent, 32, "Hopper");
  refuse(kBlackwell, kMmaSync, BlockScaledKind::kMxf4, kE2m1, kExponent, 32, "mma.sync");
  refuse(kBlackwell, kTcgen05, BlockScaledKind::kMxf4, kE4m3, kExponent, 32, "e4m3 x e4m3");
  refuse(kBlackwell, kTcgen05, BlockScaledKind::kMxf8f6f4, kF16, kExponent, 32, "f16 x f16");
  refuse(kBlackwell, kTcgen05, BlockScaledKind::kMxf4, kE2m1, kExponent, 16, "16 elements");
  refuse(kBlackwell, kTcgen05, BlockScaledKind::kMxf4nvf4, kE2m1, kFloat, 32, "ue4m3");
  refuse(kBlackwell, kTcgen05, BlockScaledKind::kMxf4nvf4, kE2m1, ScaleType::kNone, 16, "none");
}

TEST(DotAddModelTest, KnowsCapabilities) {
  EXPECT_EQ(architecture_of(80), kAmpere);
  EXPECT_EQ(architecture_of(86), kAmpere);
  EXPECT_EQ(architecture_of(89), kAda);
  EXPECT_EQ(architecture_of(90), kHopper);
  EXPECT_EQ(architecture_of(100), kBlackwell);
  EXPECT_EQ(architecture_of(103), kBlackwell);
  EXPECT_EQ(architecture_of(120), kBlackwellRtx);
  EXPECT_EQ(architecture_of(121), kBlackwellRtx);
  expect_refused([] { architecture_of(75); }, "compute capability 75");
}

}  // namespace
}  // namespace mpfa::sim
