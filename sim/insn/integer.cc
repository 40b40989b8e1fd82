// Integer arithmetic beyond what bits.cc has: products, quotients, carries, dot products.
#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/integer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sim/insn/arithmetic.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/function_decoder.h"
#include "sim/insn/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

// Arithmetic wraps: done on unsigned values.
template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wider = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

struct Add {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Sub {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct MulLo {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct MulHi {
  template <class T>
  static T run(T a, T b) {
    const auto product = static_cast<Wider<T>>(static_cast<Wider<T>>(a) * static_cast<Wider<T>>(b));
    return static_cast<T>(product >> (8 * sizeof(T)));
  }
};
struct MulWide {
  template <class T>
  static Wider<T> run(T a, T b) {
    return static_cast<Wider<T>>(static_cast<Wider<T>>(a) * static_cast<Wider<T>>(b));
  }
};
struct MadLo {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(MulLo::run(a, b), c);
  }
};
struct MadHi {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(MulHi::run(a, b), c);
  }
};
struct MadWide {
  template <class T>
  static Wider<T> run(T a, T b, Wider<T> c) {
    return Add::run(MulWide::run(a, b), c);
  }
};
// .sat of s32.
inline int32_t clamp32(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}
struct AddSat {
  static int32_t run(int32_t a, int32_t b) { return clamp32(int64_t{a} + b); }
};
struct SubSat {
  static int32_t run(int32_t a, int32_t b) { return clamp32(int64_t{a} - b); }
};
struct MadHiSat {
  static int32_t run(int32_t a, int32_t b, int32_t c) {
    return clamp32(int64_t{MulHi::run(a, b)} + c);
  }
};
struct Sad {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(a < b ? Sub::run(b, a) : Sub::run(a, b), c);
  }
};
// A division by zero has all bits set, and so has its remainder: the ISA leaves both open, and this
// is what an H200 gives.
struct Div {
  template <class T>
  static T run(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub::run(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T run(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Abs {
  template <class T>
  static T run(T a) {
    return a < 0 ? Sub::run(T{0}, a) : a;
  }
};
struct Neg {
  template <class T>
  static T run(T a) {
    return Sub::run(T{0}, a);
  }
};
struct Min {
  template <class T>
  static T run(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T run(T a, T b) {
    return a < b ? b : a;
  }
};
template <class Op>
struct Relu {
  template <class T>
  static T run(T a, T b) {
    return Max::run(Op::run(a, b), T{0});
  }
};
// Op on each half of a 32-bit register.
template <class Op, class Half>
struct Halves {
  static uint32_t run(uint32_t a, uint32_t b) {
    const auto low = static_cast<uint16_t>(
        Op::run(static_cast<Half>(a & 0xFFFFu), static_cast<Half>(b & 0xFFFFu)));
    const auto high =
        static_cast<uint16_t>(Op::run(static_cast<Half>(a >> 16), static_cast<Half>(b >> 16)));
    return uint32_t{high} << 16 | low;
  }
};
template <class T>
T low24(T a) {
  return static_cast<T>(static_cast<T>(static_cast<uint32_t>(a) << 8) >> 8);
}
// The low and the high 32 of a 48-bit product.
struct Mul24Lo {
  template <class T>
  static T run(T a, T b) {
    return MulLo::run(low24(a), low24(b));
  }
};
struct Mul24Hi {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>((static_cast<Wider<T>>(low24(a)) * low24(b)) >> 16);
  }
};
struct Mad24Lo {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(Mul24Lo::run(a, b), c);
  }
};
struct Mad24Hi {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(Mul24Hi::run(a, b), c);
  }
};
struct Mad24HiSat {
  static int32_t run(int32_t a, int32_t b, int32_t c) {
    return clamp32(int64_t{Mul24Hi::run(a, b)} + c);
  }
};

// Byte i of a value, extended as its type says.
template <class T>
int64_t byte_of(T value, int i) {
  using Byte = std::conditional_t<std::is_signed_v<T>, int8_t, uint8_t>;
  return static_cast<Byte>(static_cast<uint32_t>(value) >> (8 * i) & 0xFFu);
}
template <class A, class B>
struct Dot4 {
  static uint32_t run(A a, B b, uint32_t c) {
    int64_t sum = c;
    for (int i = 0; i < 4; ++i) sum += byte_of(a, i) * byte_of(b, i);
    return static_cast<uint32_t>(sum);
  }
};
template <class A, class B, int kFirst>
struct Dot2 {
  static uint32_t run(A a, B b, uint32_t c) {
    using Half = std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>;
    int64_t sum = c;
    for (int i = 0; i < 2; ++i) {
      const auto half = static_cast<Half>(static_cast<uint32_t>(a) >> (16 * i) & 0xFFFFu);
      sum += int64_t{half} * byte_of(b, kFirst + i);
    }
    return static_cast<uint32_t>(sum);
  }
};

template <class Op>
Handler binary_of(ScalarType type) {
  switch (type) {
    case ScalarType::kU16:
      return &binary<Op, uint16_t>;
    case ScalarType::kS16:
      return &binary<Op, int16_t>;
    case ScalarType::kU32:
      return &binary<Op, uint32_t>;
    case ScalarType::kS32:
      return &binary<Op, int32_t>;
    case ScalarType::kU64:
      return &binary<Op, uint64_t>;
    case ScalarType::kS64:
      return &binary<Op, int64_t>;
    default:
      return nullptr;
  }
}

template <class Op>
Handler binary_or_halves_of(ScalarType type) {
  if (type == ScalarType::kU16x2) return &binary<Halves<Op, uint16_t>, uint32_t>;
  if (type == ScalarType::kS16x2) return &binary<Halves<Op, int16_t>, uint32_t>;
  return binary_of<Op>(type);
}

template <class Op>
Handler ternary_of(ScalarType type) {
  switch (type) {
    case ScalarType::kU16:
      return &ternary<Op, uint16_t>;
    case ScalarType::kS16:
      return &ternary<Op, int16_t>;
    case ScalarType::kU32:
      return &ternary<Op, uint32_t>;
    case ScalarType::kS32:
      return &ternary<Op, int32_t>;
    case ScalarType::kU64:
      return &ternary<Op, uint64_t>;
    case ScalarType::kS64:
      return &ternary<Op, int64_t>;
    default:
      return nullptr;
  }
}

template <class Op>
Handler words_of(ScalarType type) {
  return type == ScalarType::kU32   ? &binary<Op, uint32_t>
         : type == ScalarType::kS32 ? &binary<Op, int32_t>
                                    : nullptr;
}

Handler wide_of(ScalarType type, bool add) {
  switch (type) {
    case ScalarType::kU16:
      return add ? &ternary<MadWide, uint32_t, uint16_t> : &binary<MulWide, uint32_t, uint16_t>;
    case ScalarType::kS16:
      return add ? &ternary<MadWide, int32_t, int16_t> : &binary<MulWide, int32_t, int16_t>;
    case ScalarType::kU32:
      return add ? &ternary<MadWide, uint64_t, uint32_t> : &binary<MulWide, uint64_t, uint32_t>;
    case ScalarType::kS32:
      return add ? &ternary<MadWide, int64_t, int32_t> : &binary<MulWide, int64_t, int32_t>;
    default:
      return nullptr;
  }
}

template <class Op>
Handler signed_unary_of(ScalarType type) {
  switch (type) {
    case ScalarType::kS16:
      return &unary<Op, int16_t>;
    case ScalarType::kS32:
      return &unary<Op, int32_t>;
    case ScalarType::kS64:
      return &unary<Op, int64_t>;
    default:
      return nullptr;
  }
}

template <class Op>
Handler relu_of(ScalarType type) {
  if (type == ScalarType::kS32) return &binary<Relu<Op>, int32_t>;
  return type == ScalarType::kS16x2 ? &binary<Halves<Relu<Op>, int16_t>, uint32_t> : nullptr;
}

Handler dot4_of(bool a_signed, bool b_signed) {
  if (a_signed) {
    return b_signed ? &ternary<Dot4<int32_t, int32_t>, uint32_t, int32_t, int32_t>
                    : &ternary<Dot4<int32_t, uint32_t>, uint32_t, int32_t, uint32_t>;
  }
  return b_signed ? &ternary<Dot4<uint32_t, int32_t>, uint32_t, uint32_t, int32_t>
                  : &ternary<Dot4<uint32_t, uint32_t>, uint32_t, uint32_t, uint32_t>;
}

template <int kFirst>
Handler dot2_of(bool a_signed, bool b_signed) {
  if (a_signed) {
    return b_signed ? &ternary<Dot2<int32_t, int32_t, kFirst>, uint32_t, int32_t, int32_t>
                    : &ternary<Dot2<int32_t, uint32_t, kFirst>, uint32_t, int32_t, uint32_t>;
  }
  return b_signed ? &ternary<Dot2<uint32_t, int32_t, kFirst>, uint32_t, uint32_t, int32_t>
                  : &ternary<Dot2<uint32_t, uint32_t, kFirst>, uint32_t, uint32_t, uint32_t>;
}

// d = a + b with carries: imm bit 0: carry in, bit 1: carry out; b is inverted for a subtraction.
template <class T, bool kSubtract>
Step with_carry(Warp& w, const Insn& i) {
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  T* d = w.target<T>(i.dst);
  const bool carry_in = (i.imm & 1) != 0;
  const uint32_t in = carry_in ? w.predicate(i.c) : (kSubtract ? kAllLanes : 0);
  uint32_t out = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const T addend = kSubtract ? static_cast<T>(~b[lane]) : b[lane];
    const auto sum = static_cast<unsigned __int128>(a[lane]) + addend + (in >> lane & 1);
    out |= static_cast<uint32_t>(sum >> (8 * sizeof(T)) & 1) << lane;
    d[lane] = static_cast<T>(sum);
  }
  if ((i.imm & 2) != 0) w.set_predicate(i.c, out);
  return Step::kNext;
}

Handler carry_of(bool is_64, bool subtract) {
  if (is_64) return subtract ? &with_carry<uint64_t, true> : &with_carry<uint64_t, false>;
  return subtract ? &with_carry<uint32_t, true> : &with_carry<uint32_t, false>;
}

}  // namespace

