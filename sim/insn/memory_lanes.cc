#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/memory_lanes.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/insn/lanes-inl.h"
#include "sim/insn/memory_lanes.h"
#include "sim/insn/memory_operand.h"
#include "sim/machine/block.h"
#include "sim/machine/monitor.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

// Where the active lanes' bytes lie.
struct Places {
  // Lane by lane, where lanes are in different memories.
  std::byte* each[kWarpSize];
  // Otherwise at origin + address.
  alignas(64) uint64_t addresses[kWarpSize];
  uintptr_t origin = 0;
  bool is_together = false;
  bool is_row = false;     // all 32 lanes, one behind the other
  bool is_single = false;  // all at one address
  uint64_t first = 0;      // the lowest address

  HWY_INLINE std::byte* of(int lane) const {
    return is_together ? reinterpret_cast<std::byte*>(origin + addresses[lane]) : each[lane];
  }
  std::byte* lowest() const { return reinterpret_cast<std::byte*>(origin + first); }
};

// The span of the active lanes' addresses, and what makes the copy short.
HWY_INLINE AddressSpan measure(uint32_t mask, uint32_t bytes, Places& at) {
  // Lanes that are not active have an active one's address here.
  const uint64_t any = at.addresses[std::countr_zero(mask)];
  uint64_t low = any;
  uint64_t high = any;
  uint64_t all_bits = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const uint64_t address = (mask >> lane & 1u) != 0 ? at.addresses[lane] : any;
    at.addresses[lane] = address;
    low = address < low ? address : low;
    high = address > high ? address : high;
    all_bits |= address;
  }
  at.first = low;
  at.is_single = low == high;
  if (mask == kAllLanes && high - low == uint64_t{bytes} * (kWarpSize - 1)) {
    uint64_t differences = 0;
    for (uint64_t lane = 0; lane < kWarpSize; ++lane) {
      differences |= at.addresses[lane] ^ (low + bytes * lane);
    }
    at.is_row = differences == 0;
  }
  return {low, high, all_bits};
}

// A StoredValue.
void copy_stored(const Warp& w, const Insn& i, int lane, std::byte* to) {
  const auto& m = static_cast<const MemoryDetail&>(*i.detail);
  for (size_t element = 0; element < m.slots.size(); ++element) {
    const std::byte* from = w.source<std::byte>(m.slots[element]);
    std::memcpy(to + element * m.element_bytes,
                from + static_cast<size_t>(lane) * m.slot_bytes[element], m.element_bytes);
  }
}

HWY_INLINE void locate(Warp& w, const Insn& i, const MemoryDetail& m, AccessKind kind, Places& at) {
  lane_addresses(w, m.address, at.addresses);
  const uint32_t bytes = m.lane_bytes();
  const bool is_plain_store = kind == AccessKind::kWrite && m.order == MemoryOrder::kWeak;
  const Access access = {.space = m.space,
                         .kind = kind,
                         .bytes = bytes,
                         .addresses = at.addresses,
                         .order = m.order,
                         .stored = is_plain_store ? &copy_stored : nullptr};
  const AddressSpan span = measure(w.mask, bytes, at);
  at.is_together = resolve_together(w, access, span, at.origin);
  if (!at.is_together) {
    at.is_row = false;
    at.is_single = false;
    resolve(w, i, access, at.each);
  }
  observe(w, i, access);
}

// ---- loads
// -----------------------------------------------------------------------------------------

template <class To, class From>
HWY_INLINE To read_at(const std::byte* place) {
  From value;
  std::memcpy(&value, place, sizeof(From));
  return static_cast<To>(value);
}

// Element number `element` of `count` in each lane.
template <class To, class From>
HWY_INLINE void load_element(Warp& w, const Places& at, Slot slot, size_t element, size_t count) {
  To* to = w.target<To>(slot);
  const size_t offset = element * sizeof(From);
  if (at.is_row) {
    const std::byte* row = at.lowest() + offset;
    const size_t stride = count * sizeof(From);
    for (size_t lane = 0; lane < kWarpSize; ++lane) {
      to[lane] = read_at<To, From>(row + lane * stride);
    }
    return;
  }
  if (at.is_single && w.mask == kAllLanes) {
    const To value = read_at<To, From>(at.lowest() + offset);
    for (int lane = 0; lane < kWarpSize; ++lane) to[lane] = value;
    return;
  }
  if (at.is_together && w.mask == kAllLanes) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      to[lane] = read_at<To, From>(
          reinterpret_cast<const std::byte*>(at.origin + at.addresses[lane]) + offset);
    }
    return;
  }
  for (uint32_t left = w.mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    to[lane] = read_at<To, From>(at.of(lane) + offset);
  }
}

