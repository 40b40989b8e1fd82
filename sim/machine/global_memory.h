// The device's memory, and what host memory kernels may touch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>

namespace mpfa::sim {

enum class MemoryKind : uint8_t {
  kDevice,
  kPinnedHost,
  kManaged,
  kRegisteredHost,
  kModule,
  kHeap,  // what kernels allocate: device code alone frees it
};

// One live allocation: [address, address + bytes).
struct Allocation {
  uint64_t address = 0;
  uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  bool is_constant = false;  // a .const variable: kernels must not write it

  bool contains(uint64_t at, uint64_t size) const {
    return at >= address && size <= bytes && at - address <= bytes - size;
  }
};

// Global addresses are host addresses: allocations are carved, with unmapped-to-kernels gaps
// between them, from one range of reserved address space, of which only touched pages cost memory.
// All members may be called from any thread.
class GlobalMemory {
 public:
  explicit GlobalMemory(uint64_t capacity_bytes);
  ~GlobalMemory();
  GlobalMemory(const GlobalMemory&) = delete;
  GlobalMemory& operator=(const GlobalMemory&) = delete;

  // The address of `bytes` bytes, all zero as a driver's fresh memory usually is, aligned to
  // `alignment` (a power of two, at least 256 is used); 0 if they do not fit in the capacity. 0
  // bytes give 0.
  uint64_t allocate(uint64_t bytes, MemoryKind kind, uint64_t alignment = 256);

  // Memory that is the caller's own: of the host (cudaHostRegister), or mapped by him for the
  // device (cuMemMap). False if it overlaps an allocation.
  bool register_memory(void* address, uint64_t bytes, MemoryKind kind);

  // Ends the allocation that begins at `address`; false if none does.
  bool release(uint64_t address);

  // Marks the allocation that begins at `address` as .const.
  void set_constant(uint64_t address);

  // The live allocation that holds the byte at `address`.
  std::optional<Allocation> find(uint64_t address) const;
  // The live allocation nearest below `address`, for messages.
  std::optional<Allocation> nearest_below(uint64_t address) const;

  // Whether `address` lies in the range that allocations are carved from, live or not.
  bool owns(uint64_t address) const {
    return address - reinterpret_cast<uint64_t>(range_) < range_bytes_;
  }

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const;
  // Changes whenever an allocation ends: what find() gave before may not be kept past a change.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  uint64_t capacity_;
  std::byte* range_ = nullptr;  // reserved: capacity and the gaps
  uint64_t range_bytes_ = 0;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Allocation> live_;    // by address
  std::map<uint64_t, uint64_t> free_;      // by address: bytes, of range_
  std::map<uint64_t, uint64_t> reserved_;  // by allocation: bytes taken of range_, gap included
  uint64_t used_ = 0;
  std::atomic<uint64_t> generation_ = 0;
};

}  // namespace mpfa::sim
