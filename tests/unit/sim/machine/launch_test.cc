// What a kernel says of its launches.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/ptx/expect_ptx_error.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

std::string kernel(const std::string& directives, const std::string& before = "",
                   const std::string& body = "") {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n" + before + ".visible .entry test()\n" +
         directives + "\n{\n" + body + "  ret;\n}\n";
}

TEST(Launch, ReqntidIsExact) {
  PtxProgram program(kernel(".reqntid 32, 2"));
  program.run("test", {.block = {32, 2, 1}});
  for (const Dim3 block : {Dim3{32, 1, 1}, Dim3{64, 1, 1}, Dim3{2, 32, 1}, Dim3{16, 4, 1}}) {
    expect_fault(FaultKind::kInvalidLaunch, ".reqntid says 32 x 2 x 1",
                 [&] { program.run("test", {.block = block}); });
  }
}

TEST(Launch, MaxntidIsABound) {
  PtxProgram program(kernel(".maxntid 64, 1, 1"));
  program.run("test", {.block = {32, 2, 1}});
  program.run("test", {.block = {5, 1, 1}});
  expect_fault(FaultKind::kInvalidLaunch, "at most 64", [&] {
    program.run("test", {.block = {65, 1, 1}});
  });
}

TEST(Launch, ExplicitclusterNeedsACluster) {
  PtxProgram program(kernel(".explicitcluster"));
  program.run("test", {.grid = {2, 1, 1}, .cluster = {2, 1, 1}});
  expect_fault(FaultKind::kInvalidLaunch, ".explicitcluster", [&] {
    program.run("test", {.grid = {2, 1, 1}});
  });
}

TEST(Launch, StaticSharedMemoryIsAllThatTheKernelReaches) {
  const std::string before =
      ".shared .align 16 .b8 used[100];\n.shared .align 4 .b8 unused[1000];\n"
      ".extern .shared .align 16 .b8 dynamic[];\n"
      ".func helper() {\n  .shared .align 4 .b8 of_helper[64];\n  .reg .b32 %a;\n"
      "  ld.shared.u32 %a, [of_helper];\n  ret;\n}\n";
  const std::string body =
      "  .shared .align 4 .b8 own[20];\n  .reg .b32 %a;\n  mov.u32 %a, dynamic;\n"
      "  st.shared.u32 [own], %a;\n  st.shared.u32 [used], %a;\n  call helper;\n";
  PtxProgram program(kernel("", before, body));
  EXPECT_EQ(program.kernel("test")->static_shared_bytes, 100u + 64 + 20 + 12);
  // 20 bytes, 12 to the next multiple of 16.
  PtxProgram alone(kernel("", ".shared .align 4 .b8 far[1000];\n",
                          "  .reg .b32 %a;\n  ld.shared.u32 %a, [far];\n"));
  EXPECT_EQ(alone.kernel("test")->static_shared_bytes, 1000u);
}

// The limit counts what the module declares, too.
TEST(Launch, ModuleScopeSharedMemoryIsLimited) {
  PtxProgram program(kernel("", ".shared .align 4 .b8 big[49000];\n",
                            "  .reg .b32 %a;\n  ld.shared.u32 %a, [big];\n"));
  expect_fault(FaultKind::kInvalidLaunch, "bytes of shared memory",
               [&] { program.run("test", {.dynamic_shared_bytes = 190000}); });
}

// Variables of a kernel, and a store to each of them that `used` names.
std::string shared_kernel(const std::string& variables, const std::string& used) {
  return kernel("", "", variables + "st.shared.u8 [" + used + "], 1;\n");
}

TEST(Launch, StaticSharedMemoryIsAtMost48KiB) {
  PtxProgram most(shared_kernel(".shared .b8 a[49152];\n", "a"));
  EXPECT_EQ(most.kernel("test")->static_shared_bytes, 49152u);
  expect_ptx_error("49153 bytes of static shared memory; at most 49152",
                   [] { PtxProgram more(shared_kernel(".shared .b8 a[49153];\n", "a")); });
  // What is not used is not there (an H200's driver takes it).
  PtxProgram unused(shared_kernel(".shared .b8 a[49153];\n.shared .b8 b[7];\n", "b"));
  EXPECT_EQ(unused.kernel("test")->static_shared_bytes, 7u);
}

TEST(Launch, TheDeviceMustNotBeOlderThanTheTarget) {
  const std::string body = "\n.address_size 64\n.visible .entry test() { ret; }\n";
  PtxProgram older(".version 9.0\n.target sm_80" + body);
  expect_ptx_error(".target sm_120 is newer than the device, sm_90",
                   [&] { PtxProgram newer(".version 9.0\n.target sm_120" + body); });
}

// Pages of this process in memory.
int64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = -1;
  statm >> size >> resident;
  return resident;
}

TEST(Launch, LargeVariablesTakeMemoryWhenTouched) {
  const int64_t before = resident_pages();
  PtxProgram program(kernel("", ".global .b8 s[500000000];\n"));
  EXPECT_EQ(program.symbol("s").bytes, 500000000u);
  EXPECT_LT(resident_pages() - before, 10000);
  EXPECT_EQ(program.download<char>(program.symbol("s").address + 400000000, 1)[0], 0);
}

}  // namespace
}  // namespace mpfa::sim::testing
