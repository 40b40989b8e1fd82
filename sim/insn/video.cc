// Scalar video instructions: vadd to vmad (PTX ISA, section Scalar Video Instructions).
#include "sim/insn/video.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {
namespace {

// The values between the stages have 34 bits, then 33 (signed, whatever the operands are).
constexpr int kPrimaryBits = 34;
constexpr int kClampedBits = 33;

// The lowest bits of a value as a signed number.
int64_t narrow(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

// A byte, half or all of a register.
struct Part {
  int shift = 0;
  int bits = 32;

  uint32_t mask() const { return bits == 32 ? UINT32_MAX : (uint32_t{1} << bits) - 1; }
  int64_t of(uint32_t word, bool is_signed) const {
    const uint32_t value = word >> shift & mask();
    return is_signed ? narrow(value, bits) : int64_t{value};
  }
};

enum class Secondary : uint8_t { kNone, kAdd, kMin, kMax };

struct Source {
  Slot slot = kNoSlot;
  Part part;
  bool is_signed = false;

  int64_t of(const Warp& w, int lane) const {
    return part.of(w.source<uint32_t>(slot)[lane], is_signed);
  }
};

struct ScalarVideoDetail : InsnDetail {
  VideoOp op = VideoOp::kAdd;
  VideoCompare compare = VideoCompare::kEq;
  bool wrap_shift = false;
  Source a;
  Source b;
  Source c;  // without slot: there is none
  Part to;   // of the result; 32 bits: all of it
  bool is_signed = false;
  bool sat = false;
  Secondary secondary = Secondary::kNone;
};

int64_t shift_amount(const ScalarVideoDetail& v, int64_t b) {
  return v.wrap_shift ? b & 31 : std::min<int64_t>(b, 32);
}

int64_t primary(const ScalarVideoDetail& v, int64_t a, int64_t b) {
  switch (v.op) {
    case VideoOp::kShl:
      return narrow(static_cast<uint64_t>(a) << shift_amount(v, b), kPrimaryBits);
    case VideoOp::kShr:
      return a >> shift_amount(v, b);
    default:
      return narrow(static_cast<uint64_t>(video_primary(v.op, v.compare, a, b)), kPrimaryBits);
  }
}

int64_t secondary(Secondary op, int64_t value, int64_t c) {
  switch (op) {
    case Secondary::kAdd:
      return value + c;
    case Secondary::kMin:
      return std::min(value, c);
    case Secondary::kMax:
      return std::max(value, c);
    default:
      return value;
  }
}

Step scalar_video(Warp& w, const Insn& i) {
  const auto& v = static_cast<const ScalarVideoDetail&>(*i.detail);
  uint32_t* to = w.target<uint32_t>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    int64_t value = primary(v, v.a.of(w, lane), v.b.of(w, lane));
    if (v.sat) value = clamp_to_bits(value, v.to.bits, v.is_signed);
    value = narrow(static_cast<uint64_t>(value), kClampedBits);
    if (v.secondary != Secondary::kNone) value = secondary(v.secondary, value, v.c.of(w, lane));
    auto result = static_cast<uint32_t>(value);
    if (v.to.bits != 32) {
      const uint32_t place = v.to.mask() << v.to.shift;
      const uint32_t rest = w.source<uint32_t>(v.c.slot)[lane] & ~place;
      result = (result << v.to.shift & place) | rest;
    }
    to[lane] = result;
  }
  return Step::kNext;
}

// ---- vmad
// ------------------------------------------------------------------------------------------

struct VideoMadDetail : InsnDetail {
  Source a;
  Source b;
  Source c;
  bool negate_product = false;
  bool negate_c = false;
  bool plus_one = false;
  bool is_signed = false;  // of the final result
  bool sat = false;
  int shift = 0;
};

Step video_mad(Warp& w, const Insn& i) {
  const auto& v = static_cast<const VideoMadDetail&>(*i.detail);
  uint32_t* to = w.target<uint32_t>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    __int128 product = static_cast<__int128>(v.a.of(w, lane)) * v.b.of(w, lane);
    const uint32_t c = w.source<uint32_t>(v.c.slot)[lane];
    // A negation inverts, and adds one behind: so c's is done in its 32 bits.
    if (v.negate_product) product = ~product;
    const int64_t addend = Part{}.of(v.negate_c ? ~c : c, v.is_signed);
    const int one = v.negate_product || v.negate_c || v.plus_one ? 1 : 0;
    __int128 result = (product + addend + one) >> v.shift;
    if (v.sat) {
      const __int128 lowest = v.is_signed ? INT32_MIN : 0;
      const __int128 highest = v.is_signed ? __int128{INT32_MAX} : __int128{UINT32_MAX};
      result = std::clamp(result, lowest, highest);
    }
    to[lane] = static_cast<uint32_t>(result);
  }
  return Step::kNext;
}

