#include "sim/numerics/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "oracle.h"
#include "samples.h"

namespace mpfa::sim {
namespace {

using Int128 = __int128;

constexpr Rounding kModes[] = {Rounding::kNearestEven, Rounding::kZero, Rounding::kDown,
                               Rounding::kUp};

// ---- Integer to integer -------------------------------------------------------------------------

template <class From>
std::vector<From> integers() {
  std::vector<From> all;
  if constexpr (sizeof(From) <= 2) {
    for (int i = 0; i < (1 << (8 * sizeof(From))); ++i) all.push_back(static_cast<From>(i));
    return all;
  }
  for (int bit = 0; bit < static_cast<int>(8 * sizeof(From)); ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (const int offset : {-2, -1, 0, 1, 2, 3}) {
      const uint64_t around = power + static_cast<uint64_t>(offset);
      for (const uint64_t x :
           {around, 0 - around, around + (power >> 1), around + (power >> 9),
            around + (power >> 12), around + (power >> 25), around + (power >> 53)}) {
        all.push_back(static_cast<From>(x));
      }
    }
  }
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 2000; ++i) all.push_back(static_cast<From>(random() >> (random() % 60)));
  return all;
}

template <class To>
To clamped(Int128 x) {
  constexpr int kBits = 8 * sizeof(To);
  const Int128 low = std::is_signed_v<To> ? -(Int128{1} << (kBits - 1)) : 0;
  const Int128 high = low + (Int128{1} << kBits) - 1;
  return static_cast<To>(x < low ? low : x > high ? high : x);
}

template <class To, class From>
void compare_integers() {
  for (const From x : integers<From>()) {
    ASSERT_EQ(convert<To>(x), static_cast<To>(static_cast<uint64_t>(Int128{x})));
    ASSERT_EQ(convert<To>(x, {.sat = true}), clamped<To>(Int128{x}));
  }
}

template <class To>
void compare_integers_to() {
  compare_integers<To, int8_t>();
  compare_integers<To, uint8_t>();
  compare_integers<To, int16_t>();
  compare_integers<To, uint16_t>();
  compare_integers<To, int32_t>();
  compare_integers<To, uint32_t>();
  compare_integers<To, int64_t>();
  compare_integers<To, uint64_t>();
}

TEST(Convert, IntegerToInteger) {
  compare_integers_to<int8_t>();
  compare_integers_to<uint8_t>();
  compare_integers_to<int16_t>();
  compare_integers_to<uint16_t>();
  compare_integers_to<int32_t>();
  compare_integers_to<uint32_t>();
  compare_integers_to<int64_t>();
  compare_integers_to<uint64_t>();
}

// ---- Integer to float ---------------------------------------------------------------------------

template <class F>
constexpr oracle::Format kFormat = oracle::kHalf;
template <>
constexpr oracle::Format kFormat<Bf16> = oracle::kBfloat;
template <>
constexpr oracle::Format kFormat<float> = oracle::kSingle;

// An f64's codes lie too far apart for oracle::rounded(): the processor rounds those.
template <class From>
double double_of(From x, Rounding mode) {
  const auto nearest = static_cast<double>(x);
  const auto distance = static_cast<Int128>(nearest) - Int128{x};
  const bool down = mode == Rounding::kDown || (mode == Rounding::kZero && x > 0);
  const bool up = mode == Rounding::kUp || (mode == Rounding::kZero && x < 0);
  if (down && distance > 0) return std::nextafter(nearest, -INFINITY);
  if (up && distance < 0) return std::nextafter(nearest, INFINITY);
  return nearest;
}

template <class To, class From>
void compare_from_integer() {
  for (const From x : integers<From>()) {
    for (const Rounding mode : kModes) {
      const To got = convert<To>(x, {.rounding = mode});
      if constexpr (std::is_same_v<To, double>) {
        ASSERT_EQ(got, double_of(x, mode)) << +x;
      } else {
        const uint64_t expected = oracle::rounded(kFormat<To>, oracle::Wide(Int128{x}, 0), mode);
        ASSERT_EQ(bits_of(got), expected) << +x << " in mode " << static_cast<int>(mode);
      }
    }
  }
}

template <class To>
void compare_from_all_integers() {
  compare_from_integer<To, int8_t>();
  compare_from_integer<To, uint8_t>();
  compare_from_integer<To, int32_t>();
  compare_from_integer<To, uint32_t>();
  compare_from_integer<To, int64_t>();
  compare_from_integer<To, uint64_t>();
}

TEST(Convert, IntegerToF16) { compare_from_all_integers<Fp16>(); }
TEST(Convert, IntegerToBf16) { compare_from_all_integers<Bf16>(); }
TEST(Convert, IntegerToF32) { compare_from_all_integers<float>(); }
TEST(Convert, IntegerToF64) { compare_from_all_integers<double>(); }

TEST(Convert, IntegerToFloatSaturates) {
  EXPECT_EQ(convert<float>(int32_t{7}, {.sat = true}), 1.0f);
  EXPECT_EQ(bits_of(convert<float>(int32_t{-7}, {.sat = true})), 0u);
}

// ---- Float to integer ---------------------------------------------------------------------------

template <class F>
std::vector<F> floats() {
  std::vector<F> all;
  for (int i = 0; i < 0x10000; ++i) all.push_back({static_cast<uint16_t>(i)});
  return all;
}
template <>
std::vector<float> floats<float>() {
  return float_samples({0, 1, 3, 7, 10, 15, 22}, 5000);
}
template <>
std::vector<double> floats<double>() {
  std::vector<int> exponents{-1023, -1022, 1023, 1024};
  for (int e = -160; e < 140; ++e) exponents.push_back(e);
  return double_samples(exponents, {0, 1, 3, 7, 10, 15, 23, 30, 31, 32, 40, 51});
}

double number(float x) { return x; }
double number(double x) { return x; }
double number(Fp16 x) {
  if ((x.bits & 0x7FFF) > 0x7C00) return NAN;
  const double size =
      (x.bits & 0x7FFF) == 0x7C00 ? INFINITY : oracle::value_of(oracle::kHalf, x.bits & 0x7FFFu);
  return (x.bits & 0x8000) != 0 ? -size : size;
}
double number(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// The integer nearest in the mode, of a finite number below 2^66.
Int128 integer_of(double x, Rounding mode) {
  const auto toward_zero = static_cast<Int128>(x);
  const double rest = x - static_cast<double>(toward_zero);  // exact: below 2^53, or 0
  const int away = x < 0 ? -1 : 1;
  switch (mode) {
    case Rounding::kNearestEven: {
      const double size = std::fabs(rest);
      const bool odd = toward_zero % 2 != 0;
      return size > 0.5 || (size == 0.5 && odd) ? toward_zero + away : toward_zero;
    }
    case Rounding::kDown:
      return rest < 0 ? toward_zero - 1 : toward_zero;
    case Rounding::kUp:
      return rest > 0 ? toward_zero + 1 : toward_zero;
    default:
      return toward_zero;
  }
}

template <class To, class From>
void compare_to_integer() {
  constexpr bool kZeroNan = !std::is_same_v<From, double> && sizeof(To) < 8;
  for (const From a : floats<From>()) {
    const double x = number(a);
    for (const Rounding mode : kModes) {
      const To got = convert<To>(a, {.rounding = mode});
      if (std::isnan(x)) {
        const auto top = static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1));
        ASSERT_EQ(got, kZeroNan ? To{0} : top);
      } else {
        const double near = std::fmax(std::fmin(x, 0x1p66), -0x1p66);
        ASSERT_EQ(got, clamped<To>(integer_of(near, mode))) << x << " " << static_cast<int>(mode);
      }
    }
  }
}

