// The checks' reports, on kernels in PTX: each has a twin that must not be reported.
#include "sim/machine/monitor.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/machine/fault.h"
#include "tests/unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kSeeds = 8;

// A kernel of two warps with `tile` in shared memory: %t is the thread, %a its word's address.
std::string kernel_of(const std::string& body) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n.file 1 \"tile.cu\"\n"
         ".visible .entry test(.param .u64 out) {\n"
         "  .reg .b32 %r<10>, %t, %a; .reg .b64 %rd<10>; .reg .pred %p<4>;\n"
         "  .shared .align 16 .b8 tile[512];\n"
         "  .local .align 8 .b8 own[16];\n"
         "  mov.u32 %t, %tid.x;\n  shl.b32 %r1, %t, 2;\n  mov.u32 %a, tile;\n"
         "  add.s32 %a, %a, %r1;\n  ld.param.u64 %rd1, [out];\n  .loc 1 42 3\n" +
         body + "\n  ret;\n}\n";
}

// What is found; empty: nothing.
std::string finding(const std::string& body, uint64_t seed, Checks checks = {},
                    uint32_t cluster = 1, FaultKind* kind = nullptr) {
  GpuOptions options;
  options.seed = seed;
  options.checks = checks;
  testing::PtxProgram program(kernel_of(body), options);
  const uint64_t out = program.upload(std::vector<uint32_t>(64));
  try {
    program.run("test", {.grid = {cluster, 1, 1}, .block = {64, 1, 1}, .cluster = {cluster, 1, 1}},
                out);
  } catch (const Fault& fault) {
    if (kind != nullptr) *kind = fault.kind();
    return fault.what();
  }
  return {};
}

void expect_found(const std::string& body, const std::string& text, uint32_t cluster = 1) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string found = finding(body, seed, {}, cluster);
    EXPECT_NE(found.find(text), std::string::npos) << "seed " << seed << ": " << found;
  }
}

void expect_right(const std::string& body, uint32_t cluster = 1) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(finding(body, seed, {}, cluster), "") << "seed " << seed;
  }
}

const std::string kExchange =
    "  st.shared.b32 [%a], %t;\n  BARRIER\n  xor.b32 %r2, %a, 128;\n  ld.shared.b32 %r3, [%r2];\n";

std::string exchange(const std::string& barrier) {
  std::string text = kExchange;
  return text.replace(text.find("BARRIER"), 7, barrier);
}

// Every word is written first, so that no read can come too early.
std::string with_zeros(const std::string& body) {
  return "  st.shared.b32 [%a], 0;\n  bar.sync 0;\n" + body;
}

TEST(Monitor, NamesBothPlacesOfARace) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FaultKind kind = {};
    const std::string found = finding(with_zeros(exchange("")), seed, {}, 1, &kind);
    EXPECT_EQ(kind, FaultKind::kCheck);
    for (const char* part :
         {"race in shared memory at 0x", "(tile", "that nothing orders", "in test, tile.cu:42",
          "st.shared.b32 [%a], %t;", "ld.shared.b32 %r3, [%r2];", "block (0, 0, 0), warp 0",
          "warp 1, thread ("}) {
      EXPECT_NE(found.find(part), std::string::npos) << part << " is missing in " << found;
    }
  }
}

TEST(Monitor, BarriersOrder) {
  expect_right(exchange("bar.sync 0;"));
  expect_right(exchange("barrier.sync 3, 64;"));
  expect_right(exchange("bar.red.popc.u32 %r4, 0, %p1;"));
  // Another barrier of one warp alone does not.
  expect_found(with_zeros(exchange("bar.warp.sync 0xFFFFFFFF;")), "race in shared memory");
  // Nor does a barrier for each warp.
  expect_found(with_zeros(exchange("shr.u32 %r9, %t, 5;\n  barrier.sync %r9, 32;")),
               "race in shared memory");
}

