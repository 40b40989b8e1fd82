// The checks of shared memory on monitor_kernels.cu and monitor_async_kernels.cu: the right kernels
// run, and give the same for every seed; the wrong ones are found for every seed.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/machine/fault.h"
#include "tests/unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kSeeds = 12;
constexpr const char* kEarlyEnd = "a barrier.cluster is missing";
constexpr const char* kAsyncEnd = "an asynchronous ";

struct Case {
  std::string name;
  std::string finding;  // in the wrong one's report
  uint32_t cluster = 1;

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

std::string read_ptx(const char* file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<int32_t> run(const std::string& name, uint32_t cluster, uint64_t seed,
                         Checks checks = {}) {
  static const std::string plain = read_ptx(MPFA_MONITOR_PTX);
  static const std::string async = read_ptx(MPFA_MONITOR_ASYNC_PTX);
  static const std::string library = read_ptx(MPFA_MONITOR_LIBRARY_PTX);
  const auto has = [&](const std::string& ptx) {
    return ptx.find(" " + name + "(") != std::string::npos;
  };
  const std::string& ptx = has(plain) ? plain : has(async) ? async : library;
  GpuOptions options;
  options.seed = seed;
  options.checks = checks;
  testing::PtxProgram program(ptx, options);
  std::vector<int32_t> data(256);
  std::iota(data.begin(), data.end(), 3);
  const uint64_t address = program.upload(data);
  program.run(name, {.grid = {cluster, 1, 1}, .block = {128, 1, 1}, .cluster = {cluster, 1, 1}},
              address);
  return program.download<int32_t>(address, data.size());
}

class MonitorNvccTest : public ::testing::TestWithParam<Case> {};

TEST_P(MonitorNvccTest, TheRightKernelRuns) {
  const Case& c = GetParam();
  const std::vector<int32_t> expected = run(c.name + "_right", c.cluster, 0, Checks::none());
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(run(c.name + "_right", c.cluster, seed), expected) << "seed " << seed;
  }
}

TEST_P(MonitorNvccTest, TheWrongKernelIsFound) {
  const Case& c = GetParam();
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    try {
      // A read that comes too early for a race to be seen may find nothing written.
      Checks checks;
      checks.uninitialized = c.finding.find("race") == std::string::npos;
      run(c.name + "_wrong", c.cluster, seed, checks);
      ADD_FAILURE() << "nothing found, seed " << seed;
    } catch (const Fault& fault) {
      // An access that comes after the block's end is an illegal one.
      const bool is_late = c.finding == kEarlyEnd && fault.kind() == FaultKind::kIllegalAddress;
      if (is_late) continue;
      EXPECT_TRUE(fault.kind() == FaultKind::kCheck);
      const std::string text = fault.what();
      EXPECT_NE(text.find(c.finding), std::string::npos) << text;
      EXPECT_NE(text.find(c.name + "_wrong"), std::string::npos) << text;
      EXPECT_NE(text.find("_kernels.cu:"), std::string::npos) << text;
    }
  }
}

class LibraryTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LibraryTest, IsNotReported) {
  const std::vector<int32_t> expected = run(GetParam(), 1, 0, Checks::none());
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(run(GetParam(), 1, seed), expected) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LibraryTest,
                         ::testing::Values("cub_reduce", "cub_scan", "cub_sort", "cub_rank",
                                           "cub_histogram", "cub_exchange", "groups", "barriers",
                                           "pipeline", "thread_pipeline", "references",
                                           "bulk_copies"),
                         [](const auto& info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(
    Kernels, MonitorNvccTest,
    ::testing::Values(
        Case{"tree_reduction", "race in shared memory"},
        Case{"warp_reduction", "race in shared memory"}, Case{"tiles", "race in shared memory"},
        Case{"histogram", "race in shared memory"}, Case{"named_barriers", "race in shared memory"},
        Case{"flag", "race in shared memory"}, Case{"last_arriver", "race in shared memory"},
        Case{"unwritten", "that nothing has written"}, Case{"same_value", "race in shared memory"},
        Case{"own_bytes", "race in shared memory"}, Case{"shuffle", "race in shared memory"},
        Case{"match_masks", "race in shared memory"}, Case{"half_warps", "race in shared memory"},
        Case{"early_ends", "race in shared memory"}, Case{"counted", "race in shared memory"},
        Case{"acquire", "race in shared memory"}, Case{"lock", "race in shared memory"},
        Case{"vectors", "race in shared memory"}, Case{"peer_read", "race in shared memory", 2},
        Case{"peer_end", kEarlyEnd, 2}, Case{"peer_atomic", "race in shared memory", 2}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    AsyncKernels, MonitorNvccTest,
    ::testing::Values(
        Case{"own_copy", "race in shared memory"},
        Case{"copies_of_others", "race in shared memory"},
        Case{"counted_copies", "race in shared memory"}, Case{"load", "race in shared memory"},
        Case{"ring", "race in shared memory"}, Case{"one_arrival", "race in shared memory"},
        Case{"store", "no fence.proxy.async between"},
        Case{"store_fenced_late", "no fence.proxy.async between"},
        Case{"store_twice", "race in shared memory"}, Case{"store_and_end", kAsyncEnd},
        Case{"store_unwritten", "that nothing has written"},
        Case{"product", "no fence.proxy.async between"},
        Case{"operands_again", "race in shared memory"},
        Case{"remote_stores", "race in shared memory", 2}, Case{"remote_arrival", kEarlyEnd, 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mpfa::sim