Handler integer_handler(IntegerOp op, ScalarType type) {
  switch (op) {
    case IntegerOp::kAdd:
      return binary_or_halves_of<Add>(type);
    case IntegerOp::kSub:
      return binary_of<Sub>(type);
    case IntegerOp::kAddSat:
      return type == ScalarType::kS32 ? &binary<AddSat, int32_t> : nullptr;
    case IntegerOp::kSubSat:
      return type == ScalarType::kS32 ? &binary<SubSat, int32_t> : nullptr;
    case IntegerOp::kMulLo:
      return binary_of<MulLo>(type);
    case IntegerOp::kMulHi:
      return binary_of<MulHi>(type);
    case IntegerOp::kMulWide:
      return wide_of(type, false);
    case IntegerOp::kMadLo:
      return ternary_of<MadLo>(type);
    case IntegerOp::kMadHi:
      return ternary_of<MadHi>(type);
    case IntegerOp::kMadWide:
      return wide_of(type, true);
    case IntegerOp::kMadHiSat:
      return type == ScalarType::kS32 ? &ternary<MadHiSat, int32_t> : nullptr;
    case IntegerOp::kSad:
      return ternary_of<Sad>(type);
    case IntegerOp::kDiv:
      return binary_of<Div>(type);
    case IntegerOp::kRem:
      return binary_of<Rem>(type);
    case IntegerOp::kAbs:
      return signed_unary_of<Abs>(type);
    case IntegerOp::kNeg:
      return signed_unary_of<Neg>(type);
    case IntegerOp::kMin:
      return binary_or_halves_of<Min>(type);
    case IntegerOp::kMax:
      return binary_or_halves_of<Max>(type);
    case IntegerOp::kMinRelu:
      return relu_of<Min>(type);
    case IntegerOp::kMaxRelu:
      return relu_of<Max>(type);
    case IntegerOp::kMul24Lo:
      return words_of<Mul24Lo>(type);
    case IntegerOp::kMul24Hi:
      return words_of<Mul24Hi>(type);
    case IntegerOp::kMad24Lo:
      return type == ScalarType::kS32   ? &ternary<Mad24Lo, int32_t>
             : type == ScalarType::kU32 ? &ternary<Mad24Lo, uint32_t>
                                        : nullptr;
    case IntegerOp::kMad24Hi:
      return type == ScalarType::kS32   ? &ternary<Mad24Hi, int32_t>
             : type == ScalarType::kU32 ? &ternary<Mad24Hi, uint32_t>
                                        : nullptr;
    case IntegerOp::kMad24HiSat:
      return type == ScalarType::kS32 ? &ternary<Mad24HiSat, int32_t> : nullptr;
  }
  return nullptr;
}

