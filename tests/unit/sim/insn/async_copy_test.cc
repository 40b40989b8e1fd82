// cp.async, cp.async.bulk and their groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "unit/sim/support/fault_of.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using ::testing::ElementsAre;
using testing::fault_of;
using testing::fault_of_some_seed;
using ::testing::HasSubstr;
using testing::one_kernel;
using testing::PtxProgram;
using testing::with_seed;

constexpr uint64_t kSeeds = 12;

constexpr const char* kDeclarations = R"(
  .shared .align 128 .b8 data[4096];
  .shared .align 8 .b64 bar[8];
  .reg .b32 %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15,
    %r16, %r17, %r18, %r19;
  .reg .b16 %h<4>;
  .reg .b64 %s<12>;
  .reg .pred %p<8>;
  .reg .pred %leader;
)";

// 1000, 1001, ...
std::vector<uint32_t> counting(size_t count) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 1000);
  return values;
}

struct RunOptions {
  uint32_t threads = 1;
  uint64_t seed = 0;
  uint32_t blocks = 1;  // of one cluster
  size_t in_words = 1024;
  size_t out_words = 32;
  int out_bytes = 4;  // of a thread
  std::vector<uint32_t> out = {};
};

// Runs `body`; its input counts from 1000, its output is zero before.
std::vector<uint32_t> run(const std::string& body, const RunOptions& how = {}) {
  PtxProgram program(one_kernel(kDeclarations, body, 16, how.out_bytes), with_seed(how.seed));
  const uint64_t in = program.upload(counting(how.in_words));
  std::vector<uint32_t> before = how.out;
  before.resize(how.out_words);
  const uint64_t out = program.upload(before);
  program.run(
      "test",
      {.grid = {how.blocks, 1, 1}, .block = {how.threads, 1, 1}, .cluster = {how.blocks, 1, 1}}, in,
      out);
  return program.download<uint32_t>(out, how.out_words);
}

std::string fault(const std::string& body, FaultKind kind = FaultKind::kCheck,
                  RunOptions how = {}) {
  return fault_of(kind, [&] { run(body, how); });
}

// ---- cp.async
// --------------------------------------------------------------------------------------

// Each thread copies 16, 8 and 4 of its 16 bytes to places of its own, and writes a word of each.
TEST(CpAsync, CopiesWhatIsAskedFor) {
  const std::string body = R"(
    mov.u32 %r1, data;
    mad.lo.u32 %r2, %r0, 32, %r1;
    cp.async.cg.shared.global [%r2], [%rd1], 16;
    cp.async.ca.shared::cta.global.L2::128B [%r2+16], [%rd1+8], 8;
    cp.async.ca.shared.global [%r2+24], [%rd1+4], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.u32 %r3, [%r2+12];
    ld.shared.u32 %r4, [%r2+20];
    ld.shared.u32 %r5, [%r2+24];
    st.global.u32 [%rd2], %r3;
    st.global.u32 [%rd2+4], %r4;
    st.global.u32 [%rd2+8], %r5;)";
  std::vector<uint32_t> expected;
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t first = 1000 + 4 * t;
    expected.insert(expected.end(), {first + 3, first + 3, first + 1});
  }
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(run(body, {.threads = 32, .seed = seed, .out_words = 96, .out_bytes = 12}), expected);
  }
}

// Lanes 0, 1, ... take 0, 1, ... 15 bytes; the rest of the destination becomes zero.
TEST(CpAsync, FillsWithZerosBehindSrcSize) {
  const std::string body = R"(
    mov.u32 %r1, data;
    mad.lo.u32 %r2, %r0, 16, %r1;
    mov.u32 %r3, 0xFFFFFFFF;
    st.shared.v4.u32 [%r2], {%r3, %r3, %r3, %r3};
    and.b32 %r4, %r0, 15;
    cp.async.cg.shared.global [%r2], [%rd1], 16, %r4;
    cp.async.wait_all;
    ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2];
    st.global.v4.u32 [%rd2], {%r5, %r6, %r7, %r8};)";
  const auto in = counting(128);
  std::vector<uint32_t> expected(128);
  for (size_t t = 0; t < 32; ++t) {
    std::memcpy(expected.data() + 4 * t, in.data() + 4 * t, t & 15);
  }
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(run(body, {.threads = 32, .seed = seed, .out_words = 128, .out_bytes = 16}),
              expected);
  }
}

