// shfl, vote, match, redux, elect: what the lanes of a warp tell each other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/warp_sync.h"
#include "sim/machine/block.h"
#include "sim/machine/shuffle.h"

namespace mpfa::sim {
namespace {

bool has(uint32_t mask, int lane) { return (mask >> lane & 1) != 0; }

// ---- shfl
// ------------------------------------------------------------------------------------------

struct ShuffleDetail : InsnDetail {
  Slot members = kNoSlot;
  Slot in_range = kNoSlot;
};

template <Shuffle kMode>
Step shuffle(Warp& w, const Insn& i) {
  const auto& detail = static_cast<const ShuffleDetail&>(*i.detail);
  if (detail.members != kNoSlot && !gather_members(w, i, detail.members)) return Step::kBlock;
  const uint32_t* a = w.source<uint32_t>(i.a);
  const uint32_t* b = w.source<uint32_t>(i.b);
  const uint32_t* c = w.source<uint32_t>(i.c);
  uint32_t values[kWarpSize];
  uint32_t range = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const ShuffleSource from = shuffle_source(kMode, lane, b[lane], c[lane]);
    values[lane] = a[from.lane & 31];
    range |= static_cast<uint32_t>(from.in_range) << lane;
  }
  uint32_t* to = w.target<uint32_t>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (has(w.mask, lane)) to[lane] = values[lane];
  }
  if (detail.in_range != kNoSlot) w.set_predicate(detail.in_range, range);
  return Step::kNext;
}

// ---- vote, match, redux, elect
// ---------------------------------------------------------------------

enum class Vote : uint8_t { kAll, kAny, kUni, kBallot };

// Runs `of(lanes)` for each set of active lanes with the same member mask.
template <class F>
void for_each_group(Warp& w, Slot members, F of) {
  const uint32_t all = w.mask;
  uint32_t left = all;
  while (left != 0) {
    uint32_t group = left;
    if (members != kNoSlot) {
      const uint32_t* masks = w.source<uint32_t>(members);
      const uint32_t first = masks[std::countr_zero(left)];
      group = 0;
      for (int lane = 0; lane < kWarpSize; ++lane) {
        if (has(left, lane) && masks[lane] == first) group |= 1u << lane;
      }
    }
    w.mask = group;
    of(group);
    left &= ~group;
  }
  w.mask = all;
}

void fill(Warp& w, Slot slot, uint32_t value) {
  uint32_t* to = w.target<uint32_t>(slot);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (has(w.mask, lane)) to[lane] = value;
  }
}

template <Vote kMode>
Step vote(Warp& w, const Insn& i) {
  if (i.b != kNoSlot && !gather_members(w, i, i.b)) return Step::kBlock;
  for_each_group(w, i.b, [&](uint32_t group) {
    const uint32_t yes = w.predicate(i.a) & group;
    switch (kMode) {
      case Vote::kAll:
        w.set_predicate(i.dst, yes == group ? group : 0);
        break;
      case Vote::kAny:
        w.set_predicate(i.dst, yes != 0 ? group : 0);
        break;
      case Vote::kUni:
        w.set_predicate(i.dst, yes == group || yes == 0 ? group : 0);
        break;
      case Vote::kBallot:
        fill(w, i.dst, yes);
        break;
    }
  });
  return Step::kNext;
}

template <class T>
Step match_any(Warp& w, const Insn& i) {
  if (!gather_members(w, i, i.b)) return Step::kBlock;
  for_each_group(w, i.b, [&](uint32_t group) {
    const T* a = w.source<T>(i.a);
    uint32_t* to = w.target<uint32_t>(i.dst);
    uint32_t results[kWarpSize] = {};
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if (!has(group, lane)) continue;
      for (int other = 0; other < kWarpSize; ++other) {
        if (has(group, other) && a[other] == a[lane]) results[lane] |= 1u << other;
      }
    }
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if (has(group, lane)) to[lane] = results[lane];
    }
  });
  return Step::kNext;
}

// d = the member mask if all values are equal, else 0; p (slot c) whether they are.
template <class T>
Step match_all(Warp& w, const Insn& i) {
  if (!gather_members(w, i, i.b)) return Step::kBlock;
  for_each_group(w, i.b, [&](uint32_t group) {
    const T* a = w.source<T>(i.a);
    const T first = a[std::countr_zero(group)];
    bool equal = true;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if (has(group, lane)) equal &= a[lane] == first;
    }
    fill(w, i.dst, equal ? group : 0);
    if (i.c != kNoSlot) w.set_predicate(i.c, equal ? group : 0);
  });
  return Step::kNext;
}

