#include "sim/tensor_map/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "expect_error.h"

namespace mpfa::sim {
namespace {

template <typename T>
T reduced(ReduceOp op, TensorMapType type, T destination, T source) {
  // Two elements, so that more than the first is looked at.
  T a[] = {destination, destination};
  const T b[] = {source, source};
  reduce(op, type, std::as_writable_bytes(std::span(a)), std::as_bytes(std::span(b)));
  EXPECT_EQ(a[0], a[1]);
  return a[0];
}

template <typename T>
std::vector<T> integers() {
  using Limits = std::numeric_limits<T>;
  return {T{0},
          T{1},
          T{2},
          T{99},
          T{100},
          Limits::max(),
          Limits::max() - 1,
          Limits::min(),
          static_cast<T>(Limits::min() + 1),
          static_cast<T>(0x123456789ABCDEF)};
}

template <typename T>
void check_integers(TensorMapType type) {
  for (const T a : integers<T>()) {
    for (const T b : integers<T>()) {
      if (has_reduction(ReduceOp::kAdd, type)) {
        // Modulo 2^bits, by 128-bit arithmetic.
        const T sum = static_cast<T>(static_cast<__int128>(a) + static_cast<__int128>(b));
        EXPECT_EQ(reduced(ReduceOp::kAdd, type, a, b), sum);
      }
      EXPECT_EQ(reduced(ReduceOp::kMin, type, a, b), std::min(a, b));
      EXPECT_EQ(reduced(ReduceOp::kMax, type, a, b), std::max(a, b));
      if (!has_reduction(ReduceOp::kAnd, type)) continue;
      T bits_and = 0, bits_or = 0, bits_xor = 0;
      for (int i = 0; i < static_cast<int>(sizeof(T)) * 8; ++i) {
        const T bit = static_cast<T>(T{1} << i);
        const bool in_a = (a & bit) != 0, in_b = (b & bit) != 0;
        if (in_a && in_b) bits_and |= bit;
        if (in_a || in_b) bits_or |= bit;
        if (in_a != in_b) bits_xor |= bit;
      }
      EXPECT_EQ(reduced(ReduceOp::kAnd, type, a, b), bits_and);
      EXPECT_EQ(reduced(ReduceOp::kOr, type, a, b), bits_or);
      EXPECT_EQ(reduced(ReduceOp::kXor, type, a, b), bits_xor);
    }
  }
}

TEST(Reduce, Integers) {
  check_integers<uint32_t>(TensorMapType::kU32);
  check_integers<int32_t>(TensorMapType::kS32);
  check_integers<uint64_t>(TensorMapType::kU64);
  check_integers<int64_t>(TensorMapType::kS64);
}

// atom.inc: (old >= b) ? 0 : old + 1; atom.dec: (old == 0 || old > b) ? b : old - 1.
TEST(Reduce, IncAndDec) {
  const auto inc = [](uint32_t a, uint32_t b) {
    return reduced(ReduceOp::kInc, TensorMapType::kU32, a, b);
  };
  const auto dec = [](uint32_t a, uint32_t b) {
    return reduced(ReduceOp::kDec, TensorMapType::kU32, a, b);
  };
  EXPECT_EQ(inc(0, 3), 1u);
  EXPECT_EQ(inc(2, 3), 3u);
  EXPECT_EQ(inc(3, 3), 0u);
  EXPECT_EQ(inc(4, 3), 0u);
  EXPECT_EQ(inc(UINT32_MAX, UINT32_MAX), 0u);
  EXPECT_EQ(dec(0, 3), 3u);
  EXPECT_EQ(dec(1, 3), 0u);
  EXPECT_EQ(dec(3, 3), 2u);
  EXPECT_EQ(dec(4, 3), 3u);
}

// The value of a 16-bit float with `mantissa` bits.
double value16(uint16_t bits, int mantissa) {
  const int exponent_bits = 15 - mantissa;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa & ((1 << exponent_bits) - 1);
  const double fraction = bits & ((1 << mantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

bool is_finite16(uint16_t bits, int mantissa) {
  return (bits & 0x7FFF) >> mantissa != (1 << (15 - mantissa)) - 1;
}

// The sum is the nearest representable one, ties to even mantissas: no neighbour is nearer.
void check_sum16(TensorMapType type, int mantissa) {
  std::mt19937 random(3);
  const uint16_t infinity = static_cast<uint16_t>(((1 << (15 - mantissa)) - 1) << mantissa);
  for (int n = 0; n < 200000; ++n) {
    const auto a = static_cast<uint16_t>(random());
    const auto b =
        n % 3 == 0 ? static_cast<uint16_t>(a + random() % 512) : static_cast<uint16_t>(random());
    if (!is_finite16(a, mantissa) || !is_finite16(b, mantissa)) continue;
    const uint16_t sum = reduced(ReduceOp::kAdd, type, a, b);
    const double exact = value16(a, mantissa) + value16(b, mantissa);
    if ((sum & 0x7FFF) == infinity) {
      // Beyond the largest finite value by half a step or more.
      const double last = value16(infinity - 1, mantissa);
      const double step = last - value16(infinity - 2, mantissa);
      EXPECT_GE(std::abs(exact), last + step / 2);
      continue;
    }
    const double error = std::abs(value16(sum, mantissa) - exact);
    for (const int by : {-1, 1}) {
      const auto neighbour = static_cast<uint16_t>(sum + by);
      if ((sum & 0x7FFF) == 0 && by < 0) continue;
      if (!is_finite16(neighbour, mantissa)) continue;
      const double other = std::abs(value16(neighbour, mantissa) - exact);
      EXPECT_TRUE(error < other || (error == other && sum % 2 == 0))
          << name_of(type) << " " << a << " + " << b;
    }
  }
}

TEST(Reduce, SumsOf16BitFloats) {
  check_sum16(TensorMapType::kF16, 10);
  check_sum16(TensorMapType::kBf16, 7);
}

// What an H200 gives.
TEST(Reduce, SpecialSumsOf16BitFloats) {
  const auto f16 = [](uint16_t a, uint16_t b) {
    return reduced(ReduceOp::kAdd, TensorMapType::kF16, a, b);
  };
  EXPECT_EQ(f16(0x7C00, 0xFC00), 0x7FFF);  // inf - inf
  EXPECT_EQ(f16(0xFE55, 0x3C00), 0x7FFF);
  EXPECT_EQ(f16(0x7C00, 0x7BFF), 0x7C00);
  EXPECT_EQ(f16(0x8000, 0x8000), 0x8000);
  EXPECT_EQ(f16(0x8000, 0x0000), 0x0000);
  EXPECT_EQ(f16(0x0001, 0x0001), 0x0002);  // subnormals stay
  const auto bf16 = [](uint16_t a, uint16_t b) {
    return reduced(ReduceOp::kAdd, TensorMapType::kBf16, a, b);
  };
  EXPECT_EQ(bf16(0x7F80, 0xFF80), 0x7FFF);
  EXPECT_EQ(bf16(0x3F80, 0xFFC5), 0x7FFF);
  EXPECT_EQ(bf16(0x0001, 0x0001), 0x0002);
  EXPECT_EQ(bf16(0x7F7F, 0x7F7F), 0x7F80);
}

TEST(Reduce, MinAndMaxOf16BitFloats) {
  struct Format {
    TensorMapType type;
    int mantissa;
    uint16_t infinity;
  };
  for (const Format& format :
       {Format{TensorMapType::kF16, 10, 0x7C00}, Format{TensorMapType::kBf16, 7, 0x7F80}}) {
    const auto min = [&](uint16_t a, uint16_t b) {
      return reduced(ReduceOp::kMin, format.type, a, b);
    };
    const auto max = [&](uint16_t a, uint16_t b) {
      return reduced(ReduceOp::kMax, format.type, a, b);
    };
    std::mt19937 random(4);
    for (int n = 0; n < 50000; ++n) {
      const auto a = static_cast<uint16_t>(random());
      const auto b = static_cast<uint16_t>(random());
      if (!is_finite16(a, format.mantissa) || !is_finite16(b, format.mantissa)) continue;
      const bool a_less = value16(a, format.mantissa) < value16(b, format.mantissa);
      EXPECT_EQ(min(a, b), a_less ? a : b);
      EXPECT_EQ(max(a, b), a_less ? b : a);
    }
    const uint16_t inf = format.infinity;
    const auto nan = static_cast<uint16_t>(inf + 1);
    const auto other_nan = static_cast<uint16_t>(0x8000 | (inf + 5));
    EXPECT_EQ(min(0x8000, 0x0000), 0x8000);
    EXPECT_EQ(min(0x0000, 0x8000), 0x8000);
    EXPECT_EQ(max(0x8000, 0x0000), 0x0000);
    EXPECT_EQ(max(0x0000, 0x8000), 0x0000);
    EXPECT_EQ(min(inf, 1), 1);
    EXPECT_EQ(max(0x8000 | inf, 1), 1);
    EXPECT_EQ(min(nan, 5), 5);
    EXPECT_EQ(max(5, nan), 5);
    EXPECT_EQ(max(nan, other_nan), 0x7FFF);
  }
}

TEST(Reduce, SumsOfFloats) {
  const auto f32 = [](uint32_t a, uint32_t b) {
    return reduced(ReduceOp::kAdd, TensorMapType::kF32, a, b);
  };
  const auto ftz = [](uint32_t a, uint32_t b) {
    return reduced(ReduceOp::kAdd, TensorMapType::kF32Ftz, a, b);
  };
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  EXPECT_EQ(f32(bits(1.5f), bits(-0.25f)), bits(1.25f));
  EXPECT_EQ(f32(bits(16777216.0f), bits(1.0f)), bits(16777216.0f));
  EXPECT_EQ(f32(bits(16777216.0f), bits(3.0f)), bits(16777220.0f));
  EXPECT_EQ(f32(1, 1), 2u);
  EXPECT_EQ(f32(0x80000001, 0x80000001), 0x80000002u);
  EXPECT_EQ(f32(0x7F800000, 0xFF800000), 0x7FFFFFFFu);
  EXPECT_EQ(f32(0xFFC12345, 0), 0x7FFFFFFFu);
  EXPECT_EQ(ftz(bits(1.5f), bits(-0.25f)), bits(1.25f));
  EXPECT_EQ(ftz(1, 1), 0u);
  EXPECT_EQ(ftz(0x80000001, 0x80000001), 0x80000000u);
  EXPECT_EQ(ftz(0x00900000, 0x80800000), 0u);  // a subnormal result
  EXPECT_EQ(ftz(0x80900000, 0x00800000), 0x80000000u);
  EXPECT_EQ(ftz(0x7F800001, 0), 0x7FFFFFFFu);
}

TEST(Reduce, SumsOfDoubles) {
  const auto f64 = [](uint64_t a, uint64_t b) {
    return reduced(ReduceOp::kAdd, TensorMapType::kF64, a, b);
  };
  EXPECT_EQ(f64(std::bit_cast<uint64_t>(0.1), std::bit_cast<uint64_t>(0.2)),
            std::bit_cast<uint64_t>(0.1 + 0.2));
  EXPECT_EQ(f64(1, 1), 2u);
  // What an H200 gives for NaNs.
  constexpr uint64_t kSignalling = 0x7FF0000000000001;
  constexpr uint64_t kQuiet = 0xFFF8000000012345;
  EXPECT_EQ(f64(kSignalling, 0), kSignalling);
  EXPECT_EQ(f64(0, kSignalling), kSignalling);
  EXPECT_EQ(f64(kSignalling, kQuiet), kQuiet);
  EXPECT_EQ(f64(kQuiet, kSignalling), kSignalling);
  EXPECT_EQ(f64(0x7FF0000000000000, 0xFFF0000000000000), 0xFFF8000000000000);
}

TEST(Reduce, CombinationsOfTheIsa) {
  // By type, the operations: add, min, max, inc, dec, and, or, xor.
  const std::pair<TensorMapType, const char*> expected[] = {
      {TensorMapType::kU8, "00000000"},     {TensorMapType::kU16, "00000000"},
      {TensorMapType::kU32, "11111111"},    {TensorMapType::kS32, "11100111"},
      {TensorMapType::kU64, "11100111"},    {TensorMapType::kS64, "01100000"},
      {TensorMapType::kF16, "11100000"},    {TensorMapType::kF32, "10000000"},
      {TensorMapType::kF32Ftz, "10000000"}, {TensorMapType::kF64, "10000000"},
      {TensorMapType::kBf16, "11100000"},   {TensorMapType::kTf32, "00000000"},
      {TensorMapType::kB4x16, "00000000"}};
  for (const auto& [type, operations] : expected) {
    for (int i = 0; i < 8; ++i) {
      const auto op = static_cast<ReduceOp>(i);
      EXPECT_EQ(has_reduction(op, type), operations[i] == '1') << name_of(type) << name_of(op);
    }
  }
  uint64_t value[] = {0};
  expect_error<TensorMapError>(
      [&] {
        reduce(ReduceOp::kMin, TensorMapType::kF32, std::as_writable_bytes(std::span(value)),
               std::as_bytes(std::span(value)));
      },
      "tensor reduction: .min of type f32: the PTX ISA has no such combination");
}

}  // namespace
}  // namespace mpfa::sim
