// st.async, red.async and st.bulk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/support/fault_of.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::fault_of;
using ::testing::HasSubstr;
using testing::one_kernel;
using testing::PtxProgram;
using testing::with_seed;

constexpr uint64_t kSeeds = 12;

constexpr const char* kDeclarations = R"(
  .shared .align 16 .b8 data[1024];
  .shared .align 8 .b64 bar[2];
  .reg .b32 %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11;
  .reg .b64 %s<8>;
  .reg .pred %p<8>;
  .reg .pred %leader;
)";

// 16 bytes of each of 32 threads of the block that runs `body`'s last part.
std::vector<uint32_t> run(const std::string& body, uint64_t seed = 0, uint32_t blocks = 2) {
  PtxProgram program(one_kernel(kDeclarations, body, 0, 16), with_seed(seed));
  const uint64_t out = program.upload(std::vector<uint32_t>(128));
  program.run("test", {.grid = {blocks, 1, 1}, .block = {32, 1, 1}, .cluster = {blocks, 1, 1}}, out,
              out);
  return program.download<uint32_t>(out, 128);
}

// Each thread of block 1 sends to the place of the thread opposite in block 0, whose 16 bytes there
// are 1, 2, 3, 4 before. %r9 is the place, %r10 the barrier, both of block 0; %s3 and %s4 the same
// as generic addresses.
std::string send(const std::string& bytes, const std::string& instruction) {
  return R"(
    mov.u32 %r5, %cluster_ctarank;
    setp.eq.u32 %leader, %r0, 0;
    @%leader mbarrier.init.shared.b64 [bar], 1;
    mov.u32 %r6, data;
    mad.lo.u32 %r6, %r0, 16, %r6;
    mov.u32 %r1, 1;
    mov.u32 %r2, 2;
    mov.u32 %r3, 3;
    mov.u32 %r4, 4;
    st.shared.v4.u32 [%r6], {%r1, %r2, %r3, %r4};
    barrier.cluster.arrive;
    barrier.cluster.wait;
    setp.eq.u32 %p1, %r5, 0;
    @%p1 bra RECEIVE;
    xor.b32 %r7, %r0, 31;
    mov.u32 %r8, data;
    mad.lo.u32 %r8, %r7, 16, %r8;
    mapa.shared::cluster.u32 %r9, %r8, 0;
    mov.u32 %r10, bar;
    mapa.shared::cluster.u32 %r10, %r10, 0;
    cvta.shared.u64 %s3, bar;
    mapa.u64 %s4, %s3, 0;
    cvt.u64.u32 %s3, %r8;
    cvta.shared.u64 %s3, %s3;
    mapa.u64 %s3, %s3, 0;
    mad.lo.u32 %r1, %r0, 10, 100;
    add.u32 %r2, %r1, 1;
    add.u32 %r3, %r1, 2;
    add.u32 %r4, %r1, 3;
    mov.b64 %s1, {%r1, %r2};
    mov.b64 %s2, {%r3, %r4};
    )" + instruction +
         R"(
    bra DONE;
  RECEIVE:
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
         bytes + R"(;
  WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r6];
    st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};
  DONE:
    barrier.cluster.arrive;
    barrier.cluster.wait;)";
}

// The words that arrive are the first `words`, the others stay.
void expect_stored(const std::vector<uint32_t>& out, uint32_t words) {
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t k = 0; k < 4; ++k) {
      EXPECT_EQ(out[4 * t + k], k < words ? (31 - t) * 10 + 100 + k : k + 1) << t << ", " << k;
    }
  }
}

