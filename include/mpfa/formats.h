// Number formats: BF16, FP16, e4m3 (fn), e2m1 and NVFP4 blocks. Bit-exact definitions in
// docs/spec.md, section 1. Everything is constexpr and the same code serves the host, the CUDA
// kernels and, as the scalar reference, the SIMD code.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define MPFA_HOST_DEVICE __host__ __device__
#else
#define MPFA_HOST_DEVICE
#endif

namespace mpfa {

// Storage types. Plain integers would convert into one another silently.
struct Bf16 {
  uint16_t bits;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};
struct Fp16 {
  uint16_t bits;
  friend constexpr bool operator==(Fp16, Fp16) = default;
};
struct E4m3 {
  uint8_t bits;
  friend constexpr bool operator==(E4m3, E4m3) = default;
};

inline constexpr float kE4m3Max = 448.0f;
inline constexpr float kE2m1Max = 6.0f;
inline constexpr uint8_t kE4m3MaxCode = 0x7E;
inline constexpr uint8_t kE4m3NanCode = 0x7F;
// Elements that share one scale in NVFP4.
inline constexpr int kNvfp4BlockSize = 16;
// How far the scale search looks from the plain scale's code (docs/spec.md, section 1).
inline constexpr int kScaleSearchFirst = -1;
inline constexpr int kScaleSearchLast = 4;

namespace internal {

MPFA_HOST_DEVICE constexpr uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
MPFA_HOST_DEVICE constexpr float float_from_bits(uint32_t b) {
  return __builtin_bit_cast(float, b);
}

// A product and a sum that must not become an FMA: quantised bytes depend on it. GCC and nvcc
// honour this under any flags; clang needs -ffp-contract=on (its default) or off.
MPFA_HOST_DEVICE constexpr float mul_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return __fmul_rn(a, b);
#endif
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
  return __builtin_assoc_barrier(a * b);
#else
  return a * b;  // clang fuses only within one expression unless told otherwise
#endif
}
MPFA_HOST_DEVICE constexpr float add_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return __fadd_rn(a, b);
#endif
  return a + b;
}

}  // namespace internal

// ---- BF16 -------------------------------------------------------------------------------------

