#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "cudart_test.h"
#include "kernels.h"

namespace mpfa::sim {
namespace {

using DeviceTest = CudartTest;

int attribute(cudaDeviceAttr id) {
  int value = -1;
  EXPECT_CUDA(cudaDeviceGetAttribute(&value, id, 0), cudaSuccess) << id;
  return value;
}

TEST_F(DeviceTest, ThereIsOne) {
  int value = 0;
  EXPECT_CUDA(cudaGetDeviceCount(&value), cudaSuccess);
  EXPECT_EQ(value, 1);
  EXPECT_CUDA(cudaGetDevice(&value), cudaSuccess);
  EXPECT_EQ(value, 0);
  EXPECT_CUDA(cudaSetDevice(0), cudaSuccess);
  EXPECT_CUDA(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(900), 0),
              cudaErrorInvalidValue);
}

// The tests run on the default device, an H200.
TEST_F(DeviceTest, AttributesOfAnH200) {
  EXPECT_EQ(attribute(cudaDevAttrComputeCapabilityMajor), 9);
  EXPECT_EQ(attribute(cudaDevAttrComputeCapabilityMinor), 0);
  EXPECT_EQ(attribute(cudaDevAttrMultiProcessorCount), 132);
  EXPECT_EQ(attribute(cudaDevAttrMaxThreadsPerBlock), 1024);
  EXPECT_EQ(attribute(cudaDevAttrMaxThreadsPerMultiProcessor), 2048);
  EXPECT_EQ(attribute(cudaDevAttrMaxBlocksPerMultiprocessor), 32);
  EXPECT_EQ(attribute(cudaDevAttrMaxSharedMemoryPerBlock), 49152);
  EXPECT_EQ(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), 232448);
  EXPECT_EQ(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor), 233472);
  EXPECT_EQ(attribute(cudaDevAttrReservedSharedMemoryPerBlock), 1024);
  EXPECT_EQ(attribute(cudaDevAttrMaxPersistingL2CacheSize), 39321600);
  EXPECT_EQ(attribute(cudaDevAttrClusterLaunch), 1);
  EXPECT_EQ(attribute(cudaDevAttrCooperativeLaunch), 1);
  EXPECT_EQ(attribute(cudaDevAttrNumaId), -1);
}

TEST_F(DeviceTest, PropertiesAreTheAttributes) {
  cudaDeviceProp prop{};
  ASSERT_CUDA(cudaGetDeviceProperties(&prop, 0));
  EXPECT_STREQ(prop.name, "NVIDIA H200");
  EXPECT_EQ(prop.totalGlobalMem, 150109880320u);
  EXPECT_EQ(prop.major, 9);
  EXPECT_EQ(prop.warpSize, 32);
  EXPECT_EQ(prop.maxThreadsDim[2], 64);
  EXPECT_EQ(prop.maxGridSize[0], 2147483647);
  EXPECT_EQ(prop.maxGridSize[2], 65535);
  EXPECT_EQ(prop.multiProcessorCount, attribute(cudaDevAttrMultiProcessorCount));
  EXPECT_EQ(prop.sharedMemPerBlockOptin, 232448u);
  EXPECT_EQ(prop.reservedSharedMemPerBlock, 1024u);
  EXPECT_EQ(prop.regsPerMultiprocessor, 65536);
  EXPECT_EQ(prop.l2CacheSize, 62914560);
  EXPECT_EQ(prop.memoryBusWidth, 6016);
  EXPECT_EQ(prop.totalConstMem, 65536u);
  EXPECT_CUDA(cudaGetDeviceProperties(&prop, 1), cudaErrorInvalidDevice);
}

