// The approximate functions against long double, and against the ISA's tables of special values.
#include "sim/numerics/approximate.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "samples.h"

namespace mpfa::sim {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kNanBits = 0x7FFFFFFF;
const float kNan = std::bit_cast<float>(0xFFC12345u);
constexpr float kSubnormal = 0x1p-130f;

// Distance in units of the last place of a float of the exact value's size.
double ulps(float got, long double exact) {
  if (std::isinf(got)) {
    return std::fabs(exact) >= 0x1.ffffffp127L ? 0.0 : 1e9;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent - 24, -149));
  return static_cast<double>(std::fabs(got - exact) / unit);
}

std::vector<float> finite_samples() {
  std::vector<float> samples;
  for (const float x : float_samples({0, 1, 4, 10, 16, 22}, 20000)) {
    if (std::isfinite(x)) samples.push_back(x);
  }
  for (int i = -40000; i < 40000; ++i) samples.push_back(static_cast<float>(i) * 0x1.23456p-9f);
  return samples;
}

TEST(Approximate, ErrorsAreBelowOneRounding) {
  for (const float x : finite_samples()) {
    const long double wide = x;
    ASSERT_LE(ulps(ex2_approx<false>(x), std::exp2(wide)), 0.501) << x;
    ASSERT_LE(ulps(sin_approx(x, false), std::sin(wide)), 0.501) << x;
    ASSERT_LE(ulps(cos_approx(x, false), std::cos(wide)), 0.501) << x;
    ASSERT_LE(ulps(tanh_approx(x), std::tanh(wide)), 0.501) << x;
    if (x == 0) continue;
    ASSERT_LE(ulps(rcp_approx<false>(x), 1 / wide), 0.501) << x;
    if (x < 0) continue;
    ASSERT_LE(ulps(lg2_approx<false>(x), std::log2(wide)), 0.501) << x;
    ASSERT_LE(ulps(sqrt_approx<false>(x), std::sqrt(wide)), 0.501) << x;
    ASSERT_LE(ulps(rsqrt_approx<false>(x), 1 / std::sqrt(wide)), 0.501) << x;
  }
}

TEST(Approximate, SeriesAreAsGoodAsTheySay) {
  for (int i = -200000; i <= 200000; ++i) {
    const float x = static_cast<float>(i) * 0x1.f3p-11f;  // to +-190
    const long double power = std::exp2(static_cast<long double>(x));
    ASSERT_LE(std::fabs(exp2_of(x) - power), 0x1p-39L * power) << x;
    const float y = std::fabs(x) + 0x1p-20f;
    const long double logarithm = std::log2(static_cast<long double>(y));
    ASSERT_LE(std::fabs(log2_of(y) - logarithm), 0x1p-39L * std::fabs(logarithm)) << y;
  }
}

TEST(Approximate, Logarithm2NearOne) {
  for (int i = -3000; i < 3000; ++i) {
    const float x = std::bit_cast<float>(0x3F800000u + static_cast<uint32_t>(i));
    ASSERT_LE(ulps(lg2_approx<false>(x), std::log2(static_cast<long double>(x))), 0.501) << x;
  }
}

TEST(Approximate, PowersOfTwoAreExact) {
  for (int i = -149; i < 128; ++i) {
    const float power = std::ldexp(1.0f, i);
    EXPECT_EQ(ex2_approx<false>(static_cast<float>(i)), power);
    EXPECT_EQ(lg2_approx<false>(power), static_cast<float>(i));
    EXPECT_EQ(ex2_approx<true>(static_cast<float>(i)), i < -126 ? 0.0f : power);
  }
}

// The tables, by bits: -Inf, -0, +0, +Inf, NaN.
template <class Function>
void expect_table(Function function, std::vector<float> results, uint32_t nan = kNanBits) {
  const float inputs[] = {-kInf, -0.0f, 0.0f, kInf, kNan};
  for (size_t i = 0; i < 5; ++i) {
    const uint32_t expected = std::isnan(results[i]) ? nan : std::bit_cast<uint32_t>(results[i]);
    EXPECT_EQ(std::bit_cast<uint32_t>(function(inputs[i])), expected) << inputs[i];
  }
}

