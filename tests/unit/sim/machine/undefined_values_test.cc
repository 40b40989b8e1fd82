// Reads of shared memory that nothing has written: only a use is reported, wherever the value has
// come in between.
#include "sim/machine/undefined_values.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/machine/fault.h"
#include "tests/unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

// A kernel of one warp: word %t of `tile` is written where %t is below 16; %r2 is read from it, and
// %p1 tells whether it was written.
std::string kernel_of(const std::string& body) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n"
         ".visible .entry test(.param .u64 out) {\n"
         "  .reg .b32 %r<20>, %t, %a; .reg .b64 %rd<10>; .reg .pred %p<9>;\n"
         "  .shared .align 16 .b8 tile[512];\n  .shared .align 16 .b8 copy[512];\n"
         "  mov.u32 %t, %tid.x;\n  shl.b32 %r1, %t, 2;\n  mov.u32 %a, tile;\n"
         "  add.s32 %a, %a, %r1;\n  ld.param.u64 %rd1, [out];\n"
         "  setp.lt.u32 %p1, %t, 16;\n  @%p1 st.shared.b32 [%a], %t;\n"
         "  bar.warp.sync 0xFFFFFFFF;\n  ld.shared.b32 %r2, [%a];\n" +
         body + "\n  ret;\n}\n";
}

std::string finding(const std::string& body) {
  testing::PtxProgram program(kernel_of(body), {});
  const uint64_t out = program.upload(std::vector<uint32_t>(64));
  try {
    program.run("test", {.grid = {1, 1, 1}, .block = {32, 1, 1}}, out);
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kCheck);
    return fault.what();
  }
  return {};
}

void expect_right(const std::string& body) { EXPECT_EQ(finding(body), "") << body; }

void expect_found(const std::string& body) {
  const std::string found = finding(body);
  EXPECT_NE(found.find("read of shared memory that nothing has written"), std::string::npos)
      << body << ": " << found;
}

const std::string kStore = "  st.global.b32 [%rd1], %r3;";

TEST(UndefinedValues, OnlyAUseIsReported) {
  expect_right("");
  expect_right("  add.s32 %r3, %r2, 1;\n  setp.eq.u32 %p2, %r3, 7;");
  expect_found("  st.global.b32 [%rd1], %r2;");
  expect_found("  add.s32 %r3, %r2, 1;\n" + kStore);
  // As an address, for a branch, as a barrier's number, in an atomic operation.
  expect_found("  mov.u32 %r3, tile;\n  add.u32 %r3, %r3, %r2;\n  st.shared.b8 [%r3], 1;");
  expect_found("  setp.eq.u32 %p2, %r2, 7;\n  @%p2 bra end;\n  mov.u32 %r4, 1;\nend:");
  expect_found("  and.b32 %r3, %r2, 0;\n  barrier.sync %r3;");
  expect_found("  atom.global.add.u32 %r3, [%rd1], %r2;");
  expect_found("  red.global.add.u32 [%rd1], %r2;");
}

// A store that names no space, to where its address leads.
TEST(UndefinedValues, GenericStoresAreThoseOfTheirAddress) {
  expect_found("  st.b32 [%rd1], %r2;");
  expect_found("  st.v2.b32 [%rd1+8], {%r1, %r2};");
  const std::string into =
      "  cvt.u64.u32 %rd2, %r1;\n  mov.u64 %rd3, copy;\n  cvta.shared.u64 %rd3, %rd3;\n"
      "  add.s64 %rd2, %rd2, %rd3;\n  st.b32 [%rd2], %r2;\n";
  expect_right(into);
  expect_found(into + "  ld.b32 %r3, [%rd2];\n" + kStore);
  // Half of the lanes, which hold what was written, to global memory; the others to shared.
  expect_right(into.substr(0, into.find("  st.b32")) +
               "  @%p1 mov.u64 %rd2, %rd1;\n  st.b32 [%rd2], %r2;\n");
}

TEST(UndefinedValues, NamesTheReadAndTheUse) {
  const std::string found = finding("  add.s32 %r3, %r2, 1;\n" + kStore);
  for (const char* part :
       {"(tile + 64 bytes)", "ld.shared.b32 %r2, [%a];", "thread (16, 0, 0)",
        "it is used in a store to global memory", "st.global.b32 [%rd1], %r3;"}) {
    EXPECT_NE(found.find(part), std::string::npos) << part << " is missing in " << found;
  }
}

TEST(UndefinedValues, WhatIsNotChosenDoesNotMatter) {
  expect_right("  selp.b32 %r3, %r2, 0, %p1;\n" + kStore);
  expect_right("  not.pred %p2, %p1;\n  selp.b32 %r3, 0, %r2, %p2;\n" + kStore);
  expect_found("  selp.b32 %r3, 0, %r2, %p1;\n" + kStore);
  expect_found("  setp.eq.u32 %p2, %r2, 7;\n  selp.b32 %r3, 1, 0, %p2;\n" + kStore);
  // Another value takes its place.
  expect_right("  @!%p1 mov.b32 %r2, 0;\n  mov.b32 %r3, %r2;\n" + kStore);
  expect_right("  @%p1 bra end;\n  ret;\nend:\n  mov.b32 %r3, %r2;\n" + kStore);
}

