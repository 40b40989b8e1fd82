// Which accesses of a cluster's threads and asynchronous operations come before which: vector
// clocks (Flanagan and Freund, "FastTrack", PLDI 2009), compressed by warps as in Eizenberg et al.,
// "BARRACUDA", PLDI 2017.
//
// Every warp has a clock, which ticks whenever some of its lanes tell others of their past; an
// access bears its lanes and the clock. A thread's View says up to which clock it knows the
// accesses of others to be over. Where the compressed form cannot hold what is known exactly, it
// holds more: an unordered pair may be missed, an ordered one is never taken for a race.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mpfa::sim {

// A warp of the cluster, or, behind those, a slot of asynchronous operations.
using Agent = uint16_t;

// The accesses of one agent that are known to be over.
struct Seen {
  uint32_t low = 0;   // every lane's, up to this clock
  uint32_t high = 0;  // those of the lanes in `mask`, up to this one
  uint32_t mask = 0;

  bool covers(uint32_t lanes, uint32_t clock) const {
    return low >= clock || (high >= clock && (lanes & ~mask) == 0);
  }
  void join(const Seen& other);
  void add(uint32_t lanes, uint32_t clock) { join({0, clock, lanes}); }
  bool operator==(const Seen&) const = default;
};

// What is ordered.
enum class Relation : uint8_t {
  kMemory,   // reads and writes: barriers, release and acquire
  kReads,    // reads alone: besides those, whatever makes threads wait for each other (shfl.sync)
  kProxied,  // writes that a fence.proxy.async has made known to the asynchronous proxy
};
constexpr size_t kRelations = 3;
inline constexpr std::array kAllRelations = {Relation::kMemory, Relation::kReads,
                                             Relation::kProxied};

// By agent. Shared by all who know the same, and not changed then.
using Knowledge = std::vector<Seen>;
using KnowledgePtr = std::shared_ptr<const Knowledge>;

template <class T>
struct PerRelation : std::array<T, kRelations> {
  T& operator[](Relation relation) { return this->data()[static_cast<size_t>(relation)]; }
  const T& operator[](Relation relation) const {
    return this->data()[static_cast<size_t>(relation)];
  }
};

// What a thread knows. Its own accesses are ordered without being in here, but for those that a
// proxy fence has covered.
struct View {
  PerRelation<KnowledgePtr> known;
  PerRelation<Seen> own;      // of its own warp, instead of what `known` says
  uint32_t proxied_self = 0;  // the clock of its own last proxy fence

  bool operator==(const View&) const = default;
};

// What one thread or several give to others.
struct Past {
  View view;
  Agent agent = 0;
  uint32_t lanes = 0;
  uint32_t clock = 0;  // of their own accesses, up to now
};

// The sum of many pasts.
class Gathered {
 public:
  void add(const Past& past, const KnowledgePtr& nothing);
  void add(Relation relation, const KnowledgePtr& known);
  void add(Relation relation, Agent agent, const Seen& seen, const KnowledgePtr& nothing);
  // nullptr: nothing.
  KnowledgePtr sum(Relation relation) const { return sums_[relation]; }
  void add(const Gathered& other);
  void reset() { *this = {}; }

 private:
  Knowledge& to_change(Relation relation, const KnowledgePtr& nothing);

  PerRelation<KnowledgePtr> sums_;
  PerRelation<KnowledgePtr> added_;  // last: adding it again changes nothing
};

// `known` and what `other` knows besides; `known` itself if that is nothing.
void learn(KnowledgePtr& known, const KnowledgePtr& other);

// Lanes of a warp that know the same.
struct LaneGroup {
  uint32_t lanes = 0;
  View view;
  // At the last fence: what a relaxed write behind it releases. nullptr: there was none.
  std::shared_ptr<const Past> fenced;
  // What relaxed reads have found, to be acquired by the next fence.
  PerRelation<KnowledgePtr> found;
};

// A warp's clock and what its lanes know.
struct WarpOrder {
  uint32_t clock = 1;
  uint32_t last_access = 0;  // clock of it
  std::vector<LaneGroup> groups;

  // Makes groups of their own of the lanes in `lanes`.
  void split(uint32_t lanes);
  // Puts groups that know the same together.
  void merge();
};

// The order of all of a cluster's threads.
class HappensBefore {
 public:
  HappensBefore(size_t warps, size_t async_slots);

  WarpOrder& order(Agent warp) { return orders_[warp]; }
  const KnowledgePtr& nothing() const { return nothing_; }

  // What `lanes` of a warp may tell now; their clock ticks. Only what was before their last fence
  // (nothing without one); only reads.
  void release(Agent warp, uint32_t lanes, Gathered& to);
  void release_fenced(Agent warp, uint32_t lanes, Gathered& to);
  void release_reads(Agent warp, uint32_t lanes, Gathered& to);
  bool has_fence(Agent warp, uint32_t lanes) const;
  // The lanes know `from` besides. `at_once` is false for a relaxed read, which needs a fence.
  void acquire(Agent warp, uint32_t lanes, const PerRelation<KnowledgePtr>& from,
               bool at_once = true);
  // The same, of lanes that gave their own past to `from` and have waited for it since.
  void replace(Agent warp, uint32_t lanes, const PerRelation<KnowledgePtr>& from);

  // bar.warp.sync: every lane knows what the others do.
  void join_lanes(Agent warp, uint32_t lanes);
  // shfl.sync and others that make lanes wait: reads before them are over.
  void join_reads(Agent warp, uint32_t lanes);
  // fence.acq_rel, fence.sc, membar.
  void fence(Agent warp, uint32_t lanes);
  // fence.proxy.async.
  void proxy_fence(Agent warp, uint32_t lanes);

  // The past of the lanes for an operation that they start; their clock ticks.
  Past fork(Agent warp, uint32_t lanes);

 private:
  Past past_of(const LaneGroup& group, Agent warp, uint32_t lanes, uint32_t clock) const;

  KnowledgePtr nothing_;
  std::vector<WarpOrder> orders_;
};

}  // namespace mpfa::sim