TEST(Monitor, AnArrivalOrdersOneWayOnly) {
  // Warp 0 arrives, warp 1 waits: what warp 0 wrote is there for warp 1.
  const std::string both = R"(
  setp.ge.u32 %p1, %t, 32;
  @%p1 bra waits;
  st.shared.b32 [%a], %t;
  bar.arrive 1, 64;
  FIRST
  ret;
waits:
  bar.sync 1, 64;
  SECOND)";
  const auto with = [&](const std::string& first, const std::string& second) {
    std::string text = both;
    text.replace(text.find("FIRST"), 5, first);
    return text.replace(text.find("SECOND"), 6, second);
  };
  expect_right(with("", "ld.shared.b32 %r3, [%a+-128];"));
  expect_found(with("st.shared.b32 [%a+256], %t;", "st.shared.b32 [%a+128], %t;"),
               "race in shared memory");
}

TEST(Monitor, ReadsOfWhatIsNotWritten) {
  const std::string use = "\n  ld.shared.b32 %r2, [%a];\n  st.global.b32 [%rd1], %r2;";
  expect_found(use, "read of shared memory that nothing has written");
  expect_right("  st.shared.b32 [%a], %t;" + use);
  // A struct with padding is copied whole.
  expect_right("  st.shared.b16 [%a], %r1;\n  st.shared.b8 [%a+2], %t;" + use);
  expect_right("  st.shared.b16 [%a], %r1;\n  st.shared.b16 [%a+2], %t;" + use);
  // The system's part of shared memory, which cooperative groups use, is not the program's to
  // write.
  expect_right("  mov.u32 %r2, 16;\n  red.shared.and.b32 [%r2], 7;");
  // What a predicate has left out.
  expect_found("  setp.ne.u32 %p1, %t, 9;\n  @%p1 st.shared.b32 [%a], %t;" + use,
               "thread (9, 0, 0)");
  expect_found("  atom.shared.add.u32 %r2, [%a], 1;", "that nothing has written");
  expect_right("  atom.shared.exch.b32 %r2, [%a], 1;");
}

// `first` in warp 0 and `second` in warp 1, unordered.
std::string in_two_warps(const std::string& first, const std::string& second) {
  return "  setp.ge.u32 %p1, %t, 32;\n  @%p1 bra second;\n  " + first +
         "\n  bra done;\nsecond:\n  " + second + "\ndone:\n";
}

TEST(Monitor, EqualStoresMayBeUnordered) {
  const std::string race = "race in shared memory";
  const auto stores = [](const std::string& first, const std::string& second) {
    return in_two_warps("st.shared." + first, "st.shared." + second);
  };
  // Each lane its own word; all lanes one word.
  expect_right(stores("b32 [%a], 5;", "b32 [%a+-128], 5;"));
  expect_found(stores("b32 [%a], 5;", "b32 [%a+-128], 6;"), race);
  expect_right("  st.shared.b32 [tile], 5;");
  expect_found("  shr.u32 %r2, %t, 5;\n  st.shared.b32 [tile], %r2;", race);
  // Only the bytes of both count.
  expect_right(stores("b32 [tile], 0x05060708;", "b16 [tile+2], 0x0506;"));
  expect_found(stores("b32 [tile], 0x05060708;", "b16 [tile+2], 0x0507;"), race);
  expect_right(stores("v2.b32 [tile], {1, 2};", "b32 [tile+4], 2;"));
  expect_found(stores("v2.b32 [tile], {1, 2};", "b32 [tile+4], 1;"), race);
  // What is left counts, not what was there before.
  expect_found(stores("b32 [tile], 5;\n  st.shared.b32 [tile], 6;",
                      "b32 [tile], 5;\n  st.shared.b32 [tile], 6;"),
               race);
  // Lanes of one warp that have parted.
  const auto in_two_lanes = [](const std::string& value) {
    return "  setp.eq.u32 %p1, %t, 0;\n  @%p1 st.shared.b32 [tile], 5;\n"
           "  setp.eq.u32 %p1, %t, 1;\n  @%p1 st.shared.b32 [tile], " +
           value + ";\n";
  };
  expect_right(in_two_lanes("5"));
  expect_found(in_two_lanes("4"), race);
}

TEST(Monitor, OnlyWeakStoresMayWriteTheSame) {
  const std::string race = "race in shared memory";
  expect_found(in_two_warps("st.shared.b32 [tile], 5;", "st.volatile.shared.b32 [tile], 5;"), race);
  expect_found(in_two_warps("st.shared.b32 [tile], 5;", "atom.shared.exch.b32 %r2, [tile], 5;"),
               race);
  expect_found(
      in_two_warps("cp.async.ca.shared.global [tile], [%rd1], 4;", "st.shared.b32 [tile], 0;"),
      race);
}

