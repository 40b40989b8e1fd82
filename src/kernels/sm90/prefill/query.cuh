// Query rows made ready for the tensor cores: FP16, scaled by a number of their own, and everything
// that is one number a row. Two warps bring them as they are, while others attend to the rows
// before; who needs them prepares them in place.
#pragma once

#include "kernels/any/prefill/query.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/sm90/prefill/work.cuh"

namespace mpfa::kernels::sm90 {

// How far scores in FP16 stay below infinity. With |K 2^kKeyExponent| at most 2^7 (codes alone give
// 42) and the magnitudes of a row adding up to less than 2^8, no score reaches 2^15.
inline constexpr int kSumExponent = 7;

// Lanes share a row: lane i of eight has its pieces of 16 bytes i, i + 8.
inline constexpr int kRowLanes = 8;

template <class Config>
__device__ __forceinline__ uint4* piece_of_lane(int place, int row, int i) {
  const int lane = static_cast<int>(threadIdx.x) % kRowLanes;
  return reinterpret_cast<uint4*>(shared_memory() +
                                  Config::query_chunk(place, row, lane + i * kRowLanes));
}

// By the loaders: the rows of a work as they are; zeros where there is no row.
template <class Config>
class QueryLoader {
 public:
  __device__ QueryLoader(const Sm90PrefillParams& params, int place)
      : params_(params.common),
        p_(params.common.attention),
        segment_(SharedPlan<Config>::work(place).segment),
        place_(place) {}

  __device__ void load() const {
    const int thread = static_cast<int>(threadIdx.x) % Config::kLoaders;
#pragma unroll 1
    for (int row = thread / kRowLanes; row < Config::kRows; row += Config::kLoaders / kRowLanes) {
      load_row(row);
    }
    ptx::wait_for_copies();
  }

 private:
  __device__ __forceinline__ void load_row(int row) const {
    const QueryRow query = query_row(p_, segment_, row);
    const std::byte* from = p_.q;
    if (query.is_valid) {
      from += 2 * (steps(segment_.q_begin + query.position, p_.q_row_stride) +
                   steps(query.head, p_.q_head_stride));
    }
    from += static_cast<int>(threadIdx.x) % kRowLanes * 16;
#pragma unroll
    for (int i = 0; i < Config::kChunks / kRowLanes; ++i) {
      uint4* const to = piece_of_lane<Config>(place_, row, i);
      if (!query.is_valid) {
        *to = make_uint4(0, 0, 0, 0);
      } else if (params_.q_has_pieces != 0) {
        ptx::copy_async<16>(ptx::shared_address(to), from + i * kRowLanes * 16);
      } else {
        copy_elements(to, from + i * kRowLanes * 16);
      }
    }
  }

  __device__ __forceinline__ static void copy_elements(uint4* to, const std::byte* from) {
#pragma unroll 1
    for (int i = 0; i < 8; ++i) {
      reinterpret_cast<uint16_t*>(to)[i] = reinterpret_cast<const uint16_t*>(from)[i];
    }
  }

  const PrefillParams& params_;
  const DecodeParams& p_;
  const DecodeSegment& segment_;
  int place_;
};

// By a warp: its 16 rows, of which RowScalars are written as well.
template <class Config>
class QueryPreparer {
 public:
  __device__ QueryPreparer(const Sm90PrefillParams& params, int place)
      : p_(params.common.attention),
        segment_(SharedPlan<Config>::work(place).segment),
        place_(place) {}

