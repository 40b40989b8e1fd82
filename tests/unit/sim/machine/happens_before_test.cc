// HappensBefore against vector clocks that keep every thread by itself.
#include "sim/machine/happens_before.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <vector>

namespace mpfa::sim {
namespace {

constexpr int kLanes = 32;
constexpr int kWarps = 3;
constexpr int kThreads = kWarps * kLanes;
constexpr uint32_t kAll = 0xFFFFFFFFu;

using Clocks = std::array<uint32_t, kThreads>;  // of each thread: its accesses up to this number

// One access, as both sides know it.
struct Access {
  int thread = 0;
  uint32_t exact = 0;  // the thread's own count
  uint32_t clock = 0;  // WarpOrder::clock
};

PerRelation<KnowledgePtr> sums_of(const Gathered& gathered) {
  PerRelation<KnowledgePtr> sums;
  for (const Relation relation : kAllRelations) sums[relation] = gathered.sum(relation);
  return sums;
}

class Pair {
 public:
  Pair() : order(kWarps, 4), known(kThreads, Clocks{}), count{} {}

  HappensBefore order;
  std::vector<Clocks> known;  // exact, of memory
  Clocks count;
  std::vector<Access> accesses;
  std::array<Gathered, 3> tokens;
  std::array<Clocks, 3> exact_tokens = {};

  void access(int thread) {
    WarpOrder& warp = order.order(static_cast<Agent>(thread / kLanes));
    warp.last_access = warp.clock;
    accesses.push_back({thread, ++count[static_cast<size_t>(thread)], warp.clock});
    known[static_cast<size_t>(thread)][static_cast<size_t>(thread)] =
        count[static_cast<size_t>(thread)];
  }

  template <class F>
  void for_each(int warp, uint32_t lanes, F of) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) != 0) of(static_cast<size_t>(warp * kLanes + lane));
    }
  }

  static void join(Clocks& to, const Clocks& from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
  }

  void release(int warp, uint32_t lanes, size_t token) {
    order.release(static_cast<Agent>(warp), lanes, tokens[token]);
    for_each(warp, lanes, [&](size_t thread) { join(exact_tokens[token], known[thread]); });
  }
  void acquire(int warp, uint32_t lanes, size_t token) {
    order.acquire(static_cast<Agent>(warp), lanes, sums_of(tokens[token]));
    for_each(warp, lanes, [&](size_t thread) { join(known[thread], exact_tokens[token]); });
  }
  void join_lanes(int warp, uint32_t lanes) {
    order.join_lanes(static_cast<Agent>(warp), lanes);
    Clocks sum = {};
    for_each(warp, lanes, [&](size_t thread) { join(sum, known[thread]); });
    for_each(warp, lanes, [&](size_t thread) { known[thread] = sum; });
  }
  // All lanes of all warps meet.
  void barrier() {
    Gathered sum;
    Clocks exact = {};
    for (int warp = 0; warp < kWarps; ++warp) {
      order.release(static_cast<Agent>(warp), kAll, sum);
      for_each(warp, kAll, [&](size_t thread) { join(exact, known[thread]); });
    }
    for (int warp = 0; warp < kWarps; ++warp) {
      order.replace(static_cast<Agent>(warp), kAll, sums_of(sum));
      for_each(warp, kAll, [&](size_t thread) { known[thread] = exact; });
    }
  }

  bool is_exactly_known(size_t thread, const Access& access) const {
    return known[thread][static_cast<size_t>(access.thread)] >= access.exact;
  }
  bool is_known(Relation relation, int thread, const Access& access) {
    const auto warp = static_cast<Agent>(thread / kLanes);
    const uint32_t lane = 1u << (thread % kLanes);
    const uint32_t other = 1u << (access.thread % kLanes);
    for (const LaneGroup& group : order.order(warp).groups) {
      if ((group.lanes & lane) == 0) continue;
      if (thread == access.thread) return true;
      const int agent = access.thread / kLanes;
      const Seen& seen = agent == warp ? group.view.own[relation]
                                       : (*group.view.known[relation])[static_cast<size_t>(agent)];
      return seen.covers(other, access.clock);
    }
    ADD_FAILURE() << "thread " << thread << " is in no group";
    return false;
  }
};

// Random programs; `pick` gives the lanes of an operation. Returns how many pairs were taken for
// ordered that are not; the other way round none may be.
template <class Pick>
int run_random(uint32_t seed, Pick pick) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return random() % n; };
  Pair pair;
  int rounded = 0;
  for (int step = 0; step < 150; ++step) {
    const auto warp = static_cast<int>(below(kWarps));
    const uint32_t lanes = pick(random);
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        pair.access(warp * kLanes + std::countr_zero(lanes));
        break;
      case 3:
      case 4:
        pair.release(warp, lanes, below(3));
        break;
      case 5:
        pair.acquire(warp, lanes, below(3));
        break;
      case 6:
        pair.join_lanes(warp, lanes);
        break;
      default:
        if (below(4) == 0) pair.barrier();
    }
    for (int thread = 0; thread < kThreads; thread += 5) {
      for (const Access& access : pair.accesses) {
        const bool exact = pair.is_exactly_known(static_cast<size_t>(thread), access);
        const bool known = pair.is_known(Relation::kMemory, thread, access);
        EXPECT_TRUE(known || !exact) << "seed " << seed << " step " << step;
        const bool reads = pair.is_known(Relation::kReads, thread, access);
        EXPECT_TRUE(reads || !exact) << "seed " << seed << " step " << step;
        rounded += static_cast<int>(known && !exact);
      }
    }
  }
  return rounded;
}

