// Logic, shifts, bit fields and bytes.
#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/bits.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "sim/insn/bits.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

struct And {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T run(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot {
  template <class T>
  static T run(T a) {
    return a == 0 ? 1 : 0;
  }
};
// Shift amounts of the width and above give 0, or the sign.
struct Shl {
  template <class T>
  static T run(T a, uint32_t by) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const T shifted = static_cast<T>(a << (by & (kBits - 1)));
    return by >= kBits ? T{0} : shifted;
  }
};
struct Shr {
  template <class T>
  static T run(T a, uint32_t by) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(a >> (by >= kBits ? kBits - 1 : by));
    } else {
      const T shifted = static_cast<T>(a >> (by & (kBits - 1)));
      return by >= kBits ? T{0} : shifted;
    }
  }
};
// shf: 64 bits of b:a shifted, the high (left) or the low (right) word kept.
struct FunnelLeftWrap {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(both << (c & 31) >> 32);
  }
};
struct FunnelLeftClamp {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(both << (c < 32 ? c : 32) >> 32);
  }
};
struct FunnelRightWrap {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> (c & 31));
  }
};
struct FunnelRightClamp {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> (c < 32 ? c : 32));
  }
};
struct Popc {
  template <class T>
  static uint32_t run(T a) {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct Clz {
  template <class T>
  static uint32_t run(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
// The highest bit that is not the sign; -1 if there is none.
template <bool kShiftAmount>
struct Bfind {
  template <class T>
  static uint32_t run(T a) {
    using U = std::make_unsigned_t<T>;
    constexpr int kBits = 8 * sizeof(T);
    const U value = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    if (value == 0) return ~0u;
    const int zeros = std::countl_zero(value);
    return static_cast<uint32_t>(kShiftAmount ? zeros : kBits - 1 - zeros);
  }
};
struct Brev {
  template <class T>
  static T run(T a) {
    T result = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) {
      result = static_cast<T>(result << 1 | (a >> i & 1));
    }
    return result;
  }
};
// A position or length of a field. The ISA restricts both to 8 bits; an H200 looks at no more of
// them for 32 bits, but at all for 64.
template <class T>
uint32_t field_operand(uint32_t value) {
  return sizeof(T) == 8 ? value : value & 0xFFu;
}

struct Bfe {
  template <class T>
  static T run(T a, uint32_t b, uint32_t c) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t kBits = 8 * sizeof(T);
    const uint32_t at = field_operand<T>(b);
    const uint32_t length = field_operand<T>(c);
    if (length == 0) return 0;
    const auto top =
        static_cast<uint32_t>(std::min(uint64_t{at} + length - 1, uint64_t{kBits} - 1));
    const bool sign = std::is_signed_v<T> && (static_cast<U>(a) >> top & 1) != 0;
    const U fill = sign ? static_cast<U>(~U{0}) : U{0};
    const U low = at >= kBits ? fill : static_cast<U>(static_cast<U>(a) >> at);
    if (at >= kBits) return static_cast<T>(fill);
    const uint32_t kept = std::min(length, kBits - at);
    if (kept >= kBits) return static_cast<T>(low);
    const U field = static_cast<U>((U{1} << kept) - 1);
    return static_cast<T>((low & field) | (fill & static_cast<U>(~field)));
  }
};
template <class T>
T insert_bits(T a, T b, uint32_t at, uint32_t length) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  at = field_operand<T>(at);
  length = field_operand<T>(length);
  if (at >= kBits || length == 0) return b;
  const uint32_t kept = std::min(length, kBits - at);
  const T field = kept >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << kept) - 1);
  const T moved = static_cast<T>(field << at);
  return static_cast<T>((b & static_cast<T>(~moved)) | (static_cast<T>(a << at) & moved));
}
struct BmskClamp {
  static uint32_t run(uint32_t a, uint32_t b) {
    if (a >= 32 || b == 0) return 0;
    const uint64_t field = b >= 32 ? 0xFFFFFFFFu : (uint64_t{1} << b) - 1;
    return static_cast<uint32_t>(field << a);
  }
};
struct BmskWrap {
  static uint32_t run(uint32_t a, uint32_t b) { return BmskClamp::run(a & 31, b & 31); }
};
template <bool kWrap>
struct Szext {
  template <class T>
  static T run(T a, uint32_t n) {
    n = kWrap ? n & 31 : n;
    if (n == 0) return 0;
    if (n >= 32) return a;
    const uint32_t up = static_cast<uint32_t>(a) << (32 - n);
    return static_cast<T>(static_cast<T>(up) >> (32 - n));
  }
};
// The position of the n-th set bit from `base` on (n > 0), or before it (n < 0).
struct Fns {
  static uint32_t run(uint32_t bits, uint32_t base, int32_t n) {
    if (base > 31) return ~0u;
    if (n == 0) return (bits >> base & 1) != 0 ? base : ~0u;
    const int step = n > 0 ? 1 : -1;
    // Of 2^31, too: there are no so many bits.
    uint32_t left = n > 0 ? static_cast<uint32_t>(n) : 0u - static_cast<uint32_t>(n);
    for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step) {
      if ((bits >> at & 1) != 0 && --left == 0) return static_cast<uint32_t>(at);
    }
    return ~0u;
  }
};

