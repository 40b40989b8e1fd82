// atom and red (PTX ISA, section Parallel Synchronization and Communication Instructions).
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "sim/insn/atomic_operation.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/memory_operand.h"
#include "sim/machine/address.h"
#include "sim/machine/block.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

// Where a scalar lies in the registers: lane 0's, and the distance to the next lane's.
struct Lanes {
  Slot slot = kNoSlot;  // kNoSlot: not wanted
  uint32_t offset = 0;  // bytes; the upper half of a packed pair
  uint32_t stride = 0;

  const std::byte* from(const Warp& w, int lane) const {
    return w.source<std::byte>(slot) + offset + static_cast<size_t>(lane) * stride;
  }
  std::byte* to(Warp& w, int lane) const {
    return w.target<std::byte>(slot) + offset + static_cast<size_t>(lane) * stride;
  }
};

// One scalar of the access. Vectors and packed pairs are atomic scalar by scalar only.
struct Element {
  uint32_t offset = 0;  // in memory
  Lanes result;
  Lanes b;
  Lanes c;
};

constexpr size_t kMostElements = 8;
constexpr size_t kMostElementBytes = 16;

struct AtomicDetail : InsnDetail {
  AddressOperand address;
  MemorySpace space = MemorySpace::kGeneric;
  AtomicFunction function = nullptr;
  uint32_t element_bytes = 0;
  MemoryOrder order = MemoryOrder::kRelaxed;
  bool is_vector = false;
  bool is_float = false;
  bool is_compare_and_swap = false;
  bool is_exchange = false;
  std::vector<Element> elements;
};

struct Resolved {
  alignas(64) uint64_t addresses[kWarpSize];
  std::byte* places[kWarpSize];
  uint32_t shared_lanes;  // whose place is in shared memory
};

// Lanes of a generic access whose address is in shared memory. One may be in local memory, too: the
// ISA (atom, red) has it undefined, but an H200 does it, and libcu++'s barriers on the stack need
// it. Vector operations are for global memory alone.
uint32_t find_shared_lanes(const Warp& w, const Insn& i, const AtomicDetail& m,
                           const uint64_t* addresses) {
  if (m.space == MemorySpace::kShared || m.space == MemorySpace::kSharedCluster) return kAllLanes;
  if (m.space == MemorySpace::kGlobal) return 0;
  uint32_t shared_lanes = 0;
  uint32_t local_lanes = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    if (in_local_window(addresses[lane])) local_lanes |= 1u << lane;
    if (in_shared_window(addresses[lane])) shared_lanes |= 1u << lane;
  }
  if (m.is_vector && (shared_lanes | local_lanes) != 0) {
    w.fail(FaultKind::kInvalidAddressSpace, i, shared_lanes | local_lanes,
           std::string("vector atomic operation on ") + (shared_lanes != 0 ? "shared" : "local") +
               " memory: only global memory has them");
  }
  return shared_lanes;
}

void locate(Warp& w, const Insn& i, const AtomicDetail& m, Resolved& at) {
  lane_addresses(w, m.address, at.addresses);
  at.shared_lanes = find_shared_lanes(w, i, m, at.addresses);
  const Access access = {.space = m.space,
                         .kind = AccessKind::kAtomic,
                         .bytes = m.element_bytes * static_cast<uint32_t>(m.elements.size()),
                         .addresses = at.addresses,
                         .order = m.order,
                         .may_be_unwritten = m.is_exchange};
  resolve(w, i, access, at.places);
  observe(w, i, access);
}

// The active lanes, in an order of the seed's choice.
int choose_order(Warp& w, std::array<uint8_t, kWarpSize>& order) {
  int count = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) != 0) order[static_cast<size_t>(count++)] = static_cast<uint8_t>(lane);
  }
  for (int left = count; left > 1; --left) {
    const uint64_t chosen = w.block->cluster->random.below(static_cast<uint64_t>(left));
    std::swap(order[chosen], order[static_cast<size_t>(left) - 1]);
  }
  return count;
}

using ElementResults = std::array<std::array<std::byte, kMostElementBytes>, kWarpSize>;

