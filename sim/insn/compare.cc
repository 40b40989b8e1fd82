// Comparisons and selections.
#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/compare.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "sim/insn/bits.h"
#include "sim/insn/compare.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/half-inl.h"
#include "sim/insn/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

// How the comparison's result joins the third operand: setp.lt.and.
HWY_INLINE uint32_t combine(Warp& w, const Insn& i, uint32_t bits) {
  switch (static_cast<BoolOp>(i.u8)) {
    case BoolOp::kAnd:
      return bits & w.predicate(i.c);
    case BoolOp::kOr:
      return bits | w.predicate(i.c);
    case BoolOp::kXor:
      return bits ^ w.predicate(i.c);
    default:
      return bits;
  }
}

// p = (a < b) op c; q, if imm is a slot, = !(a < b) op c.
HWY_INLINE void store_comparison(Warp& w, const Insn& i, uint32_t bits) {
  const uint32_t p = combine(w, i, bits);
  const uint32_t q = i.imm >= 0 ? combine(w, i, ~bits) : 0;
  w.set_predicate(i.dst, p);
  if (i.imm >= 0) w.set_predicate(static_cast<Slot>(i.imm), q);
}

// Whether either is NaN.
template <class T>
HWY_INLINE bool are_unordered(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::isunordered(a, b);
  return false;
}

template <Comparison kOp, class T>
HWY_INLINE bool compare(T a, T b) {
  switch (kOp) {
    case Comparison::kEq:
      return a == b;
    case Comparison::kNe:
      // Of floats: false if either is NaN.
      if constexpr (std::is_floating_point_v<T>) return a < b || a > b;
      return a != b;
    case Comparison::kLt:
      return a < b;
    case Comparison::kLe:
      return a <= b;
    case Comparison::kGt:
      return a > b;
    case Comparison::kGe:
      return a >= b;
    // Unordered: true if either is NaN.
    case Comparison::kEqu:
      return !(a < b || a > b);
    case Comparison::kNeu:
      return !(a == b);
    case Comparison::kLtu:
      return !(a >= b);
    case Comparison::kLeu:
      return !(a > b);
    case Comparison::kGtu:
      return !(a <= b);
    case Comparison::kGeu:
      return !(a < b);
    case Comparison::kNum:
      return !are_unordered(a, b);
    case Comparison::kNan:
      return are_unordered(a, b);
  }
  return false;
}

struct AsIs {
  template <class T>
  static T run(T a) {
    return a;
  }
};
// Subnormal FP32 operands count as zeros of their sign.
struct Flushed {
  static float run(float a) { return std::fabs(a) < 0x1p-126f ? std::copysign(0.0f, a) : a; }
};
struct HalfValue {
  static float run(uint16_t a) { return f16_value(a); }
};
struct FlushedHalfValue {
  static float run(uint16_t a) {
    return f16_value((a & 0x7C00u) != 0 ? a : static_cast<uint16_t>(a & 0x8000u));
  }
};
struct Bf16Value {
  static float run(uint16_t a) { return bf16_value(a); }
};

template <Comparison kOp, class T, class Value>
Step compare_lanes(Warp& w, const Insn& i) {
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  const uint32_t bits = predicate_lanes(
      [=](int lane) HWY_ATTR { return compare<kOp>(Value::run(a[lane]), Value::run(b[lane])); });
  store_comparison(w, i, bits);
  return Step::kNext;
}

// f16x2: p is of the low halves, q of the high ones.
template <Comparison kOp, class Value>
Step compare_halves(Warp& w, const Insn& i) {
  const uint32_t* a = w.source<uint32_t>(i.a);
  const uint32_t* b = w.source<uint32_t>(i.b);
  const uint32_t low = predicate_lanes([=](int lane) HWY_ATTR {
    return compare<kOp>(Value::run(static_cast<uint16_t>(a[lane])),
                        Value::run(static_cast<uint16_t>(b[lane])));
  });
  const uint32_t high = predicate_lanes([=](int lane) HWY_ATTR {
    return compare<kOp>(Value::run(static_cast<uint16_t>(a[lane] >> 16)),
                        Value::run(static_cast<uint16_t>(b[lane] >> 16)));
  });
  const uint32_t p = combine(w, i, low);
  const uint32_t q = combine(w, i, high);
  w.set_predicate(i.dst, p);
  if (i.imm >= 0) w.set_predicate(static_cast<Slot>(i.imm), q);
  return Step::kNext;
}

