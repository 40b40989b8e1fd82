#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/support/fault_of.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using ::testing::ElementsAre;
using testing::fault_of;
using ::testing::HasSubstr;
using testing::one_kernel;
using testing::PtxProgram;
using testing::with_seed;

constexpr const char* kDeclarations = R"(
  .shared .align 8 .b64 bar[4];
  .reg .b32 %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15;
  .reg .b64 %s<8>;
  .reg .pred %p<8>;
  .reg .pred %leader;
)";

// Runs `body` in one block; out[i] of thread i.
std::vector<uint32_t> run(const std::string& body, uint32_t threads = 1, uint64_t seed = 0,
                          int words = 1) {
  PtxProgram program(one_kernel(kDeclarations, body, 4, 4 * words), with_seed(seed));
  const std::vector<uint32_t> zeros(threads * static_cast<size_t>(words));
  const uint64_t in = program.upload(zeros);
  const uint64_t out = program.upload(zeros);
  program.run("test", {.block = {threads, 1, 1}}, in, out);
  return program.download<uint32_t>(out, zeros.size());
}

std::string fault(const std::string& body, FaultKind kind = FaultKind::kCheck,
                  uint32_t threads = 1) {
  return fault_of(kind, [&] { run(body, threads); });
}

// The values are those of an H200.
TEST(Mbarrier, StatesHoldThePendingCountBeforeTheArrival) {
  const std::string body = R"(
    mbarrier.init.shared.b64 [bar], 10;
    mbarrier.arrive.noComplete.shared.b64 %s1, [bar], 3;
    mbarrier.pending_count.b64 %r1, %s1;
    st.global.u32 [%rd2], %r1;
    mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %s1, [bar], 2;
    mbarrier.pending_count.b64 %r1, %s1;
    st.global.u32 [%rd2+4], %r1;
    mbarrier.arrive_drop.noComplete.shared.b64 %s1, [bar], 1;
    mbarrier.pending_count.b64 %r1, %s1;
    st.global.u32 [%rd2+8], %r1;
    mbarrier.arrive.shared.b64 %s1, [bar];
    mbarrier.pending_count.b64 %r1, %s1;
    st.global.u32 [%rd2+12], %r1;
    mbarrier.arrive.release.cta.shared::cta.b64 %s1, [bar], 3;
    mbarrier.pending_count.b64 %r1, %s1;
    st.global.u32 [%rd2+16], %r1;
    mbarrier.arrive.noComplete.shared.b64 %s1, [bar], 1;
    mbarrier.pending_count.b64 %r1, %s1;
    st.global.u32 [%rd2+20], %r1;)";
  EXPECT_THAT(run(body, 1, 0, 6), ElementsAre(10, 7, 5, 4, 3, 9));
}

// Stores whether the phase of parity `parity` is over.
std::string ask(const std::string& parity, int at) {
  return "mbarrier.test_wait.parity.shared.b64 %p1, [bar], " + parity +
         "; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%rd2+" + std::to_string(4 * at) + "], %r1;\n";
}

TEST(Mbarrier, ParityTellsTheCurrentPhaseFromTheOneBefore) {
  const std::string body = "mbarrier.init.shared::cta.b64 [bar], 1;\n" + ask("0", 0) + ask("1", 1) +
                           "mbarrier.arrive.shared.b64 _, [bar];\n" + ask("0", 2) + ask("1", 3) +
                           "mbarrier.arrive.shared.b64 _, [bar];\n" + ask("0", 4) + ask("1", 5);
  EXPECT_THAT(run(body, 1, 0, 6), ElementsAre(0, 1, 1, 0, 0, 1));
}

TEST(Mbarrier, PhaseNeedsBytesAndArrivals) {
  const std::string body =
      "mbarrier.init.shared::cta.b64 [bar], 1;\n"
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 64;\n" +
      ask("0", 0) + "mbarrier.arrive.shared::cta.b64 %s1, [bar];\n" + ask("0", 1) +
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 63;\n" + ask("0", 2) +
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 1;\n" + ask("0", 3) +
      // Bytes may come before they are expected.
      "mbarrier.complete_tx.shared::cta.b64 [bar], 32;\n" + ask("1", 4) +
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32;\n" + ask("1", 5);
  EXPECT_THAT(run(body, 1, 0, 6), ElementsAre(0, 0, 0, 1, 0, 1));
}