// False if a compare-and-swap found something else.
bool run_element(Warp& w, const AtomicDetail& m, const Element& element, const Resolved& at,
                 ElementResults& results) {
  std::array<uint8_t, kWarpSize> order;
  const int count = choose_order(w, order);
  bool swapped = true;
  for (int k = 0; k < count; ++k) {
    const int lane = order[static_cast<size_t>(k)];
    std::byte* old = results[static_cast<size_t>(lane)].data();
    const std::byte* b = element.b.from(w, lane);
    m.function({.place = at.places[lane] + element.offset,
                .b = b,
                .c = m.is_compare_and_swap ? element.c.from(w, lane) : nullptr,
                .old = old,
                .in_global = m.is_float && (at.shared_lanes >> lane & 1) == 0});
    if (m.is_compare_and_swap) swapped &= std::memcmp(old, b, m.element_bytes) == 0;
  }
  return swapped;
}

Step run_atomic(Warp& w, const Insn& i) {
  const auto& m = static_cast<const AtomicDetail&>(*i.detail);
  Resolved at;
  locate(w, i, m, at);
  // Results are written when all operands have been read: registers may be the same.
  std::array<ElementResults, kMostElements> results;
  bool swapped = true;
  for (size_t e = 0; e < m.elements.size(); ++e) {
    swapped &= run_element(w, m, m.elements[e], at, results[e]);
  }
  for (size_t e = 0; e < m.elements.size(); ++e) {
    const Lanes& to = m.elements[e].result;
    if (to.slot == kNoSlot) continue;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if ((w.mask >> lane & 1) == 0) continue;
      std::memcpy(to.to(w, lane), results[e][static_cast<size_t>(lane)].data(), m.element_bytes);
    }
  }
  // A lock that is taken: whoever holds it should get its turn.
  return swapped ? Step::kNext : Step::kYield;
}

// ---- decoding
// --------------------------------------------------------------------------------------

// A type as the instruction has it.
struct Form {
  ScalarType scalar;      // of an element
  int parts = 1;          // elements in a register
  int widest_vector = 1;  // the largest of .v2, .v4, .v8 that is allowed
};

Form form_of(ScalarType type) {
  switch (type) {
    case ScalarType::kF16x2:
      return {.scalar = ScalarType::kF16, .parts = 2, .widest_vector = 4};
    case ScalarType::kBf16x2:
      return {.scalar = ScalarType::kBf16, .parts = 2, .widest_vector = 4};
    case ScalarType::kF16:
    case ScalarType::kBf16:
      return {.scalar = type, .widest_vector = 8};
    case ScalarType::kF32:
      return {.scalar = type, .widest_vector = 4};
    default:
      return {.scalar = type};
  }
}

bool is_half(ScalarType scalar) {
  return scalar == ScalarType::kF16 || scalar == ScalarType::kBf16;
}

std::string take_operation(InsnDecoder& d, bool is_red) {
  static constexpr std::array kNames = {"add", "and", "or",  "xor",  "min",
                                        "max", "inc", "dec", "exch", "cas"};
  for (const char* name : kNames) {
    if (!d.take(name)) continue;
    const bool needs_result = name == kNames[8] || name == kNames[9];
    if (is_red && needs_result) d.fail(std::string("red has no .") + name);
    return name;
  }
  d.fail("the operation is missing");
}

MemorySpace take_atomic_space(InsnDecoder& d, const AddressOperand& address) {
  const MemorySpace space = take_space(d, address);
  if (space == MemorySpace::kLocal || space == MemorySpace::kConst ||
      address.space == StateSpace::kParam) {
    d.fail("only .global and .shared memory have atomic operations");
  }
  return space;
}

// None of these changes a result (every operation here is sequentially consistent), but the checks
// take note of the order.
void take_order_and_scope(InsnDecoder& d, bool is_red) {
  if (is_red) {
    d.take_one({"relaxed", "release"});
  } else {
    d.take_one({"relaxed", "acquire", "release", "acq_rel"});
  }
  d.take_one({"cta", "cluster", "gpu", "sys"});
}

// The forms that the ISA's tables allow, beyond those that have a function.
void check_form(InsnDecoder& d, const std::string& op, ScalarType type, const Form& form,
                int vector_size, bool noftz) {
  const std::string name = "." + std::string(name_of(type));
  const bool is_vector = vector_size > 1;
  const bool half_extreme = is_half(form.scalar) && op != "add";
  if (vector_size > form.widest_vector) {
    d.fail("." + op + name + " with .v" + std::to_string(vector_size) + " does not exist");
  }
  if (half_extreme && !is_vector) d.fail("." + op + name + " is for vectors only");
  if (is_half(form.scalar) && !noftz) d.fail("." + op + name + " needs .noftz");
  if (!is_half(form.scalar) && noftz) d.fail(name + " has no .noftz");
}

