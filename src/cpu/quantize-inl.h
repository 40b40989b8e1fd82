// The number formats of docs/spec.md, section 1, on vectors: the same bits as formats.h gives, on
// every target. Included once per target by Highway's foreach_target.h.
//
// Lanes hold FP32 values. Three tricks carry most of the speed:
// - Rounding to few mantissa bits is one addition: for a >= 0 whose grid step is 2^n,
//   a + 2^(n + 23) leaves round-to-nearest-even(a / 2^n) in the sum's low mantissa bits.
// - Dot products and errors "by halves" never need a horizontal sum: blocks of 16 values are
//   transposed, so that a lane holds a block and an addition halves all of them at once.
// - |x| is enough to choose a scale: code and error do not depend on the sign.
#if defined(MPFA_CPU_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_CPU_QUANTIZE_INL_H_
#undef MPFA_CPU_QUANTIZE_INL_H_
#else
#define MPFA_CPU_QUANTIZE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "core/lanes-inl.h"
#include "mpfa/formats.h"

// Blocks as lanes need vectors; where there are none, callers fall back on scalar code.
#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(kLanes == 4 || kLanes == 8 || kLanes == 16);

// ---- Rounding -----------------------------------------------------------------------------------

// A value on a coarser grid: `code` counts grid points up from 0, `value` is the point itself.
struct Rounded {
  VU code;
  VF value;
};

// Rounds to a float of kMantissa bits whose smallest normal number is 2^kMinExponent, to nearest,
// ties to even. `abs` holds the bits of a number >= 0 and at most the format's largest.
template <int kMantissa, int kMinExponent>
HWY_INLINE Rounded round_magnitude(VU abs) {
  constexpr uint32_t kMinNormal = static_cast<uint32_t>(127 + kMinExponent) << 23;
  constexpr uint32_t kToMagic = static_cast<uint32_t>(23 - kMantissa) << 23;
  const VU binade = hn::Max(hn::And(abs, set_bits(0x7F800000u)), set_bits(kMinNormal));
  const VU magic = hn::Add(binade, set_bits(kToMagic));
  const VF sum = hn::Add(from_bits(abs), from_bits(magic));
  // The sum's low bits count grid steps of this binade; earlier binades have 2^kMantissa points
  // each (the one below the smallest normal number too).
  constexpr uint32_t kFirst = (kMinNormal + kToMagic) >> (23 - kMantissa);
  const VU steps = hn::Sub(bits_of(sum), magic);
  const VU before = hn::Sub(hn::ShiftRight<23 - kMantissa>(magic), set_bits(kFirst));
  return {hn::Add(steps, before), hn::Sub(sum, from_bits(magic))};
}

// e2m1 of numbers >= 0. Saturates at 6; a NaN gives 6 (code 7).
HWY_INLINE Rounded round_e2m1(VF abs) {
  return round_magnitude<1, 0>(hn::Min(bits_of(abs), set_bits(kE2m1Max)));
}

// e4m3 code of numbers >= 0. Saturates at 448; a NaN gives 0x7F.
HWY_INLINE VU e4m3_magnitude(VU abs) {
  const VU code = round_magnitude<3, -6>(hn::Min(abs, set_bits(kE4m3Max))).code;
  return hn::IfThenElse(hn::Gt(abs, set_bits(0x7F800000u)), set_bits(uint32_t{kE4m3NanCode}), code);
}

// e4m3 as the cache stores it: every NaN is the positive one.
HWY_INLINE VU e4m3_stored(VF x) {
  const VU abs = abs_bits(x);
  const VU code = round_magnitude<3, -6>(hn::Min(abs, set_bits(kE4m3Max))).code;
  const VU with_sign = hn::Or(code, hn::ShiftRight<24>(sign_bits(x)));
  return hn::IfThenElse(hn::Gt(abs, set_bits(0x7F800000u)), set_bits(uint32_t{kE4m3NanCode}),
                        with_sign);
}