// ---- prmt
// ------------------------------------------------------------------------------------------

uint32_t permute(uint32_t a, uint32_t b, const uint32_t (&selectors)[4]) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t selector = selectors[i];
    uint32_t byte = static_cast<uint32_t>(both >> (8 * (selector & 7))) & 0xFFu;
    if ((selector & 8) != 0) byte = (byte & 0x80u) != 0 ? 0xFFu : 0;
    result |= byte << (8 * i);
  }
  return result;
}

struct Prmt {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t selector = c >> (4 * i) & 0xFu;
      const uint32_t byte = static_cast<uint32_t>(both >> (8 * (selector & 7))) & 0xFFu;
      const uint32_t sign = (byte & 0x80u) != 0 ? 0xFFu : 0;
      result |= ((selector & 8) != 0 ? sign : byte) << (8 * i);
    }
    return result;
  }
};
enum class PermuteMode : uint8_t { kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };
template <PermuteMode kMode>
struct PrmtMode {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = c & 3u;
    uint32_t s[4];
    for (uint32_t i = 0; i < 4; ++i) {
      switch (kMode) {
        case PermuteMode::kF4e:
          s[i] = n + i;
          break;
        case PermuteMode::kB4e:
          s[i] = (n + 8 - i) & 7;
          break;
        case PermuteMode::kRc8:
          s[i] = n;
          break;
        case PermuteMode::kEcl:
          s[i] = std::max(n, i);
          break;
        case PermuteMode::kEcr:
          s[i] = std::min(n, i);
          break;
        case PermuteMode::kRc16:
          s[i] = (n & 1) * 2 + (i & 1);
          break;
      }
    }
    return permute(a, b, s);
  }
};

// ---- lop3
// ------------------------------------------------------------------------------------------

inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t k = 0; k < 8; ++k) {
    if ((table >> k & 1) == 0) continue;
    result |= ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
  }
  return result;
}

template <uint32_t kTable>
struct Lop3 {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) { return lop3(a, b, c, kTable); }
};

Step lop3_any(Warp& w, const Insn& i) {
  const uint32_t* a = w.source<uint32_t>(i.a);
  const uint32_t* b = w.source<uint32_t>(i.b);
  const uint32_t* c = w.source<uint32_t>(i.c);
  // The table's bits as masks, so that every lane runs the same operations.
  uint32_t rows[8];
  for (uint32_t k = 0; k < 8; ++k) rows[k] = (i.u8 >> k & 1) != 0 ? ~0u : 0;
  store_lanes(w.target<uint32_t>(i.dst), w.mask, [=](int lane) HWY_ATTR {
    const uint32_t x = a[lane];
    const uint32_t y = b[lane];
    const uint32_t z = c[lane];
    const uint32_t when_not_x =
        (~y & ((~z & rows[0]) | (z & rows[1]))) | (y & ((~z & rows[2]) | (z & rows[3])));
    const uint32_t when_x =
        (~y & ((~z & rows[4]) | (z & rows[5]))) | (y & ((~z & rows[6]) | (z & rows[7])));
    return (~x & when_not_x) | (x & when_x);
  });
  return Step::kNext;
}