enum class Reduction : uint8_t { kAdd, kMinU, kMaxU, kMinS, kMaxS, kAnd, kOr, kXor, kMinF, kMaxF };
constexpr uint8_t kReduceAbs = 1;
constexpr uint8_t kReduceNan = 2;

float reduce_floats(float x, float y, bool is_max, bool keep_nan) {
  if (std::isnan(x) || std::isnan(y)) {
    if (keep_nan || (std::isnan(x) && std::isnan(y))) return std::bit_cast<float>(0x7FFFFFFFu);
    return std::isnan(x) ? y : x;
  }
  if (x == y) return std::signbit(x) == is_max ? y : x;  // -0 is below +0
  return (x < y) == is_max ? y : x;
}

uint32_t reduce(Reduction op, uint32_t x, uint32_t y, uint8_t flags) {
  const auto sx = static_cast<int32_t>(x);
  const auto sy = static_cast<int32_t>(y);
  switch (op) {
    case Reduction::kAdd:
      return x + y;
    case Reduction::kMinU:
      return std::min(x, y);
    case Reduction::kMaxU:
      return std::max(x, y);
    case Reduction::kMinS:
      return static_cast<uint32_t>(std::min(sx, sy));
    case Reduction::kMaxS:
      return static_cast<uint32_t>(std::max(sx, sy));
    case Reduction::kAnd:
      return x & y;
    case Reduction::kOr:
      return x | y;
    case Reduction::kXor:
      return x ^ y;
    default: {
      const uint32_t clear = (flags & kReduceAbs) != 0 ? 0x7FFFFFFFu : ~0u;
      return std::bit_cast<uint32_t>(
          reduce_floats(std::bit_cast<float>(x & clear), std::bit_cast<float>(y & clear),
                        op == Reduction::kMaxF, (flags & kReduceNan) != 0));
    }
  }
}

Step redux(Warp& w, const Insn& i) {
  if (!gather_members(w, i, i.b)) return Step::kBlock;
  const auto op = static_cast<Reduction>(i.imm);
  for_each_group(w, i.b, [&](uint32_t group) {
    const uint32_t* a = w.source<uint32_t>(i.a);
    uint32_t result = a[std::countr_zero(group)];
    bool first = true;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if (!has(group, lane)) continue;
      if (!first) result = reduce(op, result, a[lane], i.u8);
      first = false;
    }
    if ((i.u8 & kReduceAbs) != 0) result &= 0x7FFFFFFFu;
    fill(w, i.dst, result);
  });
  return Step::kNext;
}

Step active_mask(Warp& w, const Insn& i) {
  fill(w, i.dst, w.mask);
  return Step::kNext;
}

// One leader, the lowest lane; d is its number.
Step elect(Warp& w, const Insn& i) {
  if (!gather_members(w, i, i.a)) return Step::kBlock;
  for_each_group(w, i.a, [&](uint32_t group) {
    const int leader = std::countr_zero(group);
    if (i.dst != kNoSlot) fill(w, i.dst, static_cast<uint32_t>(leader));
    w.set_predicate(i.c, 1u << leader);
  });
  return Step::kNext;
}

Handler vote_handler(int mode) {
  switch (mode) {
    case 0:
      return &vote<Vote::kAll>;
    case 1:
      return &vote<Vote::kAny>;
    case 2:
      return &vote<Vote::kUni>;
    default:
      return &vote<Vote::kBallot>;
  }
}

Handler shuffle_handler(int mode) {
  switch (mode) {
    case 0:
      return &shuffle<Shuffle::kUp>;
    case 1:
      return &shuffle<Shuffle::kDown>;
    case 2:
      return &shuffle<Shuffle::kButterfly>;
    default:
      return &shuffle<Shuffle::kIndex>;
  }
}

Reduction take_reduction(InsnDecoder& d) {
  const int op = d.take_one({"add", "min", "max", "and", "or", "xor"});
  const ScalarType type = d.expect_type();
  if (op < 0) d.fail("the operation is missing");
  const bool is_max = op == 2;
  const bool is_extreme = op == 1 || is_max;
  const bool is_number = type == ScalarType::kU32 || type == ScalarType::kS32 ||
                         (is_extreme && type == ScalarType::kF32);
  if (op <= 2 ? !is_number : type != ScalarType::kB32) {
    d.fail("the type ." + std::string(name_of(type)) + " is not allowed here");
  }
  if (is_extreme) {
    if (type == ScalarType::kF32) return is_max ? Reduction::kMaxF : Reduction::kMinF;
    if (type == ScalarType::kS32) return is_max ? Reduction::kMaxS : Reduction::kMinS;
    return is_max ? Reduction::kMaxU : Reduction::kMinU;
  }
  if (op == 0) return Reduction::kAdd;
  return op == 3 ? Reduction::kAnd : op == 4 ? Reduction::kOr : Reduction::kXor;
}

