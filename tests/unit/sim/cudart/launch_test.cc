#include <cuda_runtime_api.h>

#include <numeric>
#include <vector>

#include "cudart_test.h"
#include "kernels.h"

// What nvcc's <<<>>> calls.
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                cudaStream_t stream);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                  void* stream);

namespace mpfa::sim {
namespace {

using LaunchTest = CudartTest;

const void* address_of(auto* kernel) { return reinterpret_cast<const void*>(kernel); }

TEST_F(LaunchTest, AddsVectors) {
  constexpr int kCount = 1000;
  std::vector<float> a(kCount);
  std::vector<float> b(kCount);
  std::iota(a.begin(), a.end(), 1.0F);
  std::iota(b.begin(), b.end(), -500.0F);
  const DeviceArray device_a(a);
  const DeviceArray device_b(b);
  launch_add(8, 128, 0, nullptr, device_a.data(), device_b.data(), kCount - 1);
  ASSERT_CUDA(cudaGetLastError());
  ASSERT_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < kCount - 1; ++i) b[i] += a[i];
  EXPECT_EQ(device_b.values(), b);
}

TEST_F(LaunchTest, PacksParametersByTheirAlignment) {
  const DeviceArray<int> out(1);
  int* pointer = out.data();
  char c = -7;
  double d = 100;
  int3 v = {1, 20, 3000};
  void* arguments[] = {&pointer, &c, &d, &v};
  ASSERT_CUDA(cudaLaunchKernel(address_of(add_params), 1, 1, arguments, 0, nullptr));
  EXPECT_EQ(out.values()[0], -7 + 100 + 3021);
}

TEST_F(LaunchTest, RejectsWhatTheDeviceCannotLaunch) {
  struct Case {
    dim3 grid;
    dim3 block;
    size_t shared;
  };
  const Case cases[] = {{1, 2000, 0},
                        {0, 32, 0},
                        {1, 0, 0},
                        {dim3(1, 65536), 32, 0},
                        {dim3(1, 1, 65536), 32, 0},
                        {dim3(2147483648U), 32, 0},
                        {1, dim3(1, 1, 65), 0},
                        {1, dim3(32, 33), 0},
                        {1, 32, 49153}};
  for (const Case& c : cases) {
    launch_add(c.grid, c.block, c.shared, nullptr, nullptr, nullptr, 0);
    EXPECT_CUDA(cudaPeekAtLastError(), cudaErrorInvalidValue)
        << c.grid.x << " " << c.block.x << " " << c.shared;
    EXPECT_CUDA(cudaGetLastError(), cudaErrorInvalidValue);
    EXPECT_CUDA(cudaGetLastError(), cudaSuccess);
    EXPECT_CUDA(cudaDeviceSynchronize(), cudaSuccess);  // nothing ran, nothing is broken
  }
}

TEST_F(LaunchTest, ReachesTheLargestBlocksAndGrids) {
  launch_add(dim3(1, 65535), 1, 0, nullptr, nullptr, nullptr, 0);
  EXPECT_CUDA(cudaGetLastError(), cudaSuccess);
  launch_add(1, dim3(16, 1, 64), 49152, nullptr, nullptr, nullptr, 0);
  EXPECT_CUDA(cudaGetLastError(), cudaSuccess);
}

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, size_t shared = 0) {
  int* null = nullptr;
  void* arguments[] = {&null};
  const cudaError_t error = cudaLaunchKernel(kernel, grid, block, arguments, shared, nullptr);
  cudaGetLastError();
  return error;
}

TEST_F(LaunchTest, HoldsLaunchBounds) {
  EXPECT_CUDA(launch(address_of(bounded), 1, 128), cudaSuccess);
  EXPECT_CUDA(launch(address_of(bounded), 1, 129), cudaErrorInvalidValue);
}

TEST_F(LaunchTest, UnknownKernels) {
  int not_a_kernel = 0;
  EXPECT_CUDA(launch(&not_a_kernel, 1, 1), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(launch(nullptr, 1, 1), cudaErrorInvalidDeviceFunction);
}

TEST_F(LaunchTest, DynamicSharedMemoryNeedsOptingInAbove48KiB) {
  const void* kernel = address_of(with_dynamic_shared);
  cudaFuncAttributes attributes{};
  EXPECT_CUDA(launch(kernel, 1, 1, 49153), cudaErrorInvalidValue);
  ASSERT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
  ASSERT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 100000);
  EXPECT_CUDA(launch(kernel, 1, 1, 100001), cudaErrorInvalidValue);
  const DeviceArray<int> out(1);
  int* pointer = out.data();
  void* arguments[] = {&pointer};
  ASSERT_CUDA(cudaLaunchKernel(kernel, 1, 1, arguments, 100000, nullptr));
  int sum = 0;
  for (int i = 0; i < 25000; ++i) sum += i % 8;
  EXPECT_EQ(out.values()[0], sum);
  ASSERT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 49152));
}