// Where nothing is read, the source may be anywhere.
TEST(CpAsync, IgnoresTheSourceByPredicate) {
  const std::string body = R"(
    mov.u32 %r1, data;
    mov.u32 %r3, 5;
    st.shared.u32 [%r1], %r3;
    st.shared.u32 [%r1+4], %r3;
    mov.u64 %s1, 12;
    setp.eq.u32 %p1, %r0, %r0;
    setp.ne.u32 %p2, %r0, %r0;
    mov.u32 %r4, 0;
    createpolicy.fractional.L2::evict_last.b64 %s2, 0.5;
    cp.async.ca.shared.global [%r1], [%s1], 4, %p1;
    cp.async.ca.shared.global.L2::cache_hint [%r1+4], [%rd1], 4, %p2, %s2;
    cp.async.ca.shared.global [%r1+8], [%s1], 8, %r4;
    cp.async.wait_all;
    ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r1];
    st.global.v4.u32 [%rd2], {%r5, %r6, %r7, %r8};)";
  EXPECT_THAT(run(body, {.out_words = 4}), ElementsAre(0, 1000, 0, 0));
}

// What a read finds before the wait depends on the seed, what it finds behind it does not.
TEST(CpAsync, HappensBetweenIssueAndWait) {
  const std::string body = R"(
    mov.u32 %r1, data;
    mov.u32 %r3, 7;
    st.shared.u32 [%r1], %r3;
    cp.async.ca.shared.global [%r1], [%rd1], 4;
    cp.async.commit_group;
    ld.shared.u32 %r4, [%r1];
    cp.async.wait_group 0;
    ld.shared.u32 %r5, [%r1];
    st.global.u32 [%rd2], %r4;
    st.global.u32 [%rd2+4], %r5;)";
  bool early = false;
  bool late = false;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    GpuOptions options = with_seed(seed);
    options.checks = Checks::none();
    PtxProgram each(one_kernel(kDeclarations, body), options);
    const uint64_t in = each.upload(counting(4));
    const uint64_t out = each.upload(std::vector<uint32_t>(2));
    each.run("test", {.block = {1, 1, 1}}, in, out);
    const auto result = each.download<uint32_t>(out, 2);
    EXPECT_EQ(result[1], 1000u);
    early |= result[0] == 1000;
    late |= result[0] == 7;
  }
  EXPECT_TRUE(early);
  EXPECT_TRUE(late);
}

// Groups end in their order: with one pending, the first of two is there.
TEST(CpAsync, WaitsForAllGroupsButTheLast) {
  const std::string body = R"(
    mov.u32 %r1, data;
    mov.u32 %r9, 7;
    mad.lo.u32 %r2, %r0, 16, %r1;
    st.shared.u32 [%r2+8], %r9;
    cp.async.ca.shared.global [%r2], [%rd1], 4;
    cp.async.ca.shared.global [%r2+4], [%rd1+4], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r2+8], [%rd1+8], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.u32 %r3, [%r2];
    ld.shared.u32 %r4, [%r2+4];
    cp.async.wait_group 0;
    ld.shared.u32 %r5, [%r2+8];
    add.u32 %r3, %r3, %r4;
    add.u32 %r3, %r3, %r5;
    st.global.u32 [%rd2], %r3;)";
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto sums = run(body, {.threads = 32, .seed = seed});
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(sums[t], 3 * (1000 + 4 * t) + 3);
  }
}

// Groups are of threads: those of odd threads have one more.
TEST(CpAsync, GroupsAreOfThreads) {
  const std::string body = R"(
    mov.u32 %r1, data;
    mad.lo.u32 %r2, %r0, 16, %r1;
    and.b32 %r3, %r0, 1;
    setp.eq.u32 %p1, %r3, 1;
    cp.async.ca.shared.global [%r2], [%rd1], 4;
    @%p1 cp.async.commit_group;
    cp.async.ca.shared.global [%r2+4], [%rd1+4], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.u32 %r3, [%r2];
    ld.shared.u32 %r4, [%r2+4];
    add.u32 %r3, %r3, %r4;
    st.global.u32 [%rd2], %r3;)";
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto sums = run(body, {.threads = 32, .seed = seed});
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(sums[t], 2 * (1000 + 4 * t) + 1);
  }
}

