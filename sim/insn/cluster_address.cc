// mapa and getctarank: shared addresses of other blocks of the cluster.
#include <cstdio>
#include <string>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/memory_operand.h"
#include "sim/machine/address.h"
#include "sim/machine/block.h"
#include "sim/machine/each_lane.h"

namespace mpfa::sim {
namespace {

struct ClusterAddressDetail : InsnDetail {
  AddressOperand address;
  bool is_generic = false;
  bool is_wide = false;  // .u64
  Slot rank = kNoSlot;   // of mapa
};

// Each lane's address in the cluster's shared memory.
void shared_addresses(Warp& w, const Insn& i, const ClusterAddressDetail& d, uint64_t* addresses) {
  lane_addresses(w, d.address, addresses);
  if (!d.is_generic) return;
  for_each_lane(w.mask, [&](int lane) {
    if (!in_shared_window(addresses[lane])) {
      char text[64];
      std::snprintf(text, sizeof(text), "the address 0x%llx is not one of shared memory",
                    static_cast<unsigned long long>(addresses[lane]));
      w.fail(FaultKind::kInvalidAddressSpace, i, 1u << lane, text);
    }
    addresses[lane] -= kSharedWindow;
  });
}

Step map_to_block(Warp& w, const Insn& i) {
  const auto& d = static_cast<const ClusterAddressDetail&>(*i.detail);
  uint64_t addresses[kWarpSize];
  shared_addresses(w, i, d, addresses);
  const uint32_t* ranks = w.source<uint32_t>(d.rank);
  for_each_lane(w.mask, [&](int lane) {
    const uint32_t rank = ranks[lane];
    const size_t blocks = w.block->cluster->blocks.size();
    if (rank >= blocks) {
      w.fail(
          FaultKind::kCheck, i, 1u << lane,
          "the block is " + std::to_string(rank) + "; the cluster has " + std::to_string(blocks));
    }
    const uint32_t address =
        rank << kSharedRankShift | (static_cast<uint32_t>(addresses[lane]) & kSharedOffsetMask);
    if (d.is_wide) {
      w.target<uint64_t>(i.dst)[lane] = address + (d.is_generic ? kSharedWindow : 0);
    } else {
      w.target<uint32_t>(i.dst)[lane] = address;
    }
  });
  return Step::kNext;
}

Step rank_of_address(Warp& w, const Insn& i) {
  const auto& d = static_cast<const ClusterAddressDetail&>(*i.detail);
  uint64_t addresses[kWarpSize];
  shared_addresses(w, i, d, addresses);
  uint32_t* to = w.target<uint32_t>(i.dst);
  for_each_lane(w.mask, [&](int lane) {
    to[lane] = static_cast<uint32_t>(addresses[lane] >> kSharedRankShift);
  });
  return Step::kNext;
}

ClusterAddressDetail decode_address(InsnDecoder& d) {
  ClusterAddressDetail detail;
  detail.is_generic = !d.take("shared::cluster");
  const ScalarType type = d.expect_type();
  d.expect_no_more();
  if (type != ScalarType::kU32 && type != ScalarType::kU64) d.fail("the type must be .u32 or .u64");
  detail.is_wide = type == ScalarType::kU64;
  if (detail.is_generic && !detail.is_wide) d.fail("a generic address must be .u64");
  detail.address = d.address(1);
  return detail;
}

}  // namespace

void decode_mapa(InsnDecoder& d) {
  ClusterAddressDetail detail = decode_address(d);
  detail.rank = d.source(2, ScalarType::kB32);
  const Slot to = d.target(0, detail.is_wide ? ScalarType::kB64 : ScalarType::kB32);
  Insn& insn = d.emit(&map_to_block);
  insn.dst = to;
  d.detail<ClusterAddressDetail>(insn, detail);
}

void decode_getctarank(InsnDecoder& d) {
  const ClusterAddressDetail detail = decode_address(d);
  const Slot to = d.target(0, ScalarType::kB32);
  Insn& insn = d.emit(&rank_of_address);
  insn.dst = to;
  d.detail<ClusterAddressDetail>(insn, detail);
}

}  // namespace mpfa::sim
