// The checks of registers that wgmma uses: each finds what it is for, and not its correct twin.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/fault_of.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::one_kernel;
using testing::PtxProgram;

constexpr uint64_t kSeeds = 12;

// Products of a tile of zeros.
const char* const kDeclarations =
    "  .reg .f32 %f<16>;\n  .reg .b32 %a<8>, %tile;\n  .reg .b64 %desc;\n"
    "  .shared .align 1024 .b8 tile[4096];\n";
const char* const kStart =
    "  mov.u32 %tile, tile;\n  mad.lo.u32 %tile, %r0, 32, %tile;\n"
    "  st.shared.v4.u32 [%tile], {0, 0, 0, 0};\n  st.shared.v4.u32 [%tile + 16], {0, 0, 0, 0};\n"
    "  fence.proxy.async;\n  bar.sync 0;\n"
    "  mov.u32 %tile, tile;\n  shr.u32 %tile, %tile, 4;\n  cvt.u64.u32 %desc, %tile;\n"
    "  or.b64 %desc, %desc, 0x1000080000;\n"
    "  mov.f32 %f0, 0f00000000;\n  mov.f32 %f1, %f0;\n  mov.f32 %f2, %f0;\n  mov.f32 %f3, %f0;\n"
    "  mov.f32 %f4, %f0;\n  mov.f32 %f5, %f0;\n  mov.f32 %f6, %f0;\n  mov.f32 %f7, %f0;\n"
    "  mov.b32 %a1, 0;\n  mov.b32 %a2, 0;\n  mov.b32 %a3, 0;\n  mov.b32 %a4, 0;\n";

const std::string kFence = "  wgmma.fence.sync.aligned;\n";
const std::string kCommit = "  wgmma.commit_group.sync.aligned;\n";
const std::string kFirst =
    "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %desc, %desc, "
    "1, 1, 1, 0, 0;\n";
const std::string kSecond =
    "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, %desc, %desc, "
    "1, 1, 1, 0, 0;\n";
const std::string kBoth =
    "  wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, "
    "%f7}, %desc, %desc, 1, 1, 1, 0, 0;\n";
const std::string kOfRegisters =
    "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%a1, %a2, %a3, "
    "%a4}, %desc, 1, 1, 1, 0;\n";

std::string wait(int groups) {
  return "  wgmma.wait_group.sync.aligned " + std::to_string(groups) + ";\n";
}

void run(const std::string& body, uint64_t seed = 0, const Checks& checks = {}) {
  GpuOptions options;
  options.seed = seed;
  options.checks = checks;
  PtxProgram program(one_kernel(kDeclarations, kStart + body + kCommit + wait(0)), options);
  const uint64_t memory = program.upload(std::vector<uint32_t>(128));
  PtxProgram::Shape shape;
  shape.block = {128, 1, 1};
  program.run("test", shape, memory, memory);
}

// Whatever the interleaving.
void expect_report(const std::string& part, const std::string& body) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    expect_fault(FaultKind::kCheck, part, [&] { run(body, seed); });
  }
}

void expect_none(const std::string& body) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_NO_THROW(run(body, seed)) << "seed " << seed;
  }
}

TEST(RegisterWatch, AccumulatorsAreReadAfterAWait) {
  const std::string read = "  st.global.f32 [%rd2], %f2;\n";
  expect_report("register %f2 is read while it is the accumulator",
                kFence + kFirst + kCommit + read);
  expect_none(kFence + kFirst + kCommit + wait(0) + read);
  expect_report("wgmma.wait_group is missing", kFence + kFirst + kCommit + "  mov.f32 %f9, %f3;\n");
}

TEST(RegisterWatch, BothPlacesAreNamed) {
  const std::string message = testing::fault_of(
      FaultKind::kCheck, [] { run(kFence + kFirst + kCommit + "  add.f32 %f9, %f0, %f1;\n"); });
  EXPECT_NE(message.find("add.f32 %f9, %f0, %f1"), std::string::npos) << message;
  EXPECT_NE(message.find("the wgmma is in test, PTX line"), std::string::npos) << message;
}

