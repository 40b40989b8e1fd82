// mapa and getctarank; and the instructions that are only read: fences, launch control.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "unit/sim/support/fault_of.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using ::testing::ElementsAre;
using testing::fault_of;
using ::testing::HasSubstr;
using testing::one_kernel;
using testing::PtxProgram;

constexpr const char* kDeclarations = R"(
  .shared .align 16 .b8 data[64];
  .reg .b32 %r1, %r2, %r3, %r4, %r5, %r6;
  .reg .b64 %s<8>;
  .reg .pred %p<4>;
)";

// Threads 0 of 4 blocks of a cluster; %r5 is the rank. Each has 16 bytes of output.
std::vector<uint32_t> run(const std::string& body, uint32_t threads = 1) {
  const std::string start = R"(
    mov.u32 %r5, %cluster_ctarank;
    mad.wide.u32 %rd2, %r5, 16, %rd2;
  )";
  PtxProgram program(one_kernel(kDeclarations, start + body, 0, 0));
  const uint64_t out = program.upload(std::vector<uint32_t>(16));
  program.run("test", {.grid = {4, 1, 1}, .block = {threads, 1, 1}, .cluster = {4, 1, 1}}, out,
              out);
  return program.download<uint32_t>(out, 16);
}

std::string fault(const std::string& body, FaultKind kind) {
  return fault_of(kind, [&] { run(body); });
}

// Each block writes its rank to the next one's memory, by a 32-bit, a 64-bit and a generic address.
TEST(ClusterAddress, MapsToAnotherBlock) {
  const std::string body = R"(
    add.u32 %r1, %r5, 1;
    and.b32 %r1, %r1, 3;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mapa.shared::cluster.u32 %r2, data, %r1;
    st.shared::cluster.u32 [%r2], %r5;
    mov.u64 %s1, data;
    mapa.shared::cluster.u64 %s2, %s1, %r1;
    st.shared::cluster.u32 [%s2+4], %r5;
    cvta.shared.u64 %s3, %s1;
    mapa.u64 %s4, %s3, %r1;
    st.u32 [%s4+8], %r5;
    mapa.shared::cluster.u32 %r2, data + 12, %r1;
    st.shared::cluster.u32 [%r2], %r5;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [data];
    st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};)";
  EXPECT_THAT(run(body), ElementsAre(3, 3, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2));
}

TEST(ClusterAddress, TellsTheBlock) {
  const std::string body = R"(
    mapa.shared::cluster.u32 %r2, data, 2;
    getctarank.shared::cluster.u32 %r1, %r2;
    getctarank.shared::cluster.u32 %r2, data;
    cvta.shared.u64 %s3, data;
    getctarank.u64 %r3, %s3;
    mapa.u64 %s4, %s3, 1;
    getctarank.u64 %r4, %s4;
    st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};)";
  EXPECT_THAT(run(body), ElementsAre(2, 0, 0, 1, 2, 1, 1, 1, 2, 2, 2, 1, 2, 3, 3, 1));
}

TEST(ClusterAddress, Errors) {
  EXPECT_THAT(fault("mapa.shared::cluster.u32 %r2, data, 4;", FaultKind::kCheck),
              HasSubstr("the block is 4; the cluster has 4"));
  EXPECT_THAT(fault("mapa.u64 %s1, %rd2, 0;", FaultKind::kInvalidAddressSpace),
              HasSubstr("is not one of shared memory"));
  EXPECT_THAT(fault("mapa.shared::cluster.u16 %r2, data, 0;", FaultKind::kIllegalInstruction),
              HasSubstr("the type must be .u32 or .u64"));
}

// Every form of the PTX ISA is read.
TEST(Fences, AllFormsAreKnown) {
  std::string body;
  for (const std::string scope : {"cta", "cluster", "gpu", "sys"}) {
    for (const std::string order : {"", ".sc", ".acq_rel", ".acquire", ".release"}) {
      body += "fence" + order + "." + scope + ";\n";
    }
    body += "fence.proxy.tensormap::generic.release." + scope + ";\n";
    body += "fence.proxy.tensormap::generic.acquire." + scope + " [%rd2], 128;\n";
  }
  for (const std::string proxy :
       {"alias", "async", "async.global", "async.shared::cta", "async.shared::cluster"}) {
    body += "fence.proxy." + proxy + ";\nmembar.proxy." + proxy + ";\n";
  }
  for (const std::string level : {"cta", "gl", "sys"}) body += "membar." + level + ";\n";
  body +=
      "fence.mbarrier_init.release.cluster;\n"
      "fence.acquire.sync_restrict::shared::cluster.cluster;\n"
      "fence.release.sync_restrict::shared::cta.cluster;\n"
      "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;\n"
      "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;\n";
  run(body);
}