TEST(Monitor, ReadsRaceWithEachOfTwoEqualStores) {
  const std::string race = "race in shared memory";
  const std::string all = "  st.shared.b32 [%a], 5;\n  bar.sync 0;\n";
  expect_found(all + in_two_warps("st.shared.b32 [tile], 5;\n  ld.shared.b32 %r2, [tile];",
                                  "st.shared.b32 [tile], 5;"),
               race);
  // Reads before the other warp's store: it hides them, but they count.
  expect_found(all + in_two_warps("ld.shared.b32 %r2, [tile];\n  st.shared.b32 [tile], 5;",
                                  "st.shared.b32 [tile], 5;"),
               race);
  // Reads of both warps before a barrier.
  const std::string read =
      all + "  ld.shared.b32 %r2, [tile];\n  BARRIER\n" + "  st.shared.b32 [tile], 6;";
  const auto with = [&](const std::string& barrier) {
    std::string text = read;
    return text.replace(text.find("BARRIER"), 7, barrier);
  };
  expect_right(with("bar.sync 0;"));
  expect_found(with(""), race);
  expect_found(with("bar.warp.sync 0xFFFFFFFF;"), race);
  // Warp 0 waits for warp 1's read, warp 1 does not wait for warp 0's.
  expect_found(all + in_two_warps("ld.shared.b32 %r2, [tile];\n  bar.sync 1, 64;\n"
                                  "  st.shared.b32 [tile], 6;",
                                  "ld.shared.b32 %r2, [tile];\n  bar.arrive 1, 64;\n"
                                  "  st.shared.b32 [tile], 6;"),
               race);
  expect_right(all + in_two_warps("ld.shared.b32 %r2, [tile];\n  bar.sync 1, 64;\n"
                                  "  bar.sync 2, 64;\n  st.shared.b32 [tile], 6;",
                                  "ld.shared.b32 %r2, [tile];\n  bar.sync 1, 64;\n"
                                  "  bar.sync 2, 64;\n  st.shared.b32 [tile], 6;"));
}

TEST(Monitor, TheLastOfManyLanesAcquiresFromAllOfThem) {
  const auto last_sums = [](const std::string& count) {
    return "  setp.eq.u32 %p1, %t, 0;\n  @%p1 st.shared.b32 [tile+256], 0;\n  bar.sync 0;\n"
           "  st.shared.b32 [%a], %t;\n  " +
           count +
           "\n  setp.ne.u32 %p1, %r2, 63;\n  @%p1 bra done;\n"
           "  mov.u32 %r3, tile;\n  add.u32 %r4, %r3, 256;\nnext:\n"
           "  ld.shared.b32 %r5, [%r3];\n  add.u32 %r3, %r3, 4;\n"
           "  setp.lt.u32 %p2, %r3, %r4;\n  @%p2 bra next;\ndone:\n";
  };
  expect_right(last_sums("atom.shared.acq_rel.cta.add.u32 %r2, [tile+256], 1;"));
  expect_right(last_sums("membar.cta;\n  atom.shared.add.u32 %r2, [tile+256], 1;\n  membar.cta;"));
  const std::string race = "race in shared memory";
  expect_found(last_sums("atom.shared.add.u32 %r2, [tile+256], 1;"), race);
  expect_found(last_sums("atom.shared.release.cta.add.u32 %r2, [tile+256], 1;"), race);
}

TEST(Monitor, VolatileAndAtomicAccessesDoNotRaceWithEachOther) {
  expect_right("  st.volatile.shared.b32 [tile], %t;\n  ld.volatile.shared.b32 %r2, [tile];");
  expect_right(
      with_zeros("  red.shared.add.u32 [tile], 1;\n  ld.relaxed.cta.shared.b32 %r2, [tile];"));
  expect_found(with_zeros("  red.shared.add.u32 [tile], 1;\n  ld.shared.b32 %r2, [tile];"),
               "race in shared memory");
}