template <class T, class Value = AsIs>
Handler integer_comparison(Comparison op) {
  switch (op) {
    case Comparison::kEq:
      return &compare_lanes<Comparison::kEq, T, Value>;
    case Comparison::kNe:
      return &compare_lanes<Comparison::kNe, T, Value>;
    case Comparison::kLt:
      return &compare_lanes<Comparison::kLt, T, Value>;
    case Comparison::kLe:
      return &compare_lanes<Comparison::kLe, T, Value>;
    case Comparison::kGt:
      return &compare_lanes<Comparison::kGt, T, Value>;
    case Comparison::kGe:
      return &compare_lanes<Comparison::kGe, T, Value>;
    default:
      return nullptr;
  }
}

template <class T, class Value>
Handler float_comparison(Comparison op) {
  switch (op) {
    case Comparison::kEqu:
      return &compare_lanes<Comparison::kEqu, T, Value>;
    case Comparison::kNeu:
      return &compare_lanes<Comparison::kNeu, T, Value>;
    case Comparison::kLtu:
      return &compare_lanes<Comparison::kLtu, T, Value>;
    case Comparison::kLeu:
      return &compare_lanes<Comparison::kLeu, T, Value>;
    case Comparison::kGtu:
      return &compare_lanes<Comparison::kGtu, T, Value>;
    case Comparison::kGeu:
      return &compare_lanes<Comparison::kGeu, T, Value>;
    case Comparison::kNum:
      return &compare_lanes<Comparison::kNum, T, Value>;
    case Comparison::kNan:
      return &compare_lanes<Comparison::kNan, T, Value>;
    default:
      return integer_comparison<T, Value>(op);
  }
}

template <class Value>
Handler halves_comparison(Comparison op) {
  static constexpr std::array kHandlers = {
      &compare_halves<Comparison::kEq, Value>,  &compare_halves<Comparison::kNe, Value>,
      &compare_halves<Comparison::kLt, Value>,  &compare_halves<Comparison::kLe, Value>,
      &compare_halves<Comparison::kGt, Value>,  &compare_halves<Comparison::kGe, Value>,
      &compare_halves<Comparison::kEqu, Value>, &compare_halves<Comparison::kNeu, Value>,
      &compare_halves<Comparison::kLtu, Value>, &compare_halves<Comparison::kLeu, Value>,
      &compare_halves<Comparison::kGtu, Value>, &compare_halves<Comparison::kGeu, Value>,
      &compare_halves<Comparison::kNum, Value>, &compare_halves<Comparison::kNan, Value>};
  return kHandlers[static_cast<size_t>(op)];
}

// d = p ? a : b.
template <class T>
Step select_lanes(Warp& w, const Insn& i) {
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  const uint32_t p = w.predicate(i.c);
  store_lanes(w.target<T>(i.dst), w.mask,
              [=](int lane) HWY_ATTR { return (p >> lane & 1u) != 0 ? a[lane] : b[lane]; });
  return Step::kNext;
}

// d = c >= 0 ? a : b; -0 is no less than 0.
template <class T, class C, class Value = AsIs>
Step select_by_sign(Warp& w, const Insn& i) {
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  const C* c = w.source<C>(i.c);
  store_lanes(w.target<T>(i.dst), w.mask,
              [=](int lane) HWY_ATTR { return Value::run(c[lane]) >= C{0} ? a[lane] : b[lane]; });
  return Step::kNext;
}

}  // namespace

