// cvt.pack against the pseudo-code of the PTX ISA, bit by bit.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/machine/fault.h"
#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::one_kernel;
using testing::PtxProgram;

struct Type {
  std::string name;
  int bits;
  bool is_signed;
};
const std::vector<Type> kTypes = {{"u16", 16, false}, {"s16", 16, true}, {"u8", 8, false},
                                  {"s8", 8, true},    {"u4", 4, false},  {"s4", 4, true},
                                  {"u2", 2, false},   {"s2", 2, true}};

const std::vector<int32_t> kSamples = {0,
                                       1,
                                       -1,
                                       2,
                                       -2,
                                       -3,
                                       3,
                                       4,
                                       7,
                                       8,
                                       -8,
                                       -9,
                                       15,
                                       16,
                                       127,
                                       128,
                                       -128,
                                       -129,
                                       255,
                                       256,
                                       32767,
                                       32768,
                                       -32768,
                                       -32769,
                                       65535,
                                       65536,
                                       std::numeric_limits<int32_t>::min(),
                                       std::numeric_limits<int32_t>::max(),
                                       0x12345678};

bool bit(uint32_t word, int i) { return (word >> i & 1) != 0; }

uint32_t saturated(const Type& type, int32_t value) {
  const int32_t lowest = type.is_signed ? -(1 << (type.bits - 1)) : 0;
  const int32_t highest = (1 << (type.is_signed ? type.bits - 1 : type.bits)) - 1;
  return static_cast<uint32_t>(value < lowest ? lowest : value > highest ? highest : value);
}

uint32_t packed(const Type& type, int32_t a, int32_t b, uint32_t c) {
  uint32_t result = 0;
  for (int i = 0; i < 32; ++i) {
    const int at = i % type.bits;
    const bool set = i < type.bits       ? bit(saturated(type, b), at)
                     : i < 2 * type.bits ? bit(saturated(type, a), at)
                                         : bit(c, i - 2 * type.bits);
    if (set) result |= uint32_t{1} << i;
  }
  return result;
}

TEST(ConvertPack, EachType) {
  const size_t n = kSamples.size();
  for (const Type& type : kTypes) {
    const bool has_c = type.bits < 16;
    std::vector<int32_t> in;
    for (size_t i = 0; i < n * n; ++i) {
      in.insert(in.end(), {kSamples[i / n], kSamples[i % n], kSamples[(i + i / n) % n]});
    }
    PtxProgram program(one_kernel(
        "  .reg .b32 %a, %b, %c, %d;",
        "ld.global.u32 %a, [%rd1];\nld.global.u32 %b, [%rd1+4];\nld.global.u32 %c, [%rd1+8];\n"
        "cvt.pack.sat." +
            type.name + ".s32" + (has_c ? ".b32 %d, %a, %b, %c" : " %d, %a, %b") +
            ";\nst.global.u32 [%rd2], %d;",
        12));
    const uint64_t from = program.upload(in);
    const uint64_t to = program.upload(std::vector<uint32_t>(n * n));
    program.run("test", {.block = {static_cast<uint32_t>(n * n), 1, 1}}, from, to);
    const auto result = program.download<uint32_t>(to, n * n);
    for (size_t i = 0; i < n * n; ++i) {
      ASSERT_EQ(result[i],
                packed(type, in[3 * i], in[3 * i + 1], static_cast<uint32_t>(in[3 * i + 2])))
          << type.name << " " << in[3 * i] << " " << in[3 * i + 1];
    }
  }
}

TEST(ConvertPack, ErrorsNameWhatIsWrong) {
  const auto wrong = [](const std::string& text, const std::string& part) {
    SCOPED_TRACE(text);
    expect_fault(FaultKind::kIllegalInstruction, part, [&] {
      PtxProgram program(one_kernel("  .reg .b32 %a, %b, %c, %d;", text));
      const uint64_t memory = program.upload(std::vector<uint32_t>(32));
      program.run("test", {}, memory, memory);
    });
  };
  wrong("cvt.pack.s16.s32 %d, %a, %b;", ".sat");
  wrong("cvt.pack.sat.s8.s32 %d, %a, %b;", "third operand");
  wrong("cvt.pack.sat.u16.u32 %d, %a, %b;", ".s32");
  wrong("cvt.pack.sat.s16.s32.b32 %d, %a, %b, %c;", ".b32");
  wrong("cvt.pack.sat.s32 %d, %a, %b;", "type to convert to");
}

}  // namespace
}  // namespace mpfa::sim
