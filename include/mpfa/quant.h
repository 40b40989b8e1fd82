// Statistics and quantisers that work on plain (not paged) tensors. The paged cache is in cache.h.
#pragma once

#include <dlpack/dlpack.h>

#include "mpfa/formats.h"
#include "mpfa/stream.h"

namespace mpfa {

// Means over the tokens of each sequence (docs/spec.md, section 2).
//
//   x           [tokens, heads, d]  BF16, FP16 or FP32; any outer strides, innermost contiguous
//   cu_seqlens  [b + 1]  int32, non-decreasing, first 0, last <= tokens; null: one sequence of all
//               tokens. Tokens outside it are not read.
//   out         [b, heads, d]  FP32. A sequence without tokens gets 0.
//
// Sums are FP64, in an order that does not depend on the thread count. With tensors on a GPU the
// call is asynchronous on `stream` and agrees to rounding; lengths that the host cannot see are
// then clamped to the tokens there are.
//
// Errors, here and below: InvalidArgument, before anything is written, for shapes, types, strides
// or values that do not fit, for data not aligned to its elements, and for outputs that share
// memory with an input or with each other (they may interleave in one buffer).
void compute_means(const DLTensor& x, const DLTensor* cu_seqlens, const DLTensor& out,
                   cudaStream_t stream = nullptr);

// One row of frozen statistics, as calibrate() writes it. Null members are not computed.
struct CalibrationOut {
  const DLTensor* k_mean = nullptr;          // [Hkv, d]     FP32, required
  const DLTensor* q_mean = nullptr;          // [Hq, d]      FP32
  const DLTensor* residual_basis = nullptr;  // [Hkv, r, d]  FP32, orthonormal rows
  const DLTensor* residual_scale = nullptr;  // [Hkv, r]     FP32, with residual_basis
};

struct CalibrateParams {
  ScaleRule scale_rule = ScaleRule::kSearch;  // how the cache will quantise K
  const DLTensor* k_scale = nullptr;          // [Hkv] FP32, as the cache will use it; null: 1
  const DLTensor* cu_seqlens = nullptr;       // [b + 1] int32: the tokens to use; null: all
};

// Calibrates one layer from sample activations: means over the tokens, U = the top r eigenvectors
// of E[q q^T] over each group's queries (largest eigenvalue first; the element of largest magnitude
// made positive), p_scale_j = max |U_j . E| / 64 over the sample (1 where that is 0), E being the
// rounding error of the centred keys. The factor leaves 7x headroom below e4m3's 448.
//
//   q [tokens_q, Hq, d], k [tokens, Hkv, d]: BF16, FP16 or FP32, after the rotary embedding. All
//   rows of q are used. Finite values only (an error names the first that is not). d is 64 or 128,
//   r 4, 8 or 16; at least one token, and one query unless k_mean is all that is asked for.
//
// Nothing is written unless all of it can be: also where memory runs out or, as an Error, the
// eigenvectors do not converge.
void calibrate(const DLTensor& q, const DLTensor& k, const CalibrationOut& out,
               const CalibrateParams& params = {}, cudaStream_t stream = nullptr);

// What quantize_q writes; null members are left out. Values are of x = q - q_mean where
// QuantizeQParams::q_mean is given, else of x = q.
struct QuantizedQ {
  const DLTensor* codes = nullptr;     // [tokens, Hq, d / 2]   uint8: NVFP4(x), required
  const DLTensor* scales = nullptr;    // [tokens, Hq, d / 16]  e4m3, required
  const DLTensor* codes2 = nullptr;    // [tokens, Hq, d / 2]   second term: NVFP4(x - Q1)
  const DLTensor* scales2 = nullptr;   // [tokens, Hq, d / 16]  with codes2
  const DLTensor* rowbias = nullptr;   // [tokens, Hq]     FP32: q . k_mean (q, never x)
  const DLTensor* residual = nullptr;  // [tokens, Hq, r]  FP32: U x
  const DLTensor* first_key =
      nullptr;  // [tokens, Hq]     FP32: x . k_first of the token's sequence
};

struct QuantizeQParams {
  ScaleRule scale_rule = ScaleRule::kSearch;
  const DLTensor* q_mean = nullptr;          // [stats, Hq, d]      FP32
  const DLTensor* k_mean = nullptr;          // [stats, Hkv, d]     FP32, for rowbias
  const DLTensor* residual_basis = nullptr;  // [stats, Hkv, r, d]  FP32, for residual
  const DLTensor* k_first = nullptr;         // [b, Hkv, d]         BF16, for first_key
  const DLTensor* stats_index = nullptr;     // [b] int32: row of statistics; null: row 0
  // [b + 1] int32. Null: all tokens belong to the only sequence; an error where stats_index names
  // more than one and there is more than one row of statistics.
  const DLTensor* cu_seqlens_q = nullptr;
  // [1] int32 on the GPU, or null: incremented for every token that is not written because its row
  // of statistics is out of range, which the host cannot see. On the CPU that is an error, and this
  // is not used.
  const DLTensor* error_count = nullptr;
};

// Quantises queries for kernels whose tensor cores take NVFP4 (docs/spec.md, sections 1 and 2).
//
//   q [tokens, Hq, d]: BF16, FP16 or FP32; not modified. d is a multiple of 16 up to 1024, and a
//   power of two where a dot product is asked for. Tokens outside cu_seqlens_q are neither read nor
//   written.
//
// Dot products over d are FP32 products summed by halves, like every other in the cache writer.
//
// The tensors' device picks the back end: all on the CPU, or all on one GPU of compute
// capability 8.0 or later. There the call is asynchronous on `stream`, allocates nothing and may be
// captured in a CUDA graph; the bytes are the same, the bits of a NaN apart. Values are not looked
// at there: see QuantizeQParams::error_count; of cu_seqlens_q, lengths beyond the tokens there are
// count as far as the tokens go.
void quantize_q(const DLTensor& q, const QuantizedQ& out, const QuantizeQParams& params = {},
                cudaStream_t stream = nullptr);

}  // namespace mpfa