// BF16 bits as the cache stores them: to nearest even, every NaN the positive quiet one.
HWY_INLINE VU bf16_stored(VF x) {
  return hn::IfThenElse(hn::Gt(abs_bits(x), set_bits(0x7F800000u)), set_bits(0x7FC0u),
                        round_to_bf16_bits(x));
}

// Lanes of at most 255 (65535), stored as bytes (16 bits).
HWY_INLINE void store_u8(VU x, void* p) {
  const hn::Rebind<uint8_t, DF> d8;
  // Not TruncateTo: Highway 1.0.3 permutes the wrong element size there on AVX3_DL.
  hn::StoreU(hn::U8FromU32(x), d8, static_cast<uint8_t*>(p));
}
HWY_INLINE void store_u16(VU x, void* p) {
  const hn::Rebind<uint16_t, DF> d16;
  hn::StoreU(hn::TruncateTo(d16, x), d16, static_cast<uint16_t*>(p));
}

// The low nibbles of the lanes, two a byte, the even lane low: kLanes / 2 bytes.
HWY_INLINE void store_nibbles(VU x, uint8_t* p) {
  const hn::Repartition<uint64_t, DF> d64;
  const hn::Rebind<uint8_t, decltype(d64)> d8;
  const auto pairs = hn::BitCast(d64, x);
  hn::StoreU(hn::TruncateTo(d8, hn::Or(pairs, hn::ShiftRight<28>(pairs))), d8, p);
}

// ---- Blocks of 16 as lanes ----------------------------------------------------------------------

// Loads kLanes blocks of 16 contiguous values: lane b of out[i] is blocks[16 * b + i].
HWY_INLINE void load_blocks(const float* blocks, VF (&out)[kNvfp4BlockSize]) {
  const DF d;
  // A vector covers kQuads quads of one block; four blocks make one set of transposed quads.
  constexpr int64_t kQuads = kLanes / 4;
  for (int64_t part = 0; part < 4 / kQuads; ++part) {
    VF quads[kQuads][4];  // [blocks 4g .. 4g + 3][element of the quad]
    for (int64_t g = 0; g < kQuads; ++g) {
      VF rows[4];
      for (int64_t c = 0; c < 4; ++c) {
        rows[c] = hn::LoadU(d, blocks + (4 * g + c) * kNvfp4BlockSize + part * kLanes);
      }
      transpose_quads(d, rows, quads[g]);
    }
    VF* to = out + part * kLanes;
    for (int64_t k = 0; k < 4; ++k) {
#if HWY_MAX_BYTES == 16
      to[k] = quads[0][k];
#elif HWY_MAX_BYTES == 32
      to[k] = hn::ConcatLowerLower(d, quads[1][k], quads[0][k]);
      to[4 + k] = hn::ConcatUpperUpper(d, quads[1][k], quads[0][k]);
#else
      const VF even_low = hn::ConcatLowerLower(d, quads[2][k], quads[0][k]);
      const VF odd_low = hn::ConcatLowerLower(d, quads[3][k], quads[1][k]);
      const VF even_high = hn::ConcatUpperUpper(d, quads[2][k], quads[0][k]);
      const VF odd_high = hn::ConcatUpperUpper(d, quads[3][k], quads[1][k]);
      to[k] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_low), even_low);
      to[4 + k] = hn::OddEvenBlocks(odd_low, hn::SwapAdjacentBlocks(even_low));
      to[8 + k] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_high), even_high);
      to[12 + k] = hn::OddEvenBlocks(odd_high, hn::SwapAdjacentBlocks(even_high));
#endif
    }
  }
}

// sum over i of term(i), i = 0 .. kCount - 1, by halves; of 16: (t0 + t8) + (t4 + t12) and so on.
template <int kCount, int kFirst = 0, int kStep = 1, typename Term>
HWY_INLINE VF sum_by_halves(const Term& term) {
  if constexpr (kStep == kCount) {
    return term(kFirst);
  } else {
    return hn::Add(sum_by_halves<kCount, kFirst, 2 * kStep>(term),
                   sum_by_halves<kCount, kFirst + kStep, 2 * kStep>(term));
  }
}

