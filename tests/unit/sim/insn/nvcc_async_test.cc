// Asynchronous copies and barriers as nvcc compiles CCCL's.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::PtxProgram;

constexpr int kTile = 128;
constexpr uint64_t kSeeds = 6;
const PtxProgram::Shape kOneBlock = {
    .grid = {1, 1, 1}, .block = {kTile, 1, 1}, .cluster = {1, 1, 1}, .dynamic_shared_bytes = 0};

// Some numbers without a pattern.
std::vector<int32_t> numbers(size_t count) {
  std::vector<int32_t> values(count);
  uint32_t state = 12345;
  for (int32_t& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<int32_t>(state >> 12);
  }
  return values;
}

class NvccAsync : public ::testing::TestWithParam<std::string> {
 protected:
  // Runs a kernel of one block, (in, out, args...), for several seeds.
  template <class... Args>
  void expect(const std::string& kernel, const std::vector<int32_t>& in,
              const std::vector<int32_t>& expected, const Args&... args) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      expect_once(seed, kernel, kOneBlock, in, expected, args...);
    }
  }

  template <class... Args>
  void expect_once(uint64_t seed, const std::string& kernel, const PtxProgram::Shape& shape,
                   const std::vector<int32_t>& in, const std::vector<int32_t>& expected,
                   const Args&... args) {
    std::ifstream file(std::string(MPFA_ASYNC_PTX) + GetParam() + ".ptx");
    GpuOptions options = testing::with_seed(seed);
    options.arch = GetParam();
    PtxProgram program({std::istreambuf_iterator<char>(file), {}}, options);
    const uint64_t out = program.upload(std::vector<int32_t>(expected.size()));
    if (in.empty()) {
      program.run(kernel, shape, out, args...);
    } else {
      program.run(kernel, shape, program.upload(in), out, args...);
    }
    EXPECT_EQ(program.download<int32_t>(out, expected.size()), expected)
        << kernel << ", seed " << seed;
  }
};

TEST_P(NvccAsync, Pipeline) {
  constexpr int kTiles = 7;
  const auto in = numbers(kTile * kTiles);
  std::vector<int32_t> expected(in.size());
  for (int tile = 0; tile < kTiles; ++tile) {
    const int32_t* from = in.data() + tile * kTile;
    for (int i = 0; i < kTile; ++i) expected[tile * kTile + i] = 3 * from[i] + from[kTile - 1 - i];
  }
  expect("pipeline_copy", in, expected, kTiles);
}

TEST_P(NvccAsync, PartitionedPipeline) {
  constexpr int kTiles = 5;
  const auto in = numbers(kTile * kTiles);
  std::vector<int32_t> expected(in.size());
  for (size_t i = 0; i < in.size(); ++i) expected[i] = in[i] - in[i ^ 1];
  expect("partitioned_pipeline", in, expected, kTiles);
}

TEST_P(NvccAsync, CopyThatABarrierTracks) {
  const auto in = numbers(kTile * 3);
  std::vector<int32_t> expected(in.size());
  for (int i = 0; i < kTile * 3; ++i) {
    expected[i] = in[i / kTile * kTile + (kTile - 1 - i % kTile)];
  }
  expect("barrier_copy", in, expected);
}

// In turn t the warps behind t count, 32 threads each.
TEST_P(NvccAsync, WarpsLeaveABarrier) {
  std::vector<int32_t> expected(kTile);
  for (int i = 0; i < kTile; ++i) {
    const int warp = i / 32;
    expected[i] = warp == 0 ? 0 : 32 * (4 - warp);
  }
  expect("leaving", {}, expected);
}

TEST_P(NvccAsync, PipelinePrimitives) {
  const auto in = numbers(kTile * 4);
  std::vector<int32_t> expected(kTile);
  for (int i = 0; i < kTile; ++i) {
    const int32_t* from = in.data() + 4 * i;
    // zfill: of the second copy 8 bytes are zeros for even threads.
    const int32_t z = i % 2 == 0 ? 0 : from[2];
    const auto sum = static_cast<uint32_t>(from[0]) + 10u * static_cast<uint32_t>(from[3]) +
                     100u * static_cast<uint32_t>(from[1]) + 1000u * static_cast<uint32_t>(z);
    expected[i] = static_cast<int32_t>(sum);
  }
  expect("primitives", in, expected);
}

TEST_P(NvccAsync, BarrierPrimitives) {
  std::vector<int32_t> expected(kTile);
  for (int i = 0; i < kTile; ++i) expected[i] = 5 * (i ^ 127);
  expect("awbarrier", {}, expected);
}

TEST_P(NvccAsync, BulkCopiesInAndOut) {
  if (GetParam() == "sm_80") GTEST_SKIP() << "sm_80 has no bulk copies";
  const auto in = numbers(4096);
  std::vector<int32_t> expected(in);
  for (int32_t& value : expected) value += 1;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    expect_once(
        seed, "bulk_through",
        {.grid = {4, 1, 1}, .block = {96, 1, 1}, .cluster = {1, 1, 1}, .dynamic_shared_bytes = 0},
        in, expected);
  }
}

TEST_P(NvccAsync, StoresAndReductionsInTheCluster) {
  if (GetParam() == "sm_80") GTEST_SKIP() << "sm_80 has no clusters";
  const auto in = numbers(256);
  std::vector<int32_t> expected(5);
  for (int rank = 0; rank < 4; ++rank) {
    expected[rank] = std::accumulate(in.begin() + rank * 64, in.begin() + rank * 64 + 64, 0);
    expected[4] += expected[rank];
  }
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    expect_once(
        seed, "cluster_sum",
        {.grid = {4, 1, 1}, .block = {32, 1, 1}, .cluster = {4, 1, 1}, .dynamic_shared_bytes = 0},
        in, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, NvccAsync, ::testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace mpfa::sim
