// Query rows made ready for the tensor cores (docs/spec.md, section 2): FP16, scaled by a power of
// two, and everything that is one number a row.
#pragma once

#include "kernels/any/decode/config.h"
#include "kernels/any/steps.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/convert.cuh"
#include "kernels/ptx/prefetch.cuh"

namespace mpfa::kernels {

inline constexpr float kLog2E = 1.4426950408889634f;

// Q is scaled so that its largest magnitude lies in [2^14, 2^15): FP16 then keeps what is 2^-29 of
// it. K comes out of its codes as 2^-6 of its value (scores.cuh).
inline constexpr int kQueryExponent = 14;
inline constexpr int kKeyExponent = -6;

// Which query a row of a segment is.
struct QueryRow {
  int position;  // within the sequence
  int head;
  bool is_valid;
};

__device__ __forceinline__ QueryRow query_row(const DecodeParams& p, const DecodeSegment& segment,
                                              int row) {
  const int head = segment.first_head + row;
  // Exact: head is far below 2^32 / group_size.
  const int more = p.group_size == 1 ? head : static_cast<int>(__umulhi(head, p.group_inverse));
  QueryRow result;
  result.position = segment.first_position + more;
  result.head = segment.kv_head * p.group_size + head - more * p.group_size;
  result.is_valid =
      result.position < segment.seqlen_q && segment.q_begin + result.position < p.q_rows;
  return result;
}

__device__ __forceinline__ float sum_of_lanes(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

__device__ __forceinline__ float largest_of_lanes(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

// floor(log2 x) for x > 0; 0 for 0 and for what is not finite.
__device__ __forceinline__ int exponent_of(float x) {
  const int field = static_cast<int>(__float_as_uint(x) >> 23 & 0xFF);
  if (field == 0xFF || x == 0.0f) return 0;
  if (field == 0) return -118 - __clz(static_cast<int>(__float_as_uint(x) & 0x7FFFFF));
  return field - 127;
}

__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

// x 2^exponent, for exponents from -252 to 254.
__device__ __forceinline__ float scale_by(float x, int exponent) {
  const int first = min(max(exponent, -126), 127);
  const int second = min(max(exponent - first, -126), 127);
  return x * power_of_two(first) * power_of_two(second);
}

// A row's share in one lane: dims lane, lane + 32, ...
template <int kDims>
struct LaneValues {
  float x[kDims];
};

// The same as it lies in memory: BF16 or FP16. Converting it means waiting for it.
template <int kDims>
struct LaneHalves {
  uint16_t bits[kDims];

  __device__ __forceinline__ LaneValues<kDims> to_float(bool is_bf16) const {
    LaneValues<kDims> values;
#pragma unroll
    for (int i = 0; i < kDims; ++i) {
      values.x[i] = is_bf16 ? __uint_as_float(uint32_t{bits[i]} << 16) : ptx::low_f16(bits[i]);
    }
    return values;
  }
};

template <int kDims>
__device__ __forceinline__ LaneHalves<kDims> load_16bit(const std::byte* row, int lane) {
  LaneHalves<kDims> values;
  const auto* elements = reinterpret_cast<const uint16_t*>(row);
#pragma unroll
  for (int i = 0; i < kDims; ++i) values.bits[i] = __ldg(elements + lane + 32 * i);
  return values;
}

template <int kDims>
__device__ __forceinline__ LaneValues<kDims> load_float(const float* row, int lane) {
  LaneValues<kDims> values;
#pragma unroll
  for (int i = 0; i < kDims; ++i) values.x[i] = row[lane + 32 * i];
  return values;
}

template <int kDims>
__device__ __forceinline__ float dot(const LaneValues<kDims>& a, const LaneValues<kDims>& b) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kDims; ++i) sum = fmaf(a.x[i], b.x[i], sum);
  return sum_of_lanes(sum);
}

// Lane l's dot product of `a` and vector number l / 4 of eight: each step halves the
// number of sums that a lane has, and doubles that of the lanes that are in them.
template <int kDims>
__device__ __forceinline__ float eight_dots(const LaneValues<kDims>& a,
                                            const LaneValues<kDims> (&vectors)[8], int lane) {
  float sums[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    sums[j] = 0.0f;
#pragma unroll
    for (int i = 0; i < kDims; ++i) sums[j] = fmaf(a.x[i], vectors[j].x[i], sums[j]);
  }
#pragma unroll
  for (int half = 4; half > 0; half /= 2) {
    const bool is_upper = (lane & 4 * half) != 0;
#pragma unroll
    for (int j = 0; j < half; ++j) {
      const float kept = is_upper ? sums[j + half] : sums[j];
      const float given = is_upper ? sums[j] : sums[j + half];
      sums[j] = kept + __shfl_xor_sync(~0u, given, 4 * half);
    }
  }
  float sum = sums[0];
  sum += __shfl_xor_sync(~0u, sum, 2);
  return sum + __shfl_xor_sync(~0u, sum, 1);
}
// eight_dots() leaves dot product j in lane 4 j, and in the three behind it.
__device__ __forceinline__ int lane_of_dot(int j) { return 4 * j; }

// The exponent of two by which residual coefficients are raised and residual values lowered, so
// that both fit FP16: |coefficient| stays below 2^15, values stay exact.
__device__ __forceinline__ int residual_exponent(float largest_scale) {
  const int room = 2 - exponent_of(largest_scale);
  return min(max(room, -7), 15);
}

// FP16 2^-exponent twice, for the values.
__device__ __forceinline__ uint32_t residual_factor(int exponent) {
  const uint32_t half = static_cast<uint32_t>(15 - exponent) << 10;  // subnormal for 15
  const uint32_t bits = exponent == 15 ? 0x0200u : half;
  return bits | bits << 16;
}

__device__ __forceinline__ float scale_of(const float* scales, const int64_t (&strides)[2],
                                          int stats_row, int head) {
  return scales == nullptr ? 1.0f : scales[steps(stats_row, strides[0]) + steps(head, strides[1])];
}

// What a row needs beside its values, but for the residual's factor and where the result goes. One
// unit of the scores is k_scale 2^-unit. first_dot: q times the first key.
template <bool kHasExtra>
__device__ __forceinline__ RowScalars row_scalars(const DecodeParams& p,
                                                  const DecodeSegment& segment,
                                                  const QueryRow& query, int unit, float k_scale,
                                                  float rowbias, float first_dot) {
  RowScalars s = {};
  const float scale = p.softmax_scale;
  const float inverse_scale = 1.0f / k_scale;
  s.first_key = scale_by(first_dot * inverse_scale, unit);
  s.delta_scale = scale_by(inverse_scale, unit);
  const float logit = scale_by(scale * k_scale, -unit);  // of one unit
  // Not 0, however small: a hidden score is -inf, and 0 * inf is NaN. Not so large that a score
  // could leave FP32's range.
  const bool is_capped = kHasExtra && p.softcap > 0;
  const float lambda = is_capped ? p.softcap * kLog2E : logit * kLog2E;
  s.lambda = fminf(fmaxf(lambda, 0x1p-126f), 0x1p80f);
  if (is_capped) {
    s.cap_factor = fminf(logit / p.softcap, 0x1p80f);
    s.cap_bias = scale_by(rowbias * inverse_scale, unit);
  } else {
    s.result.bias = scale * rowbias;
  }
  const int diagonal = query.position + segment.seqlen_k - segment.seqlen_q;
  s.end = p.causal != 0 ? min(segment.seqlen_k, diagonal + 1) : segment.seqlen_k;
  s.begin = p.window_left >= 0 && p.window_left < diagonal ? diagonal - p.window_left : 0;
  return s;
}

// One row, by one warp, into the buffer at `query`: values as the tensor cores' B fragments take
// them (of each 8 consecutive dims the even ones come first), coefficients, scalars.
template <class Config>
class QueryPreparer {
 public:
  static constexpr int kDims = Config::kHeadDim / 32;
  using Values = LaneValues<kDims>;
  static constexpr int kDirections = 8;  // that are read at a time

