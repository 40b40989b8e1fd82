#include "sim/numerics/dot_add_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/numerics/exact.h"
#include "sim/numerics/rounding.h"

namespace mpfa::sim {
namespace {

constexpr uint32_t kF32Nan = 0x7FFFFFFF;
constexpr uint32_t kF32Infinity = 0x7F800000;
constexpr uint16_t kF16Nan = 0x7FFF;

// What is added: (-1)^negative * significand * 2^(exponent - fraction_bits).
struct Term {
  bool negative = false;
  uint64_t significand = 0;
  int exponent = 0;
  int fraction_bits = 0;
};

// What infinities and NaNs among the operands make of a sum.
struct Specials {
  bool nan = false;
  bool positive_infinity = false;
  bool negative_infinity = false;

  bool any() const { return nan || positive_infinity || negative_infinity; }

  void add(const DecodedFloat& x) {
    using Kind = DecodedFloat::Kind;
    if (x.kind == Kind::kNan) nan = true;
    if (x.kind == Kind::kInfinity) (x.negative ? negative_infinity : positive_infinity) = true;
  }

  void add_product(const DecodedFloat& x, const DecodedFloat& y) {
    using Kind = DecodedFloat::Kind;
    if (x.kind == Kind::kFinite && y.kind == Kind::kFinite) return;
    const bool x_is_zero = x.kind == Kind::kFinite && x.significand == 0;
    const bool y_is_zero = y.kind == Kind::kFinite && y.significand == 0;
    if (x.kind == Kind::kNan || y.kind == Kind::kNan || x_is_zero || y_is_zero) {
      nan = true;
    } else {
      (x.negative != y.negative ? negative_infinity : positive_infinity) = true;
    }
  }

