// cvt.pack (PTX ISA, section Data Movement and Conversion Instructions: cvt.pack).
#include <algorithm>
#include <cstdint>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {
namespace {

struct PackDetail : InsnDetail {
  Slot c = kNoSlot;  // its lowest bits go above the packed values; kNoSlot: nothing is left above
  int bits = 0;      // of a packed value
  int64_t lowest = 0;
  int64_t highest = 0;
};

uint32_t clamp_to(const PackDetail& pack, int32_t value) {
  const uint32_t all = (uint32_t{1} << pack.bits) - 1;
  return static_cast<uint32_t>(std::clamp<int64_t>(value, pack.lowest, pack.highest)) & all;
}

// c, a and b, from the top down.
Step pack_lanes(Warp& w, const Insn& i) {
  const auto& pack = static_cast<const PackDetail&>(*i.detail);
  const int32_t* a = w.source<int32_t>(i.a);
  const int32_t* b = w.source<int32_t>(i.b);
  uint32_t* to = w.target<uint32_t>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const uint32_t pair = clamp_to(pack, a[lane]) << pack.bits | clamp_to(pack, b[lane]);
    const uint32_t above =
        pack.c == kNoSlot ? 0 : w.source<uint32_t>(pack.c)[lane] << (2 * pack.bits);
    to[lane] = above | pair;
  }
  return Step::kNext;
}

// The type that is converted to; .u2, which no other instruction has, too.
PackDetail take_packed_type(InsnDecoder& d) {
  static constexpr int kBits[] = {16, 8, 4, 2};
  const int type = d.take_one({"u16", "u8", "u4", "u2", "s16", "s8", "s4", "s2"});
  if (type < 0) d.fail("the type to convert to is missing");
  const bool is_signed = type >= 4;
  PackDetail pack;
  pack.bits = kBits[type % 4];
  const int64_t count = int64_t{1} << pack.bits;
  pack.lowest = is_signed ? -count / 2 : 0;
  pack.highest = pack.lowest + count - 1;
  return pack;
}

}  // namespace

void decode_cvt_pack(InsnDecoder& d) {
  if (!d.take("sat")) d.fail("cvt.pack needs .sat");
  PackDetail pack = take_packed_type(d);
  if (!d.take("s32")) d.fail("cvt.pack converts from .s32");
  const bool has_c = pack.bits < 16;
  if (has_c && !d.take("b32")) d.fail("a third operand of type .b32 is missing");
  d.expect_no_more();
  const Slot a = d.source(1, ScalarType::kS32);
  const Slot b = d.source(2, ScalarType::kS32);
  if (has_c) pack.c = d.source(3, ScalarType::kB32);
  const Slot to = d.target(0, ScalarType::kB32);
  Insn& insn = d.emit(&pack_lanes);
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  d.detail<PackDetail>(insn, pack);
}

}  // namespace mpfa::sim
