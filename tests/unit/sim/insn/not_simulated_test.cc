// Instructions that are known and refused.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/machine/fault.h"
#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::one_kernel;
using testing::PtxProgram;

TEST(NotSimulated, TexturesSurfacesAndMulticastAreNamed) {
  const std::vector<std::pair<std::string, std::string>> kInstructions = {
      {"tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd1, {%f0}];", "tex: textures"},
      {"tld4.r.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd1, {%f0, %f1}];", "tld4: textures"},
      {"txq.width.b32 %w0, [%rd1];", "txq: textures"},
      {"istypep.texref %p, %rd1;", "istypep: textures"},
      {"suld.b.1d.b32.trap %w0, [%rd1, {%w1}];", "suld: textures"},
      {"sust.b.1d.b32.trap [%rd1, {%w1}], %w0;", "sust: textures"},
      {"sured.b.add.2d.u32.trap [%rd1, {%w0, %w1}], %w2;", "sured: textures"},
      {"suq.width.b32 %w0, [%rd1];", "suq: textures"},
      {"multimem.ld_reduce.relaxed.gpu.global.add.u32 %w0, [%rd1];", "multimem: multicast"},
      {"multimem.st.weak.global.u32 [%rd1], %w0;", "multimem: multicast"},
      {"multimem.red.relaxed.gpu.global.add.u32 [%rd1], %w0;", "multimem: multicast"},
  };
  for (const auto& [text, part] : kInstructions) {
    SCOPED_TRACE(text);
    expect_fault(FaultKind::kIllegalInstruction, part, [&text = text] {
      PtxProgram program(
          one_kernel("  .reg .f32 %f<4>;\n  .reg .b32 %w<4>;\n  .reg .pred %p;", text));
      const uint64_t memory = program.upload(std::vector<uint32_t>(32));
      program.run("test", {}, memory, memory);
    });
  }
}

// A module may hold such a kernel as long as it is not launched.
TEST(NotSimulated, OtherKernelsOfTheModuleRun) {
  const std::string ptx = one_kernel("  .reg .b32 %w0;", "txq.width.b32 %w0, [%rd1];") +
                          ".visible .entry other() {\n  ret;\n}\n";
  PtxProgram program(ptx);
  EXPECT_NO_THROW(program.run("other", {}));
}

}  // namespace
}  // namespace mpfa::sim