// sums[b] = sum by halves of blocks[16 * b .. 16 * b + 15], for kLanes blocks.
HWY_INLINE void sum_blocks(const float* blocks, float* sums) {
  VF x[kNvfp4BlockSize];
  load_blocks(blocks, x);
  hn::StoreU(sum_by_halves<kNvfp4BlockSize>([&](int i) HWY_ATTR { return x[i]; }), DF(), sums);
}

// ---- Scales -------------------------------------------------------------------------------------

// Scales of kLanes blocks: the code, its value and the factor that divides by it.
struct Scales {
  VU code;
  VF value;
  VF reciprocal;
};

HWY_INLINE Scales scales_from_codes(VU code) {
  const VF value = e4m3_decode_magnitude(code);
  return {code, value, hn::Div(set(1.0f), value)};
}

// Squared error of blocks whose |x| are given, as nvfp4_squared_error() computes it.
HWY_INLINE VF squared_error(const VF (&abs)[kNvfp4BlockSize], const Scales& scales) {
  return sum_by_halves<kNvfp4BlockSize>([&](int i) HWY_ATTR {
    const VF value = round_e2m1(hn::Mul(abs[i], scales.reciprocal)).value;
    // scale * e2m1 is exact, so a fused multiply would round no differently.
    const VF error = hn::MulSub(value, scales.value, abs[i]);
    return hn::Mul(error, error);
  });
}

// Chooses the scales of kLanes blocks as nvfp4_quantize() does. A zero scale gets the reciprocal 0;
// value and reciprocal of a NaN scale are meaningless.
HWY_INLINE Scales choose_scales(const float* blocks, ScaleRule rule) {
  VF abs[kNvfp4BlockSize];
  load_blocks(blocks, abs);
  VU amax = hn::Zero(DU());
  for (VF& x : abs) {
    x = from_bits(abs_bits(x));
    amax = hn::Max(amax, bits_of(x));  // bits order like the values, with NaN above infinity
  }
  const VU plain = e4m3_magnitude(bits_of(hn::Div(from_bits(amax), set(kE2m1Max))));
  const VU zero = hn::Zero(DU());
  Scales best = scales_from_codes(plain);
  if (rule == ScaleRule::kSearch) {
    // Candidates outside 1 .. 0x7E become a neighbour's double, which changes nothing: a tie keeps
    // the earlier, and both have the same code. All divisions first: they take long and wait for
    // nothing.
    constexpr int kCandidates = kScaleSearchLast - kScaleSearchFirst + 1;
    Scales candidates[kCandidates];
    for (int i = 0; i < kCandidates; ++i) {
      const VI code = hn::Add(hn::BitCast(DI(), plain), hn::Set(DI(), kScaleSearchFirst + i));
      const VI kept = hn::Min(hn::Max(code, hn::Set(DI(), 1)), hn::Set(DI(), kE4m3MaxCode));
      candidates[i] = scales_from_codes(hn::BitCast(DU(), kept));
    }
    best = candidates[0];
    VF best_error = squared_error(abs, best);
    for (int i = 1; i < kCandidates; ++i) {
      const VF error = squared_error(abs, candidates[i]);
      const auto better = hn::Lt(error, best_error);
      best.code = hn::IfThenElse(hn::RebindMask(DU(), better), candidates[i].code, best.code);
      best.value = hn::IfThenElse(better, candidates[i].value, best.value);
      best.reciprocal = hn::IfThenElse(better, candidates[i].reciprocal, best.reciprocal);
      best_error = hn::IfThenElse(better, error, best_error);
    }
  }
  const auto fixed = hn::Or(hn::Eq(plain, zero), hn::Eq(plain, set_bits(uint32_t{kE4m3NanCode})));
  const auto fixed_float = hn::RebindMask(DF(), fixed);
  best.code = hn::IfThenElse(fixed, plain, best.code);
  best.value = hn::IfThenZeroElse(fixed_float, best.value);
  best.reciprocal = hn::IfThenZeroElse(fixed_float, best.reciprocal);
  return best;
}

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR
#endif  // include guard per target
