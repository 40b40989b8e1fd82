// mov with packing and unpacking, special registers, addresses: no arithmetic, no memory.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/function_decoder.h"
#include "sim/machine/block.h"

namespace mpfa::sim {
namespace {

struct U128 {
  uint64_t low;
  uint64_t high;
};

template <class T>
Step copy_lanes(Warp& w, const Insn& i) {
  const T* from = w.source<T>(i.a);
  T* to = w.target<T>(i.dst);
  if (w.mask == kAllLanes) {
    if (from != to) std::memcpy(to, from, sizeof(T) * kWarpSize);
    return Step::kNext;
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) != 0) to[lane] = from[lane];
  }
  return Step::kNext;
}

Step copy_predicate(Warp& w, const Insn& i) {
  w.set_predicate(i.dst, w.predicate(i.a));
  return Step::kNext;
}

Step not_predicate(Warp& w, const Insn& i) {
  *w.target<uint32_t>(i.dst) = ~w.predicate(i.a);
  return Step::kNext;
}

// A predicate from a 32-bit value that is 0 or 1.
Step test_word(Warp& w, const Insn& i) {
  const uint32_t* a = w.source<uint32_t>(i.a);
  uint32_t bits = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    bits |= static_cast<uint32_t>(a[lane] != 0) << lane;
  }
  w.set_predicate(i.dst, bits);
  return Step::kNext;
}

Handler copy_of(int bits) {
  switch (bits) {
    case 1:
      return &copy_predicate;
    case 8:
    case 16:
      return &copy_lanes<uint16_t>;
    case 32:
      return &copy_lanes<uint32_t>;
    case 64:
      return &copy_lanes<uint64_t>;
    default:
      return &copy_lanes<U128>;
  }
}

// {a, b} = c and c = {a, b}: a lane's bytes joined in order.
struct PackDetail : InsnDetail {
  struct Part {
    Slot slot;
    uint32_t bytes;   // taken of it
    uint32_t stride;  // from lane to lane
  };
  std::vector<Part> parts;
  uint32_t whole_stride = 0;
  uint32_t whole_bytes = 0;
};

Step pack(Warp& w, const Insn& i) {
  const auto& detail = static_cast<const PackDetail&>(*i.detail);
  std::byte* whole = w.target<std::byte>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    // Joined first: the whole may be one of the parts.
    std::array<std::byte, 16> value{};
    uint32_t at = 0;
    for (const PackDetail::Part& part : detail.parts) {
      std::memcpy(value.data() + at,
                  w.source<std::byte>(part.slot) + static_cast<size_t>(lane) * part.stride,
                  part.bytes);
      at += part.bytes;
    }
    std::memcpy(whole + static_cast<size_t>(lane) * detail.whole_stride, value.data(),
                detail.whole_stride);
  }
  return Step::kNext;
}

Step unpack(Warp& w, const Insn& i) {
  const auto& detail = static_cast<const PackDetail&>(*i.detail);
  const std::byte* whole = w.source<std::byte>(i.a);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    std::array<std::byte, 16> value{};
    std::memcpy(value.data(), whole + static_cast<size_t>(lane) * detail.whole_stride,
                detail.whole_bytes);
    uint32_t at = 0;
    for (const PackDetail::Part& part : detail.parts) {
      std::byte* to = w.target<std::byte>(part.slot) + static_cast<size_t>(lane) * part.stride;
      std::memset(to, 0, part.stride);
      std::memcpy(to, value.data() + at, part.bytes);
      at += part.bytes;
    }
  }
  return Step::kNext;
}

// The same for two halves that fill their registers, which is nearly always so.
template <class Whole, class Half>
Step pack_halves(Warp& w, const Insn& i) {
  const Half* low = w.source<Half>(i.a);
  const Half* high = w.source<Half>(i.b);
  Whole* to = w.target<Whole>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto joined = static_cast<Whole>(low[lane] | Whole{high[lane]} << (8 * sizeof(Half)));
    to[lane] = (w.mask >> lane & 1) != 0 ? joined : to[lane];
  }
  return Step::kNext;
}

template <class Whole, class Half>
Step unpack_halves(Warp& w, const Insn& i) {
  const Whole* whole = w.source<Whole>(i.a);
  Half* low = w.target<Half>(i.dst);
  Half* high = w.target<Half>(i.b);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const bool active = (w.mask >> lane & 1) != 0;
    const Whole value = whole[lane];
    low[lane] = active ? static_cast<Half>(value) : low[lane];
    high[lane] = active ? static_cast<Half>(value >> (8 * sizeof(Half))) : high[lane];
  }
  return Step::kNext;
}