template <class T>
Step bit_field_insert(Warp& w, const Insn& i) {
  const T* a = w.source<T>(i.a);
  const T* b = w.source<T>(i.b);
  const uint32_t* at = w.source<uint32_t>(i.c);
  const uint32_t* length = w.source<uint32_t>(static_cast<Slot>(i.imm));
  store_lanes(w.target<T>(i.dst), w.mask, [=](int lane) HWY_ATTR {
    return insert_bits(a[lane], b[lane], at[lane], length[lane]);
  });
  return Step::kNext;
}

template <class Op>
Handler logic_of(int bits) {
  switch (bits) {
    case 16:
      return &binary<Op, uint16_t>;
    case 32:
      return &binary<Op, uint32_t>;
    case 64:
      return &binary<Op, uint64_t>;
    default:
      return nullptr;
  }
}

template <class Op>
Handler unary_of(int bits) {
  switch (bits) {
    case 16:
      return &unary<Op, uint16_t>;
    case 32:
      return &unary<Op, uint32_t>;
    case 64:
      return &unary<Op, uint64_t>;
    default:
      return nullptr;
  }
}

template <class Op>
Handler counting_of(ScalarType type) {
  switch (type) {
    case ScalarType::kB32:
    case ScalarType::kU32:
      return &unary<Op, uint32_t, uint32_t>;
    case ScalarType::kS32:
      return &unary<Op, uint32_t, int32_t>;
    case ScalarType::kS64:
      return &unary<Op, uint32_t, int64_t>;
    default:
      return &unary<Op, uint32_t, uint64_t>;
  }
}

template <class Op>
Handler plain_counting_of(ScalarType type) {
  return bits_of(type) == 64 ? &unary<Op, uint32_t, uint64_t> : &unary<Op, uint32_t, uint32_t>;
}

Handler shift_right_of(ScalarType type) {
  switch (type) {
    case ScalarType::kB16:
    case ScalarType::kU16:
      return &binary<Shr, uint16_t, uint16_t, uint32_t>;
    case ScalarType::kS16:
      return &binary<Shr, int16_t, int16_t, uint32_t>;
    case ScalarType::kB32:
    case ScalarType::kU32:
      return &binary<Shr, uint32_t, uint32_t, uint32_t>;
    case ScalarType::kS32:
      return &binary<Shr, int32_t, int32_t, uint32_t>;
    case ScalarType::kB64:
    case ScalarType::kU64:
      return &binary<Shr, uint64_t, uint64_t, uint32_t>;
    case ScalarType::kS64:
      return &binary<Shr, int64_t, int64_t, uint32_t>;
    default:
      return nullptr;
  }
}

Handler shift_left_of(int bits) {
  switch (bits) {
    case 16:
      return &binary<Shl, uint16_t, uint16_t, uint32_t>;
    case 32:
      return &binary<Shl, uint32_t, uint32_t, uint32_t>;
    case 64:
      return &binary<Shl, uint64_t, uint64_t, uint32_t>;
    default:
      return nullptr;
  }
}

Handler bit_field_of(ScalarType type) {
  switch (type) {
    case ScalarType::kU32:
      return &ternary<Bfe, uint32_t, uint32_t, uint32_t, uint32_t>;
    case ScalarType::kS32:
      return &ternary<Bfe, int32_t, int32_t, uint32_t, uint32_t>;
    case ScalarType::kU64:
      return &ternary<Bfe, uint64_t, uint64_t, uint32_t, uint32_t>;
    case ScalarType::kS64:
      return &ternary<Bfe, int64_t, int64_t, uint32_t, uint32_t>;
    default:
      return nullptr;
  }
}

