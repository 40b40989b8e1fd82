// f32 and f64 arithmetic in all rounding modes against the processor's, its mode set.
#include "sim/numerics/rounding.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <random>
#include <vector>

#include "samples.h"

namespace mpfa::sim {
namespace {

int fenv_mode(Rounding mode) {
  switch (mode) {
    case Rounding::kZero:
      return FE_TOWARDZERO;
    case Rounding::kDown:
      return FE_DOWNWARD;
    case Rounding::kUp:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

// `operation` with the processor's mode set. Volatile operands keep it from being moved.
template <class F, class Operation>
F in_mode(Rounding mode, F a, F b, F c, Operation operation) {
  volatile F x = a;
  volatile F y = b;
  volatile F z = c;
  std::fesetround(fenv_mode(mode));
  volatile F result = operation(x, y, z);
  std::fesetround(FE_TONEAREST);
  return result;
}

template <class F>
struct Operands {
  F a, b, c;
};

// Operands of all magnitudes, of like ones, and such that nearly cancel.
template <class F>
std::vector<Operands<F>> operands(int count) {
  using Bits = BitsOf<F>;
  const std::vector<Bits> special{
      0,
      1,
      FloatType<F>::kMinNormal - 1,
      FloatType<F>::kMinNormal,
      FloatType<F>::kOne,
      FloatType<F>::kOne + 1,
      FloatType<F>::kMaxFinite,
      FloatType<F>::kMaxFinite - 1,
      FloatType<F>::kInfinity,
      FloatType<F>::kNan,
  };
  std::vector<F> edges;
  for (const Bits bits : special) {
    edges.push_back(from_bits<F>(bits));
    edges.push_back(from_bits<F>(static_cast<Bits>(bits | FloatType<F>::kSign)));
  }
  std::vector<Operands<F>> all;
  for (const F a : edges) {
    for (const F b : edges) {
      for (const F c : edges) all.push_back({a, b, c});
    }
  }
  std::mt19937_64 random(kSeed);
  const auto near = [&](F x, int spread) {
    const F scaled = std::ldexp(x, static_cast<int>(random() % (2 * spread + 1)) - spread);
    return random() % 2 == 0 ? scaled : -scaled;
  };
  const auto any = [&] { return from_bits<F>(static_cast<Bits>(random())); };
  // Few significant bits make ties and exact results.
  const auto short_one = [&] { return static_cast<F>(static_cast<int>(random() % 64) - 32); };
  for (int i = 0; i < count; ++i) {
    const F a = any();
    const F b = any();
    all.push_back({a, b, any()});
    all.push_back({a, near(a, 60), near(a * a, 60)});
    all.push_back({a, b, -(a * b)});
    all.push_back({a, near(F{1}, 3), near(a, 1)});
    all.push_back({short_one(), near(short_one(), 30), short_one()});
    all.push_back({a, near(short_one(), 160), near(a, 30)});
  }
  return all;
}

constexpr Rounding kModes[] = {Rounding::kNearestEven, Rounding::kZero, Rounding::kDown,
                               Rounding::kUp};

template <class F>
void expect_same(F got, F expected, const char* what, Rounding mode, const Operands<F>& o) {
  if (std::isnan(expected) && std::isnan(got)) return;
  ASSERT_EQ(bits_of(got), bits_of(expected))
      << what << " in mode " << static_cast<int>(mode) << " of " << o.a << ", " << o.b << ", "
      << o.c << " gives " << got << ", not " << expected;
}

template <class F>
void compare_all(int count) {
  for (const auto& o : operands<F>(count)) {
    for (const Rounding mode : kModes) {
      const auto host = [&](auto operation) { return in_mode(mode, o.a, o.b, o.c, operation); };
      expect_same(add_rounded(o.a, o.b, mode), host([](F a, F b, F) { return a + b; }), "add", mode,
                  o);
      expect_same(mul_rounded(o.a, o.b, mode), host([](F a, F b, F) { return a * b; }), "mul", mode,
                  o);
      expect_same(div_rounded(o.a, o.b, mode), host([](F a, F b, F) { return a / b; }), "div", mode,
                  o);
      expect_same(fma_rounded(o.a, o.b, o.c, mode),
                  host([](F a, F b, F c) { return std::fma(a, b, c); }), "fma", mode, o);
      expect_same(sqrt_rounded(o.a, mode), host([](F a, F, F) { return std::sqrt(a); }), "sqrt",
                  mode, o);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Rounding, SinglePrecisionIsThatOfTheProcessor) { compare_all<float>(20000); }

TEST(Rounding, DoublePrecisionIsThatOfTheProcessor) { compare_all<double>(10000); }

TEST(Rounding, ModifiersOfSinglePrecision) {
  const float tiny = 0x1p-130f;
  const float normal = 0x1p-126f;
  EXPECT_EQ(float_add(tiny, tiny), 0x1p-129f);
  EXPECT_EQ(float_add<ArithmeticOptions{.ftz = true}>(normal, -tiny), normal);
  EXPECT_EQ(float_mul<ArithmeticOptions{.ftz = true}>(normal, 0.5f), 0.0f);
  const float negative_zero = float_mul<ArithmeticOptions{.ftz = true}>(normal, -0.5f);
  EXPECT_EQ(bits_of(negative_zero), 0x80000000u);
  constexpr ArithmeticOptions kSat{.sat = true};
  EXPECT_EQ(float_add<kSat>(0.75f, 0.75f), 1.0f);
  EXPECT_EQ(bits_of(float_add<kSat>(-0.75f, 0.25f)), 0u);
  EXPECT_EQ(float_add<kSat>(0.5f, 0.25f), 0.75f);
  EXPECT_EQ(bits_of(float_mul<kSat>(INFINITY, 0.0f)), 0u);
  EXPECT_EQ(float_mul<kSat>(INFINITY, 2.0f), 1.0f);
}

TEST(Rounding, NanResults) {
  const float payload = from_bits<float>(0xFF812345u);
  EXPECT_EQ(bits_of(float_add(payload, 1.0f)), 0x7FFFFFFFu);
  EXPECT_EQ(bits_of(float_sub(INFINITY, INFINITY)), 0x7FFFFFFFu);
  EXPECT_EQ(bits_of(float_sqrt(-1.0f)), 0x7FFFFFFFu);
  EXPECT_EQ(bits_of(float_fma<ArithmeticOptions{.rounding = Rounding::kUp}>(INFINITY, 0.0f, 1.0f)),
            0x7FFFFFFFu);
  const double payload64 = from_bits<double>(0x7FF8000000012345u);
  EXPECT_EQ(bits_of(float_add(payload64, 1.0)), 0x7FF8000000012345u);
}

TEST(Rounding, Reciprocal) {
  EXPECT_EQ(float_rcp<ArithmeticOptions{.rounding = Rounding::kZero}>(3.0f), 0x1.555554p-2f);
  EXPECT_EQ(float_rcp<ArithmeticOptions{.rounding = Rounding::kUp}>(3.0f), 0x1.555556p-2f);
  EXPECT_EQ(float_rcp(0x1p-127f), 0x1p127f);
  EXPECT_EQ(float_rcp<ArithmeticOptions{.ftz = true}>(0x1p-127f), INFINITY);
}

}  // namespace
}  // namespace mpfa::sim