  __device__ QueryPreparer(const DecodeParams& params, const DecodeSegment& segment, int lane)
      : p_(params), segment_(segment), lane_(lane) {}

  // Hints what load(warp) will read; all warps together read nothing twice.
  __device__ __forceinline__ void prefetch(int warp) {
    row_ = query_row(p_, segment_, warp);
    if (!row_.is_valid || warp >= Config::kRows) return;
    prefetch_bytes<Config::kHeadDim * 2>(q_row());
    if (warp < p_.residual_rank) prefetch_bytes<Config::kHeadDim * 4>(direction(warp));
    if (warp > 0) return;  // the same for all rows
    if (p_.needs_rowbias) prefetch_bytes<Config::kHeadDim * 4>(mean_row());
    if (has_first_key()) prefetch_bytes<Config::kHeadDim * 2>(first_key_row());
  }

  // Starts reading all that a row needs.
  __device__ __forceinline__ void load(int row) {
    row_ = query_row(p_, segment_, row);
    if (row_.is_valid) load_row();
  }

  // To be called for the row of load().
  __device__ __forceinline__ void prepare(int row, std::byte* query, const SharedMemoryPlan& plan) {
    auto* values = reinterpret_cast<uint16_t*>(query) + row * Config::kHeadDim;
    auto* coefficients = reinterpret_cast<uint16_t*>(query + plan.coefficients) + row * kMaxRank;
    auto* scalars = reinterpret_cast<RowScalars*>(query + plan.scalars) + row;
    if (!row_.is_valid) {
#pragma unroll
      for (int i = 0; i < kDims; ++i) values[lane_ + 32 * i] = 0;
      if (lane_ < kMaxRank) coefficients[lane_] = 0;
      if (lane_ == 0) *scalars = {.lambda = 1.0f};
      return;
    }
    q_ = q_bits_.to_float(p_.is_bf16 != 0);
    const float rowbias = p_.needs_rowbias ? dot(q_, mean_) : 0.0f;
    if (Config::kHasExtra && p_.delta_s != nullptr) subtract_mean();
    const int exponent = kQueryExponent - largest_exponent();
    store_values(values, exponent);
    // One unit of the scores is k_scale 2^-unit.
    const int unit = exponent + kKeyExponent;
    RowScalars result = scalars_of(unit, rowbias);
    if (p_.residual_rank > 0) result.residual_factor = store_coefficients(coefficients, unit);
    if (lane_ == 0) *scalars = result;
  }