TEST_F(DeviceTest, VersionsLimitsAndConfiguration) {
  int version = 0;
  EXPECT_CUDA(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 13000);
  EXPECT_CUDA(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_GE(version, 13000);
  EXPECT_CUDA(cudaDriverGetVersion(nullptr), cudaErrorInvalidValue);
  size_t value = 0;
  EXPECT_CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 4096), cudaSuccess);
  EXPECT_CUDA(cudaDeviceGetLimit(&value, cudaLimitStackSize), cudaSuccess);
  EXPECT_EQ(value, 4096u);
  EXPECT_CUDA(cudaDeviceGetLimit(&value, cudaLimitDevRuntimeSyncDepth), cudaErrorUnsupportedLimit);
  EXPECT_CUDA(cudaDeviceSetLimit(static_cast<cudaLimit>(55), 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaSetDeviceFlags(77), cudaErrorInvalidValue);
  cudaFuncCache cache{};
  EXPECT_CUDA(cudaDeviceGetCacheConfig(&cache), cudaSuccess);
  EXPECT_EQ(cache, cudaFuncCachePreferNone);
  char bus[32];
  int device = -1;
  EXPECT_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, 0), cudaSuccess);
  EXPECT_CUDA(cudaDeviceGetByPCIBusId(&device, bus), cudaSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_CUDA(cudaDeviceGetByPCIBusId(&device, "0000:ff:00.0"), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaDeviceCanAccessPeer(&device, 0, 0), cudaSuccess);
  EXPECT_EQ(device, 0);
}

TEST_F(DeviceTest, NamesOfErrors) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidClusterSize), "cudaErrorInvalidClusterSize");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress),
               "an illegal memory access was encountered");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST_F(DeviceTest, LastErrorIsTheThreadsAndIsTakenOnce) {
  EXPECT_CUDA(cudaSetDevice(5), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaSetDevice(0), cudaSuccess);  // which leaves it
  EXPECT_CUDA(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaGetLastError(), cudaSuccess);
}

// In a process of its own, which the fault leaves without a device.
void fault_and_exit() {
  int* address = reinterpret_cast<int*>(0x100);
  void* arguments[] = {&address};
  cudaLaunchKernel(reinterpret_cast<const void*>(store_at), 1, 1, arguments, 0, nullptr);
  cudaGetLastError();
  std::string seen;
  const auto see = [&seen](cudaError_t error) { seen += std::to_string(error) + " "; };
  void* memory = nullptr;
  int value = 0;
  see(cudaDeviceSynchronize());
  see(cudaGetLastError());
  see(cudaGetLastError());
  see(cudaMalloc(&memory, 4));
  see(cudaGetDevice(&value));
  see(cudaGetDeviceCount(&value));
  see(cudaSetDevice(0));
  see(cudaRuntimeGetVersion(&value));
  see(cudaStreamCreate(reinterpret_cast<cudaStream_t*>(&memory)));
  see(cudaDeviceReset());
  see(cudaMalloc(&memory, 4));
  const std::string expected = "700 700 0 700 0 0 0 0 700 0 46 ";
  if (seen != expected) std::fprintf(stderr, "got %s\n", seen.c_str());
  std::exit(seen == expected ? 0 : 1);
}

TEST(DeviceDeathTest, FaultsStay) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fault_and_exit(), testing::ExitedWithCode(0), "");
}

// What a fork's child gets, whose parent has used the device.
int errors_of_child() {
  int value = 0;
  void* memory = nullptr;
  const bool right = cudaGetDeviceCount(&value) == cudaSuccess &&
                     cudaMalloc(&memory, 4) == cudaErrorInitializationError &&
                     cudaGetDevice(&value) == cudaErrorInitializationError &&
                     cudaSetDevice(0) == cudaErrorInitializationError &&
                     cudaDeviceSynchronize() == cudaErrorInitializationError &&
                     cudaGetLastError() == cudaErrorInitializationError &&
                     cudaDriverGetVersion(&value) == cudaSuccess;
  return right ? 7 : 1;
}

TEST_F(DeviceTest, AForksChildHasNone) {
  ASSERT_CUDA(cudaFree(nullptr));
  const pid_t child = fork();
  if (child == 0) _exit(errors_of_child());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_CUDA(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(DeviceTest, PeerAccess) {
  EXPECT_CUDA(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_CUDA(cudaDeviceEnablePeerAccess(0, 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaDeviceEnablePeerAccess(99, 0), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
}

void trap_and_exit() {
  cudaLaunchKernel(reinterpret_cast<const void*>(trap), 1, 1, nullptr, 0, nullptr);
  std::exit(cudaDeviceSynchronize());
}

TEST(DeviceDeathTest, TrapsAreLaunchFailures) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(trap_and_exit(), testing::ExitedWithCode(cudaErrorLaunchFailure & 0xFF), "");
}

}  // namespace
}  // namespace mpfa::sim
