// A thread's stack: its variables, what alloca takes, and what calls need above that.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

// out[tid] of a kernel that `one_kernel` makes, behind `functions`.
std::vector<uint32_t> run(const std::string& functions, const std::string& declarations,
                          const std::string& body) {
  std::string ptx = one_kernel(declarations, body);
  ptx.insert(ptx.find(".visible"), functions);
  PtxProgram program(ptx);
  const uint64_t out = program.upload(std::vector<uint32_t>(32, 0xFFFFFFFF));
  program.run("test", {}, out, out);
  return program.download<uint32_t>(out, 32);
}

std::vector<uint32_t> run(const std::string& declarations, const std::string& body) {
  return run("", declarations, body);
}

const std::string kRegisters = ".reg .b64 %p, %q, %s, %n; .reg .b32 %a, %b, %c, %k; .reg .pred %e;";

// Fills what it is given by value, and its own variables, with the given word.
const std::string kScribble = R"(
.func scribble(.param .b32 word) {
  .local .align 16 .b8 mine[256];
  .reg .b32 %w, %i, %at;
  .reg .pred %p;
  ld.param.b32 %w, [word];
  mov.u32 %at, mine;
  mov.u32 %i, 0;
LOOP:
  st.local.u32 [%at], %w;
  add.u32 %at, %at, 4;
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, 64;
  @%p bra LOOP;
  ret;
}
)";
const std::string kCall =
    "{ .param .b32 given;\n st.param.b32 [given], 0xDEADBEEF;\n call scribble, (given); }\n";

TEST(Stack, AllocaLiesBehindTheVariables) {
  const auto out = run(kRegisters + ".local .align 4 .b8 var[64];", R"(
    mov.u32 %a, 7;
    st.local.u32 [var], %a;
    st.local.u32 [var+60], %a;
    alloca.u64 %p, 64;
    mov.u32 %b, 100;
    st.local.u32 [%p], %b;
    st.local.u32 [%p+60], %b;
    ld.local.u32 %a, [var];
    ld.local.u32 %c, [var+60];
    add.u32 %a, %a, %c;
    st.global.u32 [%rd2], %a;)");
  EXPECT_EQ(out, std::vector<uint32_t>(32, 14));
}

TEST(Stack, CalleesLieBehindAlloca) {
  const auto out = run(kScribble, kRegisters, R"(
    alloca.u64 %p, 64;
    st.local.u32 [%p], %r0;
    st.local.u32 [%p+60], %r0;
    )" + kCall + R"(
    ld.local.u32 %a, [%p];
    ld.local.u32 %b, [%p+60];
    add.u32 %a, %a, %b;
    st.global.u32 [%rd2], %a;)");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 2 * i);
}

// As nvcc compiles alloca(16 * (tid + 1)): a size and an address of each lane's own, read through
// a generic address.
TEST(Stack, EachLaneTakesWhatItNeeds) {
  const auto out = run(kScribble, kRegisters, R"(
    add.u32 %a, %r0, 1;
    shl.b32 %a, %a, 4;
    cvt.u64.u32 %n, %a;
    alloca.u64 %p, %n, 16;
    cvta.local.u64 %q, %p;
    add.u64 %s, %q, %n;
    st.u32 [%s+-4], %r0;
    alloca.u64 %p, 16, 16;
    cvta.local.u64 %p, %p;
    st.u32 [%p], 1000;
    )" + kCall + R"(
    ld.u32 %b, [%s+-4];
    sub.u64 %s, %p, %q;
    cvt.u32.u64 %c, %s;
    sub.u32 %c, %c, %a;
    add.u32 %b, %b, %c;
    st.global.u32 [%rd2], %b;)");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i);
}

TEST(Stack, RestoringGivesTheSamePlaceAgain) {
  const auto out = run(kRegisters, R"(
    mov.u32 %k, 0;
  LOOP:
    stacksave.u64 %s;
    alloca.u64 %p, 65536;
    st.local.u32 [%p], %k;
    stackrestore.u64 %s;
    add.u32 %k, %k, 1;
    setp.lt.u32 %e, %k, 100;
    @%e bra LOOP;
    alloca.u64 %q, 16;
    sub.u64 %p, %q, %p;
    cvt.u32.u64 %a, %p;
    st.global.u32 [%rd2], %a;)");
  EXPECT_EQ(out, std::vector<uint32_t>(32, 0));
}

// Lanes of the upper half save, take and give back; those of the lower half keep theirs.
TEST(Stack, OneLanesRestoreLeavesTheOthersAlone) {
  const auto out = run(kScribble, kRegisters, R"(
    stacksave.u64 %s;
    alloca.u64 %p, 64;
    st.local.u32 [%p], %r0;
    setp.ge.u32 %e, %r0, 16;
    @%e stackrestore.u64 %s;
    )" + kCall + R"(
    ld.local.u32 %a, [%p];
    st.global.u32 [%rd2], %a;)");
  for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], i);
}