Handler prmt_of(int mode) {
  switch (mode) {
    case 0:
      return &ternary<PrmtMode<PermuteMode::kF4e>, uint32_t>;
    case 1:
      return &ternary<PrmtMode<PermuteMode::kB4e>, uint32_t>;
    case 2:
      return &ternary<PrmtMode<PermuteMode::kRc8>, uint32_t>;
    case 3:
      return &ternary<PrmtMode<PermuteMode::kEcl>, uint32_t>;
    case 4:
      return &ternary<PrmtMode<PermuteMode::kEcr>, uint32_t>;
    case 5:
      return &ternary<PrmtMode<PermuteMode::kRc16>, uint32_t>;
    default:
      return &ternary<Prmt, uint32_t>;
  }
}

// The tables that nvcc emits most have loops of their own.
Handler lop3_of(uint32_t table) {
  switch (table) {
    case 0x80:
      return &ternary<Lop3<0x80>, uint32_t>;
    case 0x96:
      return &ternary<Lop3<0x96>, uint32_t>;
    case 0xFE:
      return &ternary<Lop3<0xFE>, uint32_t>;
    case 0xEA:
      return &ternary<Lop3<0xEA>, uint32_t>;
    case 0xF8:
      return &ternary<Lop3<0xF8>, uint32_t>;
    default:
      return &lop3_any;
  }
}

Handler funnel_of(bool left, bool clamp) {
  if (left) {
    return clamp ? &ternary<FunnelLeftClamp, uint32_t> : &ternary<FunnelLeftWrap, uint32_t>;
  }
  return clamp ? &ternary<FunnelRightClamp, uint32_t> : &ternary<FunnelRightWrap, uint32_t>;
}

Handler szext_of(bool wrap, bool sign) {
  if (sign) {
    return wrap ? &binary<Szext<true>, int32_t, int32_t, uint32_t>
                : &binary<Szext<false>, int32_t, int32_t, uint32_t>;
  }
  return wrap ? &binary<Szext<true>, uint32_t, uint32_t, uint32_t>
              : &binary<Szext<false>, uint32_t, uint32_t, uint32_t>;
}

}  // namespace

