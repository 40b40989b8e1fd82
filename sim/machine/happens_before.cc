#include "sim/machine/happens_before.h"

#include <algorithm>
#include <utility>

namespace mpfa::sim {

void Seen::join(const Seen& other) {
  const uint32_t sure = std::max(low, other.low);
  const uint32_t mine = high > sure ? mask : 0;
  const uint32_t theirs = other.high > sure ? other.mask : 0;
  const uint32_t top = std::max(mine != 0 ? high : sure, theirs != 0 ? other.high : sure);
  mask = mine | theirs;
  low = mask == ~0u ? top : sure;
  high = top;
  if (low == top) mask = 0;
}

void learn(KnowledgePtr& known, const KnowledgePtr& other) {
  if (other == nullptr || known == other) return;
  std::shared_ptr<Knowledge> sum;
  for (size_t i = 0; i < known->size(); ++i) {
    Seen seen = (*known)[i];
    seen.join((*other)[i]);
    if (seen == (*known)[i]) continue;
    if (sum == nullptr) sum = std::make_shared<Knowledge>(*known);
    (*sum)[i] = seen;
  }
  if (sum != nullptr) known = std::move(sum);
}

// ---- Gathered
// ---------------------------------------------------------------------------------------

Knowledge& Gathered::to_change(Relation relation, const KnowledgePtr& nothing) {
  KnowledgePtr& sum = sums_[relation];
  if (sum == nullptr) sum = nothing;
  // Others may hold the same: a copy is the sum's own.
  if (sum.use_count() != 1) sum = std::make_shared<Knowledge>(*sum);
  return const_cast<Knowledge&>(*sum);
}

void Gathered::add(Relation relation, const KnowledgePtr& known) {
  if (known == nullptr || known == added_[relation]) return;
  added_[relation] = known;
  KnowledgePtr& sum = sums_[relation];
  if (sum == nullptr) {
    sum = known;
  } else {
    learn(sum, known);
  }
}

void Gathered::add(Relation relation, Agent agent, const Seen& seen, const KnowledgePtr& nothing) {
  to_change(relation, nothing)[agent].join(seen);
}

void Gathered::add(const Past& past, const KnowledgePtr& nothing) {
  for (const Relation relation : kAllRelations) {
    add(relation, past.view.known[relation]);
    Seen own = past.view.own[relation];
    own.add(past.lanes, relation == Relation::kProxied ? past.view.proxied_self : past.clock);
    if (own.high != 0) add(relation, past.agent, own, nothing);
  }
}

void Gathered::add(const Gathered& other) {
  for (const Relation relation : kAllRelations) add(relation, other.sums_[relation]);
}

// ---- WarpOrder
// --------------------------------------------------------------------------------------

void WarpOrder::split(uint32_t lanes) {
  const size_t count = groups.size();
  for (size_t i = 0; i < count; ++i) {
    const uint32_t inside = groups[i].lanes & lanes;
    if (inside == 0 || inside == groups[i].lanes) continue;
    LaneGroup rest = groups[i];
    rest.lanes &= ~inside;
    groups[i].lanes = inside;
    groups.push_back(std::move(rest));
  }
}

void WarpOrder::merge() {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t j = groups.size() - 1; j > i; --j) {
      LaneGroup& one = groups[i];
      const LaneGroup& other = groups[j];
      if (one.fenced != other.fenced || one.found != other.found || one.view != other.view) {
        continue;
      }
      one.lanes |= other.lanes;
      groups.erase(groups.begin() + static_cast<int64_t>(j));
    }
  }
}

// ---- HappensBefore
// ----------------------------------------------------------------------------------

HappensBefore::HappensBefore(size_t warps, size_t async_slots)
    : nothing_(std::make_shared<Knowledge>(warps + async_slots)), orders_(warps) {
  for (WarpOrder& order : orders_) {
    LaneGroup all;
    all.lanes = ~0u;
    for (KnowledgePtr& known : all.view.known) known = nothing_;
    order.groups.push_back(std::move(all));
  }
}

Past HappensBefore::past_of(const LaneGroup& group, Agent warp, uint32_t lanes,
                            uint32_t clock) const {
  return {group.view, warp, group.lanes & lanes, clock};
}

void HappensBefore::release(Agent warp, uint32_t lanes, Gathered& to) {
  WarpOrder& order = orders_[warp];
  for (const LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    to.add(past_of(group, warp, lanes, order.clock), nothing_);
  }
  ++order.clock;
}

void HappensBefore::release_fenced(Agent warp, uint32_t lanes, Gathered& to) {
  for (const LaneGroup& group : orders_[warp].groups) {
    if ((group.lanes & lanes) == 0 || group.fenced == nullptr) continue;
    Past past = *group.fenced;
    past.lanes = group.lanes & lanes;
    to.add(past, nothing_);
  }
}

bool HappensBefore::has_fence(Agent warp, uint32_t lanes) const {
  const std::vector<LaneGroup>& groups = orders_[warp].groups;
  return std::any_of(groups.begin(), groups.end(), [&](const LaneGroup& group) {
    return (group.lanes & lanes) != 0 && group.fenced != nullptr;
  });
}

void HappensBefore::release_reads(Agent warp, uint32_t lanes, Gathered& to) {
  constexpr Relation kReads = Relation::kReads;
  WarpOrder& order = orders_[warp];
  for (const LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    to.add(kReads, group.view.known[kReads]);
    Seen own = group.view.own[kReads];
    own.add(group.lanes & lanes, order.clock);
    to.add(kReads, warp, own, nothing_);
  }
  ++order.clock;
}

