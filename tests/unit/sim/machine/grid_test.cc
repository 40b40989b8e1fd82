// Grids: blocks that work together, faults, results that do not depend on host threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/temp_folder.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

// Every block adds 1 / (block + 1) to out[0] and notes in out[1 + block] what was there before.
constexpr const char* kFloatSum = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 out) {
  .reg .b32 %block, %spin;
  .reg .f32 %x, %before;
  .reg .b64 %out, %d;
  .reg .pred %p;
  ld.param.u64 %out, [out];
  mov.u32 %block, %ctaid.x;
  and.b32 %spin, %block, 7;
  mul.lo.u32 %spin, %spin, 5000;
LOOP:
  setp.eq.u32 %p, %spin, 0;
  @%p bra DONE;
  sub.u32 %spin, %spin, 1;
  bra LOOP;
DONE:
  add.u32 %spin, %block, 1;
  cvt.rn.f32.u32 %x, %spin;
  rcp.rn.f32 %x, %x;
  atom.global.add.f32 %before, [%out], %x;
  mul.wide.u32 %d, %spin, 4;
  add.u64 %out, %out, %d;
  st.global.f32 [%out], %before;
  ret;
})";

std::vector<uint32_t> sum_with(int threads, uint64_t seed) {
  GpuOptions options;
  options.threads = threads;
  options.seed = seed;
  PtxProgram program(kFloatSum, options);
  const uint64_t out = program.upload(std::vector<uint32_t>(301, 0));
  program.run("test", {.grid = {300, 1, 1}, .block = {1, 1, 1}}, out);
  return program.download<uint32_t>(out, 301);
}

TEST(Grid, AtomicsGiveTheSameBitsOnAnyNumberOfHostThreads) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const std::vector<uint32_t> one = sum_with(1, seed);
    for (const int threads : {2, 3, 8}) EXPECT_EQ(sum_with(threads, seed), one) << threads;
  }
}

// Block b waits until block b - 1 has put its number in the box, then puts its own.
constexpr const char* kChain = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 box, .param .u32 backwards) {
  .reg .b32 %block, %now, %count, %backwards;
  .reg .b64 %box;
  .reg .pred %p;
  ld.param.u64 %box, [box];
  ld.param.u32 %backwards, [backwards];
  mov.u32 %block, %ctaid.x;
  mov.u32 %count, %nctaid.x;
  setp.eq.u32 %p, %backwards, 0;
  @%p bra WAIT;
  sub.u32 %block, %count, %block;
  sub.u32 %block, %block, 1;
WAIT:
  ld.acquire.gpu.global.u32 %now, [%box];
  setp.ne.u32 %p, %now, %block;
  @%p bra WAIT;
  add.u32 %now, %now, 1;
  st.release.gpu.global.u32 [%box], %now;
  ret;
})";

TEST(Grid, ResidentBlocksMayWaitForEachOtherInAnyOrder) {
  for (const int threads : {1, 2}) {
    for (const uint32_t backwards : {0u, 1u}) {
      GpuOptions options;
      options.threads = threads;
      PtxProgram program(kChain, options);
      const uint64_t box = program.upload(std::vector<uint32_t>(1, 0));
      program.run("test", {.grid = {20, 1, 1}, .block = {1, 1, 1}}, box, backwards);
      EXPECT_EQ(program.download<uint32_t>(box, 1)[0], 20u);
    }
  }
}

// The first words of the memory to which %envreg1 and %envreg2 point, after a count of the blocks
// there; zeros if they point nowhere.
constexpr const char* kWorkspace = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 out) {
  .reg .b32 %low, %high, %bytes, %before, %i;
  .reg .b64 %workspace, %out, %d;
  .reg .pred %p;
  ld.param.u64 %out, [out];
  mov.u32 %i, %ctaid.x;
  mul.wide.u32 %d, %i, 8;
  add.u64 %out, %out, %d;
  mov.u32 %high, %envreg1;
  mov.u32 %low, %envreg2;
  mov.b64 %workspace, {%low, %high};
  setp.eq.u64 %p, %workspace, 0;
  @%p ret;
  ld.global.u32 %bytes, [%workspace];
  atom.global.add.u32 %before, [%workspace + 4], 1;
  add.u32 %before, %before, 1;
  st.global.u32 [%out], %bytes;
  st.global.u32 [%out + 4], %before;
  ret;
})";

TEST(Grid, CooperativeLaunchesHaveAWorkspaceOfTheirOwn) {
  PtxProgram program(kWorkspace);
  const uint64_t out = program.upload(std::vector<uint32_t>(6, 0));
  const auto run = [&](bool cooperative) {
    program.run("test", {.grid = {3, 1, 1}, .block = {1, 1, 1}, .cooperative = cooperative}, out);
    return program.download<uint32_t>(out, 6);
  };
  EXPECT_EQ(run(false), std::vector<uint32_t>(6, 0));
  const std::vector<uint32_t> counted = {8, 1, 8, 2, 8, 3};  // one thread: blocks in order
  EXPECT_EQ(run(true), counted);
  EXPECT_EQ(run(true), counted);
}