// cp.async.mbarrier.arrive: others see the copies when the phase is over. `count` is the barrier's.
std::string tracked_copies(const std::string& arrive, const std::string& count) {
  return R"(
    mov.u32 %r1, data;
    mad.lo.u32 %r2, %r0, 16, %r1;
    setp.eq.u32 %leader, %r0, 0;
    @%leader mbarrier.init.shared.b64 [bar], )" +
         count + R"(;
    bar.sync 0;
    cp.async.cg.shared.global [%r2], [%rd1], 16;
    )" + arrive +
         R"(
  AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra AGAIN;
    xor.b32 %r3, %r0, 63;
    mad.lo.u32 %r2, %r3, 16, %r1;
    ld.shared.u32 %r4, [%r2+4];
    st.global.u32 [%rd2], %r4;)";
}

TEST(CpAsync, TrackedByAnMbarrier) {
  const std::string noinc = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];";
  const std::string inc =
      "cp.async.mbarrier.arrive.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar];";
  for (const std::string& body : {tracked_copies(noinc, "64"), tracked_copies(inc, "64")}) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto values = run(body, {.threads = 64, .seed = seed, .out_words = 64});
      for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(values[t], 1000 + 4 * (63 - t) + 1);
    }
  }
}

TEST(CpAsyncErrors, Sizes) {
  const std::string start = "mov.u32 %r1, data;\n";
  EXPECT_THAT(
      fault(start + "cp.async.cg.shared.global [%r1], [%rd1], 8;", FaultKind::kIllegalInstruction),
      HasSubstr("cp-size is 8; with .cg it must be 16"));
  EXPECT_THAT(
      fault(start + "cp.async.ca.shared.global [%r1], [%rd1], 12;", FaultKind::kIllegalInstruction),
      HasSubstr("it must be 4, 8 or 16"));
  EXPECT_THAT(fault(start + "mov.u32 %r2, 9; cp.async.ca.shared.global [%r1], [%rd1], 8, %r2;"),
              HasSubstr("src-size is 9; it must be at most cp-size, 8"));
  run(start + "mov.u32 %r2, 8; cp.async.ca.shared.global [%r1], [%rd1], 8, %r2;");
}

TEST(CpAsyncErrors, Addresses) {
  const std::string start = "mov.u32 %r1, data;\n";
  EXPECT_THAT(fault(start + "cp.async.cg.shared.global [%r1+8], [%rd1], 16;",
                    FaultKind::kMisalignedAddress),
              HasSubstr("must be a multiple of 16"));
  EXPECT_THAT(fault(start + "cp.async.cg.shared.global [%r1], [%rd1+4], 16;",
                    FaultKind::kMisalignedAddress),
              HasSubstr("must be a multiple of 16"));
  EXPECT_THAT(
      fault(start + "cp.async.ca.shared.global [%r1], [%rd1+4096], 4;", FaultKind::kIllegalAddress),
      HasSubstr("outside every allocation"));
  run(start + "cp.async.ca.shared.global [%r1], [%rd1+4092], 4;");
}

// ---- cp.async.bulk
// ---------------------------------------------------------------------------------

