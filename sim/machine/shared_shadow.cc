#include "sim/machine/shared_shadow.h"

#include <algorithm>
#include <new>

namespace mpfa::sim {
namespace {

template <class T>
T* allocate_zeros(size_t count) {
  void* memory = std::calloc(std::max<size_t>(count, 1), sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

// The first T from `memory` on.
template <class T>
T* aligned(std::byte* memory) {
  const auto beyond = reinterpret_cast<uintptr_t>(memory) % alignof(T);
  return reinterpret_cast<T*>(memory + (beyond == 0 ? 0 : alignof(T) - beyond));
}

}  // namespace

SharedShadow::SharedShadow(uint64_t bytes)
    : count_(static_cast<uint32_t>((bytes + kCellBytes - 1) / kCellBytes)),
      cell_memory_(allocate_zeros<std::byte>((size_t{count_} + 1) * sizeof(Cell))),
      cells_(aligned<Cell>(cell_memory_.get())),
      state_(allocate_zeros<uint8_t>(count_)),
      nodes_(1) {}

void SharedShadow::mark_range(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  for (uint64_t at = offset; at < end;) {
    const uint64_t cell = at / kCellBytes;
    const uint64_t stop = std::min(end, (cell + 1) * kCellBytes);
    const uint64_t mask = ((1u << (stop - at)) - 1) << (at % kCellBytes);
    mark(static_cast<uint32_t>(cell), static_cast<uint8_t>(mask));
    at = stop;
  }
}

void SharedShadow::add(uint32_t cell, const PastAccess& access) {
  uint32_t node = free_nodes_;
  if (node != 0) {
    free_nodes_ = nodes_[node].next;
  } else {
    node = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  Cell& at = cells_[cell];
  nodes_[node] = {access, at.chain};
  at.chain = node;
  state_.get()[cell] |= access.is_write() ? kHasChain | kChainHasWrite : kHasChain;
}

}  // namespace mpfa::sim
