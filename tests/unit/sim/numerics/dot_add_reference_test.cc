// The reference: examples worked out by hand, rule by rule, and an independent model in doubles.
#include "sim/numerics/dot_add_reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "unit/sim/numerics/tensor_core_cases.h"
#include "unit/sim/numerics/tensor_core_oracle.h"

namespace mpfa::sim {
namespace {

using testing::Draw;
using testing::NamedModel;
using testing::Operands;
using Codes = std::vector<uint64_t>;

constexpr uint64_t kF32Nan = 0x7FFFFFFF;

uint64_t f32(float x) { return std::bit_cast<uint32_t>(x); }
uint64_t bf16(float x) { return f32(x) >> 16; }
uint64_t f64(double x) { return std::bit_cast<uint64_t>(x); }

// The f16 code of a value that has one.
uint64_t f16(double x) {
  const double magnitude = std::fabs(x);
  const uint64_t sign = x < 0 ? 0x8000 : 0;
  if (magnitude < 0x1p-14) return sign | static_cast<uint64_t>(std::ldexp(magnitude, 24));
  const int exponent = std::ilogb(magnitude);
  const auto significand = static_cast<uint64_t>(std::ldexp(magnitude, 10 - exponent));
  return sign | ((static_cast<uint64_t>(exponent + 14) << 10) + significand);
}

DotAddModel model_of(Architecture architecture, MmaKind kind, ElementType type,
                     AccumulatorType accumulator = AccumulatorType::kF32) {
  return model_for(architecture, kind, type, type, accumulator);
}

DotAddModel hopper_f16() {
  return model_of(Architecture::kHopper, MmaKind::kWgmma, ElementType::kF16);
}

// `a` and `b`, filled up with zeros to `k`.
uint64_t dot(const DotAddModel& model, Codes a, Codes b, uint64_t c, size_t k) {
  a.resize(std::max(a.size(), k));
  b.resize(std::max(b.size(), k));
  return dot_add_reference(model, {a, b, {}, {}}, c);
}

TEST(DotAddReferenceTest, KeepsFractionBitsOfTheLargestTerm) {
  // Largest exponent 0, 25 fraction bits: 2^-25 is the last that counts, and two of them make
  // 2^-24, which the result, truncated to 23, loses; with four it is seen.
  const double tiny = 0x1p-12;
  const DotAddModel hopper = hopper_f16();
  const auto sum = [&](int count, double x, double y) {
    Codes a{f16(1)};
    Codes b{f16(1)};
    for (int i = 0; i < count; ++i) {
      a.push_back(f16(x));
      b.push_back(f16(y));
    }
    return dot(hopper, a, b, 0, 16);
  };
  EXPECT_EQ(sum(4, tiny, 0x1p-13), f32(1 + 0x1p-23f));
  EXPECT_EQ(sum(3, tiny, 0x1p-13), f32(1));
  EXPECT_EQ(sum(15, tiny, 0x1p-14), f32(1)) << "2^-26 is below the last bit";
}

TEST(DotAddReferenceTest, KeepsOneBitLessOnAmpere) {
  const DotAddModel ampere = model_of(Architecture::kAmpere, MmaKind::kMmaSync, ElementType::kF16);
  const Codes a{f16(1), f16(0x1p-12), f16(0x1p-12), f16(0x1p-12), f16(0x1p-12)};
  const Codes quarter{f16(1), f16(0x1p-13), f16(0x1p-13), f16(0x1p-13), f16(0x1p-13)};
  const Codes half{f16(1), f16(0x1p-12), f16(0x1p-12), 0, 0};
  EXPECT_EQ(dot(ampere, a, quarter, 0, 8), f32(1)) << "2^-25 is below the last bit";
  EXPECT_EQ(dot(ampere, a, half, 0, 8), f32(1 + 0x1p-23f));
}

TEST(DotAddReferenceTest, TruncatesTermsTowardZero) {
  // 1 - 2^-26: the term -2^-26 is nothing. Rounded to nearest or down it would be -2^-25.
  const DotAddModel hopper = hopper_f16();
  EXPECT_EQ(dot(hopper, {f16(1), f16(0x1p-13)}, {f16(1), f16(-0x1p-13)}, 0, 16), f32(1));
  // -1 + 2^-24: the exact sum of what is kept, truncated toward zero.
  EXPECT_EQ(dot(hopper, {f16(-1), f16(0x1p-12)}, {f16(1), f16(0x1p-13)}, 0, 16),
            f32(-1 + 0x1p-24f));
  // 1 - 2^-25 needs 25 bits; its first 24 are 1 - 2^-24.
  EXPECT_EQ(dot(hopper, {f16(1), f16(0x1p-12)}, {f16(1), f16(-0x1p-13)}, 0, 16), f32(1 - 0x1p-24f));
}

TEST(DotAddReferenceTest, TruncatesResultsTowardZero) {
  // 2^24 + 3 has 25 bits: nearest would be 2^24 + 4.
  const DotAddModel hopper = hopper_f16();
  EXPECT_EQ(dot(hopper, {f16(4096), f16(3)}, {f16(4096), f16(1)}, 0, 16), f32(0x1p24f + 2));
  EXPECT_EQ(dot(hopper, {f16(-4096), f16(-3)}, {f16(4096), f16(1)}, 0, 16), f32(-0x1p24f - 2));
}

TEST(DotAddReferenceTest, DoesNotNormaliseProducts) {
  // 1.5 * 1.5 = 2.25 counts as exponent 0, not 1: 2^-25 is still seen.
  const DotAddModel hopper = hopper_f16();
  const Codes a{f16(1.5), f16(-1.5), f16(0x1p-12)};
  const Codes b{f16(1.5), f16(1.5), f16(0x1p-13)};
  EXPECT_EQ(dot(hopper, a, b, 0, 16), f32(0x1p-25f));
  // 2 * 1 counts as exponent 1, and 2^-25 is not.
  EXPECT_EQ(dot(hopper, {f16(2), f16(-2), a[2]}, {f16(1), f16(1), b[2]}, 0, 16), f32(0));
}

TEST(DotAddReferenceTest, DoesNotNormaliseSubnormals) {
  // The largest exponent is that of 2^-24 * 1, namely -14: units are 2^-39.
  const DotAddModel hopper = hopper_f16();
  EXPECT_EQ(dot(hopper, {0x0001}, {f16(1)}, f32(0x1p-39f), 16), f32(0x1p-24f + 0x1p-39f));
  EXPECT_EQ(dot(hopper, {0x0001}, {f16(1)}, f32(0x1p-40f), 16), f32(0x1p-24f));
  // A normal 2^-14 has the same exponent.
  EXPECT_EQ(dot(hopper, {f16(0x1p-14), f16(-0x1p-14)}, {f16(1), f16(1)}, f32(0x1p-40f), 16),
            f32(0));
}

TEST(DotAddReferenceTest, AlignsToC) {
  const DotAddModel hopper = hopper_f16();
  EXPECT_EQ(dot(hopper, {f16(1)}, {f16(1)}, f32(0x1p30f), 16), f32(0x1p30f));
  // With C = 2^24, products count down to 1/2: four halves count, sixteen quarters do not.
  EXPECT_EQ(dot(hopper, Codes(4, f16(1)), Codes(4, f16(0.5)), f32(0x1p24f), 16), f32(0x1p24f + 2));
  EXPECT_EQ(dot(hopper, Codes(16, f16(1)), Codes(16, f16(0.25)), f32(0x1p24f), 16), f32(0x1p24f));
  // C is truncated as well.
  EXPECT_EQ(dot(hopper, {f16(4096), f16(-4096)}, {f16(1), f16(1)}, f32(0x1p-14f), 16), f32(0));
}

TEST(DotAddReferenceTest, CountsZerosAsExponentMinus126) {
  // 0 * 2^127 in bf16 counts as exponent 1: 2^-25 does not reach its last bit, 2^-24 does.
  const DotAddModel model = model_of(Architecture::kHopper, MmaKind::kWgmma, ElementType::kBf16);
  EXPECT_EQ(dot(model, {0}, {bf16(0x1p127f)}, f32(0x1p-25f), 16), f32(0));
  EXPECT_EQ(dot(model, {0}, {bf16(0x1p127f)}, f32(0x1p-24f), 16), f32(0x1p-24f));
  // A zero C does as well: products below 2^-151 are lost before results are subnormal.
  EXPECT_EQ(dot(model, {bf16(0x1p-100f)}, {bf16(0x1p-49f)}, 0, 16), f32(0x1p-149f));
}

TEST(DotAddReferenceTest, SplitsKInHalvesOnAmpere) {
  // The low half makes 2^24 + 1 and loses the 1 in its result; whole K would have made 2^24 + 2.
  Codes a(16, 0);
  Codes b(16, f16(1));
  a[0] = f16(4096);
  b[0] = f16(4096);
  a[1] = f16(1);
  a[8] = f16(1);
  const DotAddModel ampere = model_of(Architecture::kAmpere, MmaKind::kMmaSync, ElementType::kF16);
  EXPECT_EQ(dot(ampere, a, b, 0, 16), f32(0x1p24f));
  EXPECT_EQ(dot(hopper_f16(), a, b, 0, 16), f32(0x1p24f + 2));
  // The low half comes first: its 2^30 is gone when the 1 of the high half comes.
  a = Codes(16, 0);
  a[0] = f16(32768);
  b[0] = f16(32768);
  a[8] = f16(1);
  EXPECT_EQ(dot(ampere, a, b, f32(-0x1p30f), 16), f32(1));
  std::swap(a[0], a[8]);
  std::swap(b[0], b[8]);
  EXPECT_EQ(dot(ampere, a, b, f32(-0x1p30f), 16), f32(0));
}

TEST(DotAddReferenceTest, HasThirteenBitsForHopperFp8) {
  const DotAddModel fp8 = model_of(Architecture::kHopper, MmaKind::kWgmma, ElementType::kE4m3);
  const uint64_t one = 0x38;     // 2^0
  const uint64_t two_m6 = 0x08;  // 2^-6
  const uint64_t two_m7 = 0x04;  // 2^-7, a subnormal
  // 1 + 2^-13: the last bit that counts is a product of exponent -6 + -6 with half a significand.
  EXPECT_EQ(dot(fp8, {one, two_m6}, {one, two_m7}, 0, 32), f32(1 + 0x1p-13f));
  EXPECT_EQ(dot(fp8, {one, two_m7}, {one, two_m7}, 0, 32), f32(1));
  // C keeps 13 bits behind the point, too.
  EXPECT_EQ(dot(fp8, {}, {}, f32(1 + 0x1p-13f + 0x1p-14f), 32), f32(1 + 0x1p-13f));
  // 4096 + 1 fits, 16384 + 1 does not: a long sum of ones stops growing.
  EXPECT_EQ(dot(fp8, {one}, {one}, f32(8192), 32), f32(8193));
  EXPECT_EQ(dot(fp8, {one}, {one}, f32(16384), 32), f32(16384));
  // Blackwell has 25.
  const DotAddModel b200 =
      model_of(Architecture::kBlackwell, MmaKind::kTcgen05, ElementType::kE4m3);
  EXPECT_EQ(dot(b200, {one, two_m7}, {one, two_m7}, 0, 32), f32(1 + 0x1p-14f));
}

TEST(DotAddReferenceTest, ComputesFp8AsF16InHopperMmaSync) {
  const DotAddModel fp8 = model_of(Architecture::kHopper, MmaKind::kMmaSync, ElementType::kE4m3);
  const uint64_t one = 0x38;
  const uint64_t big = 0x78;  // 256
  // C is added last and rounded to nearest: 2^24 + 3 is 2^24 + 4, not + 2.
  EXPECT_EQ(dot(fp8, Codes(3, one), Codes(3, one), f32(0x1p24f), 32), f32(0x1p24f + 4));
  // The k with k mod 4 < 2 come first. With 2^-18 there and 2^16 in the others, the sum of the
  // first step is only 2^-18, which 2^16 leaves no bit of; in one step, it would not be either.
  Codes a(32, 0);
  Codes b(32, 0);
  a[4] = 0x01;  // 2^-9
  b[4] = 0x01;
  a[2] = big;
  b[2] = big;
  a[3] = big;
  b[3] = 0xF8;  // -256
  EXPECT_EQ(dot(fp8, a, b, 0, 32), f32(0)) << "2^-18 is lost beside 2^16";
  // With 2^16 and -2^16 in the first step, 2^-18 of the second is kept.
  std::swap(a[4], a[6]);
  std::swap(b[4], b[6]);
  std::swap(a[2], a[1]);
  std::swap(b[2], b[1]);
  std::swap(a[3], a[0]);
  std::swap(b[3], b[0]);
  EXPECT_EQ(dot(fp8, a, b, 0, 32), f32(0x1p-18f));
  // f16 accumulators: 2048 + 1 is a tie, which goes to even; the two steps add up first.
  const DotAddModel to_f16 =
      model_of(Architecture::kHopper, MmaKind::kMmaSync, ElementType::kE4m3, AccumulatorType::kF16);
  EXPECT_EQ(dot(to_f16, {one}, {one}, f16(2048), 32), f16(2048));
  EXPECT_EQ(dot(to_f16, {one, 0, one}, {one, 0, one}, f16(2048), 32), f16(2050));
}

TEST(DotAddReferenceTest, RoundsF16ToNearestEven) {
  const DotAddModel model =
      model_of(Architecture::kHopper, MmaKind::kMmaSync, ElementType::kF16, AccumulatorType::kF16);
  EXPECT_EQ(dot(model, {f16(1)}, {f16(1)}, f16(2048), 16), f16(2048));
  EXPECT_EQ(dot(model, {f16(3)}, {f16(1)}, f16(2048), 16), f16(2052));
  EXPECT_EQ(dot(model, {f16(1), f16(0x1p-10)}, {f16(1), f16(1)}, f16(2048), 16), f16(2050));
  EXPECT_EQ(dot(model, {f16(15)}, {f16(1)}, 0x7BFF, 16), 0x7BFFu) << "65519 is 65504";
  EXPECT_EQ(dot(model, {f16(16)}, {f16(1)}, 0x7BFF, 16), 0x7C00u) << "65520 is infinity";
  EXPECT_EQ(dot(model, {f16(0x1p-12)}, {f16(0x1p-13)}, 0, 16), 0u) << "half a subnormal is even 0";
  EXPECT_EQ(dot(model, {f16(0x1p-12)}, {f16(1.5 * 0x1p-13)}, 0, 16), 1u);
}

TEST(DotAddReferenceTest, TruncatesTf32Operands) {
  const DotAddModel model = model_of(Architecture::kHopper, MmaKind::kWgmma, ElementType::kTf32);
  const uint64_t below_two = f32(2 - 0x1p-23f);
  EXPECT_EQ(dot(model, {below_two}, {f32(1)}, 0, 8), f32(2 - 0x1p-10f));
  // A NaN of which only low bits are set is an infinity to the tensor core.
  EXPECT_EQ(dot(model, {0x7F800001}, {f32(1)}, 0, 8), 0x7F800000u);
}

TEST(DotAddReferenceTest, PropagatesInfinitiesAndNans) {
  const DotAddModel model = model_of(Architecture::kHopper, MmaKind::kWgmma, ElementType::kBf16);
  const uint64_t one = bf16(1);
  const uint64_t inf = 0x7F80;
  const uint64_t minus_inf = 0xFF80;
  EXPECT_EQ(dot(model, {inf}, {one}, 0, 16), 0x7F800000u);
  EXPECT_EQ(dot(model, {inf}, {bf16(-1)}, f32(1), 16), 0xFF800000u);
  EXPECT_EQ(dot(model, {one}, {one}, 0xFF800000, 16), 0xFF800000u);
  EXPECT_EQ(dot(model, {inf, minus_inf}, {one, one}, 0, 16), kF32Nan);
  EXPECT_EQ(dot(model, {inf}, {one}, 0xFF800000, 16), kF32Nan);
  EXPECT_EQ(dot(model, {inf}, {0}, 0, 16), kF32Nan);
  EXPECT_EQ(dot(model, {0xFFC1}, {one}, 0, 16), kF32Nan);
  EXPECT_EQ(dot(model, {one}, {one}, 0x7F800001, 16), kF32Nan);
  const DotAddModel to_f16 =
      model_of(Architecture::kHopper, MmaKind::kWgmma, ElementType::kF16, AccumulatorType::kF16);
  EXPECT_EQ(dot(to_f16, {0x7C00}, {0}, 0, 16), 0x7FFFu);
  EXPECT_EQ(dot(to_f16, {0x7C00}, {f16(-2)}, 0, 16), 0xFC00u);
}

TEST(DotAddReferenceTest, OverflowsToInfinity) {
  const DotAddModel model = model_of(Architecture::kHopper, MmaKind::kWgmma, ElementType::kBf16);
  EXPECT_EQ(dot(model, {bf16(0x1p127f)}, {bf16(2)}, 0, 16), 0x7F800000u);
  EXPECT_EQ(dot(model, {bf16(0x1p127f)}, {bf16(-2)}, 0, 16), 0xFF800000u);
  // Terms may be larger than any result.
  const uint64_t huge = bf16(0x1p127f);
  const uint64_t minus_huge = bf16(-0x1p127f);
  EXPECT_EQ(dot(model, {huge, huge}, {huge, minus_huge}, 0, 16), 0u);
  EXPECT_EQ(dot(model, {huge, huge, bf16(0x1p126f)}, {bf16(2), bf16(-2), bf16(1)}, 0, 16),
            f32(0x1p126f));
}

TEST(DotAddReferenceTest, MakesPositiveZeros) {
  const DotAddModel model = hopper_f16();
  EXPECT_EQ(dot(model, {}, {}, f32(-0.0f), 16), 0u);
  EXPECT_EQ(dot(model, {f16(1), f16(-1)}, {f16(1), f16(1)}, 0, 16), 0u);
}

TEST(DotAddReferenceTest, AddsScalesExponentsToProducts) {
  const DotAddModel model = block_scaled_model_for(Architecture::kBlackwell, MmaKind::kTcgen05,
                                                   BlockScaledKind::kMxf8f6f4, ElementType::kE4m3,
                                                   ElementType::kE2m1, ScaleType::kUe8m0, 32);
  Codes a(32, 0x38);  // 1
  Codes b(32, 0x4);   // 2
  const std::vector<uint8_t> a_scale{127 + 10};
  const std::vector<uint8_t> b_scale{127 - 3};
  EXPECT_EQ(dot_add_reference(model, {a, b, a_scale, b_scale}, 0), f32(64 * 128));
  const std::vector<uint8_t> nan{0xFF};
  EXPECT_EQ(dot_add_reference(model, {a, b, a_scale, nan}, 0), kF32Nan);
}

TEST(DotAddReferenceTest, SumsScaledGroupsExactly) {
  const DotAddModel model = block_scaled_model_for(Architecture::kBlackwell, MmaKind::kTcgen05,
                                                   BlockScaledKind::kMxf4nvf4, ElementType::kE2m1,
                                                   ElementType::kE2m1, ScaleType::kUe4m3, 16);
  const Codes a(64, 0x2);  // 1
  const Codes b(64, 0x3);  // 1.5
  // Of scales 1, 1.125, 448 and 2^-9 (a subnormal), and 1.
  const std::vector<uint8_t> a_scales{0x38, 0x39, 0x7E, 0x01};
  const std::vector<uint8_t> b_scales{0x38, 0x38, 0x38, 0x38};
  EXPECT_EQ(dot_add_reference(model, {a, b, a_scales, b_scales}, f32(0.5f)),
            f32(0.5f + 24 * (1 + 1.125f + 448 + 0x1p-9f)));
  // The sign bit of a scale is not looked at.
  const std::vector<uint8_t> negative{0xB8, 0xB9, 0xFE, 0x81};
  EXPECT_EQ(dot_add_reference(model, {a, b, negative, b_scales}, f32(0.5f)),
            f32(0.5f + 24 * (1 + 1.125f + 448 + 0x1p-9f)));
  const std::vector<uint8_t> nan{0x38, 0x7F, 0x38, 0x38};
  EXPECT_EQ(dot_add_reference(model, {a, b, nan, b_scales}, 0), kF32Nan);
  // 35 fraction bits: beside a group of exponent 0, 2^-35 of C counts, though the result cannot
  // show it unless the groups cancel.
  Codes cancelling = b;
  for (int k = 16; k < 32; ++k) cancelling[k] = 0xB;  // -1.5
  const std::vector<uint8_t> ones{0x38, 0x38, 0, 0};
  EXPECT_EQ(dot_add_reference(model, {a, cancelling, ones, b_scales}, f32(0x1p-35f)),
            f32(0x1p-35f));
  EXPECT_EQ(dot_add_reference(model, {a, cancelling, ones, b_scales}, f32(0x1p-36f)), 0u);
}

TEST(DotAddReferenceTest, ChainsFmasOfF64) {
  const DotAddModel model =
      model_of(Architecture::kHopper, MmaKind::kMmaSync, ElementType::kF64, AccumulatorType::kF64);
  // (1 + 2^-53) is rounded to 1 twice over; in the other order, 2^-52 is made first.
  const double tiny = 0x1p-53;
  EXPECT_EQ(dot(model, {f64(1), f64(tiny), f64(tiny)}, {f64(1), f64(1), f64(1)}, 0, 3), f64(1));
  EXPECT_EQ(dot(model, {f64(tiny), f64(tiny), f64(1)}, {f64(1), f64(1), f64(1)}, 0, 3),
            f64(1 + 0x1p-52));
  // Not rounded between product and sum.
  const double x = 1 + 0x1p-30;
  EXPECT_EQ(dot(model, {f64(x)}, {f64(x)}, f64(-1 - 0x1p-29), 1), f64(0x1p-60));
}

TEST(DotAddReferenceTest, AddsIntegers) {
  DotAddModel model = model_for(Architecture::kAmpere, MmaKind::kMmaSync, ElementType::kS8,
                                ElementType::kU8, AccumulatorType::kS32);
  EXPECT_EQ(dot(model, {0x80, 0x7F}, {0xFF, 2}, 5, 32), static_cast<uint32_t>(5 - 128 * 255 + 254));
  EXPECT_EQ(dot(model, {1}, {1}, 0x7FFFFFFF, 32), 0x80000000u);
  EXPECT_EQ(dot(model, {0xFF}, {1}, 0x80000000, 32), 0x7FFFFFFFu);
  model.saturate = true;
  EXPECT_EQ(dot(model, {1}, {1}, 0x7FFFFFFF, 32), 0x7FFFFFFFu);
  EXPECT_EQ(dot(model, {0xFF}, {1}, 0x80000000, 32), 0x80000000u);
  // What overflows on the way may come back.
  EXPECT_EQ(dot(model, {1, 0xFF}, {1, 1}, 0x7FFFFFFF, 32), 0x7FFFFFFFu);
  const DotAddModel four = model_for(Architecture::kAmpere, MmaKind::kMmaSync, ElementType::kS4,
                                     ElementType::kU4, AccumulatorType::kS32);
  EXPECT_EQ(dot(four, {0x8, 0x7}, {0xF, 0xF}, 0, 64), static_cast<uint32_t>(-8 * 15 + 7 * 15));
}

TEST(DotAddReferenceTest, CountsBits) {
  DotAddModel model =
      model_of(Architecture::kAmpere, MmaKind::kMmaSync, ElementType::kB1, AccumulatorType::kS32);
  const Codes a{0xF0F0F0F0, 0xFFFFFFFF};
  const Codes b{0xFF00FF00, 0x00000001};
  EXPECT_EQ(dot(model, a, b, 100, 2), 100u + 8 + 1);
  model.bit_operation = BitOperation::kXor;
  EXPECT_EQ(dot(model, a, b, 100, 2), 100u + 16 + 31);
}

TEST(DotAddReferenceTest, EqualsDoublesOnRandomOperands) {
  std::vector<NamedModel> models = testing::plain_models();
  const std::vector<NamedModel> scaled = testing::block_scaled_models();
  models.insert(models.end(), scaled.begin(), scaled.end());
  uint64_t seed = 1;
  for (const NamedModel& named : models) {
    const DotAddModel& model = named.model;
    if (model.arithmetic != Arithmetic::kFusedDotAdd &&
        model.arithmetic != Arithmetic::kFusedGroupAdd) {
      continue;
    }
    for (const Draw& draw : testing::draws()) {
      Operands operands(draw, ++seed);
      for (int i = 0; i < 40; ++i) {
        testing::OracleOperands in;
        for (int k = 0; k < 64; ++k) {
          in.a.push_back(operands.element(model.a));
          in.b.push_back(operands.element(model.b));
          if (model.scale == ScaleType::kNone || k % model.scale_block != 0) continue;
          in.a_scales.push_back(operands.scale(model.scale));
          in.b_scales.push_back(operands.scale(model.scale));
        }
        const uint64_t c = operands.accumulator(model.accumulator);
        ASSERT_EQ(dot_add_reference(model, {in.a, in.b, in.a_scales, in.b_scales}, c),
                  testing::oracle_chain(model, in, c))
            << named.name << ", " << draw.name;
      }
    }
  }
}

// The conversion of kFp8AsF16 spelled out in doubles.
TEST(DotAddReferenceTest, EqualsDoublesOnFp8AsF16) {
  for (const NamedModel& named : testing::plain_models()) {
    const DotAddModel& model = named.model;
    if (model.arithmetic != Arithmetic::kFp8AsF16 || model.accumulator != AccumulatorType::kF32) {
      continue;
    }
    DotAddModel as_f16 = model;
    as_f16.a = ElementType::kF16;
    as_f16.b = ElementType::kF16;
    for (const Draw& draw : testing::draws()) {
      Operands operands(draw, 11);
      for (int i = 0; i < 100; ++i) {
        testing::OracleOperands in;
        testing::OracleOperands halves[2];
        for (size_t k = 0; k < 32; ++k) {
          in.a.push_back(operands.element(model.a));
          in.b.push_back(operands.element(model.b));
          testing::OracleOperands& half = halves[k % 4 / 2];
          const double a = testing::number(model.a, in.a.back()).value;
          const double b = testing::number(model.b, in.b.back()).value;
          half.a.push_back(std::isnan(a)   ? 0x7FFF
                           : std::isinf(a) ? (a < 0 ? 0xFC00 : 0x7C00)
                                           : f16(a));
          half.b.push_back(std::isnan(b)   ? 0x7FFF
                           : std::isinf(b) ? (b < 0 ? 0xFC00 : 0x7C00)
                                           : f16(b));
        }
        const uint64_t c = operands.accumulator(model.accumulator);
        const uint64_t first = testing::oracle_step(as_f16, halves[0], 0, 16, 0);
        const uint64_t both = testing::oracle_step(as_f16, halves[1], 0, 16, first);
        const float sum = std::bit_cast<float>(static_cast<uint32_t>(both)) +
                          std::bit_cast<float>(static_cast<uint32_t>(c));
        ASSERT_EQ(dot_add_reference(model, {in.a, in.b, {}, {}}, c),
                  std::isnan(sum) ? kF32Nan : f32(sum))
            << named.name << ", " << draw.name;
      }
    }
  }
}

}  // namespace
}  // namespace mpfa::sim
