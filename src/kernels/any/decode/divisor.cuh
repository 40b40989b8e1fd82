// Division by one number many times, in few instructions.
#pragma once

#include <cstdint>

namespace mpfa::kernels {

class Divisor {
 public:
  // value > 0
  __device__ __forceinline__ explicit Divisor(int32_t value)
      : value_(value), inverse_(0xFFFFFFFFu / static_cast<uint32_t>(value)) {}

  // The one that a lane of the warp has.
  __device__ __forceinline__ Divisor of_lane(int lane) const {
    Divisor other = *this;
    other.value_ = __shfl_sync(~0u, value_, lane);
    other.inverse_ = __shfl_sync(~0u, inverse_, lane);
    return other;
  }

  // Rounded down; n >= 0.
  __device__ __forceinline__ int32_t divide(int32_t n) const {
    const int32_t low = quotient(n);
    return low + (n - low * value_ >= value_ ? 1 : 0);
  }
  __device__ __forceinline__ int64_t divide(int64_t n) const { return n / value_; }

  // Rounded up; n >= 0.
  __device__ __forceinline__ int32_t ceil_div(int32_t n) const {
    const int32_t low = quotient(n);
    const int32_t rest = n - low * value_;
    return low + (rest > 0 ? 1 : 0) + (rest > value_ ? 1 : 0);
  }

 private:
  // Rounded down, or one less: the inverse is up to 2^-32 too small, n below 2^31.
  __device__ __forceinline__ int32_t quotient(int32_t n) const {
    return static_cast<int32_t>(__umulhi(static_cast<uint32_t>(n), inverse_));
  }

  int32_t value_;
  uint32_t inverse_;  // of 2^32
};

}  // namespace mpfa::kernels
