// tensormap.replace and tensormap.cp_fenceproxy: tensor maps that kernels change.
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/memory_operand.h"
#include "sim/insn/warp_sync.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/memory_access.h"
#include "sim/tensor_map/tensor_map.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kTensorMapAlignment = 64;

using ReplaceFunction = void (*)(TensorMap& map, uint32_t ordinal, uint64_t value);

struct Field {
  std::string_view name;
  bool has_ordinal;
  bool is_wide;       // .b64
  bool is_immediate;  // new_val is a number
  ReplaceFunction replace;
};

template <void (*kReplace)(TensorMap&, uint32_t)>
void replace_word(TensorMap& map, uint32_t /*ordinal*/, uint64_t value) {
  kReplace(map, static_cast<uint32_t>(value));
}
template <void (*kReplace)(TensorMap&, uint32_t, uint32_t)>
void replace_ordinal(TensorMap& map, uint32_t ordinal, uint64_t value) {
  kReplace(map, ordinal, static_cast<uint32_t>(value));
}
void replace_address(TensorMap& map, uint32_t /*ordinal*/, uint64_t value) {
  replace_global_address(map, value);
}

constexpr std::array kFields = {
    Field{"global_address", false, true, false, &replace_address},
    Field{"rank", false, false, false, &replace_word<replace_rank>},
    Field{"box_dim", true, false, false, &replace_ordinal<replace_box_dim>},
    Field{"global_dim", true, false, false, &replace_ordinal<replace_global_dim>},
    Field{"global_stride", true, true, false, &replace_global_stride},
    Field{"element_stride", true, false, false, &replace_ordinal<replace_element_stride>},
    Field{"elemtype", false, false, true, &replace_word<replace_elemtype>},
    Field{"interleave_layout", false, false, true, &replace_word<replace_interleave_layout>},
    Field{"swizzle_mode", false, false, true, &replace_word<replace_swizzle_mode>},
    Field{"swizzle_atomicity", false, false, true, &replace_word<replace_swizzle_atomicity>},
    Field{"fill_mode", false, false, true, &replace_word<replace_fill_mode>},
};

struct ReplaceDetail : InsnDetail {
  const Field* field = nullptr;
  AddressOperand address;
  MemorySpace space = MemorySpace::kGeneric;
  uint32_t ordinal = 0;
  Slot value = kNoSlot;
};

Step replace(Warp& w, const Insn& i) {
  const auto& d = static_cast<const ReplaceDetail&>(*i.detail);
  uint64_t addresses[kWarpSize];
  lane_addresses(w, d.address, addresses);
  for_each_lane(w.mask, [&](int lane) {
    std::byte* at = resolve_range(w, i, lane, d.space, AccessKind::kWrite, addresses[lane],
                                  kTensorMapBytes, kTensorMapAlignment);
    const uint64_t value =
        d.field->is_wide ? w.source<uint64_t>(d.value)[lane] : w.source<uint32_t>(d.value)[lane];
    try {
      TensorMap map = decode_tensor_map(at);
      d.field->replace(map, d.ordinal, value);
      const TensorMapBytes bytes = encode(map);
      std::memcpy(at, bytes.data(), bytes.size());
    } catch (const TensorMapError& error) {
      w.fail(FaultKind::kCheck, i, 1u << lane, error.what());
    }
  });
  return Step::kNext;
}

struct CopyDetail : InsnDetail {
  AddressOperand to;
  AddressOperand from;
};

Step copy_with_fence(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& d = static_cast<const CopyDetail&>(*i.detail);
  uint64_t to[kWarpSize];
  uint64_t from[kWarpSize];
  lane_addresses(w, d.to, to);
  lane_addresses(w, d.from, from);
  for_each_lane(w.mask, [&](int lane) {
    std::byte* target = resolve_range(w, i, lane, MemorySpace::kGlobal, AccessKind::kWrite,
                                      to[lane], kTensorMapBytes, kTensorMapAlignment);
    const std::byte* source = resolve_range(w, i, lane, MemorySpace::kShared, AccessKind::kRead,
                                            from[lane], kTensorMapBytes, kTensorMapAlignment);
    std::memcpy(target, source, kTensorMapBytes);
  });
  return Step::kNext;
}

const Field& take_field(InsnDecoder& d) {
  for (const Field& field : kFields) {
    if (d.take(field.name)) return field;
  }
  d.fail("the field is not known");
}

void decode_replace(InsnDecoder& d) {
  if (!d.take("tile")) d.fail("the mode must be .tile");
  ReplaceDetail detail;
  detail.field = &take_field(d);
  const int space = d.take_one({"global", "shared::cta"});
  if (space >= 0) detail.space = space == 0 ? MemorySpace::kGlobal : MemorySpace::kShared;
  const bool is_wide = detail.field->is_wide;
  if (!d.take("b1024") || !d.take(is_wide ? "b64" : "b32")) {
    d.fail(is_wide ? "the types must be .b1024.b64" : "the types must be .b1024.b32");
  }
  d.expect_no_more();
  detail.address = d.address(0);
  const size_t at = detail.field->has_ordinal ? 2 : 1;
  if (d.count() != at + 1) d.fail("there must be " + std::to_string(at + 1) + " operands");
  if (detail.field->has_ordinal) detail.ordinal = static_cast<uint32_t>(d.immediate(1));
  if (detail.field->is_immediate) d.immediate(at);
  detail.value = d.source(at, is_wide ? ScalarType::kB64 : ScalarType::kB32);
  Insn& insn = d.emit(&replace);
  d.detail<ReplaceDetail>(insn, detail);
}

void decode_copy(InsnDecoder& d) {
  const bool is_known = d.take("global") && d.take("shared::cta") && d.take("tensormap::generic") &&
                        d.take("release") && d.take_one({"cta", "cluster", "gpu", "sys"}) >= 0 &&
                        d.take("sync") && d.take("aligned");
  if (!is_known) {
    d.fail("it must be .global.shared::cta.tensormap::generic.release.scope.sync.aligned");
  }
  d.expect_no_more();
  if (d.immediate(2) != static_cast<int64_t>(kTensorMapBytes)) d.fail("the size must be 128");
  CopyDetail detail;
  detail.to = d.address(0);
  detail.from = d.address(1);
  Insn& insn = d.emit(&copy_with_fence);
  insn.splits = true;
  d.detail<CopyDetail>(insn, detail);
}

}  // namespace

void decode_tensormap(InsnDecoder& d) {
  if (d.take("replace")) return decode_replace(d);
  if (d.take("cp_fenceproxy")) return decode_copy(d);
  d.fail("one of .replace and .cp_fenceproxy is missing");
}

}  // namespace mpfa::sim
