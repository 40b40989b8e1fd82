// Query rows made ready for the tensor cores (docs/spec.md, section 2): FP16, scaled by a power of
// two, and everything that is one number a row. A thread has a row, so no lane waits for another.
#pragma once

#include "kernels/any/decode/query.cuh"
#include "kernels/any/prefill/config.h"
#include "kernels/any/prefill/params.h"

namespace mpfa::kernels {

// Eight elements of 16 bits as FP32.
struct EightFloats {
  float x[8];
};

__device__ __forceinline__ EightFloats unpack_16bit(uint4 words, bool is_bf16) {
  const uint32_t all[4] = {words.x, words.y, words.z, words.w};
  EightFloats result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = all[i];
    result.x[2 * i] = is_bf16 ? __uint_as_float(word << 16) : ptx::low_f16(word);
    result.x[2 * i + 1] = is_bf16 ? __uint_as_float(word & 0xFFFF0000u) : ptx::high_f16(word);
  }
  return result;
}

// Sums of products in shared memory, where all lanes read the same.
__device__ __forceinline__ float add_dot(float sum, const EightFloats& a, const float* b) {
  const float4 low = reinterpret_cast<const float4*>(b)[0];
  const float4 high = reinterpret_cast<const float4*>(b)[1];
  sum = fmaf(a.x[0], low.x, sum);
  sum = fmaf(a.x[1], low.y, sum);
  sum = fmaf(a.x[2], low.z, sum);
  sum = fmaf(a.x[3], low.w, sum);
  sum = fmaf(a.x[4], high.x, sum);
  sum = fmaf(a.x[5], high.y, sum);
  sum = fmaf(a.x[6], high.z, sum);
  return fmaf(a.x[7], high.w, sum);
}

template <class Config>
class PrefillQueries {
 public:
  __device__ PrefillQueries(const PrefillParams& params, const DecodeSegment& segment,
                            std::byte* shared)
      : params_(params), p_(params.attention), segment_(segment), shared_(shared) {}

  // By all threads of the CTA. What all rows need lies where the first tile will be unpacked: a
  // barrier must follow. `sees_first`: some row may see the sequence's first key.
  __device__ __forceinline__ void prepare(bool sees_first) {
    load_shared_vectors(sees_first);
    load_rows();
    __syncthreads();
    prepare_row(static_cast<int>(threadIdx.x), sees_first);
  }

 private:
  static constexpr int kMaxAtOnce = 4;  // directions of the residual
  static_assert(Config::kRows == Config::kThreads);
  static_assert((kMaxRank + 2) * Config::kHeadDim * 4 <= 2 * Config::kKeys * Config::kHeadDim * 2);

  // [rank] directions, k_mean, k_first.
  __device__ __forceinline__ float* shared_vector(int i) const {
    return reinterpret_cast<float*>(shared_ + Config::kKeyTile) + i * Config::kHeadDim;
  }
  __device__ __forceinline__ float* directions() const { return shared_vector(0); }
  __device__ __forceinline__ float* mean() const { return shared_vector(kMaxRank); }
  __device__ __forceinline__ float* first_key() const { return shared_vector(kMaxRank + 1); }

  __device__ __forceinline__ bool needs_rowbias() const {
    return p_.lse != nullptr || p_.sinks != nullptr || p_.softcap > 0;
  }