TEST_F(LaunchTest, FunctionAttributesHaveLimits) {
  const auto set = [](const void* kernel, cudaFuncAttribute attribute, int value) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, attribute, value);
    cudaGetLastError();
    return error;
  };
  constexpr auto kShared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  constexpr auto kCarveout = cudaFuncAttributePreferredSharedMemoryCarveout;
  EXPECT_CUDA(set(address_of(bounded), kShared, 232448), cudaSuccess);
  EXPECT_CUDA(set(address_of(bounded), kShared, 232449), cudaErrorInvalidValue);
  EXPECT_CUDA(set(address_of(bounded), kShared, -1), cudaErrorInvalidValue);
  EXPECT_CUDA(set(address_of(with_static_shared), kShared, 232448 - 4096), cudaSuccess);
  EXPECT_CUDA(set(address_of(with_static_shared), kShared, 232448), cudaErrorInvalidValue);
  EXPECT_CUDA(set(address_of(bounded), kCarveout, 101), cudaErrorInvalidValue);
  EXPECT_CUDA(set(address_of(bounded), kCarveout, 100), cudaSuccess);
  EXPECT_CUDA(set(address_of(bounded), static_cast<cudaFuncAttribute>(99), 0),
              cudaErrorInvalidValue);
  EXPECT_CUDA(set(address_of(clustered), cudaFuncAttributeRequiredClusterWidth, 4),
              cudaErrorInvalidValue);
  int not_a_kernel = 0;
  EXPECT_CUDA(set(&not_a_kernel, kShared, 0), cudaErrorInvalidResourceHandle);
}

TEST_F(LaunchTest, FunctionAttributes) {
  cudaFuncAttributes attributes{};
  ASSERT_CUDA(cudaFuncGetAttributes(&attributes, address_of(with_static_shared)));
  EXPECT_EQ(attributes.sharedSizeBytes, 4096u);
  EXPECT_EQ(attributes.localSizeBytes, 0u);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(attributes.ptxVersion, 90);
  EXPECT_EQ(attributes.binaryVersion, 90);
  EXPECT_EQ(attributes.preferredShmemCarveout, -1);
  EXPECT_EQ(attributes.clusterDimMustBeSet, 0);
  ASSERT_CUDA(cudaFuncGetAttributes(&attributes, address_of(bounded)));
  EXPECT_EQ(attributes.maxThreadsPerBlock, 128);
  ASSERT_CUDA(cudaFuncGetAttributes(&attributes, address_of(clustered)));
  EXPECT_EQ(attributes.clusterDimMustBeSet, 1);
  EXPECT_EQ(attributes.requiredClusterWidth, 2);
  EXPECT_EQ(attributes.requiredClusterHeight, 1);
  EXPECT_EQ(attributes.requiredClusterDepth, 1);
  EXPECT_CUDA(cudaFuncGetAttributes(nullptr, address_of(bounded)), cudaErrorInvalidValue);
  int not_a_kernel = 0;
  EXPECT_CUDA(cudaFuncGetAttributes(&attributes, &not_a_kernel), cudaErrorInvalidResourceHandle);
}

TEST_F(LaunchTest, NamesAndParameters) {
  const char* name = nullptr;
  ASSERT_CUDA(cudaFuncGetName(&name, address_of(add_params)));
  EXPECT_STREQ(name, "_Z10add_paramsPicd4int3");
  const std::vector<std::pair<size_t, size_t>> expected = {{0, 8}, {8, 1}, {16, 8}, {24, 12}};
  for (size_t i = 0; i < expected.size(); ++i) {
    size_t offset = 0;
    size_t bytes = 0;
    ASSERT_CUDA(cudaFuncGetParamInfo(address_of(add_params), i, &offset, &bytes));
    EXPECT_EQ(std::pair(offset, bytes), expected[i]) << i;
  }
  size_t offset = 0;
  EXPECT_CUDA(cudaFuncGetParamInfo(address_of(add_params), 4, &offset, nullptr),
              cudaErrorInvalidValue);
}

TEST_F(LaunchTest, KernelAndFunctionHandlesLaunch) {
  const DeviceArray<int> out(3);
  int* pointer = out.data();
  void* arguments[] = {&pointer};
  cudaKernel_t kernel = nullptr;
  ASSERT_CUDA(cudaGetKernel(&kernel, address_of(write_block_index)));
  ASSERT_CUDA(cudaLaunchKernel(kernel, 2, 1, arguments, 0, nullptr));
  cudaFunction_t function = nullptr;
  ASSERT_CUDA(cudaGetFuncBySymbol(&function, address_of(write_block_index)));
  ASSERT_CUDA(cudaLaunchKernel(function, 3, 1, arguments, 0, nullptr));
  EXPECT_EQ(out.values(), (std::vector{0, 1, 2}));
  int not_a_kernel = 0;
  EXPECT_CUDA(cudaGetKernel(&kernel, &not_a_kernel), cudaErrorInvalidDeviceFunction);
}

