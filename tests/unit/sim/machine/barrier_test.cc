// Barriers of blocks and clusters, and what happens when threads do not come.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

GpuOptions seeded(uint64_t seed) {
  GpuOptions options;
  options.seed = seed;
  return options;
}

std::vector<uint32_t> run(const std::string& ptx, uint32_t threads, uint64_t seed = 0) {
  PtxProgram program(ptx, seeded(seed));
  const uint64_t in = program.upload(std::vector<uint32_t>(threads, 1));
  const uint64_t out = program.upload(std::vector<uint32_t>(threads, 0));
  program.run("test", {.block = {threads, 1, 1}}, in, out);
  return program.download<uint32_t>(out, threads);
}

std::string fault_of(const std::string& ptx, uint32_t threads) {
  try {
    run(ptx, threads);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

TEST(Barrier, EveryWarpSeesWhatTheOthersWroteBefore) {
  // out[t] = value that thread (t + 37) mod 256 has put in shared memory.
  const std::string ptx = one_kernel(R"(.reg .b32 %a, %s;
    .shared .align 4 .b8 box[1024];)",
                                     R"(
    mov.u32 %s, box;
    mad.lo.u32 %a, %r0, 4, %s;
    st.shared.u32 [%a], %r0;
    bar.sync 0;
    add.u32 %a, %r0, 37;
    and.b32 %a, %a, 255;
    mad.lo.u32 %a, %a, 4, %s;
    ld.shared.u32 %a, [%a];
    st.global.u32 [%rd2], %a;)");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<uint32_t> out = run(ptx, 256, seed);
    for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], (i + 37) % 256);
  }
}

TEST(Barrier, ReductionsOfBarRed) {
  const std::string ptx = one_kernel(".reg .b32 %n, %a; .reg .pred %p, %all, %any;", R"(
    and.b32 %a, %r0, 3;
    setp.eq.u32 %p, %a, 0;
    bar.red.popc.u32 %n, 1, %p;
    bar.red.and.pred %all, 1, %p;
    bar.red.or.pred %any, 1, %p;
    selp.u32 %a, 1000, 0, %all;
    add.u32 %n, %n, %a;
    selp.u32 %a, 100000, 0, %any;
    add.u32 %n, %n, %a;
    st.global.u32 [%rd2], %n;)");
  EXPECT_EQ(run(ptx, 96), std::vector<uint32_t>(96, 24 + 100000));
}

TEST(Barrier, ThreadsThatHaveEndedAreNotWaitedFor) {
  const std::string ptx = one_kernel(".reg .pred %p;", R"(
    setp.ge.u32 %p, %r0, 64;
    @%p exit;
    bar.sync 0;
    st.global.u32 [%rd2], 9;)");
  std::vector<uint32_t> expected(128, 0);
  std::fill_n(expected.begin(), 64, 9);
  for (uint64_t seed = 0; seed < 4; ++seed) EXPECT_EQ(run(ptx, 128, seed), expected);
}

TEST(Barrier, NamedBarriersOfSomeWarpsArriveWithoutWaiting) {
  // Warp 0 produces and arrives; warp 1 waits and consumes.
  const std::string ptx = one_kernel(R"(.reg .b32 %a; .reg .pred %p;
    .shared .align 4 .b32 box;)",
                                     R"(
    setp.lt.u32 %p, %r0, 32;
    @!%p bra CONSUME;
    setp.eq.u32 %p, %r0, 0;
    @%p st.shared.u32 [box], 42;
    bar.arrive 3, 64;
    bra END;
  CONSUME:
    bar.sync 3, 64;
    ld.shared.u32 %a, [box];
    st.global.u32 [%rd2], %a;
  END:)");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<uint32_t> out = run(ptx, 64, seed);
    for (uint32_t i = 32; i < 64; ++i) EXPECT_EQ(out[i], 42u);
  }
}