TEST(Approximate, TablesOfTheIsa) {
  expect_table(ex2_approx<false>, {0.0f, 1.0f, 1.0f, kInf, kNan});
  expect_table(ex2_approx<true>, {0.0f, 1.0f, 1.0f, kInf, kNan});
  expect_table(lg2_approx<false>, {kNan, -kInf, -kInf, kInf, kNan});
  expect_table(lg2_approx<true>, {kNan, -kInf, -kInf, kInf, kNan});
  expect_table(rcp_approx<false>, {-0.0f, -kInf, kInf, 0.0f, kNan});
  expect_table(rcp_approx<true>, {-0.0f, -kInf, kInf, 0.0f, kNan});
  expect_table(sqrt_approx<false>, {kNan, -0.0f, 0.0f, kInf, kNan});
  expect_table(rsqrt_approx<false>, {kNan, -kInf, kInf, 0.0f, kNan});
  expect_table([](float x) { return sin_approx(x, false); }, {kNan, -0.0f, 0.0f, kNan, kNan});
  expect_table([](float x) { return cos_approx(x, true); }, {kNan, 1.0f, 1.0f, kNan, kNan});
  expect_table([](float x) { return tanh_approx(x); }, {-1.0f, -0.0f, 0.0f, 1.0f, kNan});
  for (const float negative : {-1.0f, -0x1p-126f, -std::numeric_limits<float>::max()}) {
    EXPECT_EQ(bits_of(lg2_approx<true>(negative)), kNanBits);
    EXPECT_EQ(bits_of(sqrt_approx<true>(negative)), kNanBits);
    EXPECT_EQ(bits_of(rsqrt_approx<true>(negative)), kNanBits);
  }
}

TEST(Approximate, SubnormalsAreFlushedWhereAsked) {
  EXPECT_EQ(rcp_approx<true>(kSubnormal), kInf);
  EXPECT_EQ(rcp_approx<true>(-kSubnormal), -kInf);
  EXPECT_EQ(bits_of(rcp_approx<true>(-0x1p127f)), 0x80000000u);
  EXPECT_EQ(rcp_approx<false>(0x1p127f), 0x1p-127f);
  EXPECT_EQ(rsqrt_approx<true>(kSubnormal), kInf);
  EXPECT_EQ(rsqrt_approx<true>(-kSubnormal), -kInf);
  EXPECT_EQ(rsqrt_approx<false>(kSubnormal), 0x1p65f);
  EXPECT_EQ(bits_of(sqrt_approx<true>(-kSubnormal)), 0x80000000u);
  EXPECT_EQ(sqrt_approx<false>(kSubnormal), 0x1p-65f);
  EXPECT_EQ(lg2_approx<true>(kSubnormal), -kInf);
  EXPECT_EQ(lg2_approx<true>(-kSubnormal), -kInf);
  EXPECT_EQ(lg2_approx<false>(kSubnormal), -130.0f);
  EXPECT_EQ(ex2_approx<false>(-140.0f), 0x1p-140f);
  EXPECT_EQ(ex2_approx<true>(-126.5f), 0.0f);
  EXPECT_EQ(ex2_approx<false>(kSubnormal), 1.0f);
  EXPECT_EQ(bits_of(sin_approx(-kSubnormal, true)), 0x80000000u);
  EXPECT_EQ(sin_approx(kSubnormal, false), kSubnormal);
  EXPECT_EQ(tanh_approx(kSubnormal), kSubnormal);
}

TEST(Approximate, Quotients) {
  EXPECT_EQ(div_approx<false>(1.0f, 3.0f), 1.0f / 3.0f);
  EXPECT_EQ(div_full<false>(1.0f, 3.0f), 1.0f / 3.0f);
  // |b| beyond 2^126: zero, or NaN of infinities.
  EXPECT_EQ(bits_of(div_approx<false>(1e38f, 0x1.8p126f)), 0u);
  EXPECT_EQ(bits_of(div_approx<false>(1e38f, -0x1.8p127f)), 0x80000000u);
  EXPECT_EQ(bits_of(div_approx<true>(kInf, 0x1p127f)), kNanBits);
  EXPECT_EQ(div_approx<false>(0x1p126f, 0x1p126f), 1.0f);
  EXPECT_EQ(div_full<false>(0x1p127f, 0x1p127f), 1.0f);
  EXPECT_EQ(bits_of(div_full<true>(0.0f, 0.0f)), kNanBits);
  EXPECT_EQ(div_full<true>(1.0f, -kSubnormal), -kInf);
  EXPECT_EQ(bits_of(div_approx<false>(kInf, kInf)), kNanBits);
  EXPECT_EQ(div_approx<false>(1.0f, kInf), 0.0f);
}