// As on an H200: 0, 1, 0.
TEST(Mbarrier, ExpectingBytesThatHaveComeCompletesThePhase) {
  const std::string body =
      "mbarrier.init.shared::cta.b64 [bar], 1;\n"
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;\n"
      "mbarrier.arrive.shared::cta.b64 _, [bar];\n" +
      ask("0", 0) + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 64;\n" + ask("0", 1) +
      ask("1", 2);
  EXPECT_THAT(run(body, 1, 0, 3), ElementsAre(0, 1, 0));
  // An arrival too many stays one.
  EXPECT_THAT(fault("mbarrier.init.shared::cta.b64 [bar], 1;\n"
                    "mbarrier.complete_tx.shared::cta.b64 [bar], 64;\n"
                    "mbarrier.arrive.shared::cta.b64 _, [bar];\n"
                    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n"),
              HasSubstr("an arrival with a count of 1"));
}

TEST(Mbarrier, DropLowersWhatTheNextPhasesExpect) {
  const std::string body =
      "mbarrier.init.shared::cta.b64 [bar], 3;\n"
      "mbarrier.arrive_drop.shared.b64 %s1, [bar];\n"
      "mbarrier.arrive.shared::cta.b64 %s1, [bar], 2;\n" +
      ask("0", 0) + "mbarrier.arrive.shared::cta.b64 %s1, [bar];\n" + ask("1", 1) +
      "mbarrier.arrive.shared::cta.b64 %s1, [bar];\n" + ask("1", 2);
  EXPECT_THAT(run(body, 1, 0, 3), ElementsAre(1, 0, 1));
}

TEST(Mbarrier, StateOfTheLastPhaseIsOver) {
  const std::string body = R"(
    mbarrier.init.shared.b64 [bar], 2;
    mbarrier.arrive.shared.b64 %s1, [bar];
    mbarrier.test_wait.shared.b64 %p1, [bar], %s1;
    selp.u32 %r1, 1, 0, %p1;
    st.global.u32 [%rd2], %r1;
    mbarrier.arrive.shared.b64 %s2, [bar];
    mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [bar], %s1;
    mbarrier.try_wait.acquire.cluster.shared::cta.b64 %p2, [bar], %s2, 1000;
    selp.u32 %r1, 1, 0, %p1;
    selp.u32 %r2, 1, 0, %p2;
    st.global.u32 [%rd2+4], %r1;
    st.global.u32 [%rd2+8], %r2;)";
  EXPECT_THAT(run(body, 1, 0, 3), ElementsAre(0, 1, 1));
}

// All threads count in turns that a barrier separates: thread t adds in turn t.
TEST(Mbarrier, OrdersThreadsForEverySeed) {
  const std::string body = R"(
    .shared .align 4 .u32 sum;
    setp.eq.u32 %leader, %r0, 0;
    @%leader mbarrier.init.shared.b64 [bar], 64;
    @%leader st.shared.u32 [sum], 1;
    bar.sync 0;
    mov.u32 %r1, 0;
  TURN:
    setp.ne.u32 %p1, %r1, %r0;
    @%p1 bra SKIP;
    ld.shared.u32 %r2, [sum];
    mad.lo.u32 %r2, %r2, 3, %r0;
    st.shared.u32 [sum], %r2;
  SKIP:
    mbarrier.arrive.release.cta.shared::cta.b64 %s1, [bar];
  AGAIN:
    mbarrier.try_wait.shared::cta.b64 %p2, [bar], %s1;
    @!%p2 bra AGAIN;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p3, %r1, 64;
    @%p3 bra TURN;
    ld.shared.u32 %r2, [sum];
    st.global.u32 [%rd2], %r2;)";
  uint32_t expected = 1;
  for (uint32_t t = 0; t < 64; ++t) expected = expected * 3 + t;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_EQ(run(body, 64, seed), std::vector<uint32_t>(64, expected)) << "seed " << seed;
  }
}

// A thread that asks by test_wait alone must not keep the others from running.
TEST(Mbarrier, TestWaitMayBeAskedInALoop) {
  const std::string body = R"(
    setp.eq.u32 %leader, %r0, 0;
    @%leader mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    setp.eq.u32 %p1, %r0, 32;
    @%p1 mbarrier.arrive.shared.b64 _, [bar];
  AGAIN:
    mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra AGAIN;
    st.global.u32 [%rd2], 7;)";
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_EQ(run(body, 64, seed), std::vector<uint32_t>(64, 7)) << "seed " << seed;
  }
}