TEST(Stack, Alignment) {
  const auto out = run(kRegisters, R"(
    alloca.u64 %p, 1;
    alloca.u64 %p, 1;
    alloca.u64 %q, 1, 4096;
    and.b64 %p, %p, 7;
    and.b64 %q, %q, 4095;
    add.u64 %p, %p, %q;
    cvt.u32.u64 %a, %p;
    st.global.u32 [%rd2], %a;)");
  EXPECT_EQ(out, std::vector<uint32_t>(32, 0));
}

// The neighbouring register is not touched.
TEST(Stack, WordsOf32Bits) {
  const auto out = run(".reg .b32 %p, %after, %s, %a;", R"(
    mov.u32 %after, 5;
    stacksave.u32 %s;
    alloca.u32 %p, 32;
    st.local.u32 [%p+28], %r0;
    ld.local.u32 %a, [%p+28];
    stackrestore.u32 %s;
    add.u32 %a, %a, %after;
    st.global.u32 [%rd2], %a;)");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i + 5);
}

TEST(Stack, Errors) {
  const auto fault = [](FaultKind kind, const std::string& part, const std::string& body) {
    expect_fault(kind, part, [&] { run(kRegisters, body); });
  };
  fault(FaultKind::kIllegalAddress, "do not fit the stack", "alloca.u64 %p, 1000000000;");
  fault(FaultKind::kIllegalAddress, "do not fit the stack",
        "alloca.u64 %p, 16;\n alloca.u64 %p, 0xFFFFFFFFFFFFFFF8;");
  fault(FaultKind::kIllegalAddress, "stackrestore of 1000000",
        "mov.u64 %s, 1000000;\n stackrestore.u64 %s;");
  fault(FaultKind::kIllegalInstruction, "the alignment is 0", "alloca.u64 %p, 16, 0;");
  fault(FaultKind::kIllegalInstruction, "the alignment is 24", "alloca.u64 %p, 16, 24;");
  fault(FaultKind::kIllegalInstruction, "must be .u32 or .u64", "alloca.f64 %p, 16;");
  fault(FaultKind::kIllegalInstruction, "width is not the type's", "alloca.u32 %p, 16;");
}

// ---- calls through pointers
// ----------------------------------------------------------------------------------------

const std::string kThree = R"(
.func (.param .b32 sum) three(.param .b32 a, .param .b32 b, .param .b64 c) {
  .reg .b32 %a;
  ld.param.b32 %a, [a];
  st.param.b32 [sum], %a;
  ret;
}
)";

TEST(Calls, APointerToAFunctionOfAnotherTypeIsAFault) {
  const auto call = [](const std::string& before, const std::string& what) {
    return "mov.u64 %p, three;\n{ .param .b32 x;\n .param .b32 y;\n .param .b64 z;\n"
           " .param .b32 r;\n .param .b64 wide;\n st.param.b32 [x], 1;\n" +
           before + what + " }\n st.global.u32 [%rd2], %r0;";
  };
  const std::string good =
      "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _, "
      ".param .b64 _);\n call (r), %p, (x, y, z), P;";
  EXPECT_EQ(run(kThree, kRegisters, call("", good))[3], 3u);
  for (const std::string bad :
       {"P: .callprototype (.param .b32 _) _ (.param .b32 _);\n call (r), %p, (x), P;",
        "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _, .param .b64 _, .param "
        ".b32 _);\n call (r), %p, (x, y, z, x), P;",
        "P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _, .param .b64 _);\n "
        "call (r), %p, (z, y, z), P;",
        "P: .callprototype (.param .b64 _) _ (.param .b32 _, .param .b32 _, .param .b64 _);\n "
        "call (wide), %p, (x, y, z), P;"}) {
    expect_fault(FaultKind::kInvalidPc, "are not those of the function three",
                 [&] { run(kThree, kRegisters, call("", bad)); });
  }
}

// ---- parameters of the kernel
// --------------------------------------------------------------------------------------

TEST(KernelParams, ReadsBeyondThemAreFaults) {
  for (const std::string at : {"[out+8]", "[in+10000]", "[in+-8]", "[out+4096]"}) {
    expect_fault(FaultKind::kIllegalAddress, "",
                 [&] { run(kRegisters, "ld.param.u64 %p, " + at + ";"); });
  }
  // Where it is not run, it is none.
  const auto out = run(kRegisters, R"(
    setp.eq.u32 %e, %r0, 99;
    @%e ld.param.u64 %p, [in+10000];
    st.global.u32 [%rd2], 3;)");
  EXPECT_EQ(out, std::vector<uint32_t>(32, 3));
}

}  // namespace
}  // namespace mpfa::sim::testing