template <class From>
void compare_to_all_integers() {
  compare_to_integer<int8_t, From>();
  compare_to_integer<uint8_t, From>();
  compare_to_integer<int16_t, From>();
  compare_to_integer<uint16_t, From>();
  compare_to_integer<int32_t, From>();
  compare_to_integer<uint32_t, From>();
  compare_to_integer<int64_t, From>();
  compare_to_integer<uint64_t, From>();
}

TEST(Convert, F16ToInteger) { compare_to_all_integers<Fp16>(); }
TEST(Convert, Bf16ToInteger) { compare_to_all_integers<Bf16>(); }
TEST(Convert, F32ToInteger) { compare_to_all_integers<float>(); }
TEST(Convert, F64ToInteger) { compare_to_all_integers<double>(); }

TEST(Convert, FloatToIntegerByHand) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(convert<int32_t>(nan), 0);
  EXPECT_EQ(convert<int64_t>(nan), INT64_MIN);
  EXPECT_EQ(convert<uint64_t>(nan), uint64_t{1} << 63);
  EXPECT_EQ(convert<int32_t>(double{nan}), INT32_MIN);
  EXPECT_EQ(convert<uint32_t>(double{nan}), 0x80000000u);
  EXPECT_EQ(convert<int32_t>(0x1p31f), INT32_MAX);
  EXPECT_EQ(convert<uint32_t>(-1.5f), 0u);
  EXPECT_EQ(convert<int32_t>(2.5f), 2);
  EXPECT_EQ(convert<int32_t>(3.5f), 4);
  EXPECT_EQ(convert<int32_t>(0x1p-140f, {.rounding = Rounding::kUp}), 1);
  EXPECT_EQ(convert<int32_t>(0x1p-140f, {.rounding = Rounding::kUp, .ftz = true}), 0);
}