// Variant 0: dp4a, 1: dp2a.lo, 2: dp2a.hi.
Handler dot_handler(int variant, bool a_signed, bool b_signed) {
  if (variant == 0) return dot4_of(a_signed, b_signed);
  return variant == 1 ? dot2_of<0>(a_signed, b_signed) : dot2_of<2>(a_signed, b_signed);
}

Handler carry_handler(bool is_64, bool subtract) { return carry_of(is_64, subtract); }

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(integer_handler);
HWY_EXPORT(dot_handler);
HWY_EXPORT(carry_handler);

namespace {

void expect_handler(const InsnDecoder& d, Handler handler, ScalarType type) {
  if (handler != nullptr) return;
  d.fail("the type ." + std::string(name_of(type)) + " is not allowed here");
}

void expect_operands(const InsnDecoder& d, size_t sources) {
  if (d.count() == sources + 1) return;
  d.fail("there are " + std::to_string(d.count()) + " operands; it takes " +
         std::to_string(sources + 1));
}

// What has a carry.
void expect_32_or_64_bits(const InsnDecoder& d, ScalarType type) {
  const bool is_right = type == ScalarType::kU32 || type == ScalarType::kS32 ||
                        type == ScalarType::kU64 || type == ScalarType::kS64;
  expect_handler(d, is_right ? HWY_DYNAMIC_DISPATCH(carry_handler)(false, false) : nullptr, type);
}

bool is_word(ScalarType type) { return type == ScalarType::kU32 || type == ScalarType::kS32; }

// Fails if a part is missing.
bool take_high(InsnDecoder& d) {
  const int part = d.take_one({"lo", "hi"});
  if (part < 0) d.fail("one of .lo and .hi is missing");
  return part == 1;
}

// d = op(a, b [, c]).
void emit_integer(InsnDecoder& d, IntegerOp op, ScalarType type, size_t operands,
                  std::optional<ScalarType> last = std::nullopt) {
  d.expect_no_more();
  const Handler handler = HWY_DYNAMIC_DISPATCH(integer_handler)(op, type);
  expect_handler(d, handler, type);
  expect_operands(d, operands);
  const bool wide = op == IntegerOp::kMulWide || op == IntegerOp::kMadWide;
  const ScalarType result =
      !wide ? type : (bits_of(type) == 16 ? ScalarType::kB32 : ScalarType::kB64);
  const Slot a = d.source(1, type);
  const Slot b = operands > 1 ? d.source(2, type) : kNoSlot;
  const Slot c = operands > 2 ? d.source(3, last.value_or(result)) : kNoSlot;
  const Slot to = d.target(0, result);
  Insn& insn = d.emit(handler);
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = c;
}

// The CC register: set by .cc, read by addc, subc and madc.
void emit_carry(InsnDecoder& d, ScalarType type, bool subtract, bool carry_in, bool carry_out,
                Slot a, Slot b) {
  const Slot to = d.target(0, type);
  const bool is_64 = bits_of(type) == 64;
  Insn& insn = d.emit(HWY_DYNAMIC_DISPATCH(carry_handler)(is_64, subtract));
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = d.function().carry_slot();
  insn.imm = (carry_in ? 1 : 0) | (carry_out ? 2 : 0);
}

}  // namespace

