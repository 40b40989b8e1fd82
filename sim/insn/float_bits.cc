// copysign and testp: what looks at a float's bits (PTX ISA, section Floating Point Instructions).
#include <cstdint>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/machine/warp.h"
#include "sim/numerics/float_type.h"

namespace mpfa::sim {
namespace {

enum class FloatTest : uint8_t {
  kFinite,
  kInfinite,
  kNumber,
  kNotANumber,
  kNormal,
  kSubnormal,
};

// Zeros are normal.
template <class F>
bool holds(FloatTest test, F x) {
  const bool is_zero = magnitude_bits(x) == 0;
  const bool below_normal = magnitude_bits(x) < FloatType<F>::kMinNormal;
  switch (test) {
    case FloatTest::kFinite:
      return is_finite(x);
    case FloatTest::kInfinite:
      return !is_finite(x) && !is_nan(x);
    case FloatTest::kNumber:
      return !is_nan(x);
    case FloatTest::kNotANumber:
      return is_nan(x);
    case FloatTest::kNormal:
      return is_finite(x) && (is_zero || !below_normal);
    case FloatTest::kSubnormal:
      return below_normal && !is_zero;
  }
  return false;
}

template <class F>
Step test_float(Warp& w, const Insn& i) {
  const F* a = w.source<F>(i.a);
  uint32_t result = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    result |= static_cast<uint32_t>(holds(static_cast<FloatTest>(i.u8), a[lane])) << lane;
  }
  w.set_predicate(i.dst, result);
  return Step::kNext;
}

// The sign of a, the rest of b.
template <class F>
Step copy_sign(Warp& w, const Insn& i) {
  using Bits = BitsOf<F>;
  const Bits* a = w.source<Bits>(i.a);
  const Bits* b = w.source<Bits>(i.b);
  Bits* to = w.target<Bits>(i.dst);
  constexpr Bits kSign = FloatType<F>::kSign;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) != 0) to[lane] = (a[lane] & kSign) | (b[lane] & ~kSign);
  }
  return Step::kNext;
}

ScalarType take_f32_or_f64(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  if (type != ScalarType::kF32 && type != ScalarType::kF64) d.fail("the type is .f32 or .f64");
  d.expect_no_more();
  return type;
}

}  // namespace

void decode_testp(InsnDecoder& d) {
  const int test =
      d.take_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (test < 0) d.fail("the property to test is missing");
  const ScalarType type = take_f32_or_f64(d);
  const Slot a = d.source(1, type);
  const Slot p = d.predicate_target(d.operand(0));
  Insn& insn = d.emit(type == ScalarType::kF32 ? &test_float<float> : &test_float<double>);
  insn.dst = p;
  insn.a = a;
  insn.u8 = static_cast<uint8_t>(test);
}

void decode_copysign(InsnDecoder& d) {
  const ScalarType type = take_f32_or_f64(d);
  const Slot a = d.source(1, type);
  const Slot b = d.source(2, type);
  const Slot to = d.target(0, type);
  Insn& insn = d.emit(type == ScalarType::kF32 ? &copy_sign<float> : &copy_sign<double>);
  insn.dst = to;
  insn.a = a;
  insn.b = b;
}

}  // namespace mpfa::sim