// ---- decoding
// --------------------------------------------------------------------------------------

Part part_of(const InsnDecoder& d, const Operand& operand) {
  const std::string& selector = operand.selector;
  if (selector.empty()) return {};
  const int index = selector[1] - '0';
  if (selector.size() == 2 && selector[0] == 'b' && index < 4)
    return {.shift = 8 * index, .bits = 8};
  if (selector.size() == 2 && selector[0] == 'h' && index < 2) {
    return {.shift = 16 * index, .bits = 16};
  }
  d.fail("the selector ." + selector + " is none of .b0 to .b3, .h0 and .h1");
}

Source source_of(InsnDecoder& d, size_t i, bool is_signed) {
  const Operand& operand = d.operand(i);
  return {.slot = video_source(d, operand), .part = part_of(d, operand), .is_signed = is_signed};
}

void expect_not_negated(InsnDecoder& d) {
  for (size_t i = 0; i < d.count(); ++i) {
    if (d.operand(i).negated) d.fail("operands cannot be negated here");
  }
}

// Operands and what comes after the primary operation; the operation's own modifiers are taken.
void decode_scalar(InsnDecoder& d, ScalarVideoDetail v) {
  v.sat = v.op != VideoOp::kSet && d.take("sat");
  v.secondary = static_cast<Secondary>(1 + d.take_one({"add", "min", "max"}));
  v.is_signed = v.op != VideoOp::kSet && take_video_sign(d);
  const bool a_signed = take_video_sign(d);
  const bool b_signed = take_video_sign(d);
  if ((v.op == VideoOp::kShl || v.op == VideoOp::kShr) && b_signed) {
    d.fail("the shift amount is of type .u32");
  }
  d.expect_no_more();
  expect_not_negated(d);
  v.a = source_of(d, 1, a_signed);
  v.b = source_of(d, 2, b_signed);
  v.to = part_of(d, d.operand(0));
  const bool needs_c = v.to.bits != 32 || v.secondary != Secondary::kNone;
  if (v.to.bits != 32 && v.secondary != Secondary::kNone) {
    d.fail("a selector of the result and a second operation exclude each other");
  }
  if (needs_c) v.c = {.slot = video_source(d, d.operand(3)), .part = {}, .is_signed = v.is_signed};
  const Slot to = video_target(d, d.operand(0));
  Insn& insn = d.emit(&scalar_video);
  insn.dst = to;
  d.detail<ScalarVideoDetail>(insn, v);
}

void decode_shift(InsnDecoder& d, VideoOp op) {
  const int mode = d.take_one({"clamp", "wrap"});
  if (mode < 0) d.fail(".clamp or .wrap is missing");
  ScalarVideoDetail v;
  v.op = op;
  v.wrap_shift = mode == 1;
  decode_scalar(d, v);
}

void decode_operation(InsnDecoder& d, VideoOp op) {
  ScalarVideoDetail v;
  v.op = op;
  decode_scalar(d, v);
}

}  // namespace

// ---- what the SIMD instructions share
// --------------------------------------------------------------

int64_t clamp_to_bits(int64_t value, int bits, bool is_signed) {
  const int64_t count = int64_t{1} << bits;
  const int64_t lowest = is_signed ? -count / 2 : 0;
  return std::clamp(value, lowest, lowest + count - 1);
}