TEST(Fences, Errors) {
  const auto decode = [](const std::string& line) {
    return fault(line, FaultKind::kIllegalInstruction);
  };
  EXPECT_THAT(decode("fence.acq_rel;"), HasSubstr("the scope is missing"));
  EXPECT_THAT(decode("fence.proxy.magic;"), HasSubstr("the proxy is not known"));
  EXPECT_THAT(decode("fence.proxy.async.everything;"), HasSubstr(".everything is not known here"));
  EXPECT_THAT(decode("fence.proxy.tensormap::generic.acquire.gpu [%rd2], 64;"),
              HasSubstr("it must be 128"));
  EXPECT_THAT(decode("fence.mbarrier_init.release.gpu;"), HasSubstr(".release.cluster"));
  EXPECT_THAT(decode("fence.acquire.sync_restrict::shared::cta.cluster;"),
              HasSubstr("do not go together"));
}

TEST(LaunchControl, IsRead) {
  run("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n"
      "setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 256;\n",
      64);
  for (const std::string registers : {"16", "264", "100"}) {
    EXPECT_THAT(
        fault("setmaxnreg.inc.sync.aligned.u32 " + registers + ";", FaultKind::kIllegalInstruction),
        HasSubstr("the number of registers is " + registers));
  }
  EXPECT_THAT(fault("griddepcontrol.hope;", FaultKind::kIllegalInstruction),
              HasSubstr("the action is missing"));
  EXPECT_THAT(fault("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
                    ".b128 [data], [data];",
                    FaultKind::kIllegalInstruction),
              HasSubstr("clusterlaunchcontrol needs sm_100"));
}

// .aligned: half a warp waits for the other half, which never comes.
TEST(LaunchControl, AlignedNeedsTheWholeWarp) {
  const std::string ended = R"(
    setp.lt.u32 %p1, %r0, 16;
    @!%p1 exit;
    setmaxnreg.inc.sync.aligned.u32 64;)";
  run(ended, 32);
  const std::string waits = R"(
    setp.lt.u32 %p1, %r0, 16;
    @%p1 setmaxnreg.inc.sync.aligned.u32 64;
    @%p1 bar.warp.sync 0xFFFFFFFF;
    @!%p1 bar.warp.sync 0xFFFFFFFF;)";
  EXPECT_THAT(fault_of(FaultKind::kDeadlock, [&] { run(waits, 32); }), HasSubstr(".aligned"));
}

// %is_explicit_cluster is the one special register that is a predicate. A guard decides which lanes
// take it.
TEST(ClusterAddress, TellsWhetherClustersWereLaunched) {
  const std::string ptx = one_kernel("  .reg .b32 %r1;\n  .reg .pred %p<3>;", R"(
    setp.lt.u32 %p1, %r0, 20;
    setp.eq.u32 %p2, %r0, 25;
    @%p1 mov.pred %p2, %is_explicit_cluster;
    selp.b32 %r1, 7, 3, %p2;
    st.global.u32 [%rd2], %r1;
  )");
  for (const uint32_t blocks : {1u, 2u}) {
    SCOPED_TRACE(blocks);
    PtxProgram program(ptx);
    const uint64_t out = program.upload(std::vector<uint32_t>(32));
    program.run("test", {.grid = {2, 1, 1}, .cluster = {blocks, 1, 1}}, out, out);
    std::vector<uint32_t> expected(32, 3);
    if (blocks == 2) std::fill_n(expected.begin(), 20, 7u);
    expected[25] = 7;
    EXPECT_EQ(program.download<uint32_t>(out, 32), expected);
  }
}

}  // namespace
}  // namespace mpfa::sim
