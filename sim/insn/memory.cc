// ld, st and what hints at them.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/function_decoder.h"
#include "sim/insn/memory_lanes.h"
#include "sim/insn/memory_operand.h"
#include "sim/machine/block.h"

namespace mpfa::sim {
namespace {

// A kernel's parameter: the same value for every lane, and nothing to check at run time.
template <class To, class From>
Step load_param(Warp& w, const Insn& i) {
  From value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(w.block->grid->params) + i.imm,
              sizeof(From));
  To* to = w.target<To>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    // Signed values are extended.
    if ((w.mask >> lane & 1) != 0) to[lane] = static_cast<To>(static_cast<int64_t>(value));
  }
  return Step::kNext;
}

Handler param_load(ScalarType type, uint32_t slot_bytes) {
  const bool sign = is_signed(type);
  switch (bits_of(type) * 100 + static_cast<int>(slot_bytes)) {
    case 802:
      return sign ? &load_param<uint16_t, int8_t> : &load_param<uint16_t, uint8_t>;
    case 804:
      return sign ? &load_param<uint32_t, int8_t> : &load_param<uint32_t, uint8_t>;
    case 1602:
      return &load_param<uint16_t, uint16_t>;
    case 1604:
      return sign ? &load_param<uint32_t, int16_t> : &load_param<uint32_t, uint16_t>;
    case 3204:
      return &load_param<uint32_t, uint32_t>;
    case 3208:
      return sign ? &load_param<uint64_t, int32_t> : &load_param<uint64_t, uint32_t>;
    case 6408:
      return &load_param<uint64_t, uint64_t>;
    default:
      return nullptr;
  }
}

// The registers of `operand`, one or a vector of them.
void take_elements(InsnDecoder& d, MemoryDetail& m, const Operand& operand, bool is_load) {
  const std::vector<Operand> one = {operand};
  const std::vector<Operand>& parts = operand.kind == OperandKind::kVector ? operand.parts : one;
  for (const Operand& part : parts) {
    const bool is_sink = part.kind == OperandKind::kSink;
    m.slots.push_back(is_sink ? kNoSlot
                              : (is_load ? d.target(part, m.type) : d.source(part, m.type)));
    m.slot_bytes.push_back(static_cast<uint32_t>(std::max(d.register_bits(part, m.type), 16)) / 8);
  }
}

// Others are faults when they are run.
bool is_in_params(InsnDecoder& d, const MemoryDetail& m) {
  const auto bytes = static_cast<int64_t>(param_layout(d.function().function().params).back());
  const int64_t offset = m.address.offset;
  return offset >= 0 && offset % m.element_bytes == 0 && offset + m.element_bytes <= bytes;
}

void decode_access(InsnDecoder& d, bool is_load) {
  MemoryDetail m;
  const size_t at = is_load ? 1 : 0;
  m.address = d.address(at);
  m.space = take_space(d, m.address);
  m.order = order_of(d);
  take_cache_and_order(d);
  const int vector_size = take_vector_size(d);
  m.type = d.expect_type();
  d.expect_no_more();
  m.element_bytes = static_cast<uint32_t>(bits_of(m.type)) / 8;
  take_elements(d, m, d.operand(1 - at), is_load);
  if (m.slots.size() != static_cast<size_t>(vector_size)) {
    d.fail("the number of registers is not the vector's");
  }
  const bool is_plain_param = is_load && m.address.grid_relative && m.address.base == kNoSlot &&
                              vector_size == 1 && is_in_params(d, m);
  if (is_plain_param && m.slots[0] != kNoSlot) {
    if (const Handler handler = param_load(m.type, m.slot_bytes[0])) {
      Insn& insn = d.emit(handler);
      insn.dst = m.slots[0];
      insn.imm = m.address.offset;
      return;
    }
  }
  Insn& insn = d.emit(is_load ? load_handler() : store_handler());
  d.detail<MemoryDetail>(insn, std::move(m));
}

Step do_nothing(Warp& /*w*/, const Insn& /*i*/) { return Step::kNext; }

// [a] {, size}, which is 128 where it is there.
void emit_hint(InsnDecoder& d, size_t operands) {
  constexpr int64_t kLineBytes = 128;
  d.expect_no_more();
  d.address(0);
  if (d.count() != operands) d.fail("the number of operands is wrong");
  if (operands > 1 && d.immediate(1) != kLineBytes) d.fail("the size must be 128");
  d.emit(&do_nothing);
}

Step zero64(Warp& w, const Insn& i) {
  uint64_t* to = w.target<uint64_t>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) != 0) to[lane] = 0;
  }
  return Step::kNext;
}

}  // namespace

void decode_ld(InsnDecoder& d) { decode_access(d, true); }
void decode_ldu(InsnDecoder& d) { decode_access(d, true); }
void decode_st(InsnDecoder& d) {
  if (d.take("async")) return decode_st_async(d);
  if (d.take("bulk")) return decode_st_bulk(d);
  decode_access(d, false);
}

// Caches are not modelled: prefetch, applypriority and discard have no effect that can be seen.
void decode_prefetch(InsnDecoder& d) {
  const bool is_map = d.take("tensormap");
  const int space = is_map ? d.take_one({"const", "param"}) : d.take_one({"global", "local"});
  const int level = is_map ? 0 : d.take_one({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  if (level < 0) d.fail("the level is missing");
  if (level >= 2 && space != 0) d.fail("an eviction priority goes with .global");
  emit_hint(d, 1);
}

void decode_prefetchu(InsnDecoder& d) {
  if (!d.take("L1")) d.fail(".L1 is missing");
  emit_hint(d, 1);
}

void decode_applypriority(InsnDecoder& d) {
  d.take("global");
  if (!d.take("L2::evict_normal")) d.fail(".L2::evict_normal is missing");
  emit_hint(d, 2);
}

void decode_discard(InsnDecoder& d) {
  d.take("global");
  if (!d.take("L2")) d.fail(".L2 is missing");
  emit_hint(d, 2);
}

// A cache policy is opaque, and without effect here.
void decode_createpolicy(InsnDecoder& d) {
  const int kind = d.take_one({"fractional", "range", "cvt"});
  if (kind < 0) d.fail("one of .fractional, .range and .cvt is missing");
  if (kind == 1) d.take("global");
  if (kind == 2) {
    if (!d.take("L2")) d.fail(".L2 is missing");
  } else {
    const int primary = d.take_one(
        {"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"});
    if (primary < 0) d.fail("the primary priority is missing");
    d.take_one({"L2::evict_first", "L2::evict_unchanged"});
  }
  if (d.expect_type() != ScalarType::kB64) d.fail("the type must be .b64");
  d.expect_no_more();
  const Slot to = d.target(0, ScalarType::kB64);
  d.emit(&zero64).dst = to;
}

}  // namespace mpfa::sim