TEST(Barrier, AThreadThatNeverComesIsADeadlockThatNamesWhoWaits) {
  const std::string ptx = one_kernel(".reg .pred %p;", R"(
    setp.lt.u32 %p, %r0, 32;
    @%p bar.sync 1, 64;)");
  const std::string text = fault_of(ptx, 64);
  EXPECT_NE(text.find("deadlock"), std::string::npos) << text;
  EXPECT_NE(text.find("bar.sync"), std::string::npos) << text;
}

TEST(Barrier, CountsMustBeMultiplesOf32) {
  const std::string text = fault_of(one_kernel("", "bar.sync 1, 33;"), 64);
  EXPECT_NE(text.find("33"), std::string::npos) << text;
  EXPECT_NE(text.find("multiple of 32"), std::string::npos) << text;
}

TEST(Barrier, ABlockReadsItsNeighboursSharedMemoryBetweenClusterBarriers) {
  const std::string ptx = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 out) {
  .reg .b32 %rank, %at, %peer, %value;
  .reg .b64 %out, %d;
  .shared .align 4 .b32 box;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %at, box;
  add.u32 %value, %rank, 500;
  st.shared.u32 [box], %value;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  xor.b32 %peer, %rank, 1;
  mapa.shared::cluster.u32 %peer, %at, %peer;
  ld.shared::cluster.u32 %value, [%peer];
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ld.param.u64 %out, [out];
  mov.u32 %at, %ctaid.x;
  mul.wide.u32 %d, %at, 4;
  add.u64 %out, %out, %d;
  st.global.u32 [%out], %value;
  ret;
})";
  for (uint64_t seed = 0; seed < 4; ++seed) {
    PtxProgram program(ptx, seeded(seed));
    const uint64_t out = program.upload(std::vector<uint32_t>(8, 0));
    program.run("test", {.grid = {8, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}}, out);
    const std::vector<uint32_t> expected = {501, 500, 501, 500, 501, 500, 501, 500};
    EXPECT_EQ(program.download<uint32_t>(out, 8), expected);
  }
}

// PTX ISA, "barrier": a warp arrives whole, when all of its threads that have not ended are there.
TEST(Barrier, SomeThreadsOfAWarpCountAsTheWhole) {
  // Threads 8 to 31 of warp 0 and 40 to 63 of warp 1 end before.
  const std::string ended = one_kernel(".reg .pred %p; .reg .b32 %a;", R"(
    and.b32 %a, %r0, 31;
    setp.ge.u32 %p, %a, 8;
    @%p exit;
    barrier.sync 1, 64;
    st.global.u32 [%rd2], 9;)");
  // The last warp has 8 threads.
  const std::string partial = one_kernel("", R"(
    barrier.sync 1, 64;
    st.global.u32 [%rd2], 9;)");
  // Two paths of each warp come to barriers of their own.
  const std::string apart = one_kernel(".reg .pred %p;", R"(
    and.b32 %r0, %r0, 3;
    setp.eq.u32 %p, %r0, 0;
    @%p bra OTHER;
    barrier.sync 1, 64;
    bra DONE;
  OTHER:
    barrier.sync 1, 64;
  DONE:
    st.global.u32 [%rd2], 9;)");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<uint32_t> out = run(ended, 64, seed);
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i % 32 < 8 ? 9u : 0u) << i;
    EXPECT_EQ(run(partial, 40, seed), std::vector<uint32_t>(40, 9));
    EXPECT_EQ(run(apart, 64, seed), std::vector<uint32_t>(64, 9));
  }
}

// Lanes 8 to 31 of warp 0 end while the others wait.
TEST(Barrier, AnEndMakesTheRestOfAWarpWhole) {
  const std::string ptx = one_kernel(".reg .pred %p; .reg .b32 %i;", R"(
    setp.lt.u32 %p, %r0, 8;
    @%p bra WAIT;
    setp.ge.u32 %p, %r0, 32;
    @%p bra WAIT;
    mov.u32 %i, 0;
  LOOP:
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 500;
    @%p bra LOOP;
    exit;
  WAIT:
    barrier.sync 1, 64;
    st.global.u32 [%rd2], 9;)");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<uint32_t> out = run(ptx, 64, seed);
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 8 || i >= 32 ? 9u : 0u) << i;
  }
}