std::string fault_of(const std::string& body, int threads) {
  GpuOptions options;
  options.threads = threads;
  PtxProgram program(one_kernel(".reg .b32 %a; .reg .pred %p;", body), options);
  const uint64_t in = program.upload(std::vector<uint32_t>(32, 0));
  const uint64_t out = program.upload(std::vector<uint32_t>(32, 0));
  try {
    program.run("test", {.grid = {64, 1, 1}}, in, out);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

TEST(Grid, TheFirstBlocksFaultIsReportedWhateverTheThreads) {
  const std::string body = R"(
    mov.u32 %a, %ctaid.x;
    setp.ge.u32 %p, %a, 9;
    @%p trap;)";
  for (const int threads : {1, 4}) {
    EXPECT_NE(fault_of(body, threads).find("block (9, 0, 0)"), std::string::npos);
  }
}

TEST(Grid, AccessesOutsideAllocationsAreFaultsWithAddressAndPlace) {
  const std::string beyond = fault_of("ld.global.u32 %a, [%rd1 + 4];", 1);
  EXPECT_NE(beyond.find("outside every allocation"), std::string::npos) << beyond;
  EXPECT_NE(beyond.find("thread (31, 0, 0)"), std::string::npos) << beyond;
  const std::string misaligned = fault_of("ld.global.u32 %a, [%rd1 + 2];", 1);
  EXPECT_NE(misaligned.find("multiple of 4"), std::string::npos) << misaligned;
  const std::string constant = fault_of(".reg .b64 %c; mov.b64 %c, in; st.global.u32 [%c], 1;", 1);
  EXPECT_NE(constant.find("constant"), std::string::npos) << constant;
  const std::string shared = fault_of("mov.u32 %a, 0; ld.shared.u32 %a, [%a + 4096];", 1);
  EXPECT_NE(shared.find("shared memory ends"), std::string::npos) << shared;
  const std::string local = fault_of("mov.u32 %a, 0; ld.local.u32 %a, [%a];", 1);
  EXPECT_NE(local.find("local memory"), std::string::npos) << local;
}

TEST(Grid, ParametersAndLaunchesThatCannotBeAreRejectedBeforeAnythingRuns) {
  PtxProgram program(one_kernel("", "trap;"));
  const uint64_t in = 0;
  const auto kind_of = [&](const PtxProgram::Shape& shape) {
    try {
      program.run("test", shape, in, in);
    } catch (const Fault& fault) {
      return fault.kind();
    }
    return FaultKind::kCheck;
  };
  EXPECT_EQ(kind_of({.block = {2048, 1, 1}}), FaultKind::kInvalidLaunch);
  EXPECT_EQ(kind_of({.grid = {3, 1, 1}, .cluster = {2, 1, 1}}), FaultKind::kInvalidLaunch);
  EXPECT_EQ(kind_of({.dynamic_shared_bytes = 1 << 20}), FaultKind::kInvalidLaunch);
  EXPECT_EQ(kind_of({}), FaultKind::kTrap);
}

TEST(Grid, VariablesOfTheModuleKeepTheirValuesBetweenLaunches) {
  PtxProgram program(R"(.version 9.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .const .align 4 .u32 step[2] = {3, 4};
.visible .global .align 8 .u64 where = counter;
.visible .entry test() {
  .reg .b32 %a, %b;
  .reg .b64 %at;
  ld.global.u64 %at, [where];
  ld.global.u32 %a, [%at];
  ld.const.u32 %b, [step + 4];
  add.u32 %a, %a, %b;
  st.global.u32 [counter], %a;
  ret;
})");
  program.run("test", {.block = {1, 1, 1}});
  program.run("test", {.block = {1, 1, 1}});
  const Symbol counter = program.symbol("counter");
  EXPECT_EQ(counter.bytes, 4u);
  EXPECT_EQ(program.download<uint32_t>(counter.address, 1)[0], 13u);
}

TEST(Grid, ATraceHasEveryInstructionWithItsLanes) {
  const mpfa::testing::TempFolder folder;
  GpuOptions options;
  options.trace_file = (folder.path() / "trace").string();
  {
    PtxProgram program(one_kernel(".reg .pred %p;", R"(
      setp.lt.u32 %p, %r0, 4;
      @%p st.global.u32 [%rd2], 7;)"),
                       options);
    const uint64_t out = program.upload(std::vector<uint32_t>(32, 0));
    program.run("test", {}, out, out);
  }
  std::ifstream file(options.trace_file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("launch test grid (1, 1, 1) block (32, 1, 1)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("(0, 0, 0) warp 0 0x0000000f @%p st.global.u32 [%rd2], 7;\n"),
            std::string::npos)
      << text;
}

TEST(Grid, ATraceThatCannotBeWrittenIsAnError) {
  GpuOptions options;
  options.trace_file = "/nowhere/trace";
  EXPECT_THROW(Gpu{options}, IoError);
}

}  // namespace
}  // namespace mpfa::sim::testing
