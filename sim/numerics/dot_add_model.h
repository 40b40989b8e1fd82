// Which arithmetic a tensor core instruction has, by architecture, instruction and types.
//
// One hardware step is a fused dot-add, d = c + sum over k of a_k * b_k:
// 1. Every product is exact. Its exponent is the sum of its factors' exponents, its significand is
//    not normalised: in [0, 4).
// 2. The largest exponent among all products and c is found.
// 3. Each product and c is shifted to that exponent and truncated toward zero, to a number of
//    fraction bits that depends on the architecture. These terms are added exactly.
// 4. The sum is normalised and, for f32, truncated toward zero; for f16, rounded to nearest even.
//    What is too large becomes infinity; what is zero then becomes +0. NaNs, and infinities of both
//    signs, give NaN: 0x7FFFFFFF or 0x7FFF.
// An instruction of larger k is a chain of steps: the result of each is the c of the next.
//
// The numbers are those that MMA-Sim publishes (arXiv 2511.10909), found by experiment; those of
// Hopper were checked against an H200. FP8 in mma.sync on Hopper and on sm_100 is what ptxas makes
// of it: these have no such instruction.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/numerics/tensor_types.h"

namespace mpfa::sim {

enum class Architecture : uint8_t {
  kAmpere,        // sm_80, sm_86, sm_87
  kAda,           // sm_89
  kHopper,        // sm_90
  kBlackwell,     // sm_100, sm_103, sm_110: with tcgen05
  kBlackwellRtx,  // sm_120, sm_121: without
};

// Of a compute capability, major * 10 + minor.
Architecture architecture_of(int capability);
std::string_view name_of(Architecture architecture);

enum class MmaKind : uint8_t { kMmaSync, kWgmma, kTcgen05 };
std::string_view name_of(MmaKind kind);

// The kinds of block-scaled instructions.
enum class BlockScaledKind : uint8_t { kMxf8f6f4, kMxf4, kMxf4nvf4 };
std::string_view name_of(BlockScaledKind kind);

enum class BitOperation : uint8_t { kXor, kAnd };

enum class Arithmetic : uint8_t {
  kFusedDotAdd,
  // FP8 as f16: with k in groups of four, a step from zero over the first two of every group, a
  // step on top over the other two, and c added last, rounded to nearest even. For each 32 of k.
  kFp8AsF16,
  // With scales, and groups of 16 products that are summed exactly; each sum, multiplied by the
  // significands of its two scales, is one term, of which the exponent is the sum of the scales'.
  kFusedGroupAdd,
  kSequentialFma,  // f64: in order of k
  kInteger,        // exact; wraps around, or saturates
  kPopulation,     // the set bits of a xor b, or a and b
};

struct DotAddModel {
  Arithmetic arithmetic = Arithmetic::kFusedDotAdd;
  ElementType a = ElementType::kF16;
  ElementType b = ElementType::kF16;
  AccumulatorType accumulator = AccumulatorType::kF32;
  int fraction_bits = 25;         // of the terms of a fused dot-add
  int result_fraction_bits = 23;  // kept in an f32 result
  int step_k = 16;                // of one step; 0: all of k
  ScaleType scale = ScaleType::kNone;
  int scale_block = 0;  // elements that share a scale
  // Set by the caller, as the instruction says.
  bool saturate = false;  // kInteger: .satfinite
  BitOperation bit_operation = BitOperation::kAnd;
};

// Products in a group of kFusedGroupAdd.
inline constexpr int kScaledGroup = 16;

// Throws InvalidArgument where the architecture has no such instruction.
DotAddModel model_for(Architecture architecture, MmaKind kind, ElementType a, ElementType b,
                      AccumulatorType accumulator);

// Of f32 accumulators. `scale_block` is 32 (.scale_vec::1X of mxf8f6f4, 2X of the others) or 16
// (4X).
DotAddModel block_scaled_model_for(Architecture architecture, MmaKind kind, BlockScaledKind scaled,
                                   ElementType a, ElementType b, ScaleType scale, int scale_block);

}  // namespace mpfa::sim