  __device__ __forceinline__ void prepare(int warp_row) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int i = 0; i < 16; i += 32 / kRowLanes) prepare_row(warp_row + i + lane / kRowLanes);
    __syncwarp();
  }

 private:
  static constexpr int kPieces = Config::kChunks / kRowLanes;

  __device__ __forceinline__ static int lane_of_row() {
    return static_cast<int>(threadIdx.x) % kRowLanes;
  }
  __device__ __forceinline__ uint4* piece(int row, int i) const {
    return piece_of_lane<Config>(place_, row, i);
  }

  __device__ __forceinline__ bool needs_rowbias() const {
    return p_.lse != nullptr || p_.sinks != nullptr || p_.softcap > 0;
  }

  __device__ __forceinline__ static float sum_of_row(float x) {
#pragma unroll
    for (int step = 1; step < kRowLanes; step *= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
  }

  __device__ __forceinline__ static float largest_of_row(float x) {
#pragma unroll
    for (int step = 1; step < kRowLanes; step *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
  }

  __device__ __forceinline__ void prepare_row(int row) const {
    const float size = size_of_row(row);
    const float rowbias = needs_rowbias() ? sum_of_row(rowbias_of_lane(row)) : 0.0f;
    const QueryRow query = query_row(p_, segment_, row);
    const float k_scale =
        scale_of(p_.k_scale, p_.k_scale_strides, segment_.stats_row, segment_.kv_head);
    RowScalars scalars;
    const float factor = Config::kScoreType == ScoreType::kFp32
                             ? scale_fp32(query, size, k_scale, rowbias, scalars)
                             : scale_fp16(query, size, k_scale, rowbias, scalars);
    store_values(row, factor);
    if (lane_of_row() != 0) return;
    scalars.result.out = nullptr;
    if (query.is_valid) {
      scalars.result.out =
          p_.out + 2 * (steps(segment_.q_begin + query.position, p_.out_row_stride) +
                        steps(query.head, p_.out_head_stride));
    }
    scalars.result.v_scale =
        scale_of(p_.v_scale, p_.v_scale_strides, segment_.stats_row, segment_.kv_head);
    SharedPlan<Config>::rows(place_)[row] = scalars;
  }

  // The largest magnitude, or for scores in FP16 the sum of all.
  __device__ __forceinline__ float size_of_row(int row) const {
    float size = 0.0f;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const EightFloats values = unpack_16bit(*piece(row, i), p_.is_bf16 != 0);
#pragma unroll
      for (const float x : values.x) {
        size = Config::kScoreType == ScoreType::kFp32 ? fmaxf(size, fabsf(x)) : size + fabsf(x);
      }
    }
    return Config::kScoreType == ScoreType::kFp32 ? largest_of_row(size) : sum_of_row(size);
  }

  __device__ __forceinline__ float rowbias_of_lane(int row) const {
    const float* mean = p_.k_mean + steps(segment_.stats_row, p_.k_mean_strides[0]) +
                        steps(segment_.kv_head, p_.k_mean_strides[1]);
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < kPieces; ++i) {
      const EightFloats values = unpack_16bit(*piece(row, i), p_.is_bf16 != 0);
      const float* from = mean + (lane_of_row() + i * kRowLanes) * 8;
#pragma unroll
      for (int j = 0; j < 8; ++j) sum = fmaf(values.x[j], __ldg(from + j), sum);
    }
    return sum;
  }

  // Scores are exact products times a power of two.
  __device__ __forceinline__ float scale_fp32(const QueryRow& query, float largest, float k_scale,
                                              float rowbias, RowScalars& scalars) const {
    constexpr int kMost = 100;  // powers of two beyond 2^127 are none
    const int exponent = min(kQueryExponent - exponent_of(largest), kMost);
    scalars = row_scalars<Config::kHasExtra>(p_, segment_, query, exponent + kKeyExponent, k_scale,
                                             rowbias, 0.0f);
    return scale_by(1.0f, exponent);
  }

  // Scores are exponents of 2 (with softcap what the tangent is taken of) times a power of two:
  // FP16 multiplies by that without an error.
  __device__ __forceinline__ float scale_fp16(const QueryRow& query, float sum, float k_scale,
                                              float rowbias, RowScalars& scalars) const {
    scalars =
        row_scalars<Config::kHasExtra>(p_, segment_, query, kKeyExponent, k_scale, rowbias, 0.0f);
    const bool is_capped = Config::kHasExtra && p_.softcap > 0;
    const float unit = is_capped ? scalars.cap_factor : scalars.lambda;
    const int exponent = clamp(kSumExponent - exponent_of(sum * unit), -14, 14);
    if (is_capped) {
      scalars.cap_bias *= unit * power_of_two(exponent);
      scalars.cap_factor = power_of_two(-exponent);
    } else {
      scalars.lambda = power_of_two(-exponent);
    }
    return unit * power_of_two(exponent);
  }

  // As the dims of unpacked keys are ordered.
  __device__ __forceinline__ void store_values(int row, float factor) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      EightFloats values = unpack_16bit(*piece(row, i), p_.is_bf16 != 0);
#pragma unroll
      for (float& x : values.x) x *= factor;
      *piece(row, i) =
          make_uint4(ptx::f16x2(values.x[0], values.x[2]), ptx::f16x2(values.x[4], values.x[6]),
                     ptx::f16x2(values.x[1], values.x[3]), ptx::f16x2(values.x[5], values.x[7]));
    }
  }

  const DecodeParams& p_;
  const DecodeSegment& segment_;
  int place_;
};

}  // namespace mpfa::kernels::sm90
