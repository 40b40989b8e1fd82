// Query rows made ready for the tensor cores (docs/spec.md, section 2): FP16, scaled by a power of
// two, and everything that is one number a row.
#pragma once

#include "kernels/any/decode/config.h"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/convert.cuh"

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

template <int kDims>
__device__ __forceinline__ LaneValues<kDims> load_16bit(const std::byte* row, int lane,
                                                        bool is_bf16) {
  LaneValues<kDims> values;
  const auto* elements = reinterpret_cast<const uint16_t*>(row);
#pragma unroll
  for (int i = 0; i < kDims; ++i) {
    const uint32_t bits = elements[lane + 32 * i];
    values.x[i] = is_bf16 ? __uint_as_float(bits << 16) : ptx::low_f16(bits);
  }
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
  return scales == nullptr ? 1.0f : scales[stats_row * strides[0] + head * strides[1]];
}

// One row, by one warp, into the buffer at `query`: values as the tensor cores' B fragments take
// them (of each 8 consecutive dims the even ones come first), coefficients, scalars.
template <class Config>
class QueryPreparer {
 public:
  static constexpr int kDims = Config::kHeadDim / 32;
  using Values = LaneValues<kDims>;
  static constexpr int kDirections = 8;  // that are read at a time

  __device__ QueryPreparer(const DecodeParams& params, const DecodeSegment& segment, int first_page,
                           int lane)
      : p_(params), segment_(segment), first_page_(first_page), lane_(lane) {}

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
    const float rowbias = needs_rowbias() ? dot(q_, mean_) : 0.0f;
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
  __device__ __forceinline__ bool needs_rowbias() const {
    return p_.lse != nullptr || p_.sinks != nullptr || p_.softcap > 0;
  }

  __device__ __forceinline__ void load_row() {
    const int head = segment_.kv_head;
    const int stats = segment_.stats_row;
    const int64_t at =
        (segment_.q_begin + row_.position) * p_.q_row_stride + row_.head * p_.q_head_stride;
    q_ = load_16bit<kDims>(p_.q + at * 2, lane_, p_.is_bf16 != 0);
    k_scale_ = scale_of(p_.k_scale, p_.k_scale_strides, stats, head);
    if (needs_rowbias()) {
      mean_ = load_float<kDims>(
          p_.k_mean + stats * p_.k_mean_strides[0] + head * p_.k_mean_strides[1], lane_);
    }
    if (p_.k_first != nullptr && segment_.tile_begin == 0 && segment_.num_tiles > 0) {
      k_first_ = load_16bit<kDims>(
          p_.k_first + first_page_ * p_.k_first_strides.page + head * p_.k_first_strides.head,
          lane_, true);
    }
    if (p_.residual_rank > 0) load_directions(0);
  }

  // kDirections of the residual's, from `first` on.
  __device__ __forceinline__ void load_directions(int first) {
    const float* basis = p_.residual_basis + segment_.stats_row * p_.residual_basis_strides[0] +
                         segment_.kv_head * p_.residual_basis_strides[1];
#pragma unroll
    for (int j = 0; j < kDirections; ++j) {
      const int direction = min(first + j, p_.residual_rank - 1);
      directions_[j] = load_float<kDims>(basis + direction * p_.residual_basis_strides[2], lane_);
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
    const int head = segment_.kv_head;
    const int stats = segment_.stats_row;
    // Lane j has the scale of direction j.
    float scale = 0.0f;
    if (lane_ < rank) {
      scale = p_.residual_scale[stats * p_.residual_scale_strides[0] +
                                head * p_.residual_scale_strides[1] +
                                lane_ * p_.residual_scale_strides[2]] /
              k_scale_;
    }
    float own = 0.0f;
#pragma unroll 1
    for (int first = 0; first < rank; first += kDirections) {
      if (first > 0) load_directions(first);
#pragma unroll
      for (int j = 0; j < kDirections; ++j) {
        const float product = dot(q_, directions_[j]);
        if (lane_ == first + j) own = product;
      }
    }
    const int more = residual_exponent(largest_of_lanes(scale));
    if (lane_ < kMaxRank) {
      coefficients[lane_] =
          static_cast<uint16_t>(ptx::f16x2(scale_by(own * scale, unit + more), 0.0f));
    }
    return residual_factor(more);
  }

  __device__ __forceinline__ RowScalars scalars_of(int unit, float rowbias) const {
    RowScalars s = {};
    const float scale = p_.softmax_scale;
    if (p_.k_first != nullptr) s.first_key = scale_by(dot(q_, k_first_) / k_scale_, unit);
    s.delta_scale = scale_by(1.0f / k_scale_, unit);
    const float logit = scale_by(scale * k_scale_, -unit);  // of one unit
    // Not 0, however small: a hidden score is -inf, and 0 * inf is NaN. Not so large that a score
    // could leave FP32's range.
    const bool is_capped = Config::kHasExtra && p_.softcap > 0;
    const float lambda = is_capped ? p_.softcap * kLog2E : logit * kLog2E;
    s.lambda = fminf(fmaxf(lambda, 0x1p-126f), 0x1p80f);
    if (is_capped) {
      s.cap_factor = fminf(logit / p_.softcap, 0x1p80f);
      s.cap_bias = scale_by(rowbias / k_scale_, unit);
    } else {
      s.bias = scale * rowbias;
    }
    const int diagonal = row_.position + segment_.seqlen_k - segment_.seqlen_q;
    s.end = p_.causal != 0 ? min(segment_.seqlen_k, diagonal + 1) : segment_.seqlen_k;
    s.begin = p_.window_left >= 0 && p_.window_left < diagonal ? diagonal - p_.window_left : 0;
    return s;
  }

  const DecodeParams& p_;
  const DecodeSegment& segment_;
  int first_page_;
  int lane_;
  QueryRow row_ = {0, 0, false};
  float k_scale_ = 1.0f;
  Values q_ = {};
  Values mean_ = {};
  Values k_first_ = {};
  Values directions_[kDirections] = {};
};

}  // namespace mpfa::kernels