// A warp of producers' first thread fills four stages of 512 bytes in turn, another warp adds them
// up: 16 turns in all.
constexpr const char* kPipeline = R"(
    setp.eq.u32 %leader, %r0, 0;
    @!%leader bra READY;
    mov.u32 %r1, 0;
    mov.u32 %r2, bar;
  INIT:
    mbarrier.init.shared.b64 [%r2], 1;       // full
    mbarrier.init.shared.b64 [%r2+32], 32;   // empty
    add.u32 %r2, %r2, 8;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 4;
    @%p1 bra INIT;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
  READY:
    bar.sync 0;
    mov.u32 %r1, 0;    // turn
    mov.u32 %r9, 0;    // sum
    setp.ge.u32 %p2, %r0, 32;
    @%p2 bra CONSUME;
    @!%leader bra DONE;
  PRODUCE:
    and.b32 %r3, %r1, 3;          // stage
    shr.u32 %r4, %r1, 2;
    and.b32 %r4, %r4, 1;          // parity
    xor.b32 %r5, %r4, 1;
    mov.u32 %r6, bar;
    mad.lo.u32 %r6, %r3, 8, %r6;
    mov.u32 %r7, data;
    mad.lo.u32 %r7, %r3, 512, %r7;
    mad.wide.u32 %s1, %r1, 512, %rd1;
  EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r6+32], %r5;
    @!%p3 bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%s1], 512, [%r6];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra PRODUCE;
    bra DONE;
  CONSUME:
    and.b32 %r3, %r1, 3;
    shr.u32 %r4, %r1, 2;
    and.b32 %r4, %r4, 1;
    mov.u32 %r6, bar;
    mad.lo.u32 %r6, %r3, 8, %r6;
    mov.u32 %r7, data;
    mad.lo.u32 %r7, %r3, 512, %r7;
    and.b32 %r8, %r0, 31;
    mad.lo.u32 %r7, %r8, 16, %r7;
  FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r6], %r4;
    @!%p3 bra FULL;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r7];
    mad.lo.u32 %r9, %r9, 3, %r10;
    mad.lo.u32 %r9, %r9, 3, %r11;
    mad.lo.u32 %r9, %r9, 3, %r12;
    mad.lo.u32 %r9, %r9, 3, %r13;
    mbarrier.arrive.shared.b64 _, [%r6+32];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra CONSUME;
    st.global.u32 [%rd2], %r9;
  DONE:
)";

TEST(BulkCopy, PipelineOfProducerAndConsumers) {
  std::vector<uint32_t> expected(64);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t sum = 0;
    for (uint32_t turn = 0; turn < 16; ++turn) {
      for (uint32_t k = 0; k < 4; ++k) sum = 3 * sum + 1000 + turn * 128 + lane * 4 + k;
    }
    expected[32 + lane] = sum;
  }
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const RunOptions how = {.threads = 64, .seed = seed, .in_words = 2048, .out_words = 64};
    EXPECT_EQ(run(kPipeline, how), expected) << "seed " << seed;
  }
}

// Without the wait for a free stage, a stage is overwritten too early for some seed.
TEST(BulkCopy, PipelineWithoutBackPressureGoesWrong) {
  std::string body = kPipeline;
  const std::string wait = "@!%p3 bra EMPTY;";
  body.erase(body.find(wait), wait.size());
  const std::vector<uint32_t> right =
      run(kPipeline, {.threads = 64, .in_words = 2048, .out_words = 64});
  bool wrong = false;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    try {
      wrong |= run(body, {.threads = 64, .seed = seed, .in_words = 2048, .out_words = 64}) != right;
    } catch (const Fault&) {
      wrong = true;
    }
  }
  EXPECT_TRUE(wrong);
}

// Block 0 sends its input to all blocks in the mask.
std::string multicast(const std::string& mask) {
  return R"(
    mov.u32 %r5, %cluster_ctarank;
    mbarrier.init.shared.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    setp.ne.u32 %p1, %r5, 0;
    mov.b16 %h1, )" +
         mask + R"(;
    mov.u32 %r6, data;
    @%p1 bra WAIT;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r6+128], [%rd1], 256, [bar], %h1;
  WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    ld.shared.u32 %r7, [data+380];
    mad.wide.u32 %s1, %r5, 4, %rd2;
    st.global.u32 [%s1], %r7;
    barrier.cluster.arrive;
    barrier.cluster.wait;)";
}

TEST(BulkCopy, MulticastReachesEveryBlockOfTheMask) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_THAT(run(multicast("15"), {.seed = seed, .blocks = 4, .out_words = 4}),
                ElementsAre(1063, 1063, 1063, 1063));
  }
  // Block 2 waits for bytes that never come.
  const std::string message =
      fault(multicast("11"), FaultKind::kDeadlock, {.blocks = 4, .out_words = 4});
  EXPECT_THAT(message, HasSubstr("of block 2's shared memory"));
  EXPECT_THAT(message, HasSubstr("0 of 1 arrivals pending, tx-count 256"));
  EXPECT_THAT(fault(multicast("31"), FaultKind::kCheck, {.blocks = 4, .out_words = 4}),
              HasSubstr("the mask of blocks is 31"));
  EXPECT_THAT(fault(multicast("0"), FaultKind::kCheck, {.blocks = 4, .out_words = 4}),
              HasSubstr("the mask of blocks is 0"));
}

