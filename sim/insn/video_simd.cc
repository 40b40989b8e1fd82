// SIMD video instructions: vadd2, vadd4 and the like (PTX ISA, section SIMD Video Instructions).
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/video.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {
namespace {

// Which element of a (first) and b (behind) each of the operation's elements is.
using Selection = std::array<int, 4>;

struct SimdVideoDetail : InsnDetail {
  VideoOp op = VideoOp::kAdd;
  VideoCompare compare = VideoCompare::kEq;
  int elements = 2;
  int bits = 16;
  bool a_signed = false;
  bool b_signed = false;
  bool is_signed = false;
  bool sat = false;
  bool accumulate = false;
  uint32_t mask = 0;  // elements that are wanted
  Selection a_selection = {};
  Selection b_selection = {};

  int64_t select(uint64_t both, int element, bool sign) const {
    const uint64_t from_top = both << (64 - bits * (element + 1));
    return sign ? static_cast<int64_t>(from_top) >> (64 - bits)
                : static_cast<int64_t>(from_top >> (64 - bits));
  }
};

uint32_t run_lane(const SimdVideoDetail& v, uint64_t both, uint32_t c) {
  const uint32_t element_mask = (uint32_t{1} << v.bits) - 1;
  uint32_t result = c;
  for (int e = 0; e < v.elements; ++e) {
    if ((v.mask >> e & 1) == 0) continue;
    const auto at = static_cast<size_t>(e);
    const int64_t a = v.select(both, v.a_selection[at], v.a_signed);
    const int64_t b = v.select(both, v.b_selection[at], v.b_signed);
    int64_t value = video_primary(v.op, v.compare, a, b);
    if (v.sat) value = clamp_to_bits(value, v.bits, v.is_signed);
    if (v.accumulate) {
      result += static_cast<uint32_t>(value);
    } else {
      const int shift = v.bits * e;
      result &= ~(element_mask << shift);
      result |= (static_cast<uint32_t>(value) & element_mask) << shift;
    }
  }
  return result;
}

Step simd_video(Warp& w, const Insn& i) {
  const auto& v = static_cast<const SimdVideoDetail&>(*i.detail);
  const uint32_t* a = w.source<uint32_t>(i.a);
  const uint32_t* b = w.source<uint32_t>(i.b);
  const uint32_t* c = w.source<uint32_t>(i.c);
  uint32_t* to = w.target<uint32_t>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    to[lane] = run_lane(v, uint64_t{b[lane]} << 32 | a[lane], c[lane]);
  }
  return Step::kNext;
}

// The digits of a selector, the lowest element's first; without one, `standard`'s.
std::string digits_of(const InsnDecoder& d, const Operand& operand, const SimdVideoDetail& v,
                      std::string_view standard) {
  std::string digits(operand.selector.empty() ? standard : operand.selector.substr(1));
  const bool letter_fits =
      operand.selector.empty() || operand.selector[0] == (v.elements == 2 ? 'h' : 'b');
  if (!letter_fits) d.fail("the selector ." + operand.selector + " is not of this instruction");
  return {digits.rbegin(), digits.rend()};
}

Selection selection_of(const InsnDecoder& d, const Operand& operand, const SimdVideoDetail& v,
                       std::string_view standard) {
  const std::string digits = digits_of(d, operand, v, standard);
  Selection selection = {};
  bool right = digits.size() == static_cast<size_t>(v.elements);
  for (size_t e = 0; right && e < digits.size(); ++e) {
    selection[e] = digits[e] - '0';
    right = selection[e] < 2 * v.elements;
  }
  if (!right) {
    d.fail("the selector ." + operand.selector + " must name " + std::to_string(v.elements) +
           " elements of 0 to " + std::to_string(2 * v.elements - 1));
  }
  return selection;
}

uint32_t mask_of(const InsnDecoder& d, const Operand& operand, const SimdVideoDetail& v,
                 std::string_view standard) {
  uint32_t mask = 0;
  for (const char digit : digits_of(d, operand, v, standard)) {
    const uint32_t bit = uint32_t{1} << (digit - '0');
    // From the top down, each once.
    if (digit - '0' >= v.elements || mask >= bit) {
      d.fail("the mask ." + operand.selector + " is not allowed");
    }
    mask |= bit;
  }
  return mask;
}

void decode_simd(InsnDecoder& d, VideoOp op, int elements) {
  SimdVideoDetail v;
  v.op = op;
  v.elements = elements;
  v.bits = 32 / elements;
  if (op == VideoOp::kSet) {
    v.compare = take_video_compare(d);
  } else {
    v.sat = d.take("sat");
    v.is_signed = take_video_sign(d);
  }
  v.accumulate = d.take("add");
  if (v.sat && v.accumulate) d.fail(".sat and .add exclude each other");
  v.a_signed = take_video_sign(d);
  v.b_signed = take_video_sign(d);
  d.expect_no_more();
  for (size_t i = 0; i < d.count(); ++i) {
    if (d.operand(i).negated) d.fail("operands cannot be negated here");
  }
  v.mask = mask_of(d, d.operand(0), v, elements == 2 ? "10" : "3210");
  v.a_selection = selection_of(d, d.operand(1), v, elements == 2 ? "10" : "3210");
  v.b_selection = selection_of(d, d.operand(2), v, elements == 2 ? "32" : "7654");
  const Slot a = video_source(d, d.operand(1));
  const Slot b = video_source(d, d.operand(2));
  const Slot c = video_source(d, d.operand(3));
  const Slot to = video_target(d, d.operand(0));
  Insn& insn = d.emit(&simd_video);
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = c;
  d.detail<SimdVideoDetail>(insn, v);
}

}  // namespace

void decode_vadd2(InsnDecoder& d) { decode_simd(d, VideoOp::kAdd, 2); }
void decode_vadd4(InsnDecoder& d) { decode_simd(d, VideoOp::kAdd, 4); }
void decode_vsub2(InsnDecoder& d) { decode_simd(d, VideoOp::kSub, 2); }
void decode_vsub4(InsnDecoder& d) { decode_simd(d, VideoOp::kSub, 4); }
void decode_vavrg2(InsnDecoder& d) { decode_simd(d, VideoOp::kAverage, 2); }
void decode_vavrg4(InsnDecoder& d) { decode_simd(d, VideoOp::kAverage, 4); }
void decode_vabsdiff2(InsnDecoder& d) { decode_simd(d, VideoOp::kAbsDiff, 2); }
void decode_vabsdiff4(InsnDecoder& d) { decode_simd(d, VideoOp::kAbsDiff, 4); }
void decode_vmin2(InsnDecoder& d) { decode_simd(d, VideoOp::kMin, 2); }
void decode_vmin4(InsnDecoder& d) { decode_simd(d, VideoOp::kMin, 4); }
void decode_vmax2(InsnDecoder& d) { decode_simd(d, VideoOp::kMax, 2); }
void decode_vmax4(InsnDecoder& d) { decode_simd(d, VideoOp::kMax, 4); }
void decode_vset2(InsnDecoder& d) { decode_simd(d, VideoOp::kSet, 2); }
void decode_vset4(InsnDecoder& d) { decode_simd(d, VideoOp::kSet, 4); }

}  // namespace mpfa::sim
