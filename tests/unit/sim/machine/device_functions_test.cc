// printf, malloc and free of kernels.
#include "sim/machine/device_functions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

std::string bytes_of(const std::string& text) {
  std::string list;
  for (const char c : text) list += std::to_string(static_cast<int>(c)) + ", ";
  return list + "0";
}

std::string module_of(const std::string& format, const std::string& body) {
  return R"(.version 9.0
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func (.param .b64 r) __cuda_syscall_aligned_malloc(.param .b64 n, .param .b64 a);
.extern .func free(.param .b64 p);
.global .align 1 .b8 format[] = {)" +
         bytes_of(format) + R"(};
.global .align 1 .b8 word[] = {97, 98, 99, 0};
.visible .entry test(.param .u64 out) {
  .local .align 8 .b8 args[64];
  .reg .b32 %r<9>;
  .reg .b64 %rd<9>, %f, %a;
  ld.param.u64 %rd1, [out];
  mov.u64 %f, format;
  cvta.global.u64 %f, %f;
  mov.u64 %a, args;
  cvta.local.u64 %a, %a;
)" + body +
         "\n  ret;\n}\n";
}

const std::string kCall = R"(
  { .param .b64 p0; .param .b64 p1; .param .b32 r;
    st.param.b64 [p0], %f;
    st.param.b64 [p1], %a;
    call (r), vprintf, (p0, p1);
    ld.param.b32 %r1, [r]; }
  st.global.u32 [%rd1], %r1;
)";

struct Printed {
  std::string text;
  int32_t result = 0;
};

Printed print(const std::string& format, const std::string& arguments) {
  PtxProgram program(module_of(format, arguments + kCall));
  const uint64_t out = program.upload(std::vector<int32_t>(1, 77));
  ::testing::internal::CaptureStdout();
  try {
    program.run("test", {.block = {1, 1, 1}}, out);
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  fflush(stdout);
  return {::testing::internal::GetCapturedStdout(), program.download<int32_t>(out, 1)[0]};
}

void expect_printed(const std::string& text, int32_t result, const std::string& format,
                    const std::string& arguments) {
  const Printed printed = print(format, arguments);
  EXPECT_EQ(printed.text, text) << format;
  EXPECT_EQ(printed.result, result) << format;
}

std::string ints(int a, int b = 0, int c = 0) {
  return "st.local.s32 [args], " + std::to_string(a) + ";\n st.local.s32 [args+4], " +
         std::to_string(b) + ";\n st.local.s32 [args+8], " + std::to_string(c) + ";\n";
}

TEST(DevicePrintf, GivesTheNumberOfArguments) {
  expect_printed("plain\n", 0, "plain\n", "mov.u64 %a, 0;");
  expect_printed("3%-4", 2, "%d%%%d", ints(3, -4));
  expect_printed("    5|", 2, "%*d|", ints(5, 5));
  expect_printed("abc", 1, "%s",
                 "mov.u64 %rd2, word;\n cvta.global.u64 %rd2, %rd2;\n st.local.u64 [args], %rd2;");
  // Programming guide: -1 for a format of NULL.
  expect_printed("", -1, "", "mov.u64 %f, 0;");
}

TEST(DevicePrintf, NarrowsAsTheLengthsSay) {
  expect_printed("-2 65534 -1 ff", 4, "%hd %hu %hhd %hhx",
                 ints(0x1FFFE, 0x3FFFE, 0xFF) + "st.local.s32 [args+12], 0x1FF;\n");
  expect_printed("4294967298", 1, "%lld", "mov.u64 %rd2, 4294967298;\nst.local.u64 [args], %rd2;");
}

TEST(DevicePrintf, LongTextsAreWhole) {
  const Printed printed = print("%.600f", "st.local.f64 [args], 0d3FD0000000000000;");
  EXPECT_EQ(printed.text.size(), 602u);
  EXPECT_EQ(printed.text.substr(0, 5), "0.250");
  expect_printed(std::string(2000 - 1, ' ') + "7", 1, "%2000d", ints(7));
}

TEST(DevicePrintf, MissingArgumentsAreAFault) {
  expect_fault(FaultKind::kIllegalAddress, "there are no arguments",
               [] { print("%d", "mov.u64 %a, 0;"); });
  // The last two bytes of a variable, where a number has four.
  expect_fault(FaultKind::kIllegalAddress, "", [] {
    print("%d", "mov.u64 %a, word;\n cvta.global.u64 %a, %a;\n add.u64 %a, %a, 2;");
  });
}

const std::string kMalloc = R"(
  { .param .b64 n; .param .b64 r;
    st.param.b64 [n], 64;
    call (r), malloc, (n);
    ld.param.b64 %rd2, [r]; }
)";
std::string free_of(const std::string& pointer) {
  return "{ .param .b64 p;\n st.param.b64 [p], " + pointer + ";\n call free, (p); }\n";
}

void run(const std::string& body) {
  PtxProgram program(module_of("", body));
  const uint64_t out = program.upload(std::vector<int32_t>(1));
  program.run("test", {.block = {1, 1, 1}}, out);
}

TEST(DeviceMalloc, OnlyItsOwnMemoryIsFreed) {
  run(kMalloc + "st.global.u32 [%rd2+60], 1;\n" + free_of("%rd2"));
  run("mov.u64 %rd2, 0;\n" + free_of("%rd2"));
  const std::string what = "free of what a kernel's malloc did not give";
  const auto refused = [&](const std::string& body) {
    expect_fault(FaultKind::kIllegalAddress, what, [&] { run(body); });
  };
  refused(free_of("%rd1"));  // cudaMalloc's
  refused(free_of("%f"));    // a variable
  refused(kMalloc + "add.u64 %rd2, %rd2, 16;\n" + free_of("%rd2"));
  refused(kMalloc + free_of("%rd2") + free_of("%rd2"));
}

TEST(DeviceMalloc, IsAlignedAsAsked) {
  // %rd3 keeps the bits below the alignment of two allocations; any of them is a trap.
  std::string body = "mov.u64 %rd3, 0;\n";
  for (int i = 0; i < 2; ++i) {
    body += R"({ .param .b64 n; .param .b64 a; .param .b64 r;
      st.param.b64 [n], 96;
      st.param.b64 [a], 4096;
      call (r), __cuda_syscall_aligned_malloc, (n, a);
      ld.param.b64 %rd2, [r];
      st.global.u32 [%rd2+92], 1;
      and.b64 %rd4, %rd2, 4095;
      or.b64 %rd3, %rd3, %rd4; }
)";
  }
  body += "{ .reg .pred %p; setp.ne.u64 %p, %rd3, 0; @%p trap; }\n" + free_of("%rd2");
  run(body);
}

}  // namespace
}  // namespace mpfa::sim::testing