// Block 1 copies or reduces its own words into block 0's.
std::string to_other_block(const std::string& instruction, const std::string& rank = "0") {
  return R"(
    mov.u32 %r5, %cluster_ctarank;
    mov.u32 %r6, data;
    mad.lo.u32 %r7, %r0, 4, %r6;
    mad.lo.u32 %r8, %r5, 100, %r0;
    st.shared.u32 [%r7], %r8;
    setp.eq.u32 %leader, %r0, 0;
    @%leader mbarrier.init.shared.b64 [bar], 1;
    fence.proxy.async;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    setp.eq.u32 %p1, %r5, 0;
    mov.u32 %r9, 128;
    mapa.shared::cluster.u32 %r10, %r6, )" +
         rank + R"(;
    mapa.shared::cluster.u32 %r11, bar, )" +
         rank + R"(;
    @%p1 bra RECEIVE;
    @!%leader bra DONE;
    )" + instruction +
         R"(
    bra DONE;
  RECEIVE:
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    ld.shared.u32 %r12, [%r7];
    st.global.u32 [%rd2], %r12;
  DONE:
    barrier.cluster.arrive;
    barrier.cluster.wait;)";
}

// A proxy fence that is limited to global memory says nothing of shared memory.
TEST(BulkCopy, TheProxyFenceMustCoverSharedMemory) {
  const auto store = [](const std::string& fence) {
    return R"(
    mov.u32 %r6, data;
    st.shared.v4.u32 [%r6], {%r0, %r0, %r0, %r0};
    )" + fence +
           R"(
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r6], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;)";
  };
  for (const std::string right :
       {"fence.proxy.async;", "fence.proxy.async.shared::cta;", "membar.proxy.async;",
        "fence.proxy.async.shared::cluster;", "fence.proxy.async.global;\n fence.proxy.async;"}) {
    EXPECT_NO_THROW(run(store(right))) << right;
  }
  for (const std::string wrong : {"", "fence.proxy.async.global;", "membar.proxy.async.global;"}) {
    EXPECT_THAT(fault(store(wrong)), HasSubstr("no fence.proxy.async between")) << wrong;
  }
}

TEST(BulkCopy, ToAnotherBlock) {
  const std::string copy =
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], [%r6], %r9, "
      "[%r11];";
  std::vector<uint32_t> expected(32);
  std::iota(expected.begin(), expected.end(), 100);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(run(to_other_block(copy), {.threads = 32, .seed = seed, .blocks = 2}), expected);
  }
  EXPECT_THAT(fault(to_other_block(copy, "1"), FaultKind::kCheck, {.threads = 32, .blocks = 2}),
              HasSubstr("must go to another block of the cluster"));
}

TEST(BulkCopy, ReducesInAnotherBlock) {
  const auto reduce = [](const std::string& op) {
    return to_other_block(
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." + op +
        " [%r10], [%r6], %r9, [%r11];");
  };
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RunOptions how = {.threads = 32, .seed = seed, .blocks = 2};
    const auto sums = run(reduce("add.u32"), how);
    const auto bits = run(reduce("xor.b32"), how);
    const auto counts = run(reduce("inc.u32"), how);
    for (uint32_t t = 0; t < 32; ++t) {
      EXPECT_EQ(sums[t], t + (100 + t));
      EXPECT_EQ(bits[t], t ^ (100 + t));
      EXPECT_EQ(counts[t], t + 1);
    }
  }
}

// The block's words to global memory, by `instruction`; `rest` comes behind the commit.
std::string to_global(const std::string& instruction, const std::string& rest) {
  return R"(
    mov.u32 %r6, data;
    mad.lo.u32 %r7, %r0, 4, %r6;
    add.u32 %r8, %r0, 500;
    st.shared.u32 [%r7], %r8;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 0;
    mov.b16 %h1, 0x0F0F;
    mov.u32 %r9, 128;
    @%p1 bra DONE;
    )" + instruction +
         "\n    cp.async.bulk.commit_group;\n" + rest + "\n  DONE:\n    bar.sync 0;";
}