// Half of warp 0 arrives, the other half arrives after that: the barrier counts it once.
TEST(Barrier, AWarpThatArrivesInPartsCountsOnce) {
  const std::string ptx = one_kernel(R"(.reg .pred %p; .reg .b32 %a;
    .shared .align 4 .b8 box[128];)",
                                     R"(
    mov.u32 %a, box;
    mad.lo.u32 %a, %r0, 4, %a;
    setp.ge.u32 %p, %r0, 32;
    @%p bra CONSUME;
    setp.ge.u32 %p, %r0, 16;
    @%p bra UPPER;
    st.shared.u32 [%a], %r0;
    barrier.arrive 1, 64;
    exit;
  UPPER:
    st.shared.u32 [%a], %r0;
    barrier.arrive 1, 64;
    exit;
  CONSUME:
    barrier.sync 1, 64;
    ld.shared.u32 %a, [%a+-128];
    st.global.u32 [%rd2], %a;)");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<uint32_t> out = run(ptx, 64, seed);
    for (uint32_t i = 32; i < 64; ++i) EXPECT_EQ(out[i], i - 32);
  }
}

TEST(Barrier, AWarpThatNeverComesWholeIsADeadlock) {
  const std::string ptx = one_kernel(".reg .pred %p;", R"(
    setp.lt.u32 %p, %r0, 40;
    @!%p barrier.sync 2, 64;
    barrier.sync 1, 64;)");
  EXPECT_NE(fault_of(ptx, 64).find("deadlock"), std::string::npos);
}

// ---- barrier.cluster

std::string cluster_fault(const std::string& body) {
  PtxProgram program(one_kernel(".reg .pred %p; .reg .b32 %a;", body));
  const uint64_t out = program.upload(std::vector<uint32_t>(64, 0));
  try {
    program.run("test", {.grid = {2, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}}, out, out);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

TEST(ClusterBarrier, ArrivesAndWaitsTakeTurns) {
  const std::string arrive = "barrier.cluster.arrive;\n";
  const std::string wait = "barrier.cluster.wait;\n";
  EXPECT_EQ(cluster_fault(arrive + wait + arrive + wait), "");
  EXPECT_EQ(cluster_fault(arrive), "");
  const std::string early = cluster_fault(arrive + wait + wait);
  EXPECT_NE(early.find("without an arrive before"), std::string::npos) << early;
  const std::string twice = cluster_fault(arrive + arrive + wait + wait);
  EXPECT_NE(twice.find("again without barrier.cluster.wait"), std::string::npos) << twice;
}

// Threads that arrive and end do not stand for others that have not come.
TEST(ClusterBarrier, AnEndAfterAnArrivalCountsOnce) {
  const std::string ptx = one_kernel(R"(.reg .pred %p; .reg .b32 %a, %i;
    .shared .align 4 .b32 box;)",
                                     R"(
    setp.ge.u32 %p, %r0, 32;
    @%p bra LATE;
    setp.eq.u32 %p, %r0, 0;
    barrier.cluster.arrive;
    @!%p exit;
    barrier.cluster.wait;
    ld.shared.u32 %a, [box];
    st.global.u32 [%rd2], %a;
    exit;
  LATE:
    mov.u32 %i, 0;
  LOOP:
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 3000;
    @%p bra LOOP;
    setp.eq.u32 %p, %r0, 40;
    @%p st.shared.u32 [box], 7;
    barrier.cluster.arrive;
    barrier.cluster.wait;)");
  for (uint64_t seed = 0; seed < 8; ++seed) EXPECT_EQ(run(ptx, 64, seed)[0], 7u);
}

}  // namespace
}  // namespace mpfa::sim::testing
