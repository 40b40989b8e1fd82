// What the scalar (video.cc) and the SIMD video instructions (video_simd.cc) share.
#pragma once

#include <cstdint>

#include "sim/insn/decoder.h"

namespace mpfa::sim {

enum class VideoOp : uint8_t { kAdd, kSub, kAverage, kAbsDiff, kMin, kMax, kShl, kShr, kSet };
enum class VideoCompare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };

// The primary operation, but for shifts.
int64_t video_primary(VideoOp op, VideoCompare compare, int64_t a, int64_t b);

// .sat: within an integer's range.
int64_t clamp_to_bits(int64_t value, int bits, bool is_signed);

VideoCompare take_video_compare(InsnDecoder& decoder);
// Takes .u32 (false) or .s32 (true).
bool take_video_sign(InsnDecoder& decoder);

// An operand's register without the selector and the sign that stand at it.
Slot video_source(InsnDecoder& decoder, const Operand& operand);
Slot video_target(InsnDecoder& decoder, const Operand& operand);

}  // namespace mpfa::sim
