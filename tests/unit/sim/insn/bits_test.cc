// Logic with predicates, and the edges of bit operations.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

// out[tid], with in[tid] = tid.
std::vector<uint32_t> run(const std::string& body) {
  PtxProgram program(one_kernel(".reg .b32 %a, %b, %n; .reg .pred %p, %q, %r;", body));
  const uint64_t out = program.upload(std::vector<uint32_t>(32));
  program.run("test", {}, out, out);
  return program.download<uint32_t>(out, 32);
}

const std::string kOut =
    "selp.u32 %a, 1, 0, %p;\n shl.b32 %b, %b, 1;\n or.b32 %a, %a, %b;\n"
    "st.global.u32 [%rd2], %a;";

// p = (d != 0) BoolOp q, where p is q.
TEST(Lop3, ThePredicateMayBeBothOperandAndResult) {
  for (const bool is_and : {true, false}) {
    const auto out = run(
        "and.b32 %a, %r0, 1;\n setp.ne.u32 %p, %a, 0;\n"
        "lop3." +
        std::string(is_and ? "and" : "or") + ".b32 %b|%p, %r0, 2, 0xFFFFFFFF, 0x80, %p;\n" + kOut);
    for (uint32_t i = 0; i < 32; ++i) {
      const bool is_set = (i & 2) != 0;
      const bool q = (i & 1) != 0;
      const bool p = is_and ? is_set && q : is_set || q;
      EXPECT_EQ(out[i], (i & 2) << 1 | (p ? 1u : 0u)) << i << is_and;
    }
  }
}

// Where it is the guard, too, the lanes that begin the instruction end it.
TEST(Lop3, ThePredicateMayBeTheGuard) {
  for (const bool negated : {false, true}) {
    const auto out = run(std::string("and.b32 %a, %r0, 1;\n setp.ne.u32 %p, %a, 0;\n"
                                     "and.b32 %a, %r0, 4;\n setp.ne.u32 %q, %a, 0;\n"
                                     "mov.u32 %b, 8;\n") +
                         (negated ? "@!%p" : "@%p") +
                         " lop3.or.b32 %b|%p, %r0, 2, 0xFFFFFFFF, 0x80, %q;\n" + kOut);
    for (uint32_t i = 0; i < 32; ++i) {
      const bool before = (i & 1) != 0;
      const bool runs = before != negated;
      const bool p = runs ? (i & 2) != 0 || (i & 4) != 0 : before;
      EXPECT_EQ(out[i], (runs ? i & 2 : 8) << 1 | (p ? 1u : 0u)) << i << negated;
    }
  }
}

// There is no bit number 2^31 before any.
TEST(Fns, TheLowestCountFindsNothing) {
  for (const std::string n : {"-2147483648", "2147483647", "-33", "33"}) {
    const auto out = run("mov.u32 %n, " + n +
                         ";\n fns.b32 %a, 0xFFFFFFFF, %r0, %n;\n"
                         "st.global.u32 [%rd2], %a;");
    EXPECT_EQ(out, std::vector<uint32_t>(32, 0xFFFFFFFF)) << n;
  }
  const auto out =
      run("mov.u32 %n, -3;\n fns.b32 %a, 0xFFFFFFFF, %r0, %n;\n"
          "st.global.u32 [%rd2], %a;");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i < 2 ? 0xFFFFFFFF : i - 2) << i;
}

}  // namespace
}  // namespace mpfa::sim::testing
