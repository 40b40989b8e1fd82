// wgmma that outlast the call that has issued them.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

const std::string kRegisters = "  .reg .f32 %f<16>;\n  .reg .b32 %i;\n  .reg .pred %p;\n";

// Its accumulators are nobody's any more.
const std::string kIssue = "\n.func issue(.param .b64 given) {\n" + kRegisters + R"(
  .reg .b64 %desc;
  ld.param.b64 %desc, [given];
  mov.f32 %f0, 0f00000000;
  mov.f32 %f1, %f0;
  mov.f32 %f2, %f0;
  mov.f32 %f3, %f0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %desc, %desc, 0, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  ret;
}
)";

// Holds ones in its registers for a while, which may lie where the others did; gives their sum.
const std::string kHold =
    "\n.func (.param .f32 sum) hold() {\n" + kRegisters + "  .reg .b64 %unused;\n" + [] {
      std::string text;
      for (int k = 0; k < 16; ++k) {
        text += "  mov.f32 %f" + std::to_string(k) + ", 0f3F800000;\n";
      }
      text +=
          "  mov.u32 %i, 0;\nLOOP:\n  add.u32 %i, %i, 1;\n"
          "  setp.lt.u32 %p, %i, 3000;\n  @%p bra LOOP;\n";
      for (int k = 1; k < 16; ++k) {
        text += "  add.f32 %f0, %f0, %f" + std::to_string(k) + ";\n";
      }
      return text + "  st.param.f32 [sum], %f0;\n  ret;\n}\n";
    }();

TEST(WgmmaCall, TheRegistersOfAnotherCallStayAsTheyAre) {
  std::string ptx = one_kernel(
      ".reg .f32 %f0; .reg .b32 %tile; .reg .b64 %desc; .shared .align 1024 .b8 tile[4096];", R"(
  mov.u32 %tile, tile;
  mad.lo.u32 %tile, %r0, 32, %tile;
  st.shared.v4.u32 [%tile], {0, 0, 0, 0};
  st.shared.v4.u32 [%tile + 16], {0, 0, 0, 0};
  fence.proxy.async;
  bar.sync 0;
  mov.u32 %tile, tile;
  shr.u32 %tile, %tile, 4;
  cvt.u64.u32 %desc, %tile;
  or.b64 %desc, %desc, 0x1000080000;
  {
    .param .b64 given;
    st.param.b64 [given], %desc;
    call issue, (given);
  }
  {
    .param .f32 sum;
    call (sum), hold;
    ld.param.f32 %f0, [sum];
  }
  st.global.f32 [%rd2], %f0;
  wgmma.wait_group.sync.aligned 0;)");
  ptx.insert(ptx.find(".visible"), kIssue + kHold);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    PtxProgram program(ptx, with_seed(seed));
    const uint64_t out = program.upload(std::vector<float>(128));
    program.run("test", {.block = {128, 1, 1}}, out, out);
    EXPECT_EQ(program.download<float>(out, 128), std::vector<float>(128, 16.0f)) << seed;
  }
}

}  // namespace
}  // namespace mpfa::sim::testing