Handler comparison_handler(Comparison op, ScalarType type, bool ftz) {
  switch (type) {
    case ScalarType::kB16:
    case ScalarType::kU16:
      return integer_comparison<uint16_t>(op);
    case ScalarType::kS16:
      return integer_comparison<int16_t>(op);
    case ScalarType::kB32:
    case ScalarType::kU32:
      return integer_comparison<uint32_t>(op);
    case ScalarType::kS32:
      return integer_comparison<int32_t>(op);
    case ScalarType::kB64:
    case ScalarType::kU64:
      return integer_comparison<uint64_t>(op);
    case ScalarType::kS64:
      return integer_comparison<int64_t>(op);
    case ScalarType::kF32:
      return ftz ? float_comparison<float, Flushed>(op) : float_comparison<float, AsIs>(op);
    case ScalarType::kF64:
      return float_comparison<double, AsIs>(op);
    case ScalarType::kF16:
      return ftz ? float_comparison<uint16_t, FlushedHalfValue>(op)
                 : float_comparison<uint16_t, HalfValue>(op);
    case ScalarType::kBf16:
      return float_comparison<uint16_t, Bf16Value>(op);
    case ScalarType::kF16x2:
      return ftz ? halves_comparison<FlushedHalfValue>(op) : halves_comparison<HalfValue>(op);
    case ScalarType::kBf16x2:
      return halves_comparison<Bf16Value>(op);
    default:
      return nullptr;
  }
}

Handler select_handler(int bits) {
  return bits == 16   ? &select_lanes<uint16_t>
         : bits == 32 ? &select_lanes<uint32_t>
                      : &select_lanes<uint64_t>;
}

template <class T>
Handler select_by_sign_of(bool by_float, bool ftz) {
  if (!by_float) return &select_by_sign<T, int32_t>;
  return ftz ? &select_by_sign<T, float, Flushed> : &select_by_sign<T, float>;
}

