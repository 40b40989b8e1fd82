// Reports of deadlocks.
#include "sim/machine/deadlock.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/machine/checks.h"
#include "sim/machine/fault.h"
#include "tests/unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kSeeds = 8;

// 64 threads, and %p1 that is true for those from `split` on.
std::string report_of(const std::string& body, int split, uint64_t seed, Checks checks = {}) {
  GpuOptions options;
  options.seed = seed;
  options.checks = checks;
  std::string ptx =
      testing::one_kernel(".reg .pred %p1;", ".loc 1 7 1\nsetp.ge.u32 %p1, %r0, " +
                                                 std::to_string(split) + ";\n" + body);
  ptx.insert(ptx.find(".visible"), ".file 1 \"wait.cu\"\n");
  testing::PtxProgram program(ptx, options);
  try {
    program.run("test", {.block = {64, 1, 1}}, uint64_t{0}, uint64_t{0});
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kDeadlock) << fault.what();
    return fault.what();
  }
  return {};
}

void expect_parts(const std::string& body, int split, std::initializer_list<const char*> parts) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string report = report_of(body, split, seed);
    for (const char* part : parts) {
      EXPECT_NE(report.find(part), std::string::npos) << part << " is missing in:\n" << report;
    }
  }
}

void expect_end(const std::string& body, int split) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) EXPECT_EQ(report_of(body, split, seed), "");
}

TEST(Deadlock, PartedWarp) {
  const std::string body = "@%p1 bra other;\nbar.sync 0;\nret;\nother:\nbar.sync 0;\n";
  expect_parts(
      body, 16,
      {"deadlock: every thread of the cluster waits",
       "barrier divergence: the threads of warp 0 of block (0, 0, 0) have parted", "wait.cu:7",
       "bar.sync 0;", "thread (0, 0, 0) and 15 more", "thread (16, 0, 0) and 15 more"});
  // Whole warps may meet at different instructions.
  expect_end(body, 32);
}

TEST(Deadlock, DifferentBarriers) {
  const std::string body = "@%p1 bra other;\nbar.sync 1, 64;\nret;\nother:\nbar.sync N, 64;\n";
  const auto with = [&](const std::string& number) {
    std::string text = body;
    return text.replace(text.find('N'), 1, number);
  };
  expect_parts(with("2"), 32,
               {"barrier divergence: threads of block (0, 0, 0) have arrived at different "
                "barriers: barrier 1 (32 of 64 threads), barrier 2 (32 of 64 threads)",
                "warp 0", "warp 1"});
  expect_end(with("1"), 32);
}

TEST(Deadlock, EndedThreads) {
  // Without a count the ended ones are not waited for.
  expect_parts("@%p1 ret;\nbar.sync 0, 64;\n", 32,
               {"barrier divergence: 32 threads of block (0, 0, 0) have ended; barrier 0 (32 of 64 "
                "threads) counts only those that arrive"});
  expect_end("@%p1 ret;\nbar.sync 0, 32;\n", 32);
  expect_end("@%p1 ret;\nbar.sync 0;\n", 32);
}

TEST(Deadlock, IsReportedWithoutTheChecks) {
  const std::string report = report_of("@%p1 ret;\nbar.sync 0, 64;\n", 32, 0, Checks::none());
  EXPECT_NE(report.find("at a barrier"), std::string::npos) << report;
  EXPECT_EQ(report.find("divergence"), std::string::npos) << report;
}

}  // namespace
}  // namespace mpfa::sim