// Round to nearest even; overflow gives infinity; a NaN stays a (quiet) NaN of the same sign.
MPFA_HOST_DEVICE constexpr Bf16 bf16_from_float(float x) {
  const uint32_t bits = internal::float_bits(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

MPFA_HOST_DEVICE constexpr float bf16_to_float(Bf16 x) {
  return internal::float_from_bits(static_cast<uint32_t>(x.bits) << 16);
}

// ---- FP16 (IEEE binary16) ---------------------------------------------------------------------

// Round to nearest even; overflow gives infinity; a NaN stays a (quiet) NaN of the same sign.
MPFA_HOST_DEVICE constexpr Fp16 fp16_from_float(float x) {
  const uint32_t bits = internal::float_bits(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t abs = bits & 0x7FFFFFFFu;
  if (abs > 0x7F800000u) {
    return {static_cast<uint16_t>(sign | 0x7E00u | ((abs >> 13) & 0x3FFu))};
  }
  if (abs >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7C00u)};  // >= 65536
  if (abs < 0x38800000u) {
    // Below 2^-14: adding 0.5 leaves the value in the sum's low bits, in units of 2^-24, rounded
    // by the addition itself.
    const float sum = internal::add_rn(internal::float_from_bits(abs), 0.5f);
    return {static_cast<uint16_t>(sign | (internal::float_bits(sum) - 0x3F000000u))};
  }
  const uint32_t rounded = abs + 0xFFFu + ((abs >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

MPFA_HOST_DEVICE constexpr float fp16_to_float(Fp16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t abs = x.bits & 0x7FFFu;
  if (abs >= 0x7C00u) return internal::float_from_bits(sign | 0x7F800000u | ((abs & 0x3FFu) << 13));
  if (abs < 0x400u) {
    const float magnitude = static_cast<float>(abs) * 0x1p-24f;
    return internal::float_from_bits(sign | internal::float_bits(magnitude));
  }
  return internal::float_from_bits(sign | ((abs << 13) + 0x38000000u));
}

// ---- e4m3 (fn: no infinity, one NaN per sign) ---------------------------------------------------

// Round to nearest even, saturate at 448 (infinity too); a NaN stays a NaN of the same sign.
MPFA_HOST_DEVICE constexpr E4m3 e4m3_from_float(float x) {
  const uint32_t bits = internal::float_bits(x);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t abs = bits & 0x7FFFFFFFu;
  if (abs > 0x7F800000u) return {static_cast<uint8_t>(sign | kE4m3NanCode)};
  if (abs >= 0x43E00000u) return {static_cast<uint8_t>(sign | kE4m3MaxCode)};  // >= 448
  if (abs < 0x3C800000u) {
    // Below 2^-6: adding 2^14 leaves the value in the sum's low bits, in units of 2^-9, rounded by
    // the addition itself.
    const float sum = internal::add_rn(internal::float_from_bits(abs), 0x1p14f);
    return {static_cast<uint8_t>(sign | (internal::float_bits(sum) - 0x46800000u))};
  }
  const uint32_t rounded = abs + 0x7FFFFu + ((abs >> 20) & 1u);
  return {static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)))};
}

MPFA_HOST_DEVICE constexpr float e4m3_to_float(E4m3 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x80u) << 24;
  const uint32_t abs = x.bits & 0x7Fu;
  if (abs == kE4m3NanCode) return internal::float_from_bits(sign | 0x7FC00000u);
  if (abs < 8u) {
    const float magnitude = static_cast<float>(abs) * 0x1p-9f;
    return internal::float_from_bits(sign | internal::float_bits(magnitude));
  }
  return internal::float_from_bits(sign | ((abs << 20) + (120u << 23)));
}

// ---- e2m1 ---------------------------------------------------------------------------------------

// Code (sign in bit 3) of the nearest value among 0, .5, 1, 1.5, 2, 3, 4, 6; ties to the even code;
// saturates at 6. The format has no NaN: a NaN gives +6, as the GPU's conversion does.
MPFA_HOST_DEVICE constexpr uint8_t e2m1_from_float(float x) {
  const uint32_t bits = internal::float_bits(x);
  const uint32_t abs_bits = bits & 0x7FFFFFFFu;
  if (abs_bits > 0x7F800000u) return 7;
  const float a = internal::float_from_bits(abs_bits);
  const int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) +
                   (a >= 3.5f) + (a > 5.0f);
  return static_cast<uint8_t>(code | static_cast<int>((bits >> 28) & 8u));
}

// Value of the low four bits of `code`.
MPFA_HOST_DEVICE constexpr float e2m1_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 8u) << 28;
  const uint32_t mag = code & 7u;
  if (mag < 2u) return internal::float_from_bits(sign | (mag == 0u ? 0u : 0x3F000000u));
  return internal::float_from_bits(sign | ((mag << 22) + (126u << 23)));
}

// ---- NVFP4 block --------------------------------------------------------------------------------

// How the scale of a block is chosen (docs/spec.md, section 1).
enum class ScaleRule : uint8_t {
  kPlain,   // e4m3(amax / 6), the paper's
  kSearch,  // the best of six neighbouring scales by squared error
};

// 16 values: element 2i in the low nibble of codes[i], value = e4m3(scale) * e2m1(code).
struct Nvfp4Block {
  uint8_t codes[kNvfp4BlockSize / 2];
  uint8_t scale;
  friend constexpr bool operator==(const Nvfp4Block&, const Nvfp4Block&) = default;
};