TEST(AsyncStore, StoresAndCounts) {
  const std::string to = ".shared::cluster.mbarrier::complete_tx::bytes";
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    expect_stored(run(send("128", "st.async" + to + ".u32 [%r9], %r1, [%r10];"), seed), 1);
    expect_stored(run(send("256", "st.async.weak" + to + ".b64 [%r9], %s1, [%r10];"), seed), 2);
    expect_stored(
        run(send("256", "st.async.weak" + to + ".v2.b32 [%r9], {%r1, %r2}, [%r10];"), seed), 2);
    expect_stored(
        run(send("512", "st.async.weak" + to + ".v2.b64 [%r9], {%s1, %s2}, [%r10];"), seed), 4);
    expect_stored(
        run(send("512", "st.async.weak" + to + ".v4.f32 [%r9], {%r1, %r2, %r3, %r4}, [%r10];"),
            seed),
        4);
    // Generic addresses.
    expect_stored(
        run(send("128", "st.async.mbarrier::complete_tx::bytes.s32 [%s3], %r1, [%s4];"), seed), 1);
  }
}

TEST(AsyncStore, Reduces) {
  const auto reduce = [](const std::string& op, uint64_t seed) {
    return run(
        send("128", "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." + op +
                        " [%r9], %r1, [%r10];"),
        seed);
  };
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto sums = reduce("add.u32", seed);
    const auto greatest = reduce("max.s32", seed);
    const auto bits = reduce("xor.b32", seed);
    const auto decremented = reduce("dec.u32", seed);
    for (uint32_t t = 0; t < 32; ++t) {
      const uint32_t value = (31 - t) * 10 + 100;
      EXPECT_EQ(sums[4 * t], 1 + value);
      EXPECT_EQ(greatest[4 * t], value);
      EXPECT_EQ(bits[4 * t], 1 ^ value);
      EXPECT_EQ(decremented[4 * t], 0u);
      EXPECT_EQ(sums[4 * t + 1], 2u);
    }
    const auto wide =
        run(send("256",
                 "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 "
                 "[%r9], %s1, [%r10];"),
            seed);
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(wide[4 * t + 1], 2 + (31 - t) * 10 + 101);
  }
}

TEST(AsyncStore, BulkStoreWritesZeros) {
  const std::string body = R"(
    mov.u32 %r6, data;
    mad.lo.u32 %r7, %r0, 16, %r6;
    mov.u32 %r1, 9;
    st.shared.v4.u32 [%r7], {%r1, %r1, %r1, %r1};
    bar.sync 0;
    setp.eq.u32 %leader, %r0, 0;
    mov.u64 %s1, 40;
    @%leader st.bulk.weak.shared::cta [%r6+8], %s1, 0;
    bar.sync 0;
    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r7];
    st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};)";
  const auto out = run(body, 0, 1);
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], i >= 2 && i < 12 ? 0u : 9u) << i;
}

TEST(AsyncStoreErrors, NameWhatIsWrong) {
  const std::string to = ".shared::cluster.mbarrier::complete_tx::bytes";
  const auto check = [](const std::string& instruction, FaultKind kind = FaultKind::kCheck) {
    return fault_of(kind, [&] { run(send("128", instruction)); });
  };
  EXPECT_THAT(check("st.async.weak" + to + ".b32 [%r9], %r1, [bar];"),
              HasSubstr("the mbarrier is in the shared memory of block 1, the destination in block "
                        "0's; it must be in the same"));
  EXPECT_THAT(check("st.async.weak" + to + ".v2.b32 [%r9+4], {%r1, %r2}, [%r10];",
                    FaultKind::kMisalignedAddress),
              HasSubstr("must be a multiple of 8"));
  EXPECT_THAT(check("st.async.weak" + to + ".v4.b64 [%r9], {%s1, %s1, %s1, %s1}, [%r10];",
                    FaultKind::kIllegalInstruction),
              HasSubstr("at most 128"));
  EXPECT_THAT(check("st.async.release.gpu.global.u32 [%rd2], %r1;", FaultKind::kIllegalInstruction),
              HasSubstr("needs sm_100"));
  EXPECT_THAT(check("red.async.relaxed.cluster" + to + ".min.u64 [%r9], %s1, [%r10];",
                    FaultKind::kIllegalInstruction),
              HasSubstr(".min of type .u64 is not known"));
  EXPECT_THAT(
      check("st.async.weak" + to + ".b32 [%r9+4096], %r1, [%r10];", FaultKind::kIllegalAddress),
      HasSubstr("shared memory ends"));
}

}  // namespace
}  // namespace mpfa::sim
