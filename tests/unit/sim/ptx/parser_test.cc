#include "sim/ptx/parser.h"

#include <gtest/gtest.h>

#include "expect_ptx_error.h"
#include "sim/ptx/print.h"

namespace mpfa::sim {
namespace {

constexpr const char* kHeader = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n";

// A module with one kernel `k` of this body.
Module kernel(const std::string& body, const std::string& before = "") {
  return parse_ptx(kHeader + before + ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n" +
                   ".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n" +
                   body + "\n}\n");
}

const Function& only(const Module& module) { return *module.find_function("k"); }

// The instructions as text.
std::vector<std::string> printed(const std::string& body, const std::string& before = "") {
  const Module module = kernel(body, before);
  std::vector<std::string> result;
  for (const Instruction& instruction : only(module).instructions) {
    result.push_back(print_instruction(only(module), instruction));
  }
  return result;
}

void expect_same(const std::string& instruction) {
  EXPECT_EQ(printed(instruction), std::vector<std::string>{instruction});
}

TEST(Parser, Header) {
  const Module module = parse_ptx(kHeader);
  EXPECT_EQ(module.version_major, 9);
  EXPECT_EQ(module.version_minor, 0);
  EXPECT_EQ(module.target, "sm_90a");
  EXPECT_EQ(module.address_size, 64);
}

TEST(Parser, OperandsOfEveryKind) {
  expect_same("mov.u32 %r1, %tid.x;");
  expect_same("mov.u64 %rd1, %clock64;");
  expect_same("add.s32 %r1, %r2, -5;");
  expect_same("fma.rn.f32 %f1, %f2, 0f3F800000, %f3;");
  expect_same("ld.param.u64 %rd1, [p];");
  expect_same("ld.global.nc.v2.f32 {%f1, %f2}, [%rd1+8];");
  expect_same("st.global.u32 [%rd1+-8], %r1;");
  expect_same("mov.b64 {%r1, _}, %rd1;");
  expect_same("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;");
  expect_same("@!%p1 add.s32 %r1, %r2, %r3;");
  expect_same("shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;");
  expect_same("bar.sync 0;");
  expect_same("ret;");
  expect_same(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, "
      "{%r2, %r3}], [%r4];");
  expect_same(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, "
      "1, -1, 0, 1;");
}

// Of a register, not of a vector register: bytes and halves.
TEST(Parser, SelectorsOfVideoInstructions) {
  expect_same("vadd.s32.u32.s32.sat %r1.h0, %r2.b3, %r3, %r4;");
  expect_same("vadd4.u32.u32.u32.add %r1.b3210, %r2.b7654, -%r3.b0000, %r4;");
  const Module module = kernel("vset2.u32.u32.lt %r1, %r2.h31, %r3, %r4;");
  const std::vector<Operand>& operands = only(module).instructions[0].operands;
  EXPECT_EQ(operands[0].selector, "");
  EXPECT_EQ(operands[1].selector, "h31");
  EXPECT_EQ(operands[1].component, -1);
}

TEST(Parser, ConstantsAndExpressions) {
  EXPECT_EQ(printed("mov.u32 %r1, WARP_SZ;")[0], "mov.u32 %r1, 32;");
  EXPECT_EQ(printed("mov.u32 %r1, 0x10 + 2 * 3;")[0], "mov.u32 %r1, 22;");
  EXPECT_EQ(printed("ld.global.u32 %r1, [%rd1 + 4*3];")[0], "ld.global.u32 %r1, [%rd1+12];");
  EXPECT_EQ(printed("mov.f32 %f1, 1.5;")[0], "mov.f32 %f1, 0d3FF8000000000000;");
  EXPECT_EQ(printed("mov.f32 %f1, -0f3F800000;")[0], "mov.f32 %f1, 0fBF800000;");
}

TEST(Parser, VariablesAndTheirAddresses) {
  const std::string globals = ".global .align 4 .b8 g[64];\n.extern .shared .align 16 .b8 s[];\n";
  EXPECT_EQ(printed("mov.u64 %rd1, g+16;", globals)[0], "mov.u64 %rd1, g+16;");
  EXPECT_EQ(printed("ld.shared.u32 %r1, [s+4];", globals)[0], "ld.shared.u32 %r1, [s+4];");
  const Module module = kernel(".local .align 8 .b8 depot[24];\nmov.u64 %rd1, depot;", globals);
  EXPECT_EQ(module.variables.size(), 2u);
  EXPECT_EQ(module.variables[1].linkage, Linkage::kExtern);
  ASSERT_EQ(only(module).variables.size(), 1u);
  EXPECT_EQ(only(module).variables[0].bytes(), 24);
}

TEST(Parser, BranchesLeadToInstructions) {
  const Module module = kernel("top:\nadd.s32 %r1, %r1, 1;\n@%p1 bra end;\nbra top;\nend:\nret;");
  const Function& function = only(module);
  ASSERT_EQ(function.instructions.size(), 4u);
  EXPECT_EQ(function.instructions[1].operands[0].index, 3);
  EXPECT_EQ(function.registers[static_cast<size_t>(function.instructions[1].guard)].name, "%p1");
  EXPECT_EQ(function.instructions[2].operands[0].index, 0);
}

TEST(Parser, ALabelAtTheEndIsPastTheLastInstruction) {
  const Module module = kernel("bra end;\nend:");
  EXPECT_EQ(only(module).instructions[0].operands[0].index, 1);
}

// Inline assembly repeats its labels and registers, each in a block of its own.
TEST(Parser, BlocksHaveTheirOwnNames) {
  const std::string block = "{\n.reg .pred p;\nwait:\nsetp.eq.s32 p, %r1, 0;\n@p bra wait;\n}\n";
  const Module module = kernel(block + block);
  const Function& function = only(module);
  ASSERT_EQ(function.instructions.size(), 4u);
  EXPECT_EQ(function.instructions[1].operands[0].index, 0);
  EXPECT_EQ(function.instructions[3].operands[0].index, 2);
  EXPECT_NE(function.instructions[1].guard, function.instructions[3].guard);
}

TEST(Parser, ABlockSeesTheNamesAroundIt) {
  const Module module = kernel("{\n.reg .b32 %r1;\nmov.u32 %r1, %r2;\nbra out;\n}\nout:\nret;");
  const Function& function = only(module);
  const auto register_name = [&](int operand) {
    const auto index = static_cast<size_t>(function.instructions[0].operands[operand].index);
    return std::pair(index, function.registers[index].name);
  };
  EXPECT_GT(register_name(0).first, register_name(1).first);  // the inner %r1 came last
  EXPECT_EQ(register_name(1).second, "%r2");
  EXPECT_EQ(function.instructions[1].operands[0].index, 2);
}

TEST(Parser, IndirectBranchesHaveTheirTargets) {
  const Module module =
      kernel("table:\n.branchtargets one, two;\nbrx.idx %r1, table;\none:\nret;\ntwo:\nexit;");
  const Operand& targets = only(module).instructions[0].operands[1];
  EXPECT_EQ(targets.kind, OperandKind::kTargets);
  EXPECT_EQ(targets.labels, (std::vector<int64_t>{1, 2}));
}

TEST(Parser, CallsOfEveryKind) {
  const std::string f = ".func (.param .b32 r) f(.param .b32 a, .param .b64 b);\n";
  const std::string body =
      "{\n.param .b32 in;\n.param .b64 in2;\n.param .b32 out;\n"
      "call.uni (out), f, (in, in2);\n}\n"
      "{\n.param .b32 in;\nproto:\n.callprototype ()_ (.param .b32 _);\n"
      "call %rd1, (in), proto;\n}\n";
  EXPECT_EQ(printed(body, f),
            (std::vector<std::string>{"call.uni (out), f, (in, in2);", "call %rd1, (in), proto;"}));
  const Module module = kernel(body, f);
  // The two variables named `in` are different.
  EXPECT_NE(only(module).instructions[0].operands[2].parts[0].name,
            only(module).instructions[1].operands[1].parts[0].name);
  EXPECT_EQ(only(module).prototypes.at("proto").params.size(), 1u);
  EXPECT_FALSE(module.find_function("f")->is_defined);
}

TEST(Parser, FunctionDirectives) {
  const Module module = parse_ptx(std::string(kHeader) +
                                  ".weak .entry k() .maxntid 128, 2, 1 .minnctapersm 2 "
                                  ".reqnctapercluster 2, 1, 1 .explicitcluster\n{\nret;\n}\n");
  const Function& function = only(module);
  EXPECT_TRUE(function.is_entry);
  EXPECT_EQ(function.linkage, Linkage::kWeak);
  EXPECT_EQ(function.directives.at("maxntid"), (std::vector<int64_t>{128, 2, 1}));
  EXPECT_EQ(function.directives.at("minnctapersm"), (std::vector<int64_t>{2}));
  EXPECT_TRUE(function.directives.contains("explicitcluster"));
}

TEST(Parser, LocationsAndDebugSections) {
  const Module module =
      parse_ptx(std::string(kHeader) +
                ".file 1 \"a.cu\", 12, 34\n.entry k()\n{\n.loc 1 7 3\nret;\n"
                ".loc 1 9 5, function_name $L__info0, inlined_at 1 7 3\nexit;\n}\n"
                ".section .debug_str\n{\n$L__info0:\n.b8 95,90\n}\n");
  EXPECT_EQ(module.files.at(1), "a.cu");
  EXPECT_EQ(only(module).instructions[0].location.line, 7);
  EXPECT_EQ(only(module).instructions[1].location.line, 9);
  EXPECT_EQ(only(module).instructions[1].location.column, 5);
  EXPECT_EQ(only(module).instructions[1].ptx_line, 10u);
}

TEST(Parser, ErrorsNameTheLineAndItsText) {
  expect_ptx_error("line 10: nowhere is not declared: bra nowhere;",
                   [] { kernel("bra nowhere;"); });
  expect_ptx_error("%r77 is not declared", [] { kernel("mov.u32 %r77, 1;"); });
  expect_ptx_error("the guard %p9 is not a declared register", [] { kernel("@%p9 ret;"); });
  expect_ptx_error("the label a stands twice", [] { kernel("a:\nret;\na:\nret;"); });
  expect_ptx_error("%r1 is declared twice", [] { kernel(".reg .b32 %r1;"); });
  expect_ptx_error("expected ';'", [] { kernel("ret %r1 %r2;"); });
  expect_ptx_error("expected ']'", [] { kernel("ld.global.u32 %r1, [%rd1;"); });
  expect_ptx_error("an address without a base", [] { kernel("ld.global.u32 %r1, [];"); });
  expect_ptx_error("a component must be", [] { kernel("mov.u32 %r1, %tid.q;"); });
  for (const char* selector : {"h", "h8", "b32103", "c0"}) {
    expect_ptx_error("a component must be",
                     [&] { kernel("mov.u32 %r1, %r2." + std::string(selector) + ";"); });
  }
  expect_ptx_error("the directive .strange in a function is not known",
                   [] { kernel(".strange;"); });
  expect_ptx_error("the directive .strange is not known",
                   [] { parse_ptx(std::string(kHeader) + ".strange\n"); });
  // What is skipped must end too.
  for (const char* open : {".pragma \"x\"", ".global .attribute(.managed .b8 a;",
                           ".func .attribute(.unified(1, 2)", ".entry e() .attribute(x"}) {
    expect_ptx_error("expected ", [&] { parse_ptx(std::string(kHeader) + open); });
  }
  expect_ptx_error("must begin with .version", [] { parse_ptx("// nothing\n"); });
  expect_ptx_error("the end of k is missing",
                   [] { parse_ptx(std::string(kHeader) + ".entry k()\n{\nret;\n"); });
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(Parser, NestingIsLimited) {
  const std::string kTooDeep = "more than 256 levels";
  for (const int depth : {300, 50000}) {
    expect_ptx_error(kTooDeep, [=] { kernel(repeated("{", depth) + repeated("}", depth)); });
    expect_ptx_error(kTooDeep, [=] {
      kernel("mov.u32 %r1, " + repeated("(", depth) + "1" + repeated(")", depth) + ";");
    });
    expect_ptx_error(kTooDeep, [=] { kernel("mov.u32 %r1, " + repeated("-", depth) + "1;"); });
    expect_ptx_error(kTooDeep, [=] { kernel("mov.u32 %r1, " + repeated("!", depth) + "%r2;"); });
    expect_ptx_error(kTooDeep,
                     [=] { kernel("mov.u32 %r1, " + repeated("1 ? 1 : ", depth) + "1;"); });
    expect_ptx_error(kTooDeep, [=] {
      kernel("", ".global .u32 a = " + repeated("{", depth) + "1" + repeated("}", depth) + ";");
    });
  }
  kernel(repeated("{", 200) + repeated("}", 200));
  kernel(repeated("{}\n", 1000));
  expect_ptx_error("line 11:", [] { kernel("\n" + repeated("{", 300)); });
}

TEST(Parser, NewerVersionsAreRefused) {
  EXPECT_THROW(parse_ptx(".version 99.0\n.target sm_90\n"), PtxVersionError);
  EXPECT_THROW(parse_ptx(".version 9.1\n.target sm_90\n"), PtxVersionError);
  EXPECT_EQ(parse_ptx(".version 8.9\n.target sm_90\n").version_major, 8);
}

}  // namespace
}  // namespace mpfa::sim