// ---- Float to float -----------------------------------------------------------------------------

// A NaN of f64 keeps its sign and the upper bits of its payload and becomes quiet, as on an H200.
uint64_t narrowed_nan(const oracle::Format& format, double x) {
  const int mantissa_bits = std::countr_zero(format.largest + 1);
  const uint64_t bits = bits_of(x);
  const uint64_t payload = (bits & ((uint64_t{1} << 52) - 1)) >> (52 - mantissa_bits);
  return (format.largest + 1) | uint64_t{1} << (mantissa_bits - 1) | payload |
         (bits >> 63) << format.sign_shift;
}

// x as To's code, NaNs and infinities apart.
template <class To, class From>
void compare_to_float(const oracle::Format& format, int code_shift, uint64_t nan) {
  const uint64_t infinity = format.largest + 1;
  for (const From a : floats<From>()) {
    const double x = number(a);
    for (const Rounding mode : kModes) {
      const uint64_t got = bits_of(convert<To>(a, {.rounding = mode}));
      uint64_t expected = nan;
      if (std::is_same_v<From, double> && std::isnan(x)) expected = narrowed_nan(format, x);
      if (std::isinf(x)) {
        expected = (infinity | (x < 0 ? uint64_t{1} << format.sign_shift : 0)) << code_shift;
      } else if (!std::isnan(x)) {
        // oracle::Wide ends at 2^-320 and 2^447; beyond, all of these formats are alike.
        const double near = std::fabs(x) < 0x1p-250  ? std::copysign(x == 0 ? 0 : 0x1p-250, x)
                            : std::fabs(x) > 0x1p300 ? std::copysign(0x1p300, x)
                                                     : x;
        uint64_t code = oracle::rounded(format, oracle::Wide(near), mode, std::signbit(x));
        // Not even .rz goes beyond the largest value's neighbour, and it stops there.
        const uint64_t size = code & ((uint64_t{1} << format.sign_shift) - 1);
        ASSERT_LE(size, infinity);
        expected = code << code_shift;
      }
      ASSERT_EQ(got, expected) << x << " in mode " << static_cast<int>(mode);
    }
  }
}

