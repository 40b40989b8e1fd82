#include <cuda_runtime_api.h>

#include "cudart_test.h"
#include "kernels.h"

namespace mpfa::sim {
namespace {

using OccupancyTest = CudartTest;

int blocks_of(auto* kernel, int threads, size_t shared) {
  int blocks = -1;
  EXPECT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                  &blocks, reinterpret_cast<const void*>(kernel), threads, shared),
              cudaSuccess);
  return blocks;
}

// The numbers are an H200's.
TEST_F(OccupancyTest, BlocksOfAMultiprocessor) {
  struct Case {
    int threads;
    int by_threads;
    int by_shared;  // 40000 bytes
  };
  for (const auto& [threads, by_threads, by_shared] : {Case{32, 32, 5},
                                                       {64, 32, 5},
                                                       {100, 16, 5},
                                                       {128, 16, 5},
                                                       {256, 8, 5},
                                                       {384, 5, 5},
                                                       {512, 4, 4},
                                                       {768, 2, 2},
                                                       {1024, 2, 2}}) {
    EXPECT_EQ(blocks_of(store_at, threads, 0), by_threads) << threads;
    EXPECT_EQ(blocks_of(store_at, threads, 40000), by_shared) << threads;
  }
  EXPECT_EQ(blocks_of(store_at, 2000, 0), 0);
  EXPECT_EQ(blocks_of(store_at, 128, 300000), 0);
  EXPECT_EQ(blocks_of(bounded, 129, 0), 12);  // whether it could be launched is not asked
  int blocks = 0;
  EXPECT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                  &blocks, reinterpret_cast<const void*>(add), 0, 0),
              cudaErrorInvalidValue);
}

TEST_F(OccupancyTest, SharedMemoryLeftForABlock) {
  const auto* kernel = reinterpret_cast<const void*>(with_static_shared);
  struct Case {
    int blocks;
    size_t bytes;
  };
  for (const auto& [blocks, expected] : {Case{1, 228352},
                                         {2, 112640},
                                         {3, 73728},
                                         {4, 54272},
                                         {8, 25088},
                                         {16, 10496},
                                         {32, 3200}}) {
    size_t bytes = 0;
    EXPECT_CUDA(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, blocks, 32), cudaSuccess);
    EXPECT_EQ(bytes, expected) << blocks;
  }
  size_t bytes = 0;
  EXPECT_CUDA(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 33, 32),
              cudaErrorInvalidValue);
}

TEST_F(OccupancyTest, Clusters) {
  const auto* kernel = reinterpret_cast<const void*>(cluster_size);
  ASSERT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
  cudaLaunchConfig_t config{};
  config.gridDim = 64;
  config.blockDim = 128;
  config.dynamicSmemBytes = 200000;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {1, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  struct Case {
    unsigned size;
    int clusters;
  };
  for (const auto& [size, expected] : {Case{1, 132}, {2, 66}, {4, 30}, {8, 15}}) {
    attribute.val.clusterDim.x = size;
    int clusters = 0;
    EXPECT_CUDA(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), cudaSuccess);
    EXPECT_EQ(clusters, expected) << size;
  }
  config.dynamicSmemBytes = 0;  // room for 16 blocks, of which clusters get 8
  attribute.val.clusterDim.x = 2;
  int most = 0;
  EXPECT_CUDA(cudaOccupancyMaxActiveClusters(&most, kernel, &config), cudaSuccess);
  EXPECT_EQ(most, 528);
  config.numAttrs = 0;
  int size = 0;
  EXPECT_CUDA(cudaOccupancyMaxPotentialClusterSize(&size, kernel, &config), cudaSuccess);
  EXPECT_EQ(size, 8);
  ASSERT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  EXPECT_CUDA(cudaOccupancyMaxPotentialClusterSize(&size, kernel, &config), cudaSuccess);
  EXPECT_EQ(size, 16);
  ASSERT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 0));
}

}  // namespace
}  // namespace mpfa::sim