  __device__ __forceinline__ void load_shared_vectors(bool sees_first) const {
    const int64_t stats = segment_.stats_row;
    const int64_t head = segment_.kv_head;
    const int thread = static_cast<int>(threadIdx.x);
    const float* basis = p_.residual_basis + stats * p_.residual_basis_strides[0] +
                         head * p_.residual_basis_strides[1];
    for (int i = thread; i < p_.residual_rank * Config::kHeadDim; i += Config::kThreads) {
      directions()[i] =
          basis[i / Config::kHeadDim * p_.residual_basis_strides[2] + i % Config::kHeadDim];
    }
    if (thread >= Config::kHeadDim) return;
    if (needs_rowbias()) {
      mean()[thread] =
          p_.k_mean[stats * p_.k_mean_strides[0] + head * p_.k_mean_strides[1] + thread];
    }
    if (sees_first && p_.k_first != nullptr) {
      int page = p_.block_table[segment_.sequence * p_.block_table_stride];
      if (static_cast<uint32_t>(page) >= static_cast<uint32_t>(p_.num_pages)) page = 0;
      const auto* row = reinterpret_cast<const uint16_t*>(
          p_.k_first + page * p_.k_first_strides.page + head * p_.k_first_strides.head);
      first_key()[thread] = __uint_as_float(uint32_t{row[thread]} << 16);
    }
  }

  // The warp's rows as they are, 16 bytes a lane.
  __device__ __forceinline__ void load_rows() const {
    constexpr int kChunks = Config::kChunks;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = static_cast<int>(threadIdx.x) / 32 * Config::kWarpRows;
#pragma unroll 4
    for (int i = lane; i < Config::kWarpRows * kChunks; i += 32) {
      const int row = first + i / kChunks;
      const int chunk = i % kChunks;
      const QueryRow query = query_row(p_, segment_, row);
      uint4 words = make_uint4(0, 0, 0, 0);
      if (query.is_valid) words = load_chunk(row_of_q(query) + chunk * 16);
      *reinterpret_cast<uint4*>(shared_ + Config::kQueries +
                                chunk_at<Config::kHeadDim>(row, chunk)) = words;
    }
  }

  __device__ __forceinline__ const std::byte* row_of_q(const QueryRow& query) const {
    return p_.q + 2 * ((segment_.q_begin + query.position) * p_.q_row_stride +
                       query.head * p_.q_head_stride);
  }

