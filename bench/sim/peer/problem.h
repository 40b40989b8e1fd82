// The two kernels of kernels.ptx: how they are launched, and what they must give. Both simulators'
// host programs use it, so that they run the same work.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace peer {

constexpr uint32_t kArithmeticBlocks = 8;
constexpr uint32_t kArithmeticThreads = 256;
constexpr uint32_t kTurns = 500;
// Of `arithmetic`, counted in kernels.ptx: a loop of 19, 15 before it and 4 behind it.
constexpr uint64_t kArithmeticInsns =
    uint64_t{kArithmeticBlocks} * (kArithmeticThreads / 32) * (15 + 19 * kTurns + 4);

constexpr uint32_t kSize = 128;
constexpr uint32_t kTile = 16;
// Of `product`: 34 before the loop over tiles, 8 + 4 * 17 + 6 in it, 2 behind it.
constexpr uint64_t kProductInsns = uint64_t{kSize / kTile} * (kSize / kTile) *
                                   (kTile * kTile / 32) *
                                   (34 + uint64_t{kSize / kTile} * (8 + 4 * 17 + 6) + 2);

inline std::vector<float> matrix(uint32_t seed) {
  std::vector<float> values(size_t{kSize} * kSize);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 24) / 16.0f - 8.0f;
  }
  return values;
}

// Of a thread whose %tid.x is `thread`.
inline uint32_t arithmetic_result(uint32_t thread) {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  float f = 0;
  for (uint32_t i = 0; i < 4 * kTurns; ++i) {
    a += thread * kArithmeticThreads;
    f = std::fma(f, 0.5f, 1.0f);
    b += a;
    c ^= b;
  }
  return c + static_cast<uint32_t>(static_cast<int32_t>(f));
}

inline bool is_right(const std::vector<uint32_t>& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != arithmetic_result(static_cast<uint32_t>(i % kArithmeticThreads))) return false;
  }
  return true;
}

// In the kernel's order of additions, so to the bit.
inline bool is_right(const std::vector<float>& a, const std::vector<float>& b,
                     const std::vector<float>& c) {
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      float sum = 0;
      for (size_t k = 0; k < kSize; ++k) sum = std::fma(a[i * kSize + k], b[k * kSize + j], sum);
      if (c[i * kSize + j] != sum) return false;
    }
  }
  return true;
}

inline void report(const char* simulator, const char* kernel, bool right, uint64_t insns,
                   double seconds) {
  std::printf("%-10s %-10s %s  %9llu warp instructions  %8.4f s  %8.3f million a second\n",
              simulator, kernel, right ? "right" : "WRONG", static_cast<unsigned long long>(insns),
              seconds, static_cast<double>(insns) / seconds / 1e6);
}

}  // namespace peer