TEST(BulkCopy, ToGlobal) {
  const std::string copy = "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r6], %r9;";
  std::vector<uint32_t> expected(32);
  std::iota(expected.begin(), expected.end(), 500);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RunOptions how = {.threads = 32, .seed = seed};
    EXPECT_EQ(run(to_global(copy, "cp.async.bulk.wait_group 0;"), how), expected);
    // The grid's end is late enough for the writes.
    EXPECT_EQ(run(to_global(copy, "cp.async.bulk.wait_group.read 0;"), how), expected);
  }
}

// A thread reads what its own group has written.
TEST(BulkCopy, WaitGroupMakesWritesVisible) {
  const std::string copy = "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r6], 64;";
  const std::string read =
      "cp.async.bulk.wait_group 0;\n ld.global.u32 %r10, [%rd2+60];\n st.global.u32 [%rd2+64], "
      "%r10;";
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(run(to_global(copy, read), {.threads = 32, .seed = seed})[16], 515u);
  }
}

// After wait_group.read the source may be written again.
TEST(BulkCopy, WaitGroupReadLetsTheSourceGo) {
  const std::string copy = "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r6], 128;";
  const auto overwrite = [](const std::string& wait) {
    return wait + "\n mov.u32 %r10, 1;\n st.shared.u32 [%r6], %r10;\n";
  };
  bool wrong = false;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    const RunOptions how = {.threads = 32, .seed = seed};
    EXPECT_EQ(run(to_global(copy, overwrite("cp.async.bulk.wait_group.read 0;")), how)[0], 500u);
    try {
      wrong |= run(to_global(copy, overwrite("")), how)[0] != 500;
    } catch (const Fault&) {
      wrong = true;
    }
  }
  EXPECT_TRUE(wrong);
}

TEST(BulkCopy, CopiesTheBytesOfTheMask) {
  const std::string copy =
      "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd2], [%r6], %r9, %h1;";
  std::vector<uint32_t> expected(32, 7);
  for (uint32_t i = 0; i < 32; i += 2) expected[i] = 500 + i;
  EXPECT_EQ(run(to_global(copy, "cp.async.bulk.wait_group 0;"),
                {.threads = 32, .out = std::vector<uint32_t>(32, 7)}),
            expected);
}

// old OP 500 + i, computed here.
TEST(BulkCopy, ReducesInGlobal) {
  struct Case {
    std::string op;
    uint32_t (*result)(uint32_t old, uint32_t value);
  };
  const Case cases[] = {
      {"add.u32", [](uint32_t a, uint32_t b) { return a + b; }},
      {"add.s32", [](uint32_t a, uint32_t b) { return a + b; }},
      {"min.s32",
       [](uint32_t a, uint32_t b) {
         return static_cast<int32_t>(a) < static_cast<int32_t>(b) ? a : b;
       }},
      {"min.u32", [](uint32_t a, uint32_t b) { return a < b ? a : b; }},
      {"max.u32", [](uint32_t a, uint32_t b) { return a > b ? a : b; }},
      {"inc.u32", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }},
      {"dec.u32", [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }},
      {"and.b32", [](uint32_t a, uint32_t b) { return a & b; }},
      {"or.b32", [](uint32_t a, uint32_t b) { return a | b; }},
      {"xor.b32", [](uint32_t a, uint32_t b) { return a ^ b; }},
  };
  std::vector<uint32_t> old(32);
  for (uint32_t i = 0; i < 32; ++i) old[i] = i % 4 == 0 ? 0 : (i % 4 == 1 ? 515 : 0xFFFFFFF0 + i);
  for (const Case& each : cases) {
    const std::string body = to_global(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group." + each.op + " [%rd2], [%r6], %r9;",
        "cp.async.bulk.wait_group 0;");
    const auto result = run(body, {.threads = 32, .seed = 3, .out = old});
    for (uint32_t i = 0; i < 32; ++i) {
      EXPECT_EQ(result[i], each.result(old[i], 500 + i)) << each.op << " of " << old[i];
    }
  }
}