// nullptr: they do not fill them.
Handler halves_handler(const PackDetail& detail, bool is_pack) {
  const bool fills = detail.parts.size() == 2 && detail.whole_stride == detail.whole_bytes &&
                     std::all_of(detail.parts.begin(), detail.parts.end(),
                                 [](const auto& part) { return part.stride == part.bytes; });
  if (!fills) return nullptr;
  switch (detail.whole_bytes) {
    case 4:
      return is_pack ? &pack_halves<uint32_t, uint16_t> : &unpack_halves<uint32_t, uint16_t>;
    case 8:
      return is_pack ? &pack_halves<uint64_t, uint32_t> : &unpack_halves<uint64_t, uint32_t>;
    default:
      return nullptr;
  }
}

ScalarType bits_type(int bits) {
  switch (bits) {
    case 8:
      return ScalarType::kB8;
    case 16:
      return ScalarType::kB16;
    case 32:
      return ScalarType::kB32;
    default:
      return bits == 64 ? ScalarType::kB64 : ScalarType::kB128;
  }
}

void decode_pack(InsnDecoder& d, int bits, bool is_pack) {
  const Operand& list = d.operand(is_pack ? 1 : 0);
  const Operand& whole = d.operand(is_pack ? 0 : 1);
  const auto parts = static_cast<int>(list.parts.size());
  if (parts == 0 || bits % (8 * parts) != 0) d.fail("the elements do not make up the whole");
  const int part_bits = bits / parts;
  PackDetail detail;
  detail.whole_bytes = static_cast<uint32_t>(bits / 8);
  detail.whole_stride = detail.whole_bytes;
  for (const Operand& part : list.parts) {
    const ScalarType type = bits_type(part_bits);
    // Elements of 8 bits lie in registers of 16 or more.
    const int register_bits = std::max(d.register_bits(part, type), 16);
    detail.parts.push_back({is_pack ? d.source(part, type) : d.target(part, type),
                            static_cast<uint32_t>(part_bits / 8),
                            static_cast<uint32_t>(register_bits / 8)});
  }
  const Slot slot = is_pack ? d.target(whole, bits_type(bits)) : d.source(whole, bits_type(bits));
  if (const Handler handler = halves_handler(detail, is_pack)) {
    Insn& insn = d.emit(handler);
    (is_pack ? insn.dst : insn.a) = slot;
    (is_pack ? insn.a : insn.dst) = detail.parts[0].slot;
    insn.b = detail.parts[1].slot;
    return;
  }
  Insn& insn = d.emit(is_pack ? &pack : &unpack);
  (is_pack ? insn.dst : insn.a) = slot;
  d.detail<PackDetail>(insn, std::move(detail));
}

// ---- special registers
// -----------------------------------------------------------------------------

template <class T>
Step read_uniform(Warp& w, const Insn& i, uint64_t value) {
  T* to = w.target<T>(i.dst);
  std::fill(to, to + kWarpSize, static_cast<T>(value));
  return Step::kNext;
}

using Reader = uint64_t (*)(const Warp& w, int lane);

// All reads are of the whole warp, into a register of the decoder's own.
template <class T, Reader kRead>
Step read_special(Warp& w, const Insn& i) {
  T* to = w.target<T>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) to[lane] = static_cast<T>(kRead(w, lane));
  return Step::kNext;
}

template <Reader kRead>
Handler reader(int bits) {
  if (bits == 64) return &read_special<uint64_t, kRead>;
  return bits == 16 ? &read_special<uint16_t, kRead> : &read_special<uint32_t, kRead>;
}

uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

const Grid& grid_of(const Warp& w) { return *w.block->grid; }

Dim3 cluster_count(const Grid& grid) {
  return {grid.grid.x / grid.cluster.x, grid.grid.y / grid.cluster.y, grid.grid.z / grid.cluster.z};
}
Dim3 in_cluster(const Warp& w) { return position_of(w.block->rank, grid_of(w).cluster); }

struct SpecialRegister {
  const char* name;  // component behind a dot
  Handler (*handler)(int bits);
};

#define MPFA_SIM_SPECIAL(name, expression)                                   \
  SpecialRegister {                                                          \
    name, &reader<[](const Warp& w, [[maybe_unused]] int lane) -> uint64_t { \
      (void)w;                                                               \
      return (expression);                                                   \
    }>                                                                       \
  }