int64_t video_primary(VideoOp op, VideoCompare compare, int64_t a, int64_t b) {
  switch (op) {
    case VideoOp::kAdd:
      return a + b;
    case VideoOp::kSub:
      return a - b;
    case VideoOp::kAverage:
      return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    case VideoOp::kAbsDiff:
      return a > b ? a - b : b - a;
    case VideoOp::kMin:
      return std::min(a, b);
    case VideoOp::kMax:
      return std::max(a, b);
    default:
      break;
  }
  switch (compare) {
    case VideoCompare::kEq:
      return a == b ? 1 : 0;
    case VideoCompare::kNe:
      return a != b ? 1 : 0;
    case VideoCompare::kLt:
      return a < b ? 1 : 0;
    case VideoCompare::kLe:
      return a <= b ? 1 : 0;
    case VideoCompare::kGt:
      return a > b ? 1 : 0;
    default:
      return a >= b ? 1 : 0;
  }
}

VideoCompare take_video_compare(InsnDecoder& d) {
  const int compare = d.take_one({"eq", "ne", "lt", "le", "gt", "ge"});
  if (compare < 0) d.fail("the comparison is missing");
  return static_cast<VideoCompare>(compare);
}

bool take_video_sign(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  if (type != ScalarType::kU32 && type != ScalarType::kS32) d.fail("types are .u32 or .s32");
  return type == ScalarType::kS32;
}

Slot video_source(InsnDecoder& d, const Operand& operand) {
  Operand plain = operand;
  plain.selector.clear();
  plain.negated = false;
  return d.source(plain, ScalarType::kB32);
}

Slot video_target(InsnDecoder& d, const Operand& operand) {
  Operand plain = operand;
  plain.selector.clear();
  return d.target(plain, ScalarType::kB32);
}

void decode_vadd(InsnDecoder& d) { decode_operation(d, VideoOp::kAdd); }
void decode_vsub(InsnDecoder& d) { decode_operation(d, VideoOp::kSub); }
void decode_vabsdiff(InsnDecoder& d) { decode_operation(d, VideoOp::kAbsDiff); }
void decode_vmin(InsnDecoder& d) { decode_operation(d, VideoOp::kMin); }
void decode_vmax(InsnDecoder& d) { decode_operation(d, VideoOp::kMax); }
void decode_vshl(InsnDecoder& d) { decode_shift(d, VideoOp::kShl); }
void decode_vshr(InsnDecoder& d) { decode_shift(d, VideoOp::kShr); }

void decode_vset(InsnDecoder& d) {
  ScalarVideoDetail v;
  v.op = VideoOp::kSet;
  v.compare = take_video_compare(d);
  decode_scalar(d, v);
}

void decode_vmad(InsnDecoder& d) {
  VideoMadDetail v;
  v.plus_one = d.take("po");
  v.sat = d.take("sat");
  v.shift = d.take("shr7") ? 7 : (d.take("shr15") ? 15 : 0);
  take_video_sign(d);  // The result's sign follows from the operands'.
  const bool a_signed = take_video_sign(d);
  const bool b_signed = take_video_sign(d);
  d.expect_no_more();
  v.negate_product = d.operand(1).negated != d.operand(2).negated;
  v.negate_c = d.operand(3).negated;
  if (v.negate_product && v.negate_c) d.fail("either the product or c can be negated");
  if (v.plus_one && (d.operand(1).negated || d.operand(2).negated || v.negate_c)) {
    d.fail(".po excludes negated operands");
  }
  v.is_signed = a_signed || b_signed || v.negate_product || v.negate_c;
  v.a = source_of(d, 1, a_signed);
  v.b = source_of(d, 2, b_signed);
  v.c.slot = video_source(d, d.operand(3));
  const Slot to = video_target(d, d.operand(0));
  Insn& insn = d.emit(&video_mad);
  insn.dst = to;
  d.detail<VideoMadDetail>(insn, v);
}

}  // namespace mpfa::sim
