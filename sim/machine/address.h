// How the address spaces are laid out.
#pragma once

#include <cstdint>

namespace mpfa::sim {

// Global, constant and kernel-parameter addresses are host addresses. The generic windows of the
// other spaces lie above all host addresses of user programs.
constexpr uint64_t kSharedWindow = uint64_t{1} << 48;
constexpr uint64_t kLocalWindow = uint64_t{2} << 48;
constexpr uint64_t kCodeWindow = uint64_t{3} << 48;
constexpr uint64_t kWindowBytes = uint64_t{1} << 32;

// A shared address: the block's rank in its cluster, then the byte. A block's own addresses have
// its rank too, as on Hopper (CUTLASS clears bit 24 of an address to reach the even block of a
// pair).
constexpr int kSharedRankShift = 24;
constexpr uint32_t kSharedOffsetMask = (1u << kSharedRankShift) - 1;

// The value of the address of the function at `place` in its module.
constexpr uint64_t kFunctionBytes = 16;
inline uint64_t address_of_function(uint64_t place) { return kCodeWindow + kFunctionBytes * place; }

inline bool in_shared_window(uint64_t address) { return address - kSharedWindow < kWindowBytes; }
inline bool in_local_window(uint64_t address) { return address - kLocalWindow < kWindowBytes; }

}  // namespace mpfa::sim