Handler select_by_sign_handler(int bits, bool by_float, bool ftz) {
  return bits == 16   ? select_by_sign_of<uint16_t>(by_float, ftz)
         : bits == 32 ? select_by_sign_of<uint32_t>(by_float, ftz)
                      : select_by_sign_of<uint64_t>(by_float, ftz);
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(comparison_handler);
HWY_EXPORT(select_handler);
HWY_EXPORT(select_by_sign_handler);

namespace {

struct Compared {
  Comparison op = Comparison::kEq;
  BoolOp join = BoolOp::kNone;
  bool ftz = false;
};

Comparison take_comparison(InsnDecoder& d, ScalarType type) {
  const int at = d.take_one({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu",
                             "geu", "num", "nan", "lo", "ls", "hi", "hs"});
  if (at < 0) d.fail("the comparison is missing");
  // lo, ls, hi, hs: the unsigned ones, whatever the type's name.
  static constexpr std::array kUnsigned = {Comparison::kLt, Comparison::kLe, Comparison::kGt,
                                           Comparison::kGe};
  constexpr int kFirstUnsigned = 14;
  if (at >= kFirstUnsigned && is_signed(type)) d.fail("an unsigned comparison of a signed type");
  return at >= kFirstUnsigned ? kUnsigned[static_cast<size_t>(at - kFirstUnsigned)]
                              : static_cast<Comparison>(at);
}

Compared take_compared(InsnDecoder& d, ScalarType type) {
  Compared result;
  result.ftz = d.take("ftz");
  result.join = static_cast<BoolOp>(1 + d.take_one({"and", "or", "xor"}));
  result.op = take_comparison(d, type);
  d.expect_no_more();
  return result;
}

// Compares operands 1 and 2 (and joins operand 3) into predicates p and q (kNoSlot: none).
void emit_comparison(InsnDecoder& d, const Compared& compared, ScalarType type, Slot p, Slot q) {
  const Handler handler = HWY_DYNAMIC_DISPATCH(comparison_handler)(compared.op, type, compared.ftz);
  if (handler == nullptr) {
    d.fail("this comparison of ." + std::string(name_of(type)) + " does not exist");
  }
  const Slot a = d.source(1, type);
  const Slot b = d.source(2, type);
  const Slot c = compared.join == BoolOp::kNone ? kNoSlot : d.predicate(d.operand(3));
  Insn& insn = d.emit(handler);
  insn.dst = p;
  insn.a = a;
  insn.b = b;
  insn.c = c;
  insn.u8 = static_cast<uint8_t>(compared.join);
  insn.imm = q == kNoSlot ? -1 : static_cast<int64_t>(q);
}

// The bits of "true" in set's result.
uint64_t true_value(InsnDecoder& d, ScalarType type) {
  switch (type) {
    case ScalarType::kU16:
    case ScalarType::kS16:
    case ScalarType::kU32:
    case ScalarType::kS32:
    case ScalarType::kB32:
      return ~uint64_t{0};
    case ScalarType::kF32:
      return std::bit_cast<uint32_t>(1.0f);
    case ScalarType::kF16:
    case ScalarType::kF16x2:
      return 0x3C00;
    case ScalarType::kBf16:
    case ScalarType::kBf16x2:
      return 0x3F80;
    default:
      d.fail("set does not give ." + std::string(name_of(type)));
  }
}

void emit_selection(InsnDecoder& d, int bits, Slot to, Slot a, Slot b, Slot p) {
  Insn& insn = d.emit(HWY_DYNAMIC_DISPATCH(select_handler)(bits));
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = p;
}

bool is_pair_type(ScalarType type) {
  return type == ScalarType::kF16x2 || type == ScalarType::kBf16x2;
}

// Both halves of a pair: where p and q hold, and the value of each half.
void emit_pair_selection(InsnDecoder& d, Slot to, uint64_t low, uint64_t high, Slot p, Slot q) {
  const Slot with_low = d.scratch(32);
  emit_selection(d, 32, with_low, d.constant(low, 32), d.constant(0, 32), p);
  const Slot with_both = d.scratch(32);
  emit_selection(d, 32, with_both, d.constant(low | high, 32), d.constant(high, 32), p);
  emit_selection(d, 32, to, with_both, with_low, q);
}

}  // namespace

void emit_not_zero(InsnDecoder& d, Slot predicate, Slot word) {
  Insn& insn =
      d.emit(HWY_DYNAMIC_DISPATCH(comparison_handler)(Comparison::kNe, ScalarType::kB32, false));
  insn.dst = predicate;
  insn.a = word;
  insn.b = d.constant(0, 32);
  insn.imm = -1;
}

void decode_setp(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  const Compared compared = take_compared(d, type);
  const Operand& result = d.operand(0);
  const bool is_pair = result.kind == OperandKind::kPair;
  const Slot p = d.predicate_target(is_pair ? result.parts[0] : result);
  const Slot q = is_pair ? d.predicate_target(result.parts[1]) : kNoSlot;
  emit_comparison(d, compared, type, p, q);
}

void decode_set(InsnDecoder& d) {
  const ScalarType result = d.expect_type();
  const ScalarType type = d.expect_type();
  const Compared compared = take_compared(d, type);
  const Slot p = d.scratch(1);
  const Slot q = is_pair_type(type) ? d.scratch(1) : kNoSlot;
  emit_comparison(d, compared, type, p, q);
  const uint64_t yes = true_value(d, result);
  const Slot to = d.target(0, result);
  const int bits = bits_of(result);
  if (q != kNoSlot) {
    const uint64_t half = yes & 0xFFFFu;
    return emit_pair_selection(d, to, half, half << 16, p, q);
  }
  emit_selection(d, bits, to, d.constant(yes, bits), d.constant(0, bits), p);
}

void decode_selp(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  d.expect_no_more();
  const Slot a = d.source(1, type);
  const Slot b = d.source(2, type);
  const Slot p = d.predicate(d.operand(3));
  emit_selection(d, bits_of(type), d.target(0, type), a, b, p);
}

void decode_slct(InsnDecoder& d) {
  const bool ftz = d.take("ftz");
  const ScalarType type = d.expect_type();
  const ScalarType by = d.expect_type();
  d.expect_no_more();
  const Slot a = d.source(1, type);
  const Slot b = d.source(2, type);
  const Slot c = d.source(3, by);
  const Slot to = d.target(0, type);
  Insn& insn = d.emit(
      HWY_DYNAMIC_DISPATCH(select_by_sign_handler)(bits_of(type), by == ScalarType::kF32, ftz));
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = c;
}

}  // namespace mpfa::sim
#endif  // HWY_ONCE
