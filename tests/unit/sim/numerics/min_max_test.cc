// min and max against the rules as the ISA writes them, on values.
#include "sim/numerics/min_max.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

#include "samples.h"
#include "sim/numerics/resize.h"

namespace mpfa::sim {
namespace {

// Any double stands for a value here; halves and floats are all doubles.
struct Rules {
  bool max;
  bool propagate_nan;
  double operator()(double x, double y) const {
    if (std::isnan(x) && std::isnan(y)) return NAN;
    if (propagate_nan && (std::isnan(x) || std::isnan(y))) return NAN;
    if (std::isnan(x)) return y;
    if (std::isnan(y)) return x;
    // +0 is above -0.
    if (x == 0 && y == 0) {
      const bool negative =
          max ? std::signbit(x) && std::signbit(y) : std::signbit(x) || std::signbit(y);
      return negative ? -0.0 : 0.0;
    }
    return max ? std::max(x, y) : std::min(x, y);
  }
};

double number(double x) { return x; }
double number(float x) { return x; }
template <class H>
double number(H x) {
  return widened(x);
}

template <class F>
void expect_value(F got, double expected) {
  if (std::isnan(expected)) {
    // Which of the operands' NaNs f64 returns: LastNanOfF64IsKept.
    constexpr bool kKeepsPayload = std::is_same_v<F, double>;
    if (kKeepsPayload) {
      ASSERT_EQ(bits_of(got) & FloatType<F>::kNan, FloatType<F>::kNan);
    } else {
      ASSERT_EQ(bits_of(got), FloatType<F>::kNan);
    }
    return;
  }
  ASSERT_EQ(number(got), expected);
  ASSERT_EQ(is_negative(got), std::signbit(expected));
}

template <class F>
std::vector<F> edges() {
  using T = FloatType<F>;
  std::vector<F> all;
  for (const uint64_t bits :
       {uint64_t{0}, uint64_t{1}, uint64_t{T::kMinNormal} - 1, uint64_t{T::kMinNormal},
        uint64_t{T::kOne}, uint64_t{T::kOne} + 1, uint64_t{T::kMaxFinite}, uint64_t{T::kInfinity},
        uint64_t{T::kInfinity} + 1, uint64_t{T::kNan}}) {
    all.push_back(from_bits<F>(static_cast<BitsOf<F>>(bits)));
    all.push_back(from_bits<F>(static_cast<BitsOf<F>>(bits | T::kSign)));
  }
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 30; ++i) all.push_back(from_bits<F>(static_cast<BitsOf<F>>(random())));
  return all;
}

template <class F>
void compare_all() {
  constexpr MinMaxOptions kNan{.propagate_nan = true};
  constexpr MinMaxOptions kXorsign{.abs = true, .xorsign = true};
  constexpr MinMaxOptions kAbs{.propagate_nan = true, .abs = true};
  for (const F a : edges<F>()) {
    for (const F b : edges<F>()) {
      const double x = number(a);
      const double y = number(b);
      expect_value(float_min(a, b), Rules{false, false}(x, y));
      expect_value(float_max(a, b), Rules{true, false}(x, y));
      expect_value(float_min<kNan>(a, b), Rules{false, true}(x, y));
      expect_value(float_max<kNan>(a, b), Rules{true, true}(x, y));
      const double sign = is_negative(a) != is_negative(b) ? -1.0 : 1.0;  // of NaNs too
      expect_value(float_min<kXorsign>(a, b),
                   std::copysign(Rules{false, false}(std::fabs(x), std::fabs(y)), sign));
      expect_value(float_max<kXorsign>(a, b),
                   std::copysign(Rules{true, false}(std::fabs(x), std::fabs(y)), sign));
      const F c = from_bits<F>(FloatType<F>::kOne);
      expect_value(float_max(a, b, c), Rules{true, false}(Rules{true, false}(x, y), 1.0));
      expect_value(float_min(a, b, c), Rules{false, false}(Rules{false, false}(x, y), 1.0));
      expect_value(float_min<kAbs>(c, a, b),
                   Rules{false, true}(Rules{false, true}(1.0, std::fabs(x)), std::fabs(y)));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(MinMax, F16) { compare_all<Fp16>(); }
TEST(MinMax, Bf16) { compare_all<Bf16>(); }
TEST(MinMax, F32) { compare_all<float>(); }
TEST(MinMax, F64) { compare_all<double>(); }

TEST(MinMax, FlushesSubnormals) {
  constexpr MinMaxOptions kFtz{.ftz = true};
  EXPECT_EQ(bits_of(float_max<kFtz>(-0x1p-130f, -1.0f)), 0x80000000u);
  EXPECT_EQ(bits_of(float_min<kFtz>(0x1p-130f, 1.0f)), 0u);
  EXPECT_EQ(float_min<kFtz>(Fp16{0x0001}, Fp16{0x3C00}).bits, 0);
  EXPECT_EQ(float_min(0x1p-130f, 1.0f), 0x1p-130f);
}

TEST(MinMax, AbsAndNeg) {
  EXPECT_EQ(float_abs(-2.5f), 2.5f);
  EXPECT_EQ(bits_of(float_abs(-0.0f)), 0u);
  EXPECT_EQ(bits_of(float_neg(0.0f)), 0x80000000u);
  EXPECT_EQ(float_neg(Bf16{0x3F80}).bits, 0xBF80);
  EXPECT_EQ(float_abs(Fp16{0xFC00}).bits, 0x7C00);
  EXPECT_EQ(bits_of(float_abs<true>(-0x1p-130f)), 0u);
  EXPECT_EQ(bits_of(float_neg<true>(0x1p-130f)), 0x80000000u);
  EXPECT_EQ(float_neg(3.0), -3.0);
}

// As on an H200: quiet, with its sign and payload.
TEST(MinMax, LastNanOfF64IsKept) {
  const auto first = from_bits<double>(0x7FF0000000000001);
  const auto last = from_bits<double>(0xFFF0000000000002);
  EXPECT_EQ(bits_of(float_min(first, last)), 0xFFF8000000000002u);
  EXPECT_EQ(bits_of(float_max(last, first)), 0x7FF8000000000001u);
  EXPECT_EQ(float_min(first, 1.0), 1.0);
  EXPECT_EQ(float_max(1.0, last), 1.0);
}

}  // namespace
}  // namespace mpfa::sim
