#include "sim/machine/global_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kMinAlignment = 256;
constexpr uint64_t kGap = 256;  // between allocations, so that running past one's end is seen

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Whole pages go back to the host, which gives zeros when they are touched again.
void clear(uint64_t address, uint64_t bytes) {
  static const auto kPage = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t end = address + bytes;
  const uint64_t first_page = round_up(address, kPage);
  const uint64_t last_page = end / kPage * kPage;
  auto* start = reinterpret_cast<std::byte*>(address);
  if (first_page >= last_page) {
    std::memset(start, 0, bytes);
    return;
  }
  std::memset(start, 0, first_page - address);
  madvise(reinterpret_cast<void*>(first_page), last_page - first_page, MADV_DONTNEED);
  std::memset(reinterpret_cast<void*>(last_page), 0, end - last_page);
}

}  // namespace

GlobalMemory::GlobalMemory(uint64_t capacity_bytes)
    : capacity_(capacity_bytes), range_bytes_(2 * capacity_bytes) {
  void* range = mmap(nullptr, range_bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    throw Error(internal::str_cat("cannot reserve ", range_bytes_, " bytes of address space"));
  }
  range_ = static_cast<std::byte*>(range);
  free_[reinterpret_cast<uint64_t>(range_)] = range_bytes_;
}

GlobalMemory::~GlobalMemory() { munmap(range_, range_bytes_); }

uint64_t GlobalMemory::allocate(uint64_t bytes, MemoryKind kind, uint64_t alignment) {
  const std::unique_lock lock(mutex_);
  if (bytes == 0 || bytes > capacity_ - used_) return 0;
  alignment = std::max(alignment, kMinAlignment);
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const auto [start, size] = *hole;
    const uint64_t address = round_up(start, alignment);
    const uint64_t taken = round_up(address - start + bytes + kGap, kMinAlignment);
    if (taken > size) continue;
    free_.erase(hole);
    if (taken < size) free_[start + taken] = size - taken;
    live_[address] = {.address = address, .bytes = bytes, .kind = kind};
    reserved_[address] = taken - (address - start);
    if (address != start) free_[start] = address - start;
    used_ += bytes;
    return address;
  }
  return 0;
}

bool GlobalMemory::register_memory(void* address, uint64_t bytes, MemoryKind kind) {
  const std::unique_lock lock(mutex_);
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto next = live_.lower_bound(at);
  if (next != live_.end() && next->first < at + bytes) return false;
  if (next != live_.begin()) {
    const Allocation& before = std::prev(next)->second;
    if (before.address + before.bytes > at) return false;
  }
  live_[at] = {.address = at, .bytes = bytes, .kind = kind};
  return true;
}

bool GlobalMemory::release(uint64_t address) {
  const std::unique_lock lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  ++generation_;
  const Allocation allocation = found->second;
  live_.erase(found);
  if (!owns(address)) return true;  // registered
  used_ -= allocation.bytes;
  clear(address, allocation.bytes);
  uint64_t start = address;
  uint64_t size = reserved_.at(address);
  reserved_.erase(address);
  const auto next = free_.find(start + size);
  if (next != free_.end()) {
    size += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(start);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == start) {
      start = before->first;
      size += before->second;
      free_.erase(before);
    }
  }
  free_[start] = size;
  return true;
}

void GlobalMemory::set_constant(uint64_t address) {
  const std::unique_lock lock(mutex_);
  live_.at(address).is_constant = true;
}

std::optional<Allocation> GlobalMemory::find(uint64_t address) const {
  const std::optional<Allocation> found = nearest_below(address);
  if (!found || !found->contains(address, 1)) return std::nullopt;
  return found;
}

std::optional<Allocation> GlobalMemory::nearest_below(uint64_t address) const {
  const std::shared_lock lock(mutex_);
  const auto after = live_.upper_bound(address);
  if (after == live_.begin()) return std::nullopt;
  return std::prev(after)->second;
}

uint64_t GlobalMemory::used() const {
  const std::shared_lock lock(mutex_);
  return used_;
}

}  // namespace mpfa::sim