void decode_integer_add(InsnDecoder& d, ScalarType type, bool subtract) {
  if (d.take("cc")) {
    d.expect_no_more();
    expect_32_or_64_bits(d, type);
    expect_operands(d, 2);
    const Slot a = d.source(1, type);
    const Slot b = d.source(2, type);
    return emit_carry(d, type, subtract, false, true, a, b);
  }
  const bool sat = d.take("sat");
  const IntegerOp op = subtract ? (sat ? IntegerOp::kSubSat : IntegerOp::kSub)
                                : (sat ? IntegerOp::kAddSat : IntegerOp::kAdd);
  emit_integer(d, op, type, 2);
}

void decode_addc(InsnDecoder& d) {
  const bool subtract = d.instruction().opcode == "subc";
  const bool out = d.take("cc");
  const ScalarType type = d.expect_type();
  d.expect_no_more();
  expect_32_or_64_bits(d, type);
  expect_operands(d, 2);
  const Slot a = d.source(1, type);
  const Slot b = d.source(2, type);
  emit_carry(d, type, subtract, true, out, a, b);
}

void decode_subc(InsnDecoder& d) { decode_addc(d); }

void decode_integer_mul(InsnDecoder& d, ScalarType type) {
  const int part = d.take_one({"lo", "hi", "wide"});
  if (part < 0) d.fail("one of .lo, .hi and .wide is missing");
  emit_integer(d,
               part == 0   ? IntegerOp::kMulLo
               : part == 1 ? IntegerOp::kMulHi
                           : IntegerOp::kMulWide,
               type, 2);
}