// try_wait is limited in time: a thread may try in vain, and then do what completes the phase.
TEST(Mbarrier, TryWaitGivesUpWhenNothingElseCanHappen) {
  const std::string body = R"(
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0, 100;
    mbarrier.arrive.shared.b64 _, [bar];
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    selp.u32 %r1, 10, 20, %p1;
    selp.u32 %r2, 1, 2, %p2;
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%rd2], %r1;)";
  for (uint64_t seed = 0; seed < 8; ++seed) EXPECT_THAT(run(body, 1, seed), ElementsAre(21));
}

TEST(Mbarrier, TryWaitMayGiveUpAtOnce) {
  const std::string body = R"(
    setp.eq.u32 %leader, %r0, 0;
    @%leader mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    mov.u32 %r1, 0;
    @%leader bra LAST;
  AGAIN:
    add.u32 %r1, %r1, 1;
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra AGAIN;
    bra DONE;
  LAST:
    mbarrier.arrive.shared.b64 _, [bar];
  DONE:
    st.global.u32 [%rd2], %r1;)";
  bool once = false;
  bool often = false;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    const uint32_t attempts = run(body, 64, seed)[32];
    once |= attempts == 1;
    often |= attempts > 1;
  }
  EXPECT_TRUE(once);
  EXPECT_TRUE(often);
}

TEST(Mbarrier, GenericAddressesMeanTheSameBarrier) {
  const std::string body = R"(
    cvta.shared.u64 %s3, bar;
    mbarrier.init.b64 [%s3+8], 2;
    mbarrier.arrive.b64 %s1, [%s3+8];
    mbarrier.arrive.shared.b64 %s2, [bar+8];
    mbarrier.test_wait.b64 %p1, [%s3+8], %s1;
    mbarrier.inval.b64 [%s3+8];
    mbarrier.init.shared.b64 [bar+8], 2;
    selp.u32 %r1, 1, 0, %p1;
    st.global.u32 [%rd2], %r1;)";
  EXPECT_THAT(run(body), ElementsAre(1));
}

// Block 1 of a cluster of 2 writes to block 0 and arrives there.
TEST(Mbarrier, OtherBlocksOfTheClusterArrive) {
  const std::string body = R"(
    .shared .align 4 .u32 value;
    mov.u32 %r5, %cluster_ctarank;
    setp.eq.u32 %p1, %r5, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 3;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p1 bra WAIT;
    mapa.shared::cluster.u32 %r6, bar, 0;
    mapa.shared::cluster.u32 %r7, value, 0;
    st.shared::cluster.u32 [%r7], 99;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6], 2;
    mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r6], 4;
    mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r6], 4;
    bra DONE;
  WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    ld.shared.u32 %r2, [value];
    st.global.u32 [%rd2], %r2;
  DONE:
    barrier.cluster.arrive;
    barrier.cluster.wait;)";
  for (uint64_t seed = 0; seed < 8; ++seed) {
    PtxProgram program(one_kernel(kDeclarations, body), with_seed(seed));
    const uint64_t out = program.upload(std::vector<uint32_t>{0});
    program.run("test", {.grid = {2, 1, 1}, .block = {1, 1, 1}, .cluster = {2, 1, 1}}, out, out);
    EXPECT_THAT(program.download<uint32_t>(out, 1), ElementsAre(99));
  }
}

// ---- errors, and beside each what is right
// ----------------------------------------------------------

TEST(MbarrierErrors, CountsOutOfRange) {
  EXPECT_THAT(fault("mov.u32 %r1, 0; mbarrier.init.shared.b64 [bar], %r1;"),
              HasSubstr("initialised with a count of 0; it must be in 1 to 1048575"));
  EXPECT_THAT(fault("mov.u32 %r1, 1048576; mbarrier.init.shared.b64 [bar], %r1;"),
              HasSubstr("a count of 1048576"));
  run("mov.u32 %r1, 1048575; mbarrier.init.shared.b64 [bar], %r1;");
  run("mbarrier.init.shared.b64 [bar], 1;");
}

TEST(MbarrierErrors, ArrivalsTooMany) {
  const std::string start = "mbarrier.init.shared.b64 [bar], 2;\n";
  EXPECT_THAT(fault(start + "mbarrier.arrive.shared::cta.b64 _, [bar], 3;"),
              HasSubstr("an arrival with a count of 3"));
  run(start + "mbarrier.arrive.shared::cta.b64 _, [bar], 2;");
  // All have arrived; the phase waits for bytes.
  const std::string waits = start +
                            "mbarrier.expect_tx.shared::cta.b64 [bar], 16;\n"
                            "mbarrier.arrive.shared::cta.b64 _, [bar], 2;\n";
  EXPECT_THAT(fault(waits + "mbarrier.arrive.shared::cta.b64 _, [bar];"),
              HasSubstr("phase 0 (parity 0), 0 of 2 arrivals pending, tx-count 16"));
  run(waits +
      "mbarrier.complete_tx.shared::cta.b64 [bar], 16;\n"
      "mbarrier.arrive.shared::cta.b64 _, [bar];");
}