// An operand's registers, one or as many as the vector has.
std::vector<Operand> registers_of(InsnDecoder& d, size_t operand_index, int vector_size) {
  const Operand& operand = d.operand(operand_index);
  if (vector_size == 1) return {operand};
  if (operand.kind == OperandKind::kSink) {
    return std::vector<Operand>(static_cast<size_t>(vector_size), operand);
  }
  if (operand.parts.size() != static_cast<size_t>(vector_size)) {
    d.fail("operand " + std::to_string(operand_index + 1) + " must be a vector of " +
           std::to_string(vector_size));
  }
  return operand.parts;
}

// The `parts` scalars of one register.
std::vector<Lanes> split_register(const InsnDecoder& d, const Operand& operand, Slot slot,
                                  ScalarType type, int parts) {
  const auto stride = static_cast<uint32_t>(std::max(d.register_bits(operand, type), 16)) / 8;
  const auto part_bytes = static_cast<uint32_t>(bits_of(type) / parts) / 8;
  std::vector<Lanes> result;
  for (uint32_t part = 0; part < static_cast<uint32_t>(parts); ++part) {
    result.push_back({.slot = slot, .offset = part * part_bytes, .stride = stride});
  }
  return result;
}

std::vector<Lanes> sources_of(InsnDecoder& d, size_t operand_index, ScalarType type, int parts,
                              int vector_size) {
  std::vector<Lanes> result;
  for (const Operand& operand : registers_of(d, operand_index, vector_size)) {
    for (const Lanes& lanes : split_register(d, operand, d.source(operand, type), type, parts)) {
      result.push_back(lanes);
    }
  }
  return result;
}

std::vector<Lanes> targets_of(InsnDecoder& d, size_t operand_index, ScalarType type, int parts,
                              int vector_size) {
  std::vector<Lanes> result;
  for (const Operand& operand : registers_of(d, operand_index, vector_size)) {
    const Slot slot = operand.kind == OperandKind::kSink ? kNoSlot : d.target(operand, type);
    for (const Lanes& lanes : split_register(d, operand, slot, type, parts)) {
      result.push_back(lanes);
    }
  }
  return result;
}

void decode_atomic(InsnDecoder& d, bool is_red) {
  const size_t address_at = is_red ? 0 : 1;
  AtomicDetail m;
  m.address = d.address(address_at);
  m.space = take_atomic_space(d, m.address);
  const std::string op = take_operation(d, is_red);
  m.is_compare_and_swap = op == "cas";
  m.is_exchange = op == "exch";
  const bool has_policy = d.take("L2::cache_hint");
  if (has_policy && m.is_compare_and_swap) d.fail(".cas has no .L2::cache_hint");
  m.order = order_of(d);
  take_order_and_scope(d, is_red);
  const int vector_size = take_vector_size(d);
  const bool noftz = d.take("noftz");
  const ScalarType type = d.expect_type();
  d.expect_no_more();

  const Form form = form_of(type);
  m.function = find_atomic_function(op, form.scalar);
  if (m.function == nullptr) {
    d.fail("." + op + " of ." + std::string(name_of(type)) + " does not exist");
  }
  check_form(d, op, type, form, vector_size, noftz);
  const size_t expected = address_at + (m.is_compare_and_swap ? 3 : 2) + (has_policy ? 1 : 0);
  if (d.count() != expected) {
    d.fail("there must be " + std::to_string(expected) + " operands, not " +
           std::to_string(d.count()));
  }
  m.element_bytes = static_cast<uint32_t>(bits_of(form.scalar)) / 8;
  m.is_vector = vector_size > 1;
  m.is_float = is_float(form.scalar);

  const auto b = sources_of(d, address_at + 1, type, form.parts, vector_size);
  const auto c = m.is_compare_and_swap
                     ? sources_of(d, address_at + 2, type, form.parts, vector_size)
                     : std::vector<Lanes>(b.size());
  const auto results =
      is_red ? std::vector<Lanes>(b.size()) : targets_of(d, 0, type, form.parts, vector_size);
  for (size_t e = 0; e < b.size(); ++e) {
    m.elements.push_back({.offset = static_cast<uint32_t>(e) * m.element_bytes,
                          .result = results[e],
                          .b = b[e],
                          .c = c[e]});
  }
  Insn& insn = d.emit(&run_atomic);
  d.detail<AtomicDetail>(insn, std::move(m));
}

}  // namespace

void decode_atom(InsnDecoder& d) { decode_atomic(d, false); }
void decode_red(InsnDecoder& d) {
  if (d.take("async")) return decode_red_async(d);
  decode_atomic(d, true);
}

}  // namespace mpfa::sim