void decode_integer_mad(InsnDecoder& d, ScalarType type, bool carry_in) {
  const bool carry_out = d.take("cc");
  const int part = d.take_one({"lo", "hi", "wide"});
  if (part < 0) d.fail("one of .lo, .hi and .wide is missing");
  if (carry_in || carry_out) {
    // The product first, then the sum with its carries.
    d.expect_no_more();
    if (part == 2) d.fail(".wide has no carries");
    expect_32_or_64_bits(d, type);
    expect_operands(d, 3);
    const IntegerOp op = part == 1 ? IntegerOp::kMulHi : IntegerOp::kMulLo;
    const Slot product = d.scratch(bits_of(type));
    const Slot a = d.source(1, type);
    const Slot b = d.source(2, type);
    const Slot c = d.source(3, type);
    Insn& insn = d.emit_before(HWY_DYNAMIC_DISPATCH(integer_handler)(op, type));
    insn.dst = product;
    insn.a = a;
    insn.b = b;
    return emit_carry(d, type, false, carry_in, carry_out, product, c);
  }
  const bool sat = part == 1 && d.take("sat");
  const IntegerOp op = part == 0   ? IntegerOp::kMadLo
                       : part == 2 ? IntegerOp::kMadWide
                                   : (sat ? IntegerOp::kMadHiSat : IntegerOp::kMadHi);
  emit_integer(d, op, type, 3);
}

void decode_madc(InsnDecoder& d) { decode_integer_mad(d, d.expect_type(), true); }

void decode_integer(InsnDecoder& d, IntegerOp op, ScalarType type, size_t operands) {
  emit_integer(d, op, type, operands);
}

void decode_sad(InsnDecoder& d) { emit_integer(d, IntegerOp::kSad, d.expect_type(), 3); }
void decode_rem(InsnDecoder& d) { emit_integer(d, IntegerOp::kRem, d.expect_type(), 2); }

void decode_mul24(InsnDecoder& d) {
  const bool high = take_high(d);
  emit_integer(d, high ? IntegerOp::kMul24Hi : IntegerOp::kMul24Lo, d.expect_type(), 2);
}

void decode_mad24(InsnDecoder& d) {
  const bool high = take_high(d);
  const bool sat = high && d.take("sat");
  const IntegerOp op = sat    ? IntegerOp::kMad24HiSat
                       : high ? IntegerOp::kMad24Hi
                              : IntegerOp::kMad24Lo;
  emit_integer(d, op, d.expect_type(), 3);
}

void decode_dp4a(InsnDecoder& d) {
  int variant = 0;
  if (d.instruction().opcode == "dp2a") variant = take_high(d) ? 2 : 1;
  const ScalarType a_type = d.expect_type();
  const ScalarType b_type = d.expect_type();
  d.expect_no_more();
  if (!is_word(a_type) || !is_word(b_type)) d.fail("the types must be .u32 or .s32");
  expect_operands(d, 3);
  const Slot a = d.source(1, ScalarType::kB32);
  const Slot b = d.source(2, ScalarType::kB32);
  const Slot c = d.source(3, ScalarType::kB32);
  const Slot to = d.target(0, ScalarType::kB32);
  Insn& insn =
      d.emit(HWY_DYNAMIC_DISPATCH(dot_handler)(variant, is_signed(a_type), is_signed(b_type)));
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = c;
}

void decode_dp2a(InsnDecoder& d) { decode_dp4a(d); }

Slot emit_integer_negation(InsnDecoder& d, Slot slot, ScalarType type) {
  const int bits = bits_of(type);
  const ScalarType as = bits == 16   ? ScalarType::kS16
                        : bits == 32 ? ScalarType::kS32
                                     : ScalarType::kS64;
  const Slot result = d.scratch(bits);
  Insn& insn = d.emit_before(HWY_DYNAMIC_DISPATCH(integer_handler)(IntegerOp::kNeg, as));
  insn.dst = result;
  insn.a = slot;
  return result;
}

}  // namespace mpfa::sim
#endif  // HWY_ONCE