// Launches `kernel` with a cluster, or cooperatively, or both.
cudaError_t launch_ex(const void* kernel, dim3 grid, dim3 block, dim3 cluster, bool cooperative,
                      int* out = nullptr) {
  std::vector<cudaLaunchAttribute> attributes;
  if (cluster.x != 0) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster.x;
    attribute.val.clusterDim.y = cluster.y;
    attribute.val.clusterDim.z = cluster.z;
    attributes.push_back(attribute);
  }
  if (cooperative) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    attributes.push_back(attribute);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  void* arguments[] = {&out};
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments);
  cudaGetLastError();
  return error;
}

TEST_F(LaunchTest, ClustersOfALaunch) {
  const void* kernel = address_of(cluster_size);
  const DeviceArray<int> out(1);
  ASSERT_CUDA(launch_ex(kernel, dim3(4, 2), 32, dim3(2, 2), false, out.data()));
  EXPECT_EQ(out.values()[0], 4);
  EXPECT_CUDA(launch_ex(kernel, 8, 32, 8, false), cudaSuccess);
  EXPECT_CUDA(launch_ex(kernel, 4, 32, 3, false), cudaErrorInvalidClusterSize);  // does not divide
  EXPECT_CUDA(launch_ex(kernel, 4, 32, dim3(2, 0, 1), false), cudaErrorInvalidClusterSize);
  EXPECT_CUDA(launch_ex(kernel, 16, 32, 16, false), cudaErrorInvalidClusterSize);
  ASSERT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  EXPECT_CUDA(launch_ex(kernel, 16, 32, 16, false), cudaSuccess);
  EXPECT_CUDA(launch_ex(kernel, 9, 32, 9, false), cudaSuccess);
  EXPECT_CUDA(launch_ex(kernel, 32, 32, 32, false), cudaErrorInvalidClusterSize);
  ASSERT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 0));
}

TEST_F(LaunchTest, ClustersOfAKernel) {
  const void* kernel = address_of(clustered);
  const DeviceArray<int> out(4);
  launch_clustered(4, out.data());
  ASSERT_CUDA(cudaGetLastError());
  EXPECT_EQ(out.values(), std::vector<int>(4, 2));
  launch_clustered(3, nullptr);
  EXPECT_CUDA(cudaGetLastError(), cudaErrorInvalidClusterSize);
  EXPECT_CUDA(launch_ex(kernel, 4, 32, 2, false), cudaSuccess);
  EXPECT_CUDA(launch_ex(kernel, 4, 32, 4, false), cudaErrorInvalidClusterSize);
  EXPECT_CUDA(launch_ex(kernel, 4, 32, 1, false), cudaErrorInvalidClusterSize);
}

TEST_F(LaunchTest, CooperativeLaunchesMustFitTheDevice) {
  cudaDeviceProp prop{};
  ASSERT_CUDA(cudaGetDeviceProperties(&prop, 0));
  const auto fits = static_cast<unsigned>(prop.multiProcessorCount) * 2;
  const void* kernel = address_of(cluster_size);
  EXPECT_CUDA(launch_ex(kernel, fits, 1024, 1, true), cudaSuccess);
  EXPECT_CUDA(launch_ex(kernel, fits + 1, 1024, 1, true), cudaErrorCooperativeLaunchTooLarge);
  int* null = nullptr;
  void* arguments[] = {&null};
  EXPECT_CUDA(cudaLaunchCooperativeKernel(kernel, fits + 1, 1024, arguments, 0, nullptr),
              cudaErrorCooperativeLaunchTooLarge);
}

TEST_F(LaunchTest, BlocksOfCooperativeLaunchesWaitForEachOther) {
  const std::vector<int> in = {3, -1, 4, 1, 5, 9, 2};
  const auto blocks = static_cast<int>(in.size());
  const DeviceArray<int> numbers(in);
  const DeviceArray<int> scratch(in.size());
  const DeviceArray<int> out(std::vector<int>(in.size(), 0));
  int* pointers[] = {numbers.data(), scratch.data(), out.data()};
  int rounds = 3;
  void* arguments[] = {&pointers[0], &pointers[1], &pointers[2], &rounds};
  const void* kernel = address_of(sum_after_grid_sync);
  ASSERT_CUDA(cudaLaunchCooperativeKernel(kernel, blocks, 64, arguments, 0, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(out.values(), std::vector<int>(in.size(), rounds * 23 + blocks * (0 + 1 + 2)));
}

TEST_F(LaunchTest, ConfigurationsOfNestedCalls) {
  dim3 grid;
  dim3 block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(__cudaPushCallConfiguration(1, 2, 3, nullptr), 0u);
  ASSERT_EQ(__cudaPushCallConfiguration(4, 5, 6, cudaStreamPerThread), 0u);
  ASSERT_CUDA(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  EXPECT_EQ(grid.x + block.x + shared, 15u);
  EXPECT_EQ(stream, cudaStreamPerThread);
  ASSERT_CUDA(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  EXPECT_EQ(grid.x + block.x + shared, 6u);
  EXPECT_CUDA(__cudaPopCallConfiguration(&grid, &block, &shared, &stream),
              cudaErrorMissingConfiguration);
}

}  // namespace
}  // namespace mpfa::sim