TEST(Convert, F32ToF16) { compare_to_float<Fp16, float>(oracle::kHalf, 0, 0x7FFF); }
TEST(Convert, F32ToBf16) { compare_to_float<Bf16, float>(oracle::kBfloat, 0, 0x7FFF); }
TEST(Convert, F32ToTf32) { compare_to_float<Tf32, float>(oracle::kTfloat, 13, 0x7FFFE000); }
TEST(Convert, F64ToF16) { compare_to_float<Fp16, double>(oracle::kHalf, 0, 0x7FFF); }
TEST(Convert, F64ToBf16) { compare_to_float<Bf16, double>(oracle::kBfloat, 0, 0x7FFF); }
TEST(Convert, F64ToF32) { compare_to_float<float, double>(oracle::kSingle, 0, 0x7FFFFFFF); }
TEST(Convert, F16ToBf16) { compare_to_float<Bf16, Fp16>(oracle::kBfloat, 0, 0x7FFF); }
TEST(Convert, Bf16ToF16) { compare_to_float<Fp16, Bf16>(oracle::kHalf, 0, 0x7FFF); }

TEST(Convert, Tf32RoundsTiesAway) {
  const ConvertOptions away{.rounding = Rounding::kNearestAway};
  EXPECT_EQ(convert<Tf32>(1.0f + 0x1p-11f, away).bits, 0x3F802000u);
  EXPECT_EQ(convert<Tf32>(1.0f + 0x1p-11f).bits, 0x3F800000u);
  EXPECT_EQ(convert<Tf32>(std::nextafter(1.0f + 0x1p-11f, 0.0f), away).bits, 0x3F800000u);
  EXPECT_EQ(convert<Tf32>(-1.0f - 0x1p-11f, away).bits, 0xBF802000u);
  for (const float x : floats<float>()) {
    if (!std::isfinite(x)) continue;
    const uint64_t code =
        oracle::rounded(oracle::kTfloat, oracle::Wide(x), Rounding::kNearestAway, std::signbit(x));
    ASSERT_EQ(convert<Tf32>(x, away).bits, code << 13);
  }
}

TEST(Convert, WideningIsExact) {
  for (const Fp16 x : floats<Fp16>()) {
    const float single = convert<float>(x);
    const auto wide = convert<double>(x);
    if (std::isnan(number(x))) {
      ASSERT_EQ(bits_of(single), 0x7FFFFFFFu);
      ASSERT_TRUE(std::isnan(wide));
      continue;
    }
    ASSERT_EQ(single, number(x));
    ASSERT_EQ(wide, number(x));
    ASSERT_EQ(std::signbit(single), (x.bits & 0x8000) != 0);
    ASSERT_EQ(std::signbit(wide), (x.bits & 0x8000) != 0);
    // And back again in every mode.
    for (const Rounding mode : kModes) ASSERT_EQ(convert<Fp16>(single, {.rounding = mode}), x);
  }
  for (const Bf16 x : floats<Bf16>()) {
    if (std::isnan(number(x))) continue;
    ASSERT_EQ(convert<float>(x), number(x));
    for (const Rounding mode : kModes) {
      ASSERT_EQ(convert<Bf16>(convert<double>(x), {.rounding = mode}), x);
    }
  }
}

template <class F>
void compare_integral() {
  for (const F a : floats<F>()) {
    const double x = number(a);
    if (std::isnan(x)) continue;
    const double values[] = {std::nearbyint(x), std::trunc(x), std::floor(x), std::ceil(x)};
    for (int i = 0; i < 4; ++i) {
      const F got = convert<F>(a, {.rounding = kModes[i], .to_integral = true});
      ASSERT_EQ(number(got), values[i]);
      ASSERT_EQ(std::signbit(number(got)), std::signbit(x));
    }
  }
}