void HappensBefore::acquire(Agent warp, uint32_t lanes, const PerRelation<KnowledgePtr>& from,
                            bool at_once) {
  WarpOrder& order = orders_[warp];
  order.split(lanes);
  for (LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    for (const Relation relation : kAllRelations) {
      const KnowledgePtr& other = from[relation];
      if (other == nullptr) continue;
      if (at_once) {
        learn(group.view.known[relation], other);
        group.view.own[relation].join((*other)[warp]);
      } else if (group.found[relation] == nullptr) {
        group.found[relation] = other;
      } else {
        learn(group.found[relation], other);
      }
    }
  }
  if (order.groups.size() > 1) order.merge();
}

void HappensBefore::replace(Agent warp, uint32_t lanes, const PerRelation<KnowledgePtr>& from) {
  WarpOrder& order = orders_[warp];
  order.split(lanes);
  LaneGroup* first = nullptr;
  bool any_fence = false;
  for (LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    for (const Relation relation : kAllRelations) {
      const KnowledgePtr& other = from[relation] == nullptr ? nothing_ : from[relation];
      group.view.known[relation] = other;
      group.view.own[relation] = (*other)[warp];
    }
    group.view.proxied_self = 0;  // `from` has it
    any_fence |= group.fenced != nullptr;
    if (first == nullptr) {
      first = &group;
      continue;
    }
    for (const Relation relation : kAllRelations) {
      if (group.found[relation] == nullptr) continue;
      if (first->found[relation] == nullptr) {
        first->found[relation] = group.found[relation];
      } else {
        learn(first->found[relation], group.found[relation]);
      }
    }
  }
  if (order.groups.size() == 1 || first == nullptr) return;
  // Lanes that know the same are one group; a fence of one of them may count for more lanes.
  std::shared_ptr<const Past> fenced;
  if (any_fence) fenced = std::make_shared<Past>(past_of(*first, warp, lanes, order.clock));
  const PerRelation<KnowledgePtr> found = first->found;
  for (LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    group.fenced = fenced;
    group.found = found;
  }
  order.merge();
}

void HappensBefore::join_lanes(Agent warp, uint32_t lanes) {
  WarpOrder& order = orders_[warp];
  if (order.groups.size() == 1 &&
      order.groups[0].view.own[Relation::kMemory].covers(lanes, order.last_access)) {
    return;
  }
  Gathered all;
  release(warp, lanes, all);
  PerRelation<KnowledgePtr> sums;
  for (const Relation relation : kAllRelations) sums[relation] = all.sum(relation);
  replace(warp, lanes, sums);
}

void HappensBefore::join_reads(Agent warp, uint32_t lanes) {
  WarpOrder& order = orders_[warp];
  constexpr Relation kReads = Relation::kReads;
  if (order.groups.size() == 1) {
    Seen& own = order.groups[0].view.own[kReads];
    if (own.covers(lanes, order.last_access)) return;
    if (lanes == ~0u) {
      own.add(lanes, order.clock++);
      return;
    }
  }
  order.split(lanes);
  KnowledgePtr known = nothing_;
  Seen own;
  for (const LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    learn(known, group.view.known[kReads]);
    own.join(group.view.own[kReads]);
  }
  own.add(lanes, order.clock++);
  for (LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    learn(group.view.known[kReads], known);
    group.view.own[kReads] = own;
  }
  order.merge();
}

void HappensBefore::fence(Agent warp, uint32_t lanes) {
  WarpOrder& order = orders_[warp];
  order.split(lanes);
  for (LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    for (const Relation relation : kAllRelations) {
      if (group.found[relation] == nullptr) continue;
      learn(group.view.known[relation], group.found[relation]);
      group.view.own[relation].join((*group.found[relation])[warp]);
      group.found[relation] = nullptr;
    }
    group.fenced = std::make_shared<Past>(past_of(group, warp, lanes, order.clock));
  }
  ++order.clock;
}

void HappensBefore::proxy_fence(Agent warp, uint32_t lanes) {
  WarpOrder& order = orders_[warp];
  order.split(lanes);
  for (LaneGroup& group : order.groups) {
    if ((group.lanes & lanes) == 0) continue;
    learn(group.view.known[Relation::kProxied], group.view.known[Relation::kMemory]);
    group.view.own[Relation::kProxied].join(group.view.own[Relation::kMemory]);
    group.view.proxied_self = order.clock;
  }
  ++order.clock;
}

Past HappensBefore::fork(Agent warp, uint32_t lanes) {
  WarpOrder& order = orders_[warp];
  Past past;
  past.agent = warp;
  past.lanes = lanes;
  past.clock = order.clock;
  bool is_first = true;
  for (const LaneGroup& group : order.groups) {
    const uint32_t members = group.lanes & lanes;
    if (members == 0) continue;
    if (is_first) past.view = group.view;
    for (const Relation relation : kAllRelations) {
      if (!is_first) learn(past.view.known[relation], group.view.known[relation]);
      Seen& own = past.view.own[relation];
      if (!is_first) own.join(group.view.own[relation]);
      own.add(members, relation == Relation::kProxied ? group.view.proxied_self : order.clock);
    }
    is_first = false;
  }
  past.view.proxied_self = 0;  // it is in `own`
  ++order.clock;
  return past;
}

}  // namespace mpfa::sim