TEST(Monitor, LanesOfAWarpRaceToo) {
  const std::string neighbours =
      "  st.shared.b32 [%a], %t;\n  BARRIER\n  xor.b32 %r2, %a, 4;\n  ld.shared.b32 %r3, [%r2];\n";
  const auto with = [&](const std::string& barrier) {
    std::string text = neighbours;
    return text.replace(text.find("BARRIER"), 7, barrier);
  };
  expect_right(with("bar.warp.sync 0xFFFFFFFF;"));
  expect_found(with_zeros(with("")), "race in shared memory");
  // PTX ISA: shfl.sync and vote.sync order no memory.
  expect_found(with_zeros(with("shfl.sync.idx.b32 %r5, %t, 0, 31, 0xFFFFFFFF;")),
               "race in shared memory");
  expect_found(with_zeros(with("vote.sync.any.pred %p2, %p1, 0xFFFFFFFF;")),
               "race in shared memory");
}

TEST(Monitor, EachCheckCanBeLeftOut) {
  const std::string race = with_zeros(exchange(""));
  EXPECT_NE(finding(race, 0, parse_checks("races")), "");
  EXPECT_EQ(finding(race, 0, parse_checks("uninitialized,async,barriers,bounds")), "");
  const std::string unwritten = "  atom.shared.add.u32 %r2, [%a], 1;";
  EXPECT_NE(finding(unwritten, 0, parse_checks("uninitialized")), "");
  EXPECT_EQ(finding(unwritten, 0, parse_checks("races,async,barriers,bounds")), "");
  EXPECT_EQ(finding(race, 0, Checks::none()), "");
}

// ---- bounds: they fault whatever is checked

TEST(Bounds, OutsideOfAllocationsAndMisaligned) {
  const auto kind_of = [](const std::string& body) {
    FaultKind kind = FaultKind::kInvalidLaunch;
    finding(body, 0, Checks::none(), 1, &kind);
    return kind;
  };
  constexpr FaultKind kNothing = FaultKind::kInvalidLaunch;
  EXPECT_EQ(kind_of("  st.global.b32 [%rd1+252], %t;"), kNothing);
  EXPECT_EQ(kind_of("  st.global.b32 [%rd1+256], %t;"), FaultKind::kIllegalAddress);
  EXPECT_EQ(kind_of("  st.global.b32 [%rd1+2], %t;"), FaultKind::kMisalignedAddress);
  EXPECT_EQ(kind_of("  st.shared.b32 [tile+508], %t;"), kNothing);
  EXPECT_EQ(kind_of("  st.shared.b32 [tile+512], %t;"), FaultKind::kIllegalAddress);
  EXPECT_EQ(kind_of("  st.shared.v2.b32 [tile+4], {%t, %t};"), FaultKind::kMisalignedAddress);
  EXPECT_EQ(kind_of("  st.local.b32 [own+12], %t;"), kNothing);
  EXPECT_EQ(kind_of("  st.local.b32 [own+16], %t;"), FaultKind::kIllegalAddress);
  EXPECT_EQ(kind_of("  st.local.b32 [own+1], %t;"), FaultKind::kMisalignedAddress);
}

// ---- clusters

// Each block reads the other's tile; `end` stands before it ends.
std::string peers(const std::string& middle, const std::string& end) {
  return "  st.shared.b32 [%a], %t;\n" + middle +
         "  xor.b32 %r2, %a, 16777216;\n  ld.shared::cluster.b32 %r3, [%r2];\n" + end;
}

TEST(Monitor, PeersOfACluster) {
  const std::string sync = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n";
  const std::string relaxed =
      "  barrier.cluster.arrive.relaxed.aligned;\n  barrier.cluster.wait.aligned;\n";
  expect_right(peers(sync, sync), 2);
  // The last one only has to make them wait.
  expect_right(peers(sync, relaxed), 2);
  expect_found(peers(sync, ""), "a barrier.cluster is missing", 2);
  expect_found(peers(sync +
                         "  barrier.cluster.arrive.relaxed.aligned;\n"
                         "  barrier.cluster.wait.aligned;\n  st.shared.b32 [%a], %t;\n" +
                         relaxed,
                     sync),
               "race in shared memory", 2);
}

}  // namespace
}  // namespace mpfa::sim
