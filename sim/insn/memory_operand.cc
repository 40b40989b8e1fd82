#include "sim/insn/memory_operand.h"

#include <algorithm>
#include <string_view>

#include "sim/machine/block.h"

namespace mpfa::sim {

void lane_addresses(const Warp& warp, const AddressOperand& operand, uint64_t* addresses) {
  uint64_t base = static_cast<uint64_t>(operand.offset);
  if (operand.block_relative) base += warp.block->shared_base();
  if (operand.frame_relative) base += warp.split->frame->local_base;
  if (operand.grid_relative) base += warp.block->grid->params;
  if (operand.base == kNoSlot) {
    for (int lane = 0; lane < kWarpSize; ++lane) addresses[lane] = base;
  } else if (operand.base_bits == 64) {
    const auto* from = warp.source<uint64_t>(operand.base);
    for (int lane = 0; lane < kWarpSize; ++lane) addresses[lane] = from[lane] + base;
  } else {
    const auto* from = warp.source<uint32_t>(operand.base);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      addresses[lane] = static_cast<uint32_t>(from[lane] + static_cast<uint32_t>(base));
    }
  }
}

MemorySpace take_space(InsnDecoder& decoder, const AddressOperand& operand) {
  const int space = decoder.take_one({"global", "shared", "shared::cta", "shared::cluster", "local",
                                      "const", "param", "param::entry", "param::func"});
  switch (space) {
    case 0:
      return MemorySpace::kGlobal;
    case 1:
    case 2:
      return MemorySpace::kShared;
    case 3:
      return MemorySpace::kSharedCluster;
    case 4:
      return MemorySpace::kLocal;
    case 5:
      return MemorySpace::kConst;
    case 6:
    case 7:
    case 8:
      return operand.frame_relative ? MemorySpace::kLocal : MemorySpace::kGlobal;
    default:
      return MemorySpace::kGeneric;
  }
}

MemoryOrder order_of(const InsnDecoder& decoder) {
  const auto has = [&](std::string_view modifier) {
    const std::vector<std::string>& left = decoder.left();
    return std::find(left.begin(), left.end(), modifier) != left.end();
  };
  if (has("acq_rel")) return MemoryOrder::kBoth;
  if (has("acquire")) return MemoryOrder::kAcquire;
  if (has("release")) return MemoryOrder::kRelease;
  const bool is_relaxed = has("relaxed") || has("volatile") || has("mmio");
  return is_relaxed ? MemoryOrder::kRelaxed : MemoryOrder::kWeak;
}

bool take_cache_and_order(InsnDecoder& decoder) {
  const bool weak_only =
      decoder.take_one({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}) < 0;
  decoder.take("mmio");
  decoder.take("weak");
  decoder.take_one({"cta", "cluster", "gpu", "sys"});
  decoder.take("nc");
  decoder.take("unified");
  decoder.take_one({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  decoder.take_one({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                    "L1::no_allocate"});
  decoder.take_one({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  decoder.take("L2::cache_hint");
  decoder.take_one({"L2::64B", "L2::128B", "L2::256B"});
  return !weak_only;
}

}  // namespace mpfa::sim
