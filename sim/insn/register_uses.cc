#include "sim/insn/register_uses.h"

#include <algorithm>
#include <unordered_map>

namespace mpfa::sim {
namespace {

bool is_wgmma(RegisterUseKind kind) {
  return kind == RegisterUseKind::kAccumulator || kind == RegisterUseKind::kFragment;
}

}  // namespace

void RegisterUses::add(Slot slot, RegisterUseKind kind) {
  if ((slot & kPoolBit) == 0) uses_.push_back({slot, kind});
}

void RegisterUses::wgmma(const std::vector<Slot>& accumulators,
                         const std::vector<Slot>& fragments) {
  uses_.resize(first_);
  for (const Slot slot : accumulators) add(slot, RegisterUseKind::kAccumulator);
  for (const Slot slot : fragments) add(slot, RegisterUseKind::kFragment);
}

void RegisterUses::end_instruction(size_t insn_count, bool is_copy) {
  if (uses_.size() == first_) return;
  const auto begin = uses_.begin() + static_cast<int64_t>(first_);
  // Reads first: a copy's target takes over what is known of them.
  std::stable_partition(begin, uses_.end(),
                        [](const Use& use) { return use.kind == RegisterUseKind::kRead; });
  for (auto use = begin; is_copy && use != uses_.end(); ++use) {
    if (use->kind == RegisterUseKind::kWrite) use->kind = RegisterUseKind::kCopy;
  }
  if (insn_count > 0) instructions_.push_back({insn_count - 1, first_, uses_.size()});
  first_ = uses_.size();
}

std::shared_ptr<const WatchedRegisters> RegisterUses::finish(
    size_t insn_count, const std::function<std::string(Slot)>& name) const {
  auto watched = std::make_shared<WatchedRegisters>();
  std::unordered_map<Slot, uint32_t> numbers;
  const auto watch = [&](Slot slot) {
    const auto number = static_cast<uint32_t>(watched->names.size());
    if (numbers.emplace(slot, number).second) watched->names.push_back(name(slot));
  };
  for (const Use& use : uses_) {
    if (is_wgmma(use.kind)) watch(use.slot);
  }
  // What is copied to them, directly or not.
  for (size_t before = SIZE_MAX; before != numbers.size();) {
    before = numbers.size();
    for (const Noted& each : instructions_) {
      const auto begin = uses_.begin() + static_cast<int64_t>(each.first);
      const auto end = uses_.begin() + static_cast<int64_t>(each.end);
      const bool copies = std::any_of(begin, end, [&](const Use& use) {
        return use.kind == RegisterUseKind::kCopy && numbers.contains(use.slot);
      });
      if (!copies) continue;
      std::for_each(begin, end, [&](const Use& use) { watch(use.slot); });
    }
  }
  watched->first_use.reserve(insn_count + 1);
  for (const Noted& each : instructions_) {
    const auto at = static_cast<uint32_t>(watched->uses.size());
    while (watched->first_use.size() <= each.insn) watched->first_use.push_back(at);
    for (size_t i = each.first; i < each.end; ++i) {
      const auto number = numbers.find(uses_[i].slot);
      if (number != numbers.end()) watched->uses.push_back({number->second, uses_[i].kind});
    }
  }
  watched->first_use.resize(insn_count + 1, static_cast<uint32_t>(watched->uses.size()));
  return watched;
}

}  // namespace mpfa::sim