constexpr uint32_t lane_bit(int lane) { return 1u << lane; }

const std::array kSpecialRegisters = {
    MPFA_SIM_SPECIAL("%tid.x", w.tid_x[lane]),
    MPFA_SIM_SPECIAL("%tid.y", w.tid_y[lane]),
    MPFA_SIM_SPECIAL("%tid.z", w.tid_z[lane]),
    MPFA_SIM_SPECIAL("%ntid.x", grid_of(w).block.x),
    MPFA_SIM_SPECIAL("%ntid.y", grid_of(w).block.y),
    MPFA_SIM_SPECIAL("%ntid.z", grid_of(w).block.z),
    MPFA_SIM_SPECIAL("%ctaid.x", w.block->position.x),
    MPFA_SIM_SPECIAL("%ctaid.y", w.block->position.y),
    MPFA_SIM_SPECIAL("%ctaid.z", w.block->position.z),
    MPFA_SIM_SPECIAL("%nctaid.x", grid_of(w).grid.x),
    MPFA_SIM_SPECIAL("%nctaid.y", grid_of(w).grid.y),
    MPFA_SIM_SPECIAL("%nctaid.z", grid_of(w).grid.z),
    MPFA_SIM_SPECIAL("%laneid", static_cast<uint64_t>(lane)),
    MPFA_SIM_SPECIAL("%warpid", w.index),
    MPFA_SIM_SPECIAL("%nwarpid", static_cast<uint64_t>(grid_of(w).model->max_threads_per_sm / 32)),
    MPFA_SIM_SPECIAL("%smid",
                     w.block->cluster->index % static_cast<uint64_t>(grid_of(w).model->sm_count)),
    MPFA_SIM_SPECIAL("%nsmid", static_cast<uint64_t>(grid_of(w).model->sm_count)),
    MPFA_SIM_SPECIAL("%gridid", grid_of(w).id),
    MPFA_SIM_SPECIAL("%is_explicit_cluster", (grid_of(w).cluster.count() > 1 ? 1u : 0u)),
    MPFA_SIM_SPECIAL("%clusterid.x", w.block->cluster->position.x),
    MPFA_SIM_SPECIAL("%clusterid.y", w.block->cluster->position.y),
    MPFA_SIM_SPECIAL("%clusterid.z", w.block->cluster->position.z),
    MPFA_SIM_SPECIAL("%nclusterid.x", cluster_count(grid_of(w)).x),
    MPFA_SIM_SPECIAL("%nclusterid.y", cluster_count(grid_of(w)).y),
    MPFA_SIM_SPECIAL("%nclusterid.z", cluster_count(grid_of(w)).z),
    MPFA_SIM_SPECIAL("%cluster_ctaid.x", in_cluster(w).x),
    MPFA_SIM_SPECIAL("%cluster_ctaid.y", in_cluster(w).y),
    MPFA_SIM_SPECIAL("%cluster_ctaid.z", in_cluster(w).z),
    MPFA_SIM_SPECIAL("%cluster_nctaid.x", grid_of(w).cluster.x),
    MPFA_SIM_SPECIAL("%cluster_nctaid.y", grid_of(w).cluster.y),
    MPFA_SIM_SPECIAL("%cluster_nctaid.z", grid_of(w).cluster.z),
    MPFA_SIM_SPECIAL("%cluster_ctarank", w.block->rank),
    MPFA_SIM_SPECIAL("%cluster_nctarank", grid_of(w).cluster.count()),
    MPFA_SIM_SPECIAL("%lanemask_eq", lane_bit(lane)),
    MPFA_SIM_SPECIAL("%lanemask_le", lane_bit(lane) | (lane_bit(lane) - 1)),
    MPFA_SIM_SPECIAL("%lanemask_lt", lane_bit(lane) - 1),
    MPFA_SIM_SPECIAL("%lanemask_ge", ~(lane_bit(lane) - 1)),
    MPFA_SIM_SPECIAL("%lanemask_gt", ~(lane_bit(lane) | (lane_bit(lane) - 1))),
    MPFA_SIM_SPECIAL("%clock", w.block->cluster->clock + w.instructions),
    MPFA_SIM_SPECIAL("%clock_hi", ((w.block->cluster->clock + w.instructions) >> 32)),
    MPFA_SIM_SPECIAL("%clock64", w.block->cluster->clock + w.instructions),
    MPFA_SIM_SPECIAL("%globaltimer", nanoseconds()),
    MPFA_SIM_SPECIAL("%globaltimer_lo", nanoseconds()),
    MPFA_SIM_SPECIAL("%globaltimer_hi", (nanoseconds() >> 32)),
    MPFA_SIM_SPECIAL("%reserved_smem_offset_begin", 0u),
    MPFA_SIM_SPECIAL("%reserved_smem_offset_end",
                     static_cast<uint64_t>(grid_of(w).model->reserved_shared_bytes)),
    MPFA_SIM_SPECIAL("%reserved_smem_offset_cap",
                     static_cast<uint64_t>(grid_of(w).model->reserved_shared_bytes)),
    MPFA_SIM_SPECIAL("%reserved_smem_offset_0", 0u),
    MPFA_SIM_SPECIAL("%reserved_smem_offset_1", 0u),
    MPFA_SIM_SPECIAL("%total_smem_size", grid_of(w).shared_bytes),
    MPFA_SIM_SPECIAL("%aggr_smem_size", grid_of(w).shared_bytes),
    MPFA_SIM_SPECIAL("%dynamic_smem_size", grid_of(w).dynamic_shared_bytes),
    MPFA_SIM_SPECIAL("%current_graph_exec", 0u),
    MPFA_SIM_SPECIAL("%envreg1", grid_of(w).workspace >> 32),
    MPFA_SIM_SPECIAL("%envreg2", grid_of(w).workspace & 0xFFFFFFFFu),
};
#undef MPFA_SIM_SPECIAL

