// Where a warp's lanes go: divergence, loops, calls, indexed branches, ends.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

std::vector<uint32_t> iota(size_t n) {
  std::vector<uint32_t> values(n);
  std::iota(values.begin(), values.end(), 0u);
  return values;
}

// out[tid] of a kernel that `one_kernel` makes, in[tid] = tid.
std::vector<uint32_t> run(const std::string& ptx, uint32_t threads = 32, uint64_t seed = 0) {
  GpuOptions options;
  options.seed = seed;
  PtxProgram program(ptx, options);
  const uint64_t in = program.upload(iota(threads));
  const uint64_t out = program.upload(std::vector<uint32_t>(threads, 0xFFFFFFFF));
  program.run("test", {.block = {threads, 1, 1}}, in, out);
  return program.download<uint32_t>(out, threads);
}

TEST(Control, BothSidesOfABranchRunAndMeetAgain) {
  const std::string ptx = one_kernel(".reg .pred %p; .reg .b32 %a, %b;", R"(
    setp.lt.u32 %p, %r0, 10;
    @%p bra SMALL;
    add.u32 %a, %r0, 1000;
    bra.uni JOIN;
  SMALL:
    mul.lo.u32 %a, %r0, 3;
  JOIN:
    activemask.b32 %b;
    xor.b32 %b, %b, 0xFFFFFFFF;
    add.u32 %a, %a, %b;
    st.global.u32 [%rd2], %a;)");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    GpuOptions options;
    const std::vector<uint32_t> out = run(ptx, 32, seed);
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i < 10 ? 3 * i : i + 1000) << i;
  }
}

TEST(Control, LoopsOfDifferentLengthsEndEachLaneInItsTurn) {
  const std::string ptx = one_kernel(".reg .pred %p; .reg .b32 %n, %sum;", R"(
    mov.u32 %n, %r0;
    mov.u32 %sum, 0;
  LOOP:
    setp.eq.u32 %p, %n, 0;
    @%p bra DONE;
    add.u32 %sum, %sum, %n;
    sub.u32 %n, %n, 1;
    bra LOOP;
  DONE:
    st.global.u32 [%rd2], %sum;)");
  const std::vector<uint32_t> out = run(ptx);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i * (i + 1) / 2) << i;
}

// Independent thread scheduling: a lane may wait for another of its warp that comes later in the
// text.
TEST(Control, ALaneMayWaitForAnotherLaneOfItsWarp) {
  const std::string ptx = one_kernel(R"(.reg .pred %p; .reg .b32 %flag, %a;
    .shared .align 4 .b32 box;)",
                                     R"(
    mov.u32 %a, 0;
    st.volatile.shared.u32 [box], %a;
    bar.sync 0;
    setp.eq.u32 %p, %r0, 5;
    @%p bra GIVE;
  TAKE:
    ld.volatile.shared.u32 %flag, [box];
    setp.eq.u32 %p, %flag, 0;
    @%p bra TAKE;
    bra JOIN;
  GIVE:
    mov.u32 %flag, 77;
    st.volatile.shared.u32 [box], %flag;
  JOIN:
    st.global.u32 [%rd2], %flag;)");
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(run(ptx, 32, seed), std::vector<uint32_t>(32, 77));
  }
}

TEST(Control, IndexedBranchesGoToTheirTargets) {
  const std::string ptx = one_kernel(".reg .b32 %i, %a;", R"(
    and.b32 %i, %r0, 3;
    TARGETS: .branchtargets ZERO, ONE, TWO, THREE;
    brx.idx %i, TARGETS;
  ZERO:
    mov.u32 %a, 100;
    bra JOIN;
  ONE:
    mov.u32 %a, 101;
    bra JOIN;
  TWO:
    mov.u32 %a, 102;
    bra JOIN;
  THREE:
    mov.u32 %a, 103;
  JOIN:
    st.global.u32 [%rd2], %a;)");
  const std::vector<uint32_t> out = run(ptx);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 100 + i % 4);
}

TEST(Control, GuardedExitEndsSomeLanesOnly) {
  const std::string ptx = one_kernel(".reg .pred %p;", R"(
    setp.ge.u32 %p, %r0, 20;
    @%p exit;
    bar.sync 0;
    st.global.u32 [%rd2], %r0;)");
  const std::vector<uint32_t> out = run(ptx);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i < 20 ? i : 0xFFFFFFFF);
}

// fib(n) by recursion, of a different depth in each lane, directly and through a pointer.
std::string recursive_program(bool through_pointer) {
  const std::string call = through_pointer
                               ? "PROTO: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
                                 "mov.u64 %f, fib;\n call (got), %f, (given), PROTO;"
                               : "call (got), fib, (given);";
  return R"(.version 9.0
.target sm_90a
.address_size 64
.func (.param .b32 result) fib(.param .b32 n);
.func (.param .b32 result) fib(.param .b32 n) {
  .reg .b32 %n, %a, %b;
  .reg .pred %p;
  .reg .b64 %f;
  ld.param.u32 %n, [n];
  setp.lt.u32 %p, %n, 2;
  @%p bra BASE;
  {
    .param .b32 given;
    .param .b32 got;
    sub.u32 %a, %n, 1;
    st.param.b32 [given], %a;
    )" + call +
         R"(
    ld.param.b32 %a, [got];
  }
  {
    .param .b32 given;
    .param .b32 got;
    sub.u32 %b, %n, 2;
    st.param.b32 [given], %b;
    call (got), fib, (given);
    ld.param.b32 %b, [got];
  }
  add.u32 %n, %a, %b;
BASE:
  st.param.b32 [result], %n;
  ret;
}
.visible .entry test(.param .u64 in, .param .u64 out) {
  .reg .b32 %n;
  .reg .b64 %at, %d;
  mov.u32 %n, %tid.x;
  mul.wide.u32 %d, %n, 4;
  ld.param.u64 %at, [out];
  add.u64 %at, %at, %d;
  and.b32 %n, %n, 7;
  {
    .param .b32 given;
    .param .b32 got;
    st.param.b32 [given], %n;
    call (got), fib, (given);
    ld.param.b32 %n, [got];
  }
  st.global.u32 [%at], %n;
  ret;
})";
}