// Half a unit of the last place of the type at `exact`, and a bit.
template <class H>
bool near_half(H got, long double exact, int mantissa_bits, int smallest_exponent) {
  if (std::isnan(exact)) return got.bits == 0x7FFF;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int unit = std::max(exponent - 1, smallest_exponent) - mantissa_bits;
  const long double value = widened(got);
  if (std::isinf(value)) return exact >= std::ldexp(1.0L, mantissa_bits == 10 ? 16 : 128) * 0.998L;
  return std::fabs(value - exact) <= std::ldexp(0.501L, unit);
}

TEST(Approximate, EveryHalf) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const Fp16 half{static_cast<uint16_t>(i)};
    const Bf16 bfloat{static_cast<uint16_t>(i)};
    const long double x = widened(half);
    const long double y = widened(bfloat);
    ASSERT_TRUE(near_half(half_ex2_approx<false>(half), std::exp2(x), 10, -14)) << i;
    ASSERT_TRUE(near_half(tanh_approx(half), std::tanh(x), 10, -14)) << i;
    ASSERT_TRUE(near_half(tanh_approx(bfloat), std::tanh(y), 7, -126)) << i;
    const Bf16 power = half_ex2_approx<true>(bfloat);
    if (std::exp2(y) < 0x1.fep-127L) {
      ASSERT_EQ(power.bits, 0) << i;
    } else {
      ASSERT_TRUE(near_half(power, std::exp2(y), 7, -126)) << i;
    }
  }
  EXPECT_EQ(half_ex2_approx<true>(Bf16{0x8001}).bits, 0x3F80);  // a subnormal
  EXPECT_EQ(tanh_approx(Fp16{0x8000}).bits, 0x8000);
}

TEST(Approximate, DoublesOfTwentyBits) {
  const double third = rcp_approx_ftz(3.0);
  EXPECT_EQ(bits_of(third) & 0xFFFFFFFFu, 0u);
  EXPECT_NEAR(third * 3.0, 1.0, 0x1p-20);
  // The operand's lower half is ignored.
  EXPECT_EQ(rcp_approx_ftz(std::bit_cast<double>(0x40080000FFFFFFFFu)), third);
  EXPECT_NEAR(rsqrt_approx_ftz(2.0), std::sqrt(0.5), 0x1p-21);
  EXPECT_EQ(rsqrt_approx(16.0), 0.25);
  constexpr uint64_t kNan64 = 0x7FFFFFFF00000000;
  const double infinity = kInf;
  const double subnormal = 0x1p-1030;
  EXPECT_EQ(bits_of(rcp_approx_ftz(-infinity)), uint64_t{1} << 63);
  EXPECT_EQ(rcp_approx_ftz(-subnormal), -infinity);
  EXPECT_EQ(rcp_approx_ftz(-0.0), -infinity);
  EXPECT_EQ(rcp_approx_ftz(subnormal), infinity);
  EXPECT_EQ(bits_of(rcp_approx_ftz(0x1p1023)), 0u);  // 2^-1023 is subnormal
  EXPECT_EQ(bits_of(rcp_approx_ftz(double{kNan})), kNan64);
  EXPECT_EQ(bits_of(rsqrt_approx_ftz(-infinity)), kNan64);
  EXPECT_EQ(bits_of(rsqrt_approx_ftz(-1.0)), kNan64);
  EXPECT_EQ(rsqrt_approx_ftz(-subnormal), -infinity);
  EXPECT_EQ(rsqrt_approx_ftz(subnormal), infinity);
  EXPECT_EQ(rsqrt_approx_ftz(infinity), 0.0);
}

}  // namespace
}  // namespace mpfa::sim