TEST(UndefinedValues, AndAndOrMayBeDecidedByTheOther) {
  const std::string compare = "  setp.eq.u32 %p2, %r2, 7;\n  not.pred %p3, %p1;\n";
  const std::string choose = "  selp.b32 %r3, 1, 0, %p4;\n" + kStore;
  expect_right(compare + "  and.pred %p4, %p2, %p1;\n" + choose);
  expect_right(compare + "  and.pred %p4, %p1, %p2;\n" + choose);
  expect_right(compare + "  or.pred %p4, %p3, %p2;\n" + choose);
  expect_found(compare + "  and.pred %p4, %p2, %p3;\n" + choose);
  expect_found(compare + "  or.pred %p4, %p1, %p2;\n" + choose);
  expect_found(compare + "  xor.pred %p4, %p1, %p2;\n" + choose);
  expect_right("  setp.eq.and.u32 %p4, %r2, 7, %p1;\n" + choose);
  expect_right("  setp.eq.or.u32 %p4, %r2, 7, !%p1;\n" + choose);
  expect_found("  setp.eq.or.u32 %p4, %r2, 7, %p1;\n" + choose);
}

TEST(UndefinedValues, ACopyInSharedMemoryCountsAsNotWritten) {
  const std::string copy =
      "  mov.u32 %r4, copy;\n  add.s32 %r4, %r4, %r1;\n  st.shared.b32 [%r4], 5;\n"
      "  st.shared.b32 [%r4], %r2;\n";
  expect_right(copy);
  expect_right(copy + "  ld.shared.b32 %r3, [%r4];\n  @!%p1 ret;\n" + kStore);
  expect_found(copy + "  ld.shared.b32 %r3, [%r4];\n  @%p1 ret;\n" + kStore);
  expect_right(copy + "  st.shared.b32 [%r4], 6;\n  ld.shared.b32 %r3, [%r4];\n" + kStore);
}

TEST(UndefinedValues, ElementsOfAVectorAreApart) {
  // Lane 7 reads words 14 to 17.
  const std::string load =
      "  setp.ne.u32 %p2, %t, 7;\n  @%p2 ret;\n  mov.u32 %r4, tile;\n"
      "  ld.shared.v2.b32 {%r5, %r6}, [%r4+56];\n  ld.shared.v2.b32 {%r7, %r8}, [%r4+64];\n"
      "  st.shared.v4.b32 [%r4+128], {%r5, %r7, %r6, %r8};\n";
  expect_right(load + "  add.s32 %r3, %r5, %r6;\n" + kStore);
  expect_found(load + "  add.s32 %r3, %r5, %r7;\n" + kStore);
  expect_right(load + "  ld.shared.b32 %r3, [%r4+136];\n" + kStore);
  expect_found(load + "  ld.shared.b32 %r3, [%r4+132];\n" + kStore);
}

TEST(UndefinedValues, ShufflesTakeThemToOtherLanes) {
  const std::string first_ends = "\n  @%p1 ret;\n" + kStore;
  const std::string last_ends = "\n  @!%p1 ret;\n" + kStore;
  expect_right("  shfl.sync.idx.b32 %r3, %r2, 15, 31, 0xFFFFFFFF;\n" + kStore);
  expect_found("  shfl.sync.idx.b32 %r3, %r2, 16, 31, 0xFFFFFFFF;\n" + kStore);
  expect_right("  shfl.sync.bfly.b32 %r3, %r2, 16, 31, 0xFFFFFFFF;" + first_ends);
  expect_found("  shfl.sync.bfly.b32 %r3, %r2, 16, 31, 0xFFFFFFFF;" + last_ends);
  expect_right("  shfl.sync.up.b32 %r3, %r2, 16, 0, 0xFFFFFFFF;\n" + kStore);
  expect_found("  shfl.sync.up.b32 %r3, %r2, 15, 0, 0xFFFFFFFF;\n" + kStore);
  expect_right("  shfl.sync.down.b32 %r3, %r2, 1, 0x1001F, 0xFFFFFFFF;\n" +
               std::string("  setp.gt.u32 %p2, %t, 14;\n  @%p2 ret;\n") + kStore);
  expect_found("  shfl.sync.down.b32 %r3, %r2, 1, 31, 0xFFFFFFFF;" + last_ends);
  expect_found("  setp.eq.u32 %p2, %r2, 7;\n  vote.sync.ballot.b32 %r3, %p2, 0xFFFFFFFF;" +
               last_ends);
}

TEST(UndefinedValues, RowsOfMatrices) {
  // Rows 0 to 3 of 16 bytes are written; row r goes to lanes 4 r to 4 r + 3.
  const std::string load =
      "  and.b32 %r4, %t, 7;\n  shl.b32 %r4, %r4, 4;\n  mov.u32 %r5, tile;\n"
      "  add.s32 %r4, %r4, %r5;\n";
  const std::string plain = load + "  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r4];\n";
  expect_right(plain);
  expect_right(plain + "  @!%p1 ret;\n" + kStore);
  expect_found(plain + "  @%p1 ret;\n" + kStore);
  expect_found(load +
               "  ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r3}, [%r4];\n"
               "  @!%p1 ret;\n" +
               kStore);
}

}  // namespace
}  // namespace mpfa::sim
