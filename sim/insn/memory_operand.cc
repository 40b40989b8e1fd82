#include "sim/insn/memory_operand.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace mpfa::sim {

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

void take_cache_and_order(InsnDecoder& decoder) {
  decoder.take_one({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"});
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
}

int take_vector_size(InsnDecoder& decoder) {
  static constexpr std::array kSizes = {2, 4, 8};
  const int at = decoder.take_one({"v2", "v4", "v8"});
  return at < 0 ? 1 : kSizes[static_cast<size_t>(at)];
}

}  // namespace mpfa::sim
