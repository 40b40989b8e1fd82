// Registers that are narrower or wider than an instruction's type.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

void run(const std::string& instruction) {
  const std::string declarations =
      "  .reg .b16 %h<4>;\n  .reg .b32 %w<4>;\n  .reg .b64 %l<4>;\n  .reg .f32 %f<4>;\n"
      "  .reg .f64 %d<4>;\n  .reg .pred %p<4>;\n  .shared .b64 s[4];\n";
  PtxProgram program(one_kernel(declarations, "@%p1 " + instruction));
  const uint64_t memory = program.upload(std::vector<uint64_t>(32));
  program.run("test", {}, memory, memory);
}

TEST(OperandWidth, OthersThanTheTypesAreRefused) {
  for (const char* instruction :
       {"add.u64 %l1, %l1, %w1;", "add.u64 %l1, %w1, %l2;", "add.u64 %w1, %l1, %l2;",
        "add.u32 %w1, %w1, %l1;", "add.f32 %f1, %f1, %d1;", "mov.u64 %l1, %w1;",
        "mov.b32 %w1, %h1;", "and.b16 %h1, %h1, %w1;", "fma.rn.f64 %d1, %d1, %d1, %f1;",
        "setp.lt.s32 %p2, %w1, %l1;", "selp.b64 %l1, %l2, %w1, %p2;", "shl.b64 %l1, %w1, %w2;",
        "ld.shared.u64 %w1, [s];", "st.shared.u32 [s], %h1;", "ld.shared.v2.u32 {%w1, %h1}, [s];",
        "cvt.u64.u32 %w1, %w1;", "cvt.u32.u64 %w1, %w1;"}) {
    SCOPED_TRACE(instruction);
    expect_fault(FaultKind::kIllegalInstruction, "arguments mismatch", [&] { run(instruction); });
  }
}

TEST(OperandWidth, WhatTheIsaAllowsIsTaken) {
  for (const char* instruction : {"add.u64 %l1, %l1, 5;",
                                  "add.u64 %d1, %l1, %d2;",
                                  "add.f32 %w1, %f1, %w2;",
                                  "mov.b32 %f1, %w1;",
                                  "shl.b64 %l1, %l2, %w1;",
                                  "mul.wide.u32 %l1, %w1, %w2;",
                                  "mad.wide.s16 %w1, %h1, %h2, %w2;",
                                  "mov.b64 %l1, {%w1, %w2};",
                                  "mov.u64 %l1, s;",
                                  "mov.u32 %w1, %tid.x;",
                                  "and.pred %p2, %p2, %p3;",
                                  "setp.eq.f64 %p2, %d1, %d2;",
                                  "ld.shared.u8 %w1, [s];",
                                  "ld.shared.u16 %l1, [s];",
                                  "st.shared.u8 [s], %w1;",
                                  "ld.shared.v2.u8 {%h1, %w1}, [s];",
                                  "cvt.u8.u32 %w1, %w2;",
                                  "cvt.u32.u16 %w1, %l2;",
                                  "add.f16x2 %w1, %w1, %f1;",
                                  "popc.b64 %w1, %l1;"}) {
    SCOPED_TRACE(instruction);
    EXPECT_NO_THROW(run(instruction));
  }
}

}  // namespace
}  // namespace mpfa::sim::testing
