// f16 and bf16 arithmetic against exact sums and products, rounded once.
#include "sim/numerics/half.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "oracle.h"
#include "samples.h"

namespace mpfa::sim {
namespace {

template <class H>
constexpr oracle::Format kFormat = oracle::kHalf;
template <>
constexpr oracle::Format kFormat<Bf16> = oracle::kBfloat;

template <class H>
double value(H x) {
  const uint64_t magnitude = x.bits & 0x7FFFu;
  const double size = oracle::value_of(kFormat<H>, magnitude);
  return (x.bits & 0x8000u) != 0 ? -size : size;
}

template <class H>
bool finite(H x) {
  return (x.bits & 0x7FFFu) <= kFormat<H>.largest;
}

template <class H>
uint16_t rounded(const oracle::Wide& exact, bool negative_zero) {
  return static_cast<uint16_t>(
      oracle::rounded(kFormat<H>, exact, Rounding::kNearestEven, negative_zero));
}

template <class H>
struct Triple {
  H a, b, c;
};

template <class H>
std::vector<Triple<H>> triples() {
  std::vector<H> edges;
  for (const int bits : {0x0000, 0x0001, 0x0002, 0x007F, 0x0080, 0x03FF, 0x0400, 0x3C00, 0x3C01,
                         0x3F80, 0x3F81, 0x4000, 0x7BFF, 0x7BFE, 0x7F7F, 0x7F7E, 0x0100, 0x1400}) {
    edges.push_back({static_cast<uint16_t>(bits)});
    edges.push_back({static_cast<uint16_t>(bits | 0x8000)});
  }
  std::vector<Triple<H>> all;
  for (const H a : edges) {
    for (const H b : edges) {
      for (const H c : edges) all.push_back({a, b, c});
    }
  }
  std::mt19937 random(kSeed);
  const auto any = [&] { return H{static_cast<uint16_t>(random())}; };
  for (int i = 0; i < 20000; ++i) {
    const H a = any();
    const H b = any();
    all.push_back({a, b, any()});
    // c near the product, where it is in range.
    const double product = value(a) * value(b);
    const auto near = static_cast<float>(-product * (1.0 + (random() % 3) * 0x1p-9));
    all.push_back({a, b, narrowed<H>(near, Rounding::kZero)});
    // Results that are subnormal.
    all.push_back({H{static_cast<uint16_t>(a.bits & 0x9FFF)},
                   H{static_cast<uint16_t>(b.bits & 0xBFFF)},
                   H{static_cast<uint16_t>(random() & 0x81FF)}});
  }
  return all;
}

template <class H>
void compare_all() {
  for (const auto& [a, b, c] : triples<H>()) {
    if (!finite(a) || !finite(b) || !finite(c)) continue;
    const oracle::Wide x(value(a));
    const oracle::Wide y(value(b));
    const oracle::Wide z(value(c));
    const bool sign_a = (a.bits & 0x8000u) != 0;
    const bool sign_b = (b.bits & 0x8000u) != 0;
    const bool sign_c = (c.bits & 0x8000u) != 0;
    const oracle::Wide product = oracle::product(value(a), value(b));
    const bool product_sign = sign_a != sign_b;
    ASSERT_EQ(half_add(a, b).bits, rounded<H>(x + y, sign_a && sign_b)) << a.bits << " " << b.bits;
    ASSERT_EQ(half_sub(a, b).bits, rounded<H>(x - y, sign_a && !sign_b)) << a.bits << " " << b.bits;
    ASSERT_EQ(half_mul(a, b).bits, rounded<H>(product, product_sign)) << a.bits << " " << b.bits;
    // A sum that is not zero but rounds to it has its own sign.
    ASSERT_EQ(half_fma(a, b, c).bits, rounded<H>(product + z, product_sign && sign_c))
        << a.bits << " " << b.bits << " " << c.bits;
  }
}

TEST(Half, FiniteF16) { compare_all<Fp16>(); }

TEST(Half, FiniteBf16) { compare_all<Bf16>(); }

TEST(Half, OneRoundingOnly) {
  // (1 + 2^-4)(1 + 2^-4) = 1 + 2^-3 + 2^-8 is a tie of bf16, which the last term decides; rounded
  // to f32 first, it would be lost.
  const Bf16 a{0x3F88};
  const Bf16 tiny{0x0080};
  const Bf16 minus_tiny{0x8080};
  EXPECT_EQ(half_fma(a, a, Bf16{0}).bits, 0x3F90);
  EXPECT_EQ(half_fma(a, a, tiny).bits, 0x3F91);
  EXPECT_EQ(half_fma(a, a, minus_tiny).bits, 0x3F90);
}

TEST(Half, SpecialValues) {
  const Fp16 infinity{0x7C00};
  const Fp16 one{0x3C00};
  EXPECT_EQ(half_add(infinity, one), infinity);
  EXPECT_EQ(half_sub(infinity, infinity).bits, 0x7FFF);
  EXPECT_EQ(half_mul(infinity, Fp16{0x8000}).bits, 0x7FFF);
  EXPECT_EQ(half_fma(one, Fp16{0xFD00}, one).bits, 0x7FFF);
  EXPECT_EQ(half_add(Bf16{0xFF80}, Bf16{0x7F7F}).bits, 0xFF80);
  EXPECT_EQ(half_mul(Bf16{0x7FC1}, Bf16{0x3F80}).bits, 0x7FFF);
}

TEST(Half, Modifiers) {
  const Fp16 subnormal{0x0200};
  const Fp16 smallest{0x0400};
  const Fp16 minus_one{0xBC00};
  const Fp16 half{0x3800};
  constexpr ArithmeticOptions kFtz{.ftz = true};
  constexpr ArithmeticOptions kSat{.sat = true};
  constexpr ArithmeticOptions kRelu{.relu = true};
  EXPECT_EQ(half_add<kFtz>(subnormal, smallest), smallest);
  EXPECT_EQ(half_mul<kFtz>(smallest, half).bits, 0);
  EXPECT_EQ((half_mul<kFtz>(smallest, Fp16{0xB800}).bits), 0x8000);
  EXPECT_EQ(half_mul(smallest, half), subnormal);
  EXPECT_EQ(half_add<kSat>(minus_one, half).bits, 0);
  EXPECT_EQ(half_add<kSat>(Fp16{0x3C00}, half).bits, 0x3C00);
  EXPECT_EQ(half_fma<kSat>(Fp16{0x7C01}, half, half).bits, 0);
  EXPECT_EQ(half_fma<kRelu>(minus_one, half, Fp16{0}).bits, 0);
  EXPECT_EQ(half_fma<kRelu>(half, half, half).bits, 0x3A00);
  EXPECT_EQ(half_fma<kRelu>(Bf16{0xFFC0}, Bf16{0x3F80}, Bf16{0}).bits, 0x7FFF);
}

}  // namespace
}  // namespace mpfa::sim