  __device__ __forceinline__ uint4 load_chunk(const std::byte* from) const {
    if (params_.q_has_pieces != 0) return *reinterpret_cast<const uint4*>(from);
    const auto* elements = reinterpret_cast<const uint16_t*>(from);
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = elements[2 * i] | uint32_t{elements[2 * i + 1]} << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  // Eight dims of a row, before and after its mean is taken off.
  __device__ __forceinline__ EightFloats chunk_of(const uint4* words, const float* q_mean,
                                                  int chunk) const {
    EightFloats values = unpack_16bit(*words, p_.is_bf16 != 0);
    if (q_mean != nullptr) {
#pragma unroll
      for (int i = 0; i < 8; ++i) values.x[i] -= q_mean[8 * chunk + i];
    }
    return values;
  }

  __device__ __forceinline__ uint4* words_of(int row, int chunk) const {
    return reinterpret_cast<uint4*>(shared_ + Config::kQueries +
                                    chunk_at<Config::kHeadDim>(row, chunk));
  }

  __device__ __forceinline__ void prepare_row(int row, bool sees_first) const {
    auto& scalars = reinterpret_cast<RowScalars*>(shared_ + Config::kScalars)[row];
    const QueryRow query = query_row(p_, segment_, row);
    if (!query.is_valid) {
      scalars = {.lambda = 1.0f};
      store_coefficients(row, make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0));
      return;
    }
    const float* q_mean = nullptr;
    if (Config::kHasExtra && p_.delta_s != nullptr) {
      q_mean =
          p_.q_mean + segment_.stats_row * p_.q_mean_strides[0] + query.head * p_.q_mean_strides[1];
    }
    float rowbias = 0.0f;
    float largest = 0.0f;
    float first_dot = 0.0f;
    const bool takes_first = sees_first && p_.k_first != nullptr;
#pragma unroll 2
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
      const uint4* words = words_of(row, chunk);
      if (needs_rowbias()) {
        rowbias = add_dot(rowbias, chunk_of(words, nullptr, chunk), mean() + 8 * chunk);
      }
      const EightFloats values = chunk_of(words, q_mean, chunk);
#pragma unroll
      for (const float x : values.x) largest = fmaxf(largest, fabsf(x));
      if (takes_first) first_dot = add_dot(first_dot, values, first_key() + 8 * chunk);
    }
    const int exponent = kQueryExponent - exponent_of(largest);
    // One unit of the scores is k_scale 2^-unit.
    const int unit = exponent + kKeyExponent;
    const float k_scale =
        scale_of(p_.k_scale, p_.k_scale_strides, segment_.stats_row, segment_.kv_head);
    const int raise = p_.residual_rank > 0 ? residual_raise(k_scale) : 0;
    if (p_.residual_rank > 0) prepare_coefficients(row, q_mean, unit + raise, k_scale);
#pragma unroll 2
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
      uint4* words = words_of(row, chunk);
      EightFloats values = chunk_of(words, q_mean, chunk);
#pragma unroll
      for (float& x : values.x) x = scale_by(x, exponent);
      // As unpack_codes() orders the dims of a key.
      *words =
          make_uint4(ptx::f16x2(values.x[0], values.x[2]), ptx::f16x2(values.x[4], values.x[6]),
                     ptx::f16x2(values.x[1], values.x[3]), ptx::f16x2(values.x[5], values.x[7]));
    }
    scalars =
        row_scalars<Config::kHasExtra>(p_, segment_, query, unit, k_scale, rowbias, first_dot);
    scalars.residual_factor = residual_factor(raise);
  }

  __device__ __forceinline__ float residual_scale_of(int direction) const {
    return p_.residual_scale[segment_.stats_row * p_.residual_scale_strides[0] +
                             segment_.kv_head * p_.residual_scale_strides[1] +
                             direction * p_.residual_scale_strides[2]];
  }

  // The exponent by which the coefficients of all rows are raised.
  __device__ __forceinline__ int residual_raise(float k_scale) const {
    float largest = 0.0f;
#pragma unroll 1
    for (int j = 0; j < p_.residual_rank; ++j) {
      largest = fmaxf(largest, residual_scale_of(j) / k_scale);
    }
    return residual_exponent(largest);
  }

  // (U Q) p_scale 2^exponent, raised by what lowers the residual's values.
  __device__ __forceinline__ void prepare_coefficients(int row, const float* q_mean, int exponent,
                                                       float k_scale) const {
    uint32_t words[kMaxRank / 2] = {};
#pragma unroll
    for (int first = 0; first < kMaxRank; first += kMaxAtOnce) {
      if (first >= p_.residual_rank) break;
      float sums[kMaxAtOnce] = {};
#pragma unroll 1
      for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
        const EightFloats values = chunk_of(words_of(row, chunk), q_mean, chunk);
#pragma unroll
        for (int j = 0; j < kMaxAtOnce; ++j) {
          sums[j] =
              add_dot(sums[j], values, directions() + (first + j) * Config::kHeadDim + 8 * chunk);
        }
      }
#pragma unroll
      for (int j = 0; j < kMaxAtOnce; ++j) {
        sums[j] = scale_by(sums[j] * (residual_scale_of(first + j) / k_scale), exponent);
      }
      words[first / 2] = ptx::f16x2(sums[0], sums[1]);
      words[first / 2 + 1] = ptx::f16x2(sums[2], sums[3]);
    }
    store_coefficients(row, make_uint4(words[0], words[1], words[2], words[3]),
                       make_uint4(words[4], words[5], words[6], words[7]));
  }

  __device__ __forceinline__ void store_coefficients(int row, uint4 low, uint4 high) const {
    std::byte* const rows = shared_ + Config::kCoefficients;
    *reinterpret_cast<uint4*>(rows + narrow_chunk_at(row, 0)) = low;
    *reinterpret_cast<uint4*>(rows + narrow_chunk_at(row, 1)) = high;
  }

  const PrefillParams& params_;
  const DecodeParams& p_;
  const DecodeSegment& segment_;
  std::byte* shared_;
};

}  // namespace mpfa::kernels
