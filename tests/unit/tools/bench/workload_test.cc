#include "bench/workload.h"

#include <gtest/gtest.h>

#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

const BenchShape kShape{2, 6, 3, 64, 100};

TEST(Workload, AppendCountsWhatItReadsAndWrites) {
  Workload workload(BenchMode::kAppend, kShape, {.dtype = "fp16"});
  workload.run();
  EXPECT_EQ(workload.tokens(), 200.0);
  EXPECT_EQ(workload.input_bytes(), 2.0 * 200 * 3 * 64 * 2);
  EXPECT_EQ(workload.cache_bytes(), 200.0 * 3 * 108);
  EXPECT_EQ(workload.flops(), 0.0);
}

TEST(Workload, DecodeReadsEverySequenceOnce) {
  Workload workload(BenchMode::kDecode, kShape, {.residual_rank = 0, .delta_s = true});
  workload.run();
  EXPECT_EQ(workload.tokens(), 2.0);
  EXPECT_EQ(workload.cache_bytes(), 200.0 * 3 * (100 + 4));
  EXPECT_EQ(workload.flops(), 4.0 * 2 * 6 * 64 * 100);
}

TEST(Workload, PrefillCountsTheCausalHalf) {
  Workload workload(BenchMode::kPrefill, kShape, {.dtype = "fp32"});
  workload.run();
  EXPECT_EQ(workload.tokens(), 200.0);
  EXPECT_EQ(workload.flops(), 4.0 * 2 * 6 * 64 * 5050);
}

TEST(Workload, EveryPageSizeAndSplit) {
  for (const int64_t page_size : {16, 32, 64, 128}) {
    Workload workload(BenchMode::kDecode, {1, 2, 1, 128, 700},
                      {.page_size = page_size, .first_key = false, .kv_split_size = 128});
    workload.run();
  }
}

TEST(Workload, AShapeLargerThanTheMachineIsAnError) {
  EXPECT_THROW(Workload(BenchMode::kDecode, {1024, 1024, 1024, 128, 1 << 20}, {}), InvalidArgument);
}

}  // namespace
}  // namespace mpfa::tools