// ---- addresses of the windows
// ----------------------------------------------------------------------

// The warp's block's window plus imm.
template <class T>
Step shared_variable_address(Warp& w, const Insn& i) {
  return read_uniform<T>(w, i, w.block->shared_base() + static_cast<uint64_t>(i.imm));
}

template <class T>
Step local_variable_address(Warp& w, const Insn& i) {
  return read_uniform<T>(w, i, w.split->frame->local_base + static_cast<uint64_t>(i.imm));
}

template <class T>
Step param_address(Warp& w, const Insn& i) {
  return read_uniform<T>(w, i, grid_of(w).params + static_cast<uint64_t>(i.imm));
}

template <uint64_t kWindow, bool kAdd, class To, class From>
Step convert_address(Warp& w, const Insn& i) {
  const From* a = w.source<From>(i.a);
  To* to = w.target<To>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const uint64_t value = a[lane];
    to[lane] = static_cast<To>(kAdd ? value + kWindow : value - kWindow);
  }
  return Step::kNext;
}

template <uint64_t kWindow, bool kAdd>
Handler address_conversion(int bits) {
  return bits == 64 ? &convert_address<kWindow, kAdd, uint64_t, uint64_t>
                    : &convert_address<kWindow, kAdd, uint32_t, uint32_t>;
}

bool is_in_own_shared(const Warp& w, uint64_t address) {
  return in_shared_window(address) &&
         (address - kSharedWindow) >> kSharedRankShift == w.block->rank;
}

enum class Space : uint8_t { kGlobal, kConst, kLocal, kShared, kSharedCluster, kParam };

Step is_in_space(Warp& w, const Insn& i) {
  const uint64_t* a = w.source<uint64_t>(i.a);
  uint32_t bits = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const uint64_t at = a[lane];
    const Grid& grid = grid_of(w);
    const bool is_param = at - grid.params < std::max<uint64_t>(grid.kernel->param_bytes, 1);
    bool is_in = false;
    switch (static_cast<Space>(i.u8)) {
      case Space::kShared:
        is_in = is_in_own_shared(w, at);
        break;
      case Space::kSharedCluster:
        is_in = in_shared_window(at);
        break;
      case Space::kLocal:
        is_in = in_local_window(at);
        break;
      case Space::kParam:
        is_in = is_param;
        break;
      case Space::kConst: {
        const auto found = grid.memory->find(at);
        is_in = found && found->is_constant && !is_param;
        break;
      }
      case Space::kGlobal: {
        const auto found = grid.memory->find(at);
        is_in = !in_shared_window(at) && !in_local_window(at) &&
                !(found && found->is_constant && !is_param);
        break;
      }
    }
    bits |= static_cast<uint32_t>(is_in) << lane;
  }
  w.set_predicate(i.dst, bits);
  return Step::kNext;
}

}  // namespace

Slot emit_copy(InsnDecoder& d, Slot slot, int bits) {
  const Slot result = d.scratch(bits);
  Insn& insn = d.emit_before(copy_of(bits));
  insn.dst = result;
  insn.a = slot;
  return result;
}