  uint32_t result(AccumulatorType type) const {
    const bool f16 = type == AccumulatorType::kF16;
    if (nan || (positive_infinity && negative_infinity)) return f16 ? kF16Nan : kF32Nan;
    const FloatFormat format = f16 ? kF16 : kF32;
    const auto infinity = static_cast<uint32_t>(format.max_finite + 1);
    return infinity | (negative_infinity ? uint32_t{1} << format.sign_shift() : 0u);
  }
};

// A sum of truncated terms: units * 2^unit_exponent.
struct FixedPoint {
  bool negative = false;
  Uint128 units = 0;
  int unit_exponent = 0;
};

int bit_width(Uint128 x) {
  const auto high = static_cast<uint64_t>(x >> 64);
  return high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<uint64_t>(x));
}

// x * 2^by, truncated.
Uint128 shifted(Uint128 x, int by) {
  if (by >= 0) return x << by;
  return by > -128 ? x >> -by : 0;
}

// Rules 2 and 3.
FixedPoint fused_sum(const std::vector<Term>& terms, int fraction_bits) {
  int largest = terms.front().exponent;
  for (const Term& term : terms) largest = std::max(largest, term.exponent);
  Uint128 positive = 0;
  Uint128 negative = 0;
  for (const Term& term : terms) {
    const int shift = fraction_bits - term.fraction_bits + term.exponent - largest;
    (term.negative ? negative : positive) += shifted(term.significand, shift);
  }
  FixedPoint sum;
  sum.negative = negative > positive;
  sum.units = sum.negative ? negative - positive : positive - negative;
  sum.unit_exponent = largest - fraction_bits;
  return sum;
}

// The exponent of x in a format whose normal numbers begin at `smallest`.
int format_exponent(const FixedPoint& x, int smallest) {
  return std::max(bit_width(x.units) - 1 + x.unit_exponent, smallest);
}

// Rule 4, f32: `fraction_bits` are kept, 23 or fewer.
uint32_t truncate_to_f32(const FixedPoint& x, int fraction_bits) {
  constexpr int kSmallest = -126;
  if (x.units == 0) return 0;
  const uint32_t sign = x.negative ? 0x80000000u : 0u;
  const int exponent = format_exponent(x, kSmallest);
  if (exponent > 127) return sign | kF32Infinity;
  const int shift = x.unit_exponent - (exponent - fraction_bits);
  const auto kept = static_cast<uint32_t>(shifted(x.units, shift));
  if (kept == 0) return 0;
  // The leading bit of a normal number adds one to the exponent's field.
  const auto field = static_cast<uint32_t>(exponent - kSmallest);
  return sign | ((field << 23) + (kept << (23 - fraction_bits)));
}

// Rule 4, f16.
uint32_t round_to_f16(const FixedPoint& x) {
  constexpr int kSmallest = -14;
  if (x.units == 0) return 0;
  const uint32_t sign = x.negative ? 0x8000u : 0u;
  const int exponent = format_exponent(x, kSmallest);
  if (exponent > 15) return sign | 0x7C00u;
  const int shift = x.unit_exponent - (exponent - 10);
  auto kept = static_cast<uint32_t>(shifted(x.units, shift));
  if (shift < 0) {
    const Uint128 rest = x.units - shifted(kept, -shift);
    const Uint128 half = shifted(1, -shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  }
  if (kept == 0) return 0;
  // A carry out of the significand goes into the field, up to that of infinity.
  return sign | ((static_cast<uint32_t>(exponent - kSmallest) << 10) + kept);
}

uint32_t round_result(const DotAddModel& model, const FixedPoint& sum) {
  return model.accumulator == AccumulatorType::kF16
             ? round_to_f16(sum)
             : truncate_to_f32(sum, model.result_fraction_bits);
}

DecodedFloat decode_accumulator(AccumulatorType type, uint64_t c) {
  return decode_float(type == AccumulatorType::kF16 ? kF16 : kF32, static_cast<uint32_t>(c));
}

Term accumulator_term(AccumulatorType type, const DecodedFloat& c) {
  const int fraction_bits = type == AccumulatorType::kF16 ? 10 : 23;
  return {c.negative, c.significand, c.exponent, fraction_bits};
}

// Elements of one step, at the positions `k` of the operands.
struct Step {
  const DotAddModel& model;
  const DotOperands& operands;
  std::vector<size_t> k;

  DecodedFloat a(size_t i) const {
    return decode_element(model.a, static_cast<uint32_t>(operands.a[i]));
  }
  DecodedFloat b(size_t i) const {
    return decode_element(model.b, static_cast<uint32_t>(operands.b[i]));
  }
  bool has_scales() const { return model.scale != ScaleType::kNone; }
  DecodedFloat a_scale(size_t i) const {
    return decode_scale(model.scale, operands.a_scales[i / model.scale_block]);
  }
  DecodedFloat b_scale(size_t i) const {
    return decode_scale(model.scale, operands.b_scales[i / model.scale_block]);
  }
};

Specials specials_of(const Step& step, const DecodedFloat& c) {
  Specials specials;
  specials.add(c);
  for (const size_t i : step.k) {
    specials.add_product(step.a(i), step.b(i));
    if (!step.has_scales()) continue;
    specials.add(step.a_scale(i));
    specials.add(step.b_scale(i));
  }
  return specials;
}

// Rule 1. The exponents of ue8m0 scales join the product's.
Term product_term(const Step& step, size_t i) {
  const DecodedFloat a = step.a(i);
  const DecodedFloat b = step.b(i);
  Term term;
  term.negative = a.negative != b.negative;
  term.significand = uint64_t{a.significand} * b.significand;
  term.exponent = a.exponent + b.exponent;
  if (step.has_scales()) term.exponent += step.a_scale(i).exponent + step.b_scale(i).exponent;
  term.fraction_bits =
      format_of(step.model.a).mantissa_bits + format_of(step.model.b).mantissa_bits;
  return term;
}

// The sum of a group of e2m1 products from position `first` on, with its scales.
Term group_term(const Step& step, size_t first, size_t end) {
  // Products of e2m1 are multiples of 1/4.
  constexpr int kProductFractionBits = 2;
  int64_t sum = 0;
  for (size_t k = first; k < end; ++k) {
    const DecodedFloat a = step.a(k);
    const DecodedFloat b = step.b(k);
    if (a.significand == 0 || b.significand == 0) continue;
    const int64_t product = int64_t{a.significand} * b.significand << (a.exponent + b.exponent);
    sum += a.negative != b.negative ? -product : product;
  }
  const DecodedFloat a_scale = step.a_scale(first);
  const DecodedFloat b_scale = step.b_scale(first);
  Term term;
  term.negative = sum < 0;
  term.significand =
      static_cast<uint64_t>(sum < 0 ? -sum : sum) * a_scale.significand * b_scale.significand;
  term.exponent = a_scale.exponent + b_scale.exponent;
  term.fraction_bits = kProductFractionBits + 2 * scale_fraction_bits(step.model.scale);
  return term;
}

uint32_t fused_step(const Step& step, uint64_t c_bits) {
  const DotAddModel& model = step.model;
  const DecodedFloat c = decode_accumulator(model.accumulator, c_bits);
  const Specials specials = specials_of(step, c);
  if (specials.any()) return specials.result(model.accumulator);
  std::vector<Term> terms{accumulator_term(model.accumulator, c)};
  if (model.arithmetic == Arithmetic::kFusedGroupAdd) {
    for (size_t first = 0; first < step.k.size(); first += kScaledGroup) {
      const size_t end = std::min(first + kScaledGroup, step.k.size());
      terms.push_back(group_term(step, step.k[first], step.k[end - 1] + 1));
    }
  } else {
    for (const size_t i : step.k) terms.push_back(product_term(step, i));
  }
  return round_result(model, fused_sum(terms, model.fraction_bits));
}

// The positions of one step of [begin, end).
std::vector<size_t> range(size_t begin, size_t end) {
  std::vector<size_t> positions;
  for (size_t i = begin; i < end; ++i) positions.push_back(i);
  return positions;
}

uint64_t fused_chain(const DotAddModel& model, const DotOperands& operands, uint64_t c) {
  const size_t size = operands.a.size();
  for (size_t k = 0; k < size; k += model.step_k) {
    c = fused_step({model, operands, range(k, std::min(k + model.step_k, size))}, c);
  }
  return c;
}

// The ordinary sum, add.rn, of two accumulators.
uint32_t add_nearest(AccumulatorType type, uint64_t x, uint64_t y) {
  if (type == AccumulatorType::kF32) {
    const float sum = std::bit_cast<float>(static_cast<uint32_t>(x)) +
                      std::bit_cast<float>(static_cast<uint32_t>(y));
    return std::isnan(sum) ? kF32Nan : std::bit_cast<uint32_t>(sum);
  }
  const DecodedFloat a = decode_accumulator(type, x);
  const DecodedFloat b = decode_accumulator(type, y);
  Specials specials;
  specials.add(a);
  specials.add(b);
  if (specials.any()) return specials.result(type);
  // Only zeros of one sign keep it.
  if (a.significand == 0 && b.significand == 0) return a.negative && b.negative ? 0x8000u : 0u;
  // Enough fraction bits for the 40 between the largest f16 and the smallest.
  constexpr int kEnough = 60;
  const Term terms[] = {accumulator_term(type, a), accumulator_term(type, b)};
  std::vector<Term> non_zero;
  for (const Term& term : terms) {
    if (term.significand != 0) non_zero.push_back(term);
  }
  return round_to_f16(fused_sum(non_zero, kEnough));
}

uint64_t fp8_as_f16_chain(const DotAddModel& model, const DotOperands& operands, uint64_t c) {
  std::vector<uint64_t> a;
  std::vector<uint64_t> b;
  for (size_t k = 0; k < operands.a.size(); ++k) {
    a.push_back(f16_code_of_fp8(model.a, static_cast<uint8_t>(operands.a[k])));
    b.push_back(f16_code_of_fp8(model.b, static_cast<uint8_t>(operands.b[k])));
  }
  DotAddModel as_f16 = model;
  as_f16.a = ElementType::kF16;
  as_f16.b = ElementType::kF16;
  const DotOperands converted{a, b, {}, {}};
  for (size_t begin = 0; begin < a.size(); begin += model.step_k) {
    std::vector<size_t> first;
    std::vector<size_t> second;
    for (const size_t k : range(begin, std::min(begin + model.step_k, a.size()))) {
      (k % 4 < 2 ? first : second).push_back(k);
    }
    const uint32_t half = fused_step({as_f16, converted, first}, 0);
    const uint32_t whole = fused_step({as_f16, converted, second}, half);
    c = add_nearest(model.accumulator, whole, c);
  }
  return c;
}

// NaNs are those of a chain of fma.f64, as on an H200.
uint64_t sequential_fma(const DotOperands& operands, uint64_t c) {
  auto sum = std::bit_cast<double>(c);
  for (size_t k = 0; k < operands.a.size(); ++k) {
    sum = float_fma<>(std::bit_cast<double>(operands.a[k]), std::bit_cast<double>(operands.b[k]),
                      sum);
  }
  return std::bit_cast<uint64_t>(sum);
}

// ISA, section "mma": without .satfinite the accumulator wraps around.
uint32_t integer_sum(const DotAddModel& model, const DotOperands& operands, uint64_t c) {
  int64_t sum = static_cast<int32_t>(c);
  for (size_t k = 0; k < operands.a.size(); ++k) {
    const int64_t a = integer_value(model.a, static_cast<uint8_t>(operands.a[k]));
    const int64_t b = integer_value(model.b, static_cast<uint8_t>(operands.b[k]));
    sum += a * b;
  }
  if (model.saturate) {
    using Limits = std::numeric_limits<int32_t>;
    sum = std::clamp<int64_t>(sum, Limits::min(), Limits::max());
  }
  return static_cast<uint32_t>(sum);
}

uint32_t population_sum(const DotAddModel& model, const DotOperands& operands, uint64_t c) {
  auto sum = static_cast<uint32_t>(c);
  for (size_t i = 0; i < operands.a.size(); ++i) {
    const auto a = static_cast<uint32_t>(operands.a[i]);
    const auto b = static_cast<uint32_t>(operands.b[i]);
    sum += std::popcount(model.bit_operation == BitOperation::kXor ? a ^ b : a & b);
  }
  return sum;
}

}  // namespace

uint64_t dot_add_reference(const DotAddModel& model, const DotOperands& operands, uint64_t c) {
  MPFA_CHECK(operands.a.size() == operands.b.size(), "elements of a = ", operands.a.size(),
             ": must be those of b, ", operands.b.size());
  switch (model.arithmetic) {
    case Arithmetic::kFusedDotAdd:
    case Arithmetic::kFusedGroupAdd:
      return fused_chain(model, operands, c);
    case Arithmetic::kFp8AsF16:
      return fp8_as_f16_chain(model, operands, c);
    case Arithmetic::kSequentialFma:
      return sequential_fma(operands, c);
    case Arithmetic::kInteger:
      return integer_sum(model, operands, c);
    case Arithmetic::kPopulation:
      break;
  }
  return population_sum(model, operands, c);
}

}  // namespace mpfa::sim