template <class To>
HWY_INLINE void load_widened(Warp& w, const Places& at, ScalarType type, Slot slot, size_t element,
                             size_t count) {
  switch (bits_of(type)) {
    case 8:
      return is_signed(type) ? load_element<To, int8_t>(w, at, slot, element, count)
                             : load_element<To, uint8_t>(w, at, slot, element, count);
    case 16:
      return is_signed(type) ? load_element<To, int16_t>(w, at, slot, element, count)
                             : load_element<To, uint16_t>(w, at, slot, element, count);
    case 32:
      return is_signed(type) ? load_element<To, int32_t>(w, at, slot, element, count)
                             : load_element<To, uint32_t>(w, at, slot, element, count);
    default:
      return load_element<To, uint64_t>(w, at, slot, element, count);
  }
}

struct Wide {
  uint64_t halves[2];
};

HWY_INLINE void load_one(Warp& w, const MemoryDetail& m, const Places& at, size_t element) {
  const Slot slot = m.slots[element];
  const size_t count = m.slots.size();
  switch (m.slot_bytes[element]) {
    case 2:
      return load_widened<uint16_t>(w, at, m.type, slot, element, count);
    case 4:
      if (m.element_bytes == 4) {
        return load_element<uint32_t, uint32_t>(w, at, slot, element, count);
      }
      return load_widened<uint32_t>(w, at, m.type, slot, element, count);
    case 8:
      return load_widened<uint64_t>(w, at, m.type, slot, element, count);
    default:
      return load_element<Wide, Wide>(w, at, slot, element, count);
  }
}

// ---- stores
// ----------------------------------------------------------------------------------------

template <class T>
HWY_INLINE void store_element(Warp& w, const MemoryDetail& m, const Places& at, size_t element) {
  const std::byte* from = w.source<std::byte>(m.slots[element]);
  const size_t stride = m.slot_bytes[element];
  const size_t offset = element * sizeof(T);
  if (at.is_row && stride == sizeof(T)) {
    std::byte* row = at.lowest() + offset;
    const size_t step = m.slots.size() * sizeof(T);
    for (size_t lane = 0; lane < kWarpSize; ++lane) {
      std::memcpy(row + lane * step, from + lane * sizeof(T), sizeof(T));
    }
    return;
  }
  // In the order of the lanes: of several to one address the last one wins.
  for (uint32_t left = w.mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    std::memcpy(at.of(lane) + offset, from + static_cast<size_t>(lane) * stride, sizeof(T));
  }
}

Step load(Warp& w, const Insn& i) {
  const auto& m = static_cast<const MemoryDetail&>(*i.detail);
  Places at;
  locate(w, i, m, AccessKind::kRead, at);
  for (size_t element = 0; element < m.slots.size(); ++element) {
    if (m.slots[element] != kNoSlot) load_one(w, m, at, element);
  }
  return Step::kNext;
}

Step store(Warp& w, const Insn& i) {
  const auto& m = static_cast<const MemoryDetail&>(*i.detail);
  Places at;
  locate(w, i, m, AccessKind::kWrite, at);
  for (size_t element = 0; element < m.slots.size(); ++element) {
    switch (m.element_bytes) {
      case 1:
        store_element<uint8_t>(w, m, at, element);
        break;
      case 2:
        store_element<uint16_t>(w, m, at, element);
        break;
      case 4:
        store_element<uint32_t>(w, m, at, element);
        break;
      case 8:
        store_element<uint64_t>(w, m, at, element);
        break;
      default:
        store_element<Wide>(w, m, at, element);
    }
  }
  return Step::kNext;
}

}  // namespace

Handler load_of_target() { return &load; }
Handler store_of_target() { return &store; }

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(load_of_target);
HWY_EXPORT(store_of_target);

Handler load_handler() { return HWY_DYNAMIC_DISPATCH(load_of_target)(); }
Handler store_handler() { return HWY_DYNAMIC_DISPATCH(store_of_target)(); }

}  // namespace mpfa::sim
#endif  // HWY_ONCE