Slot emit_predicate_not(InsnDecoder& d, Slot predicate) {
  const Slot result = d.scratch(1);
  Insn& insn = d.emit_before(&not_predicate);
  insn.dst = result;
  insn.a = predicate;
  return result;
}

Slot emit_special_register(InsnDecoder& d, const Operand& operand, int bits) {
  std::string name = operand.name;
  if (operand.component >= 0) name += std::string(".") + "xyzw"[operand.component];
  const auto found = std::find_if(kSpecialRegisters.begin(), kSpecialRegisters.end(),
                                  [&](const SpecialRegister& each) { return name == each.name; });
  const int width = std::max(bits, 16);
  const Slot slot = d.scratch(width);
  if (found != kSpecialRegisters.end()) {
    d.emit_before(found->handler(width)).dst = slot;
    return slot;
  }
  // Components w, the other environment registers and performance counters read as 0.
  const bool is_zero =
      name.ends_with(".w") || name.starts_with("%envreg") || name.starts_with("%pm");
  if (!is_zero) d.fail("the special register " + name + " is not known");
  return d.constant(0, width);
}

Slot emit_window_address(InsnDecoder& d, const AddressOperand& address, int bits) {
  const Slot slot = d.scratch(bits);
  const bool wide = bits == 64;
  Handler handler = nullptr;
  if (address.block_relative) {
    handler = wide ? &shared_variable_address<uint64_t> : &shared_variable_address<uint32_t>;
  } else if (address.frame_relative) {
    handler = wide ? &local_variable_address<uint64_t> : &local_variable_address<uint32_t>;
  } else {
    handler = wide ? &param_address<uint64_t> : &param_address<uint32_t>;
  }
  Insn& insn = d.emit_before(handler);
  insn.dst = slot;
  insn.imm = address.offset;
  return slot;
}

void decode_mov(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  d.expect_no_more();
  const int bits = bits_of(type);
  if (d.operand(1).kind == OperandKind::kVector) return decode_pack(d, bits, true);
  if (d.operand(0).kind == OperandKind::kVector) return decode_pack(d, bits, false);
  // Of the special registers, %is_explicit_cluster is a predicate.
  const bool is_flag = type == ScalarType::kPred && d.operand(1).kind == OperandKind::kSpecial;
  const Slot from = is_flag ? emit_special_register(d, d.operand(1), 32) : d.source(1, type);
  const Slot to = type == ScalarType::kPred ? d.predicate_target(d.operand(0)) : d.target(0, type);
  Insn& insn = d.emit(is_flag ? &test_word : copy_of(bits));
  insn.dst = to;
  insn.a = from;
}

void decode_cvta(InsnDecoder& d) {
  const bool to_space = d.take("to");
  const int space = d.take_one({"global", "const", "local", "shared", "param", "shared::cta",
                                "shared::cluster", "param::entry", "param::func"});
  if (space < 0) d.fail("a state space is missing");
  const ScalarType type = d.expect_type();
  d.expect_no_more();
  const int bits = bits_of(type);
  const Slot from = d.source(1, type);
  const Slot to = d.target(0, type);
  Handler handler = copy_of(bits);
  const bool is_local = space == 2 || space == 8;
  const bool is_shared = space == 3 || space == 5 || space == 6;
  if (is_local) {
    handler = to_space ? address_conversion<kLocalWindow, false>(bits)
                       : address_conversion<kLocalWindow, true>(bits);
  } else if (is_shared) {
    handler = to_space ? address_conversion<kSharedWindow, false>(bits)
                       : address_conversion<kSharedWindow, true>(bits);
  }
  Insn& insn = d.emit(handler);
  insn.dst = to;
  insn.a = from;
}

void decode_isspacep(InsnDecoder& d) {
  const int space = d.take_one({"global", "const", "local", "shared::cta", "shared::cluster",
                                "param::entry", "shared", "param"});
  if (space < 0) d.fail("a state space is missing");
  d.expect_no_more();
  static constexpr std::array kSpaces = {Space::kGlobal, Space::kConst,         Space::kLocal,
                                         Space::kShared, Space::kSharedCluster, Space::kParam,
                                         Space::kShared, Space::kParam};
  const Slot from = d.source(1, ScalarType::kB64);
  const Slot to = d.predicate_target(d.operand(0));
  Insn& insn = d.emit(&is_in_space);
  insn.dst = to;
  insn.a = from;
  insn.u8 = static_cast<uint8_t>(kSpaces[static_cast<size_t>(space)]);
}

}  // namespace mpfa::sim