 private:
  __device__ __forceinline__ bool has_first_key() const {
    return p_.has_k_first && segment_.tile_begin == 0 && segment_.num_tiles > 0;
  }

  __device__ __forceinline__ const std::byte* q_row() const {
    return p_.q + 2 * (steps(segment_.q_begin + row_.position, p_.q_row_stride) +
                       steps(row_.head, p_.q_head_stride));
  }
  __device__ __forceinline__ const float* mean_row() const {
    return p_.k_mean + steps(segment_.stats_row, p_.k_mean_strides[0]) +
           steps(segment_.kv_head, p_.k_mean_strides[1]);
  }
  __device__ __forceinline__ const std::byte* first_key_row() const {
    // TileRing reports a page that is out of range.
    const bool is_page =
        static_cast<uint32_t>(segment_.first_page) < static_cast<uint32_t>(p_.num_pages);
    return p_.k_first + steps(is_page ? segment_.first_page : 0, p_.k_first_strides.page) +
           steps(segment_.kv_head, p_.k_first_strides.head);
  }
  __device__ __forceinline__ const float* direction(int j) const {
    return p_.residual_basis + steps(segment_.stats_row, p_.residual_basis_strides[0]) +
           steps(segment_.kv_head, p_.residual_basis_strides[1]) +
           steps(j, p_.residual_basis_strides[2]);
  }

  template <int kBytes>
  __device__ __forceinline__ void prefetch_bytes(const void* row) const {
    constexpr int kSector = 32;
    if (lane_ < kBytes / kSector) {
      ptx::prefetch_l2(static_cast<const std::byte*>(row) + lane_ * kSector);
    }
  }