// Subnormal numbers and a sum that is one; the results are an H200's.
TEST(BulkCopy, ReducesFloatsWithoutFlushing) {
  const std::string body = R"(
    mov.u32 %r1, 3;
    mov.u32 %r2, 0x00800000;
    mov.u32 %r3, 0x3F800000;
    mov.u32 %r4, 0x80000007;
    st.shared.v4.u32 [data], {%r1, %r2, %r3, %r4};
    fence.proxy.async.shared::cta;
    mov.u32 %r6, data;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd2], [%r6], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;)";
  EXPECT_THAT(run(body, {.out_words = 4, .out = {5, 0x80000003, 7, 0x80000000}}),
              ElementsAre(8, 0x007FFFFD, 0x3F800000, 0x80000007));
}

// Halves: 1 + 2, the greatest + itself, 2048 + 1 (a tie) and 2050 + 1.
TEST(BulkCopy, ReducesHalves) {
  const std::string body = R"(
    mov.u32 %r1, 0x7BFF3C00;
    mov.u32 %r2, 0x3C003C00;
    st.shared.v4.u32 [data], {%r1, %r2, %r1, %r2};
    fence.proxy.async.shared::cta;
    mov.u32 %r6, data;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%rd2], [%r6], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;)";
  EXPECT_THAT(run(body, {.out_words = 4, .out = {0x7BFF4000, 0x68016800, 0, 0}}),
              ElementsAre(0x7C004200, 0x68026800, 0x7BFF3C00, 0x3C003C00));
}

// Every thread copies a part of its own: a barrier in each of 32 lanes.
TEST(BulkCopy, LanesCopyOnTheirOwn) {
  const std::string body = R"(
    setp.eq.u32 %leader, %r0, 0;
    @%leader mbarrier.init.shared.b64 [bar], 1;
    fence.proxy.async;
    bar.sync 0;
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
    mov.u32 %r6, data;
    mad.lo.u32 %r7, %r0, 16, %r6;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r7], [%rd1], 16, [bar];
  WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    xor.b32 %r8, %r0, 31;
    mad.lo.u32 %r7, %r8, 16, %r6;
    ld.shared.u32 %r9, [%r7+8];
    st.global.u32 [%rd2], %r9;)";
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto values = run(body, {.threads = 32, .seed = seed});
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(values[t], 1000 + 4 * (31 - t) + 2);
  }
}

// ---- errors
// ----------------------------------------------------------------------------------------

std::string load(const std::string& operands, const std::string& rest = "") {
  return R"(
    mbarrier.init.shared.b64 [bar], 1;
    fence.proxy.async;
    mov.u32 %r6, data;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes )" +
         operands + ";\n" + rest;
}
constexpr const char* kWait =
    "WAIT:\n mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;\n @!%p2 bra WAIT;\n";

TEST(BulkCopyErrors, SizesAndAddresses) {
  run(load("[%r6], [%rd1], 64, [bar]", kWait));
  EXPECT_THAT(fault(load("[%r6], [%rd1], 24, [bar]")),
              HasSubstr("the size is 24 bytes; it must be a multiple of 16"));
  EXPECT_THAT(fault(load("[%r6+8], [%rd1], 64, [bar]"), FaultKind::kMisalignedAddress),
              HasSubstr("must be a multiple of 16"));
  EXPECT_THAT(fault(load("[%r6], [%rd1+8], 64, [bar]"), FaultKind::kMisalignedAddress),
              HasSubstr("must be a multiple of 16"));
  run(load("[%r6], [%rd1+4032], 64, [bar]", kWait));
  EXPECT_THAT(fault(load("[%r6], [%rd1+4048], 64, [bar]"), FaultKind::kIllegalAddress),
              HasSubstr("outside every allocation"));
  EXPECT_THAT(fault(load("[%r6+8192], [%rd1], 64, [bar]"), FaultKind::kIllegalAddress),
              HasSubstr("shared memory ends"));
}