TEST(Control, RecursionKeepsEachLanesOwnDepth) {
  const std::vector<uint32_t> fib = {0, 1, 1, 2, 3, 5, 8, 13};
  for (const bool through_pointer : {false, true}) {
    const std::vector<uint32_t> out = run(recursive_program(through_pointer));
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], fib[i % 8]) << i << through_pointer;
  }
}

// Lanes call `sum` from two places and at different times, each pair of neighbours at one place. In
// it they exchange values over the whole warp, as shfl.sync demands; what a lane has in registers,
// and where it goes back to, stays its own.
std::string meeting_program() {
  const std::string call = R"({
    .param .b32 given;
    .param .b32 got;
    st.param.b32 [given], %n;
    call (got), sum, (given);
    ld.param.b32 %a, [got];
  })";
  return R"(.version 9.0
.target sm_90a
.address_size 64
.func (.param .b32 result) sum(.param .b32 n) {
  .reg .b32 %n, %own, %other;
  .reg .pred %p;
  ld.param.u32 %n, [n];
  mul.lo.u32 %own, %n, 100;
  setp.ne.u32 %p, %n, 4096;
  shfl.sync.bfly.b32 %other|%p, %n, 16, 31, 0xFFFFFFFF;
  @!%p mov.u32 %other, 0;
  add.u32 %n, %own, %other;
  st.param.b32 [result], %n;
  ret;
}
.visible .entry test(.param .u64 in, .param .u64 out) {
  .reg .b32 %n, %a, %i;
  .reg .b64 %at, %d;
  .reg .pred %p, %q;
  mov.u32 %n, %tid.x;
  mul.wide.u32 %d, %n, 4;
  ld.param.u64 %at, [out];
  add.u64 %at, %at, %d;
  and.b32 %i, %n, 3;
WAIT:
  setp.eq.u32 %q, %i, 0;
  @%q bra READY;
  sub.u32 %i, %i, 1;
  bra WAIT;
READY:
  and.b32 %i, %n, 2;
  setp.eq.u32 %p, %i, 0;
  @%p bra OTHER;
  )" + call +
         R"(
  add.u32 %a, %a, 1000000;
  bra END;
OTHER:
  )" + call +
         R"(
  add.u32 %a, %a, 2000000;
END:
  st.global.u32 [%at], %a;
  ret;
})";
}

TEST(Control, LanesMeetInAFunctionThatTheyCalledApart) {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    const std::vector<uint32_t> out = run(meeting_program(), 32, seed);
    for (uint32_t i = 0; i < 32; ++i) {
      EXPECT_EQ(out[i], 100 * i + (i ^ 16) + ((i & 2) != 0 ? 1000000 : 2000000)) << i;
    }
  }
}

TEST(Control, EndlessRecursionIsAFaultThatNamesTheStack) {
  const std::string ptx = R"(.version 9.0
.target sm_90a
.address_size 64
.func down(.param .b32 n) {
  .reg .b32 %n;
  ld.param.u32 %n, [n];
  {
    .param .b32 given;
    st.param.b32 [given], %n;
    call down, (given);
  }
  ret;
}
.visible .entry test(.param .u64 in, .param .u64 out) {
  .param .b32 given;
  st.param.b32 [given], 1;
  call down, (given);
  ret;
})";
  try {
    run(ptx);
    FAIL() << "nothing was thrown";
  } catch (const Fault& fault) {
    EXPECT_NE(std::string(fault.what()).find("stack"), std::string::npos) << fault.what();
  }
}

TEST(Control, AnUnknownInstructionIsNamedWithItsLine) {
  const std::string ptx = one_kernel("", "frobnicate.u32 %r0, %r0;");
  try {
    run(ptx);
    FAIL() << "nothing was thrown";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kIllegalInstruction);
    const std::string text = fault.what();
    EXPECT_NE(text.find("frobnicate.u32"), std::string::npos) << text;
    EXPECT_NE(text.find("line"), std::string::npos) << text;
  }
}

TEST(Control, TrapNamesItsPlace) {
  const std::string ptx = one_kernel(".reg .pred %p;", R"(
    setp.eq.u32 %p, %r0, 7;
    @%p trap;)");
  try {
    run(ptx);
    FAIL() << "nothing was thrown";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kTrap);
    EXPECT_NE(std::string(fault.what()).find("thread (7, 0, 0)"), std::string::npos)
        << fault.what();
  }
}

}  // namespace
}  // namespace mpfa::sim::testing