constexpr ScalarType kWord = ScalarType::kB32;

}  // namespace

void decode_shfl(InsnDecoder& d) {
  const bool sync = d.take("sync");
  const int mode = d.take_one({"up", "down", "bfly", "idx"});
  if (mode < 0) d.fail("the mode is missing");
  d.expect_type();
  d.expect_no_more();
  const Operand& result = d.operand(0);
  const bool is_pair = result.kind == OperandKind::kPair;
  const Slot a = d.source(1, kWord);
  const Slot b = d.source(2, kWord);
  const Slot c = d.source(3, kWord);
  ShuffleDetail detail;
  if (sync) detail.members = d.source(4, kWord);
  if (is_pair) detail.in_range = d.predicate_target(result.parts[1]);
  const Slot to = d.target(is_pair ? result.parts[0] : result, kWord);
  Insn& insn = d.emit(shuffle_handler(mode));
  insn.splits = true;
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = c;
  d.detail<ShuffleDetail>(insn, detail);
}

void decode_vote(InsnDecoder& d) {
  const bool sync = d.take("sync");
  const int mode = d.take_one({"all", "any", "uni", "ballot"});
  if (mode < 0) d.fail("the mode is missing");
  d.expect_type();
  d.expect_no_more();
  const Slot a = d.predicate(d.operand(1));
  const Slot members = sync ? d.source(2, kWord) : kNoSlot;
  const Slot to = mode == 3 ? d.target(0, kWord) : d.predicate_target(d.operand(0));
  Insn& insn = d.emit(vote_handler(mode));
  insn.splits = true;
  insn.dst = to;
  insn.a = a;
  insn.b = members;
}

void decode_match(InsnDecoder& d) {
  const bool all = d.take_one({"any", "all"}) == 1;
  d.take("sync");
  const ScalarType type = d.expect_type();
  d.expect_no_more();
  const bool wide = bits_of(type) == 64;
  const Operand& result = d.operand(0);
  const bool is_pair = result.kind == OperandKind::kPair;
  const Slot a = d.source(1, type);
  const Slot members = d.source(2, kWord);
  const Slot to = d.target(is_pair ? result.parts[0] : result, kWord);
  const Slot p = is_pair ? d.predicate_target(result.parts[1]) : kNoSlot;
  Handler handler = wide ? &match_any<uint64_t> : &match_any<uint32_t>;
  if (all) handler = wide ? &match_all<uint64_t> : &match_all<uint32_t>;
  Insn& insn = d.emit(handler);
  insn.splits = true;
  insn.dst = to;
  insn.a = a;
  insn.b = members;
  insn.c = p;
}

void decode_redux(InsnDecoder& d) {
  d.take("sync");
  const bool abs = d.take("abs");
  const bool keep_nan = d.take("NaN");
  const Reduction op = take_reduction(d);
  d.expect_no_more();
  if ((abs || keep_nan) && op != Reduction::kMinF && op != Reduction::kMaxF) {
    d.fail(".abs and .NaN are of .min and .max of .f32");
  }
  const Slot a = d.source(1, kWord);
  const Slot members = d.source(2, kWord);
  const Slot to = d.target(0, kWord);
  Insn& insn = d.emit(&redux);
  insn.splits = true;
  insn.dst = to;
  insn.a = a;
  insn.b = members;
  insn.imm = static_cast<int64_t>(op);
  insn.u8 = static_cast<uint8_t>((abs ? kReduceAbs : 0) | (keep_nan ? kReduceNan : 0));
}

void decode_activemask(InsnDecoder& d) {
  if (d.expect_type() != kWord) d.fail("the type must be .b32");
  d.expect_no_more();
  const Slot to = d.target(0, kWord);
  d.emit(&active_mask).dst = to;
}

void decode_elect(InsnDecoder& d) {
  d.take("sync");
  d.expect_no_more();
  const Operand& result = d.operand(0);
  if (result.kind != OperandKind::kPair) d.fail("the result must be d|p");
  const Slot members = d.source(1, kWord);
  const bool is_wanted = result.parts[0].kind != OperandKind::kSink;
  const Slot to = is_wanted ? d.target(result.parts[0], kWord) : kNoSlot;
  const Slot p = d.predicate_target(result.parts[1]);
  Insn& insn = d.emit(&elect);
  insn.splits = true;
  insn.dst = to;
  insn.a = members;
  insn.c = p;
}

}  // namespace mpfa::sim