TEST(MbarrierErrors, NoCompleteThatCompletes) {
  const std::string start = "mbarrier.init.shared.b64 [bar], 2;\n";
  EXPECT_THAT(fault(start + "mbarrier.arrive.noComplete.shared.b64 %s1, [bar], 2;"),
              HasSubstr("a .noComplete arrival completes its phase"));
  run(start + "mbarrier.arrive.noComplete.shared.b64 %s1, [bar], 1;");
}

TEST(MbarrierErrors, TxCountOutOfRange) {
  const std::string start =
      "mbarrier.init.shared.b64 [bar], 2;\n"
      "mbarrier.expect_tx.shared::cta.b64 [bar], 1048575;\n";
  EXPECT_THAT(fault(start + "mbarrier.expect_tx.shared::cta.b64 [bar], 1;"),
              HasSubstr("the tx-count would become 1048576"));
  run(start +
      "mbarrier.complete_tx.shared::cta.b64 [bar], 1048575;\n"
      "mbarrier.complete_tx.shared::cta.b64 [bar], 1048575;");
  EXPECT_THAT(fault(start + "mbarrier.complete_tx.shared::cta.b64 [bar], 1048575;\n"
                            "mbarrier.complete_tx.shared::cta.b64 [bar], 1048575;"
                            "mbarrier.complete_tx.shared::cta.b64 [bar], 1;"),
              HasSubstr("the tx-count would become -1048576"));
}

TEST(MbarrierErrors, NoBarrierThere) {
  EXPECT_THAT(fault("mbarrier.arrive.shared.b64 _, [bar+8];"),
              HasSubstr("of block 0's shared memory: not initialised"));
  const std::string start = "mbarrier.init.shared.b64 [bar], 2;\n";
  EXPECT_THAT(fault(start + "mbarrier.inval.shared.b64 [bar];\n"
                            "mbarrier.arrive.shared.b64 _, [bar];"),
              HasSubstr("not initialised"));
  EXPECT_THAT(fault(start + "st.shared.u32 [bar+4], 5;\nmbarrier.arrive.shared.b64 _, [bar];"),
              HasSubstr("overwritten"));
  run(start + "st.shared.u32 [bar+8], 5;\nmbarrier.arrive.shared.b64 _, [bar];");
  // Memory that has been put to another use may become a barrier again.
  run(start + "st.shared.u32 [bar+4], 5;\nmbarrier.init.shared.b64 [bar], 2;");
}

TEST(MbarrierErrors, InitialisedTwice) {
  EXPECT_THAT(fault("mbarrier.init.shared.b64 [bar], 2;\nmbarrier.init.shared.b64 [bar], 2;"),
              HasSubstr("initialised again; mbarrier.inval must come first"));
  run("mbarrier.init.shared.b64 [bar], 2;\nmbarrier.inval.shared.b64 [bar];\n"
      "mbarrier.init.shared.b64 [bar], 2;");
}

TEST(MbarrierErrors, StateOfAPhaseLongPast) {
  const std::string start = R"(
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.arrive.shared.b64 %s1, [bar];)";
  const std::string wait = "mbarrier.test_wait.shared.b64 %p1, [bar], %s1;";
  EXPECT_THAT(fault(start + "mbarrier.arrive.shared.b64 _, [bar];" + wait),
              HasSubstr("waits with a state of phase 0"));
  run(start + wait);
}

TEST(MbarrierErrors, ParityThatIsNone) {
  EXPECT_THAT(fault("mbarrier.init.shared.b64 [bar], 1; mov.u32 %r1, 2;\n"
                    "mbarrier.test_wait.parity.shared.b64 %p1, [bar], %r1;"),
              HasSubstr("a phase parity of 2"));
}

TEST(MbarrierErrors, Addresses) {
  EXPECT_THAT(fault("mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1+4], 1;",
                    FaultKind::kMisalignedAddress),
              HasSubstr("must be a multiple of 8"));
  EXPECT_THAT(fault("mbarrier.init.b64 [%rd2], 1;", FaultKind::kInvalidAddressSpace),
              HasSubstr("is not one of shared memory"));
}

