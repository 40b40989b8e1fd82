// Sums that many clusters make in global memory by cp.reduce.async.bulk: of floats, whose sum
// depends on the order, the same with any number of host threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

constexpr uint32_t kBlocks = 64;
constexpr int kRounds = 12;
constexpr uint32_t kWords = 64;

// Every block adds 1 / (1 + 7 block + round) to all words, many times.
const std::string kPtx = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 out) {
  .reg .b32 %r<9>, %round;
  .reg .f32 %f<4>;
  .reg .b64 %rd<4>;
  .reg .pred %p;
  .shared .align 128 .b8 data[256];
  ld.param.u64 %rd1, [out];
  mov.u32 %round, 0;
LOOP:
  mov.u32 %r1, %ctaid.x;
  mad.lo.u32 %r1, %r1, 7, %round;
  add.u32 %r1, %r1, 1;
  cvt.rn.f32.u32 %f1, %r1;
  rcp.rn.f32 %f1, %f1;
  mov.u32 %r2, data;
  mov.u32 %r3, 0;
FILL:
  st.shared.f32 [%r2], %f1;
  add.u32 %r2, %r2, 4;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p, %r3, 64;
  @%p bra FILL;
  fence.proxy.async.shared::cta;
  mov.u32 %r2, data;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r2], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  add.u32 %round, %round, 1;
  setp.lt.u32 %p, %round, )" +
                         std::to_string(kRounds) +
                         R"(;
  @%p bra LOOP;
  ret;
})";

std::vector<uint32_t> sums(int threads, uint64_t seed) {
  GpuOptions options;
  options.threads = threads;
  options.seed = seed;
  PtxProgram program(kPtx, options);
  const uint64_t out = program.upload(std::vector<float>(kWords, 0.0f));
  program.run("test", {.grid = {kBlocks, 1, 1}, .block = {1, 1, 1}}, out);
  return program.download<uint32_t>(out, kWords);
}

TEST(ReductionOrder, DoesNotDependOnTheHostsThreads) {
  double exact = 0;
  for (uint32_t block = 0; block < kBlocks; ++block) {
    for (uint32_t round = 0; round < kRounds; ++round) exact += 1.0 / (1 + 7 * block + round);
  }
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const std::vector<uint32_t> expected = sums(1, seed);
    for (const uint32_t bits : expected) {
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      EXPECT_NEAR(value, exact, 1e-4 * exact);
    }
    for (const int threads : {2, 3, 8}) {
      for (int i = 0; i < 5; ++i)
        EXPECT_EQ(sums(threads, seed), expected) << threads << " " << seed;
    }
  }
}

}  // namespace
}  // namespace mpfa::sim::testing