MPFA_HOST_DEVICE constexpr uint8_t nvfp4_code(const Nvfp4Block& block, int i) {
  return static_cast<uint8_t>((block.codes[i / 2] >> (4 * (i % 2))) & 0xF);
}

// Exact: the product has at most six significant bits.
MPFA_HOST_DEVICE constexpr float nvfp4_value(uint8_t scale, uint8_t code) {
  return e4m3_to_float({scale}) * e2m1_to_float(code);
}

// Quantises with a given scale code: code_i = e2m1(x_i * r), r = 1 / scale, or 0 for a zero scale.
MPFA_HOST_DEVICE constexpr Nvfp4Block nvfp4_quantize_with_scale(const float (&x)[kNvfp4BlockSize],
                                                                uint8_t scale) {
  const float s = e4m3_to_float({scale});
  const float r = scale == 0 ? 0.0f : 1.0f / s;
  Nvfp4Block block{};
  block.scale = scale;
  for (int i = 0; i < kNvfp4BlockSize; i += 2) {
    const uint8_t low = e2m1_from_float(internal::mul_rn(x[i], r));
    const uint8_t high = e2m1_from_float(internal::mul_rn(x[i + 1], r));
    block.codes[i / 2] = static_cast<uint8_t>(low | (high << 4));
  }
  return block;
}

// sum (s * code_i - x_i)^2 in FP32 without contraction, summed by halves.
MPFA_HOST_DEVICE constexpr float nvfp4_squared_error(const float (&x)[kNvfp4BlockSize],
                                                     const Nvfp4Block& block) {
  float sum[kNvfp4BlockSize] = {};
  for (int i = 0; i < kNvfp4BlockSize; ++i) {
    const float e = nvfp4_value(block.scale, nvfp4_code(block, i)) - x[i];
    sum[i] = internal::mul_rn(e, e);
  }
  for (int half = kNvfp4BlockSize / 2; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) sum[i] = internal::add_rn(sum[i], sum[i + half]);
  }
  return sum[0];
}

// The plain scale code e4m3(amax / 6). A NaN anywhere in the block gives the NaN code.
MPFA_HOST_DEVICE constexpr uint8_t nvfp4_plain_scale(const float (&x)[kNvfp4BlockSize]) {
  uint32_t amax = 0;  // bits of |x| order like the values, with NaN above infinity
  for (float value : x) {
    const uint32_t abs = internal::float_bits(value) & 0x7FFFFFFFu;
    amax = abs > amax ? abs : amax;
  }
  return e4m3_from_float(internal::float_from_bits(amax) / 6.0f).bits;
}

// Quantises one block (docs/spec.md, section 1). A zero block gives scale 0; an infinity saturates;
// a NaN gives scale 0x7F (and codes +6), so that every value of the block reads as NaN.
MPFA_HOST_DEVICE constexpr Nvfp4Block nvfp4_quantize(const float (&x)[kNvfp4BlockSize],
                                                     ScaleRule rule) {
  const int c0 = nvfp4_plain_scale(x);
  if (rule == ScaleRule::kPlain || c0 == 0 || c0 == kE4m3NanCode) {
    return nvfp4_quantize_with_scale(x, static_cast<uint8_t>(c0));
  }
  Nvfp4Block best{};
  float best_error = 0.0f;
  for (int step = kScaleSearchFirst; step <= kScaleSearchLast; ++step) {
    const int code = c0 + step;
    if (code < 1 || code > kE4m3MaxCode) continue;
    const Nvfp4Block block = nvfp4_quantize_with_scale(x, static_cast<uint8_t>(code));
    const float error = nvfp4_squared_error(x, block);
    // The first candidate always stands; later ones must be strictly better. With infinite errors
    // (a value beyond FP32 when squared) nothing is better, so the first stays: no NaN can arise.
    if (best.scale == 0 || error < best_error) {
      best = block;
      best_error = error;
    }
  }
  return best;
}

}  // namespace mpfa