Handler bits_handler(BitOp op, ScalarType type, int variant) {
  const int bits = bits_of(type);
  switch (op) {
    case BitOp::kAnd:
      return logic_of<And>(bits);
    case BitOp::kOr:
      return logic_of<Or>(bits);
    case BitOp::kXor:
      return logic_of<Xor>(bits);
    case BitOp::kNot:
      return unary_of<Not>(bits);
    case BitOp::kCnot:
      return unary_of<Cnot>(bits);
    case BitOp::kShl:
      return shift_left_of(bits);
    case BitOp::kShr:
      return shift_right_of(type);
    case BitOp::kFunnel:
      return funnel_of((variant & 1) != 0, (variant & 2) != 0);
    case BitOp::kPopc:
      return plain_counting_of<Popc>(type);
    case BitOp::kClz:
      return plain_counting_of<Clz>(type);
    case BitOp::kBfind:
      return variant != 0 ? counting_of<Bfind<true>>(type) : counting_of<Bfind<false>>(type);
    case BitOp::kBrev:
      return unary_of<Brev>(bits);
    case BitOp::kBfe:
      return bit_field_of(type);
    case BitOp::kBfi:
      return bits == 64 ? &bit_field_insert<uint64_t> : &bit_field_insert<uint32_t>;
    case BitOp::kBmsk:
      return variant != 0 ? &binary<BmskWrap, uint32_t> : &binary<BmskClamp, uint32_t>;
    case BitOp::kSzext:
      return szext_of(variant != 0, is_signed(type));
    case BitOp::kFns:
      return &ternary<Fns, uint32_t, uint32_t, uint32_t, int32_t>;
    case BitOp::kPrmt:
      return prmt_of(variant);
    case BitOp::kLop3:
      return lop3_of(static_cast<uint32_t>(variant));
  }
  return nullptr;
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(bits_handler);

namespace {

enum class PredicateOp : uint8_t { kAnd, kOr, kXor, kNot };

template <PredicateOp kOp>
Step predicate_logic(Warp& w, const Insn& i) {
  const uint32_t a = w.predicate(i.a);
  const uint32_t b = kOp == PredicateOp::kNot ? 0 : w.predicate(i.b);
  switch (kOp) {
    case PredicateOp::kAnd:
      w.set_predicate(i.dst, a & b);
      break;
    case PredicateOp::kOr:
      w.set_predicate(i.dst, a | b);
      break;
    case PredicateOp::kXor:
      w.set_predicate(i.dst, a ^ b);
      break;
    case PredicateOp::kNot:
      w.set_predicate(i.dst, ~a);
      break;
  }
  return Step::kNext;
}

// Operand i is read as types[i - 1].
Insn& emit_bits(InsnDecoder& d, BitOp op, ScalarType type, int variant, ScalarType result,
                std::initializer_list<ScalarType> types) {
  d.expect_no_more();
  const Handler handler = HWY_DYNAMIC_DISPATCH(bits_handler)(op, type, variant);
  if (handler == nullptr)
    d.fail("the type ." + std::string(name_of(type)) + " is not allowed here");
  Slot sources[4] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  size_t n = 0;
  for (const ScalarType each : types) {
    sources[n] = d.source(n + 1, each);
    ++n;
  }
  const Slot to = d.target(0, result);
  Insn& insn = d.emit(handler);
  insn.dst = to;
  insn.a = sources[0];
  insn.b = sources[1];
  insn.c = sources[2];
  if (sources[3] != kNoSlot) insn.imm = sources[3];
  return insn;
}

void decode_logic(InsnDecoder& d, BitOp op, Handler of_predicates) {
  const ScalarType type = d.expect_type();
  if (type != ScalarType::kPred) {
    emit_bits(d, op, type, 0, type, {type, type});
    return;
  }
  d.expect_no_more();
  const Slot a = d.source(1, type);
  const Slot b = d.source(2, type);
  const Slot to = d.predicate_target(d.operand(0));
  Insn& insn = d.emit(of_predicates);
  insn.dst = to;
  insn.a = a;
  insn.b = b;
}

constexpr ScalarType kWord = ScalarType::kB32;

ScalarType expect_type_of(InsnDecoder& d, std::initializer_list<ScalarType> choices) {
  const ScalarType type = d.expect_type();
  if (std::find(choices.begin(), choices.end(), type) == choices.end()) {
    d.fail("the type ." + std::string(name_of(type)) + " is not allowed here");
  }
  return type;
}

ScalarType expect_b32_or_b64(InsnDecoder& d) {
  return expect_type_of(d, {ScalarType::kB32, ScalarType::kB64});
}

ScalarType expect_integer_of_32_or_64(InsnDecoder& d) {
  return expect_type_of(d,
                        {ScalarType::kU32, ScalarType::kS32, ScalarType::kU64, ScalarType::kS64});
}

}  // namespace

void decode_and(InsnDecoder& d) {
  decode_logic(d, BitOp::kAnd, &predicate_logic<PredicateOp::kAnd>);
}
void decode_or(InsnDecoder& d) { decode_logic(d, BitOp::kOr, &predicate_logic<PredicateOp::kOr>); }
void decode_xor(InsnDecoder& d) {
  decode_logic(d, BitOp::kXor, &predicate_logic<PredicateOp::kXor>);
}

void decode_not(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  if (type != ScalarType::kPred) {
    emit_bits(d, BitOp::kNot, type, 0, type, {type});
    return;
  }
  const Slot a = d.source(1, type);
  const Slot to = d.predicate_target(d.operand(0));
  Insn& insn = d.emit(&predicate_logic<PredicateOp::kNot>);
  insn.dst = to;
  insn.a = a;
}

void decode_cnot(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  emit_bits(d, BitOp::kCnot, type, 0, type, {type});
}

void decode_lop3(InsnDecoder& d) {
  const int combine = d.take_one({"and", "or"});
  const ScalarType type = expect_type_of(d, {kWord});
  d.expect_no_more();
  const int64_t table = d.immediate(4);
  if (table < 0 || table > 255) d.fail("the table must be in 0 to 255");
  const bool is_pair = d.operand(0).kind == OperandKind::kPair;
  if (is_pair != (combine >= 0)) d.fail("d|p goes with .and or .or");
  if (d.count() != (is_pair ? 6u : 5u)) d.fail("the number of operands is wrong");
  const Slot a = d.source(1, type);
  const Slot b = d.source(2, type);
  const Slot c = d.source(3, type);
  const Slot to = d.target(is_pair ? d.operand(0).parts[0] : d.operand(0), type);
  Insn& insn =
      d.emit(HWY_DYNAMIC_DISPATCH(bits_handler)(BitOp::kLop3, type, static_cast<int>(table)));
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = c;
  insn.u8 = static_cast<uint8_t>(table);
  if (!is_pair) return;
  // p = (d != 0) BoolOp q. Not in p at first, which may be q or the guard.
  const Slot q = d.predicate(d.operand(5));
  const Slot p = d.predicate_target(d.operand(0).parts[1]);
  const Slot is_set = d.scratch(1);
  emit_not_zero(d, is_set, to);
  Insn& joined = d.emit(combine == 0 ? &predicate_logic<PredicateOp::kAnd>
                                     : &predicate_logic<PredicateOp::kOr>);
  joined.dst = p;
  joined.a = is_set;
  joined.b = q;
}

void decode_shf(InsnDecoder& d) {
  const int side = d.take_one({"l", "r"});
  const int mode = d.take_one({"wrap", "clamp"});
  if (side < 0 || mode < 0) d.fail(".l or .r, .wrap or .clamp are missing");
  const ScalarType type = expect_type_of(d, {kWord});
  emit_bits(d, BitOp::kFunnel, type, (side == 0 ? 1 : 0) | (mode == 1 ? 2 : 0), type,
            {type, type, kWord});
}

void decode_shl(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  emit_bits(d, BitOp::kShl, type, 0, type, {type, kWord});
}

void decode_shr(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  emit_bits(d, BitOp::kShr, type, 0, type, {type, kWord});
}

void decode_prmt(InsnDecoder& d) {
  const ScalarType type = expect_type_of(d, {kWord});
  const int mode = d.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  emit_bits(d, BitOp::kPrmt, type, mode, type, {type, type, type});
}

void decode_popc(InsnDecoder& d) {
  const ScalarType type = expect_b32_or_b64(d);
  emit_bits(d, BitOp::kPopc, type, 0, kWord, {type});
}

void decode_clz(InsnDecoder& d) {
  const ScalarType type = expect_b32_or_b64(d);
  emit_bits(d, BitOp::kClz, type, 0, kWord, {type});
}

void decode_bfind(InsnDecoder& d) {
  const bool shift_amount = d.take("shiftamt");
  const ScalarType type = expect_integer_of_32_or_64(d);
  emit_bits(d, BitOp::kBfind, type, shift_amount ? 1 : 0, kWord, {type});
}

void decode_fns(InsnDecoder& d) {
  emit_bits(d, BitOp::kFns, expect_type_of(d, {kWord}), 0, kWord, {kWord, kWord, kWord});
}

void decode_brev(InsnDecoder& d) {
  const ScalarType type = expect_b32_or_b64(d);
  emit_bits(d, BitOp::kBrev, type, 0, type, {type});
}

void decode_bfe(InsnDecoder& d) {
  const ScalarType type = expect_integer_of_32_or_64(d);
  emit_bits(d, BitOp::kBfe, type, 0, type, {type, kWord, kWord});
}

void decode_bfi(InsnDecoder& d) {
  const ScalarType type = expect_b32_or_b64(d);
  emit_bits(d, BitOp::kBfi, type, 0, type, {type, type, kWord, kWord});
}

void decode_bmsk(InsnDecoder& d) {
  const bool wrap = d.take_one({"clamp", "wrap"}) == 1;
  emit_bits(d, BitOp::kBmsk, expect_type_of(d, {kWord}), wrap ? 1 : 0, kWord, {kWord, kWord});
}

void decode_szext(InsnDecoder& d) {
  const bool wrap = d.take_one({"clamp", "wrap"}) == 1;
  const ScalarType type = expect_type_of(d, {ScalarType::kU32, ScalarType::kS32});
  emit_bits(d, BitOp::kSzext, type, wrap ? 1 : 0, kWord, {kWord, kWord});
}

}  // namespace mpfa::sim
#endif  // HWY_ONCE