TEST(RegisterWatch, AccumulatorsAreWrittenAfterAWait) {
  const std::string write = "  mov.f32 %f1, 0f3F800000;\n";
  expect_report("register %f1 is written while it is the accumulator",
                kFence + kFirst + kCommit + write);
  expect_none(kFence + kFirst + kCommit + wait(0) + write);
}

TEST(RegisterWatch, FragmentsOfAAreWrittenAfterAWait) {
  const std::string write = "  add.u32 %a3, %r0, 1;\n";
  const std::string issue = kFence + kOfRegisters + kCommit;
  expect_report("register %a3 is written while a wgmma", issue + write);
  expect_none(issue + wait(0) + write);
  expect_none(issue + "  st.global.u32 [%rd2], %a3;\n");  // reading is fine
}

TEST(RegisterWatch, OnlyWhatTheWaitLeavesIsReported) {
  const std::string two = kFence + kFirst + kCommit + kSecond + kCommit + wait(1);
  expect_none(two + "  st.global.f32 [%rd2], %f0;\n");
  expect_report("register %f4", two + "  st.global.f32 [%rd2], %f4;\n");
  // A wait counts although what it waits for was done long before.
  const std::string three = kFence + kFirst + kCommit + kSecond + kCommit + kSecond + kCommit;
  expect_none(three + wait(2) + "  st.global.f32 [%rd2], %f0;\n");
}

TEST(RegisterWatch, AFenceIsBehindWrites) {
  const std::string write = "  add.f32 %f2, %f9, %f10;\n";
  expect_none(write + kFence + kFirst);
  expect_report("register %f2 is an accumulator of this wgmma, and was written after",
                kFence + write + kFirst);
  const std::string fragment = "  add.u32 %a1, %r0, %r0;\n";
  expect_none(fragment + kFence + kOfRegisters);
  expect_report("register %a1 is in A of this wgmma, and was written after",
                kFence + fragment + kOfRegisters);
  expect_report("wgmma.fence is missing before the warp's first wgmma", kFirst);
}

// What is computed before the fence may be copied behind it.
TEST(RegisterWatch, CopiesAreNoWrites) {
  expect_none("  add.f32 %f9, %f10, %f10;\n" + kFence +
              "  mov.b32 %a2, %f9;\n  mov.f32 %f1, 0f00000000;\n" + kOfRegisters);
  expect_report("register %a2 is in A",
                kFence + "  add.f32 %f9, %f10, %f10;\n  mov.b32 %a2, %f9;\n" + kOfRegisters);
}

TEST(RegisterWatch, AccumulatorsOfOneShapeNeedNoFence) {
  expect_none(kFence + kFirst + kFirst + kOfRegisters + kFirst);
  expect_report("accumulator of a wgmma of another shape", kFence + kFirst + kBoth);
  expect_none(kFence + kFirst + kFence + kBoth);
}

TEST(RegisterWatch, WhatAWgmmaMakesIsNoFragmentOfTheNext) {
  const std::string chained =
      "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, {%f0, %f1, %f2, "
      "%f3}, %desc, 1, 1, 1, 0;\n";
  expect_report("is in A of this wgmma and the accumulator of another", kFence + kFirst + chained);
  expect_none(kFence + kFirst + kCommit + wait(0) + kFence + chained);
}

TEST(RegisterWatch, IsOffWithoutTheChecks) {
  Checks checks;
  checks.async = false;
  EXPECT_NO_THROW(run(kFirst + "  add.f32 %f9, %f0, %f1;\n", 0, checks));
  EXPECT_NO_THROW(run(kFirst + "  add.f32 %f9, %f0, %f1;\n", 0, Checks::none()));
}

}  // namespace
}  // namespace mpfa::sim
