// SharedShadow against a list of every access ever made.
#include "sim/machine/shared_shadow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace mpfa::sim {
namespace {

bool conflict(const PastAccess& a, const PastAccess& b) {
  return (a.bytes & b.bytes) != 0 && (a.is_write() || b.is_write()) &&
         (a.flags & b.flags & kIsStrong) == 0;
}

// What a store at `place` writes.
uint32_t value_of(uint32_t place) { return place % 3; }

// Agents whose accesses up to a clock are known to all, and their own.
struct Known {
  std::vector<uint32_t> clocks;
  Agent self = 0;

  bool operator()(const PastAccess& past) const {
    return past.agent == self || clocks[past.agent] >= past.clock;
  }
};

PastAccess random_access(std::mt19937& random, uint32_t clock, bool whole) {
  PastAccess access;
  access.agent = static_cast<Agent>(random() % 4);
  access.lanes = 1;
  access.clock = clock;
  access.place = clock;
  access.bytes = whole ? kWholeCell : static_cast<uint8_t>(1 + random() % 15);
  access.flags = static_cast<uint8_t>((random() % 2 != 0 ? kIsWrite : 0) |
                                      (random() % 4 == 0 ? kIsStrong : 0));
  return access;
}

// Stores and reads of whole words. Two stores of equal values do not conflict, but a store knows of
// each read before those that it follows.
void compare_stores(uint32_t seed) {
  std::mt19937 random(seed);
  SharedShadow shadow(4);
  Known known = {std::vector<uint32_t>(4), 0};
  std::vector<PastAccess> all;
  uint32_t there = 0;
  for (uint32_t clock = 1; clock < 200; ++clock) {
    if (random() % 3 == 0) known.clocks.assign(4, clock - 1);
    PastAccess access = random_access(random, clock, true);
    access.flags = random() % 3 == 0 ? kIsWrite | kIsStore : 0;
    known.self = access.agent;
    bool expected = false;
    for (const PastAccess& past : all) {
      const bool is_same = past.is_store() && access.is_store() && value_of(access.place) == there;
      expected |= conflict(past, access) && !known(past) && !is_same;
    }
    const auto is_same = [&](const PastAccess& past) {
      if (value_of(access.place) != there) return false;
      // The monitor's question, with all that was ever read at hand.
      if ((past.flags & kHidesRead) == 0) return true;
      return std::all_of(all.begin(), all.end(), [&](const PastAccess& read) {
        return read.is_write() || read.clock > past.clock || known(read);
      });
    };
    const bool is_quick = access.is_write() ? shadow.record_write_quickly(0, access, known)
                                            : shadow.record_read_quickly(0, access, known);
    const bool found = !is_quick && shadow.check_and_record(0, access, known, is_same) != nullptr;
    if (access.is_write()) shadow.mark(0, access.bytes);
    ASSERT_EQ(found, expected) << "seed " << seed << ", clock " << clock;
    if (expected) return;
    if (access.is_write()) there = value_of(access.place);
    all.push_back(access);
  }
}

TEST(SharedShadow, StoresOfWhatIsThereConflictWithReadsAlone) {
  for (uint32_t seed = 0; seed < 5000; ++seed) compare_stores(seed);
}

// Runs until the first conflict, which both must find at the same time.
void compare(uint32_t seed, bool whole) {
  std::mt19937 random(seed);
  SharedShadow shadow(8);
  Known known = {std::vector<uint32_t>(4), 0};
  std::vector<PastAccess> all[2];
  for (uint32_t clock = 1; clock < 300; ++clock) {
    if (random() % 3 == 0) known.clocks.assign(4, clock - 1);  // a barrier
    const uint32_t cell = random() % 2;
    const PastAccess access = random_access(random, clock, whole);
    known.self = access.agent;
    bool expected = false;
    for (const PastAccess& past : all[cell]) expected |= conflict(past, access) && !known(past);
    const PastAccess* found = nullptr;
    const bool is_quick = whole && (access.flags & kIsStrong) == 0 &&
                          (access.is_write() ? shadow.record_write_quickly(cell, access, known)
                                             : shadow.record_read_quickly(cell, access, known));
    if (!is_quick) found = shadow.check_and_record(cell, access, known);
    if (access.is_write()) shadow.mark(cell, access.bytes);
    ASSERT_EQ(found != nullptr, expected) << "seed " << seed << ", clock " << clock;
    if (expected) {
      EXPECT_TRUE(conflict(*found, access));
      return;
    }
    all[cell].push_back(access);
  }
}

TEST(SharedShadow, FindsTheSameConflictsAsAListOfAllAccesses) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    compare(seed, false);
    compare(seed, true);
  }
}

TEST(SharedShadow, LanesOfOneStoreDoNotConflict) {
  SharedShadow shadow(4);
  const auto nothing = [](const PastAccess&) { return false; };
  PastAccess access = {.lanes = 1, .clock = 1, .place = 9, .bytes = kWholeCell, .flags = kIsWrite};
  EXPECT_EQ(shadow.check(0, access, nothing), nullptr);
  shadow.record(0, access, nothing);
  access.lanes = 4;
  shadow.record(0, access, nothing);
  const PastAccess read = {.lanes = 2, .clock = 1, .agent = 1, .bytes = 1};
  const PastAccess* found = shadow.check(0, read, nothing);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->lanes, 5u);
}

TEST(SharedShadow, KnowsEveryWrittenByte) {
  SharedShadow shadow(64);
  shadow.mark_range(6, 11);
  for (uint32_t byte = 0; byte < 64; ++byte) {
    const bool written = (shadow.written(byte / 4) >> byte % 4 & 1) != 0;
    EXPECT_EQ(written, byte >= 6 && byte < 17) << byte;
  }
}

}  // namespace
}  // namespace mpfa::sim