// The thread ends while bytes are still to come.
TEST(BulkCopyErrors, BlockEndsBeforeItsCopy) {
  const auto start = [](uint64_t seed) { run(load("[%r6], [%rd1], 64, [bar]"), {.seed = seed}); };
  EXPECT_THAT(fault_of_some_seed(FaultKind::kCheck, start),
              HasSubstr("an asynchronous copy writes the shared memory of block 0"));
  const std::string copy = "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r6], %r9;";
  const auto leave = [&](uint64_t seed) {
    run(to_global(copy, ""), {.threads = 32, .seed = seed});
  };
  EXPECT_THAT(fault_of_some_seed(FaultKind::kCheck, leave),
              HasSubstr("an asynchronous copy reads the shared memory of block 0"));
}

TEST(BulkCopyErrors, BarrierThatIsNone) {
  const auto start = [](uint64_t seed) {
    run(load("[%r6], [%rd1], 64, [bar+8]", kWait), {.seed = seed});
  };
  EXPECT_THAT(fault_of(FaultKind::kCheck, [&] { start(0); }), HasSubstr("not initialised"));
}

TEST(BulkCopyErrors, UnknownForms) {
  const auto decode = [](const std::string& line) {
    return fault(line, FaultKind::kIllegalInstruction);
  };
  EXPECT_THAT(decode("cp.async.bulk.global.global.bulk_group [%rd2], [%rd1], 16;"),
              HasSubstr("a copy to .global from .global"));
  EXPECT_THAT(decode("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%rd2], [%r6], "
                     "16;"),
              HasSubstr(".add of type .s64 is not known"));
  EXPECT_THAT(decode("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd2], [%r6], "
                     "16;"),
              HasSubstr(".noftz"));
  EXPECT_THAT(decode("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r6], [%rd1], "
                     "16;"),
              HasSubstr("operand 4 is missing"));
  EXPECT_THAT(decode("cp.async.ca.shared.global [%r6], [%rd1], 4, 4, 4;"),
              HasSubstr("operands too many"));
}

// Every form that the PTX ISA lists is read.
TEST(BulkCopy, AllFormsAreKnown) {
  std::string body = "setp.eq.u32 %p1, %r0, %r0;\n@%p1 bra END;\n";
  for (const std::string hint : {"", ".L2::cache_hint"}) {
    const std::string policy = hint.empty() ? "" : ", %s3";
    const std::string tail = hint + " [%r1], [%s1], %r2, [%r3]";
    body += "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes" + tail + policy + ";\n";
    body +=
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" + tail + policy + ";\n";
    body += "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster" +
            tail + ", %h1" + policy + ";\n";
    body += "cp.async.bulk.global.shared::cta.bulk_group" + hint + " [%s1], [%r1], %r2" + policy +
            ";\n";
    body += "cp.async.bulk.global.shared::cta.bulk_group" + hint + ".cp_mask [%s1], [%r1], %r2" +
            policy + ", %h1;\n";
    body += "cp.async.bulk.prefetch.L2.global" + hint + " [%s1], %r2" + policy + ";\n";
    for (const std::string op :
         {"add.u32", "add.s32", "add.u64", "add.f32", "add.f64", "add.noftz.f16", "add.noftz.bf16",
          "min.u32", "min.s32", "min.u64", "min.s64", "max.f16", "max.bf16", "inc.u32", "dec.u32",
          "and.b32", "or.b64", "xor.b64"}) {
      body += "cp.reduce.async.bulk.global.shared::cta.bulk_group" + hint + "." + op +
              " [%s1], [%r1], %r2" + policy + ";\n";
    }
    for (const std::string size : {"4", "8", "16"}) {
      body += "cp.async.ca.shared::cta.global" + hint + ".L2::256B [%r1], [%s1], " + size + policy +
              ";\n";
      body +=
          "cp.async.ca.shared.global" + hint + " [%r1], [%s1], " + size + ", %r2" + policy + ";\n";
      body += "cp.async.ca.shared.global" + hint + ".L2::64B [%r1], [%s1], " + size + ", %p2" +
              policy + ";\n";
    }
  }
  for (const std::string op : {"add.u32", "add.s32", "add.u64", "min.u32", "max.s32", "inc.u32",
                               "dec.u32", "and.b32", "or.b32", "xor.b32"}) {
    body += "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." + op +
            " [%r1], [%r2], %r3, [%r4];\n";
  }
  body += "cp.async.bulk.wait_group.read 3;\ncp.async.wait_group 2;\n";
  run(body + "END:\n");
}

}  // namespace
}  // namespace mpfa::sim