TEST(HappensBefore, NeverLosesAnOrder) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    run_random(seed, [](std::mt19937& random) {
      const uint32_t lanes = random() & random();
      return lanes == 0 ? 1u : lanes;
    });
  }
}

// Whole warps, and one lane that acts for each of them.
TEST(HappensBefore, IsExactForWarpsAndTheirLeaders) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const int rounded = run_random(seed, [](std::mt19937&) { return kAll; });
    EXPECT_EQ(rounded, 0) << "seed " << seed;
  }
}

TEST(HappensBefore, ALeaderDoesNotSpeakForItsWarp) {
  Pair pair;
  pair.access(0);
  pair.access(7);
  pair.release(0, 1, 0);
  pair.access(0);
  pair.acquire(1, 2, 0);
  EXPECT_TRUE(pair.is_known(Relation::kMemory, 33, pair.accesses[0]));
  EXPECT_FALSE(pair.is_known(Relation::kMemory, 33, pair.accesses[1]));
  EXPECT_FALSE(pair.is_known(Relation::kMemory, 33, pair.accesses[2]));
  EXPECT_FALSE(pair.is_known(Relation::kMemory, 32, pair.accesses[0]));
  pair.join_lanes(1, kAll);
  EXPECT_TRUE(pair.is_known(Relation::kMemory, 32, pair.accesses[0]));
}

TEST(HappensBefore, WaitingOrdersReadsAlone) {
  Pair pair;
  pair.access(3);
  pair.order.join_reads(0, kAll);
  EXPECT_TRUE(pair.is_known(Relation::kReads, 4, pair.accesses[0]));
  EXPECT_FALSE(pair.is_known(Relation::kMemory, 4, pair.accesses[0]));
  // Lane 4 may tell others.
  pair.release(0, 1u << 4, 0);
  pair.acquire(2, kAll, 0);
  EXPECT_TRUE(pair.is_known(Relation::kReads, 70, pair.accesses[0]));
  EXPECT_FALSE(pair.is_known(Relation::kMemory, 70, pair.accesses[0]));
}

TEST(HappensBefore, RelaxedReadsNeedAFence) {
  Pair pair;
  pair.access(0);
  pair.release(0, kAll, 0);
  pair.order.acquire(1, 1, sums_of(pair.tokens[0]), false);
  EXPECT_FALSE(pair.is_known(Relation::kMemory, 32, pair.accesses[0]));
  pair.order.fence(1, 1);
  EXPECT_TRUE(pair.is_known(Relation::kMemory, 32, pair.accesses[0]));
  EXPECT_FALSE(pair.is_known(Relation::kMemory, 33, pair.accesses[0]));
}

TEST(HappensBefore, FencesReleaseWhatIsBeforeThem) {
  Pair pair;
  pair.access(0);
  EXPECT_FALSE(pair.order.has_fence(0, 1));
  pair.order.fence(0, 1);
  EXPECT_TRUE(pair.order.has_fence(0, 1));
  EXPECT_FALSE(pair.order.has_fence(0, 2));
  pair.access(0);
  pair.order.release_fenced(0, 1, pair.tokens[0]);
  pair.acquire(1, 1, 0);
  EXPECT_TRUE(pair.is_known(Relation::kMemory, 32, pair.accesses[0]));
  EXPECT_FALSE(pair.is_known(Relation::kMemory, 32, pair.accesses[1]));
}

TEST(HappensBefore, ProxyFencesCoverWhatTheirThreadKnows) {
  Pair pair;
  pair.access(0);
  pair.access(1);
  pair.order.proxy_fence(0, 1);
  pair.access(0);
  pair.release(0, kAll, 0);
  pair.acquire(1, kAll, 0);
  EXPECT_TRUE(pair.is_known(Relation::kProxied, 40, pair.accesses[0]));
  EXPECT_FALSE(pair.is_known(Relation::kProxied, 40, pair.accesses[1]));
  EXPECT_FALSE(pair.is_known(Relation::kProxied, 40, pair.accesses[2]));
  pair.order.proxy_fence(1, 1);
  EXPECT_TRUE(pair.is_known(Relation::kProxied, 32, pair.accesses[1]));
  EXPECT_FALSE(pair.is_known(Relation::kProxied, 33, pair.accesses[1]));
}

TEST(HappensBefore, OperationsKnowWhatTheirIssuersKnow) {
  Pair pair;
  pair.access(0);
  pair.access(5);
  const Past past = pair.order.fork(0, 1);
  EXPECT_TRUE(past.view.own[Relation::kMemory].covers(1, pair.accesses[0].clock));
  EXPECT_FALSE(past.view.own[Relation::kMemory].covers(1u << 5, pair.accesses[1].clock));
  pair.access(0);
  EXPECT_FALSE(past.view.own[Relation::kMemory].covers(1, pair.accesses[2].clock));
}

TEST(Seen, JoinsToTheLargerOfEveryLane) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto any = [&] {
      Seen seen;
      seen.low = random() % 4;
      seen.high = seen.low + random() % 4;
      seen.mask = seen.high == seen.low ? 0 : static_cast<uint32_t>(random());
      if (seen.mask == 0) seen.high = seen.low;
      return seen;
    };
    const Seen a = any();
    const Seen b = any();
    Seen both = a;
    both.join(b);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (uint32_t clock = 0; clock < 8; ++clock) {
        const uint32_t bit = 1u << lane;
        const bool either = a.covers(bit, clock) || b.covers(bit, clock);
        EXPECT_TRUE(both.covers(bit, clock) || !either);
        // Where one side says all, nothing is rounded.
        const bool is_simple = a.mask == 0 && b.mask == 0;
        EXPECT_TRUE(!is_simple || both.covers(bit, clock) == either);
      }
    }
  }
}

}  // namespace
}  // namespace mpfa::sim