TEST(MbarrierErrors, DeadlockNamesTheBarrier) {
  const std::string body = R"(
    mbarrier.init.shared.b64 [bar+8], 3;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+8], 256;
  AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
    @!%p1 bra AGAIN;)";
  const std::string message = fault(body, FaultKind::kDeadlock);
  EXPECT_THAT(message, HasSubstr("for the end of a phase of parity 0; it is in phase 0 (parity 0), "
                                 "2 of 3 arrivals pending, tx-count 256"));
  EXPECT_THAT(message, HasSubstr("at the mbarrier at 0x408 of block 0's shared memory"));
  EXPECT_THAT(message, HasSubstr("mbarrier.try_wait.parity.shared::cta.b64"));
  const std::string polls = R"(
    mbarrier.init.shared.b64 [bar], 1;
  AGAIN:
    mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra AGAIN;)";
  EXPECT_THAT(fault(polls, FaultKind::kDeadlock), HasSubstr("1 of 1 arrivals pending"));
}

TEST(MbarrierErrors, UnknownForms) {
  const auto decode = [](const std::string& line) {
    return fault(line, FaultKind::kIllegalInstruction);
  };
  EXPECT_THAT(decode("mbarrier.arrive.release.shared.b64 _, [bar];"),
              HasSubstr("memory order and scope go together"));
  EXPECT_THAT(decode("mbarrier.arrive.release.cluster.shared::cluster.b64 %s1, [bar];"),
              HasSubstr("it must be _"));
  EXPECT_THAT(decode("mbarrier.arrive.noComplete.shared.b64 %s1, [bar];"), HasSubstr("operands"));
  EXPECT_THAT(decode("mbarrier.try_wait.shared::cluster.b64 %p1, [bar], %s1;"),
              HasSubstr(".shared::cluster is not allowed here"));
  EXPECT_THAT(decode("mbarrier.test_wait.shared.b64 %p1, [bar], %s1, 5;"), HasSubstr("operands"));
  EXPECT_THAT(decode("mbarrier.explode.b64 [bar];"), HasSubstr("mbarrier.explode is not known"));
}

// Every form that the PTX ISA lists is read.
TEST(Mbarrier, AllFormsAreKnown) {
  std::string body = "setp.eq.u32 %p1, %r0, %r0;\n@%p1 bra END;\nmov.u32 %r1, bar;\n";
  for (const std::string space : {"", ".shared", ".shared::cta"}) {
    body += "mbarrier.init" + space + ".b64 [%s1], 1;\nmbarrier.inval" + space + ".b64 [%s1];\n";
    for (const std::string order :
         {"", ".acquire.cta", ".acquire.cluster", ".relaxed.cta", ".relaxed.cluster"}) {
      const std::string form = order + space + ".b64 %p1, [%s1], ";
      body += "mbarrier.test_wait" + form + "%s2;\nmbarrier.test_wait.parity" + form + "%r2;\n";
      body += "mbarrier.try_wait" + form + "%s2;\nmbarrier.try_wait.parity" + form + "%r2;\n";
      body +=
          "mbarrier.try_wait" + form + "%s2, %r3;\nmbarrier.try_wait.parity" + form + "1, 1000;\n";
    }
    body += "mbarrier.arrive.noComplete" + space + ".b64 %s3, [%s1], 1;\n";
    body += "mbarrier.arrive_drop.noComplete.release.cta" + space + ".b64 _, [%s1], %r2;\n";
    body += "cp.async.mbarrier.arrive" + space + ".b64 [%s1];\n";
    body += "cp.async.mbarrier.arrive.noinc" + space + ".b64 [%s1];\n";
  }
  for (const std::string space : {"", ".shared", ".shared::cta", ".shared::cluster"}) {
    for (const std::string scope : {"", ".relaxed.cta", ".relaxed.cluster"}) {
      body += "mbarrier.expect_tx" + scope + space + ".b64 [%s1], 16;\n";
      body += "mbarrier.complete_tx" + scope + space + ".b64 [%s1], %r2;\n";
    }
    const std::string state = space == ".shared::cluster" ? "_" : "%s3";
    for (const std::string order :
         {"", ".release.cta", ".release.cluster", ".relaxed.cta", ".relaxed.cluster"}) {
      for (const std::string name : {"arrive", "arrive_drop"}) {
        const std::string form = order + space + ".b64 " + state + ", [%s1]";
        body += "mbarrier." + name + form + ";\nmbarrier." + name + form + ", %r2;\n";
        body += "mbarrier." + name + ".expect_tx" + form + ", %r2;\n";
      }
    }
  }
  run(body + "END:\n");
}

}  // namespace
}  // namespace mpfa::sim
