// Online softmax of a warp's 16 rows (docs/spec.md, section 3), with a lazy maximum: the reference
// moves only when a score exceeds it by 2^4.
#pragma once

#include "kernels/any/decode/softmax.cuh"
#include "kernels/ptx/convert.cuh"

namespace mpfa::kernels::sm90 {

// Exponents are taken as lambda * score + offset, offset = kRoom - reference: probabilities use
// e4m3's range up to 448 = 28 * 2^kLimit.
inline constexpr float kRoom = 4.807354922057604f;  // log2(28)
inline constexpr float kLimit = 4.0f;
inline constexpr uint32_t kMinusInfinity = 0xFF800000u;

// Moves a row's offset if the largest product of a score and lambda, of the four lanes that share
// the row, is beyond; -inf for a row that sees no key. Returns what is added up so far is to be
// multiplied by. The offset stays above -most.
__device__ __forceinline__ float move_offset(float& offset, float product, float most) {
  product = fmaxf(product, __shfl_xor_sync(~0u, product, 1));
  product = fmaxf(product, __shfl_xor_sync(~0u, product, 2));
  // Hidden keys alone leave the offset; a NaN of a score shows in the sum.
  const float before = offset;
  if (product != __uint_as_float(kMinusInfinity)) {
    offset = fminf(before, fmaxf(kRoom - product, -most));
  }
  return ptx::exp2_approx(offset - before);
}

// kNoKey for a row without keys. Scores that are all NaN have moved no reference, and yet there
// were keys.
__device__ __forceinline__ float final_offset(float offset, float sum) {
  return offset == kNoKey && isnan(sum) ? 0.0f : offset;
}

// What a score is above when its product exceeds the row's reference by kLimit.
__device__ __forceinline__ float limit_of_scores(float lambda, float offset) {
  return __fdividef(kRoom + kLimit - offset, lambda);
}

}  // namespace mpfa::kernels::sm90
