#include "sim/numerics/approximate.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kUpperHalf = 0xFFFFFFFF00000000;

// The operand that the .approx.ftz.f64 instructions see.
double upper_operand(double a) {
  return flush_subnormal(from_bits<double>(bits_of(a) & kUpperHalf));
}

// x to the nearest number with 20 mantissa bits. A carry goes into the exponent, as it should.
double upper_result(double x) {
  if (is_nan(x)) return from_bits<double>(0x7FFFFFFF00000000);
  if (!is_finite(x)) return x;
  const uint64_t bits = bits_of(x);
  const uint64_t even = bits >> 32 & 1;
  return flush_subnormal(from_bits<double>((bits + 0x7FFFFFFF + even) & kUpperHalf));
}

}  // namespace

float sin_approx(float a, bool ftz) {
  const float x = ftz ? flush_subnormal(a) : a;
  const auto y = static_cast<float>(std::sin(double{x}));  // a NaN for infinities
  return canonical(ftz ? flush_subnormal(y) : y);
}

float cos_approx(float a, bool ftz) {
  // A subnormal operand gives 1 in any case.
  const auto y = static_cast<float>(std::cos(double{a}));
  return canonical(ftz ? flush_subnormal(y) : y);
}

float tanh_approx(float a) { return canonical(static_cast<float>(std::tanh(double{a}))); }

Fp16 tanh_approx(Fp16 a) {
  return narrowed<Fp16>(std::tanh(double{widened(a)}), Rounding::kNearestEven);
}

Bf16 tanh_approx(Bf16 a) {
  return narrowed<Bf16>(std::tanh(double{widened(a)}), Rounding::kNearestEven);
}

double rsqrt_approx(double a) { return 1.0 / std::sqrt(a); }

double rcp_approx_ftz(double a) { return upper_result(1.0 / upper_operand(a)); }

double rsqrt_approx_ftz(double a) { return upper_result(1.0 / std::sqrt(upper_operand(a))); }

}  // namespace mpfa::sim