  __device__ __forceinline__ void load_row() {
    q_bits_ = load_16bit<kDims>(q_row(), lane_);
    if (p_.has_k_scale) {
      k_scale_ = scale_of(p_.k_scale, p_.k_scale_strides, segment_.stats_row, segment_.kv_head);
    }
    if (p_.has_v_scale) {
      v_scale_ = scale_of(p_.v_scale, p_.v_scale_strides, segment_.stats_row, segment_.kv_head);
    }
    if (p_.needs_rowbias) mean_ = load_float<kDims>(mean_row(), lane_);
    if (has_first_key()) k_first_ = load_16bit<kDims>(first_key_row(), lane_);
    if (p_.residual_rank > 0) {
      load_directions(0);
      residual_scale_ = 0.0f;
      if (lane_ < p_.residual_rank) {
        residual_scale_ =
            __ldg(p_.residual_scale + steps(segment_.stats_row, p_.residual_scale_strides[0]) +
                  steps(segment_.kv_head, p_.residual_scale_strides[1]) +
                  steps(lane_, p_.residual_scale_strides[2]));
      }
    }
  }

  // kDirections of the residual's, from `first` on.
  __device__ __forceinline__ void load_directions(int first) {
#pragma unroll
    for (int j = 0; j < kDirections; ++j) {
      directions_[j] = load_float<kDims>(direction(min(first + j, p_.residual_rank - 1)), lane_);
    }
  }

  __device__ __forceinline__ void subtract_mean() {
    const Values mean = load_float<kDims>(
        p_.q_mean + segment_.stats_row * p_.q_mean_strides[0] + row_.head * p_.q_mean_strides[1],
        lane_);
#pragma unroll
    for (int i = 0; i < kDims; ++i) q_.x[i] -= mean.x[i];
  }

  __device__ __forceinline__ int largest_exponent() const {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kDims; ++i) largest = fmaxf(largest, fabsf(q_.x[i]));
    return exponent_of(largest_of_lanes(largest));
  }

  __device__ __forceinline__ void store_values(uint16_t* values, int exponent) const {
    const int within = lane_ % 8;
    const int place = lane_ - within + within / 2 + within % 2 * 4;
#pragma unroll
    for (int i = 0; i < kDims; ++i) {
      values[place + 32 * i] = static_cast<uint16_t>(ptx::f16x2(scale_by(q_.x[i], exponent), 0.0f));
    }
  }

  // Returns the factor of the residual's values.
  __device__ __forceinline__ uint32_t store_coefficients(uint16_t* coefficients, int unit) {
    const int rank = p_.residual_rank;
    const float scale = residual_scale_ / k_scale_;
    float own = 0.0f;
#pragma unroll 1
    for (int first = 0; first < rank; first += kDirections) {
      if (first > 0) load_directions(first);
      const float product = eight_dots(q_, directions_, lane_);
      const float mine = __shfl_sync(~0u, product, lane_of_dot(lane_ % kDirections));
      if (lane_ / kDirections == first / kDirections) own = mine;
    }
    const int more = residual_exponent(largest_of_lanes(scale));
    if (lane_ < kMaxRank) {
      coefficients[lane_] =
          static_cast<uint16_t>(ptx::f16x2(scale_by(own * scale, unit + more), 0.0f));
    }
    return residual_factor(more);
  }

  __device__ __forceinline__ RowScalars scalars_of(int unit, float rowbias) const {
    const float first_dot = has_first_key() ? dot(q_, k_first_.to_float(true)) : 0.0f;
    RowScalars s =
        row_scalars<Config::kHasExtra>(p_, segment_, row_, unit, k_scale_, rowbias, first_dot);
    s.result.out = p_.out + 2 * (steps(segment_.q_begin + row_.position, p_.out_row_stride) +
                                 steps(row_.head, p_.out_head_stride));
    s.result.v_scale = v_scale_;
    return s;
  }

  const DecodeParams& p_;
  const DecodeSegment& segment_;
  int lane_;
  QueryRow row_ = {0, 0, false};
  float k_scale_ = 1.0f;
  float v_scale_ = 1.0f;
  // What load() reads, where it is needed; not set elsewhere, which would be a hundred instructions
  // before the first read.
  float residual_scale_;  // lane j: of direction j
  LaneHalves<kDims> q_bits_;
  LaneHalves<kDims> k_first_;
  Values q_;
  Values mean_;
  Values directions_[kDirections];
};

}  // namespace mpfa::kernels