TEST(Convert, RoundsToIntegralValues) {
  compare_integral<Fp16>();
  compare_integral<Bf16>();
  compare_integral<float>();
  compare_integral<double>();
  const ConvertOptions ftz{.rounding = Rounding::kUp, .to_integral = true, .ftz = true};
  EXPECT_EQ(convert<float>(0x1p-140f, ftz), 0.0f);
}

TEST(Convert, FlushesSubnormalsOfF32Alone) {
  const ConvertOptions ftz{.ftz = true};
  EXPECT_EQ(bits_of(convert<float>(-0x1p-140, ftz)), 0x80000000u);
  EXPECT_EQ(convert<float>(-0x1p-140), -0x1p-140f);
  EXPECT_EQ(convert<double>(0x1p-140f, ftz), 0.0);
  EXPECT_EQ(convert<Bf16>(0x1p-127f, ftz).bits, 0);
  EXPECT_EQ(convert<Bf16>(0x1p-127f).bits, 0x40);
  EXPECT_EQ(convert<Fp16>(0x1p-20f, ftz).bits, 0x10);  // f16 subnormals stay
  EXPECT_EQ(convert<float>(Fp16{0x0001}, ftz), 0x1p-24f);
  EXPECT_EQ(convert<float>(Bf16{0x0040}, ftz), 0.0f);
}

TEST(Convert, SaturatesAndClamps) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const ConvertOptions sat{.sat = true};
  EXPECT_EQ(convert<float>(1.5f, sat), 1.0f);
  EXPECT_EQ(convert<float>(0.25f, sat), 0.25f);
  EXPECT_EQ(bits_of(convert<float>(-0.0f, sat)), 0u);
  EXPECT_EQ(bits_of(convert<float>(nan, sat)), 0u);
  EXPECT_EQ(convert<Fp16>(INFINITY, sat).bits, 0x3C00);
  EXPECT_EQ(convert<Fp16>(-3.0f, sat).bits, 0);
  EXPECT_EQ(convert<double>(7.0f, sat), 1.0);

  const ConvertOptions with_relu{.relu = true};
  EXPECT_EQ(convert<Bf16>(-3.0f, with_relu).bits, 0);
  EXPECT_EQ(convert<Bf16>(-0.0f, with_relu).bits, 0);
  EXPECT_EQ(convert<Fp16>(3.0f, with_relu).bits, 0x4200);
  EXPECT_EQ(convert<Fp16>(-nan, with_relu).bits, 0x7FFF);
  EXPECT_EQ(convert<Fp16>(-INFINITY, with_relu).bits, 0);

  const ConvertOptions satfinite{.satfinite = true};
  EXPECT_EQ(convert<Fp16>(1e6f, satfinite).bits, 0x7BFF);
  EXPECT_EQ(convert<Fp16>(-INFINITY, satfinite).bits, 0xFBFF);
  EXPECT_EQ(convert<Bf16>(INFINITY, satfinite).bits, 0x7F7F);
  EXPECT_EQ(convert<Bf16>(std::numeric_limits<float>::max(), satfinite).bits, 0x7F7F);
  EXPECT_EQ(convert<Tf32>(-INFINITY, satfinite).bits, 0xFF7FE000u);
  EXPECT_EQ(convert<Fp16>(nan, satfinite).bits, 0x7FFF);
  const ConvertOptions both{.relu = true, .satfinite = true};
  EXPECT_EQ(convert<Fp16>(-INFINITY, both).bits, 0);
}

TEST(Convert, FloatsOfCodes) {
  for (const Rounding mode : {Rounding::kZero, Rounding::kDown}) {
    EXPECT_EQ(convert<Fp16>(65520.0f, {.rounding = mode}).bits, 0x7BFF);
  }
  EXPECT_EQ(convert<Fp16>(65520.0f).bits, 0x7C00);
  EXPECT_EQ(convert<Fp16>(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(convert<Fp16>(-65505.0f, {.rounding = Rounding::kDown}).bits, 0xFC00);
}

}  // namespace
}  // namespace mpfa::sim
