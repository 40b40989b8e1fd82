#include "sim/fatbin/choose_ptx.h"

#include <utility>

#include "mpfa/check.h"

namespace mpfa::sim {

// PTX ISA, ".target": code for a target with the suffix a runs on that architecture only, with the
// suffix f on devices of its family, without a suffix on all later ones.
bool runs_on(const FatBinaryEntry& entry, int capability) {
  switch (entry.variant) {
    case CodeVariant::kArchSpecific:
      return entry.capability == capability;
    case CodeVariant::kFamily:
      return entry.capability / 10 == capability / 10 && entry.capability <= capability;
    case CodeVariant::kPortable:
      return entry.capability <= capability;
  }
  return false;
}

const FatBinaryEntry* choose_ptx(std::span<const FatBinaryEntry> entries, int capability) {
  const FatBinaryEntry* best = nullptr;
  for (const FatBinaryEntry& entry : entries) {
    if (entry.kind != CodeKind::kPtx || !runs_on(entry, capability)) continue;
    const auto rank = [](const FatBinaryEntry& e) { return std::pair(e.capability, e.variant); };
    if (best == nullptr || rank(entry) > rank(*best)) best = &entry;
  }
  return best;
}

std::string explain_no_ptx(std::span<const FatBinaryEntry> entries, int capability) {
  std::string found;
  for (const FatBinaryEntry& entry : entries) {
    found += found.empty() ? "" : ", ";
    found += entry.target();
    found += entry.kind == CodeKind::kPtx ? " PTX" : " machine code";
  }
  if (found.empty()) found = "no code at all";
  // What only some architectures have is in PTX for just them: sm_90a and up.
  const std::string target = std::to_string(capability) + (capability >= 90 ? "a" : "");
  return internal::str_cat("the program has no PTX that an sm_", capability, " device runs, only ",
                           found, "; the simulator runs PTX: compile with -gencode arch=compute_",
                           target, ",code=compute_", target);
}

}  // namespace mpfa::sim
