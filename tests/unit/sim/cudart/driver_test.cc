#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "driver_entry.h"
#include "kernels.h"

namespace mpfa::sim {
namespace {

using DriverTest = DriverApiTest;

TEST_F(DriverTest, EntryPoints) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const auto query = [&](const char* name, unsigned version) {
    EXPECT_CUDA(
        cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &result),
        cudaSuccess);
    return result;
  };
  EXPECT_EQ(query("cuTensorMapEncodeTiled", 12000), cudaDriverEntryPointSuccess);
  EXPECT_NE(function, nullptr);
  EXPECT_EQ(query("cuTensorMapEncodeTiled", 11000), cudaDriverEntryPointVersionNotSufficent);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(query("cuNope", 12000), cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
}

TEST_F(DriverTest, EntryPointsOfEitherDefaultStream) {
  const auto id_of_null = [](unsigned long long flags) {
    void* function = nullptr;
    EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuStreamGetId", &function, 12000, flags, nullptr),
                cudaSuccess);
    unsigned long long id = 0;
    EXPECT_EQ(reinterpret_cast<decltype(&cuStreamGetId)>(function)(nullptr, &id), CUDA_SUCCESS);
    return id;
  };
  unsigned long long legacy = 0;
  unsigned long long per_thread = 0;
  ASSERT_CUDA(cudaStreamGetId(cudaStreamLegacy, &legacy));
  ASSERT_CUDA(cudaStreamGetId(cudaStreamPerThread, &per_thread));
  EXPECT_NE(legacy, per_thread);
  EXPECT_EQ(id_of_null(cudaEnablePerThreadDefaultStream), per_thread);
  EXPECT_EQ(id_of_null(cudaEnableLegacyStream), legacy);
  EXPECT_EQ(id_of_null(cudaEnableDefault), legacy);
}

TEST_F(DriverTest, TheRuntimesLastErrorStays) {
  constexpr size_t kTooMuch = size_t{1} << 45;
  const auto fail_all = [] {
    CUdeviceptr memory = 0;
    int version = 0;
    EXPECT_EQ(DRIVER(cuMemAlloc)(&memory, kTooMuch), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_NE(DRIVER(cuMemFree)(CUdeviceptr{16}), CUDA_SUCCESS);
    EXPECT_NE(DRIVER(cuMemcpyHtoD)(CUdeviceptr{16}, &version, 4), CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuDriverGetVersion)(nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(DRIVER(cuDriverGetVersion)(&version), CUDA_SUCCESS);
  };
  EXPECT_CUDA(cudaGetLastError(), cudaSuccess);
  fail_all();
  EXPECT_CUDA(cudaGetLastError(), cudaSuccess);
  EXPECT_CUDA(cudaSetDevice(99), cudaErrorInvalidDevice);
  fail_all();
  EXPECT_CUDA(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST_F(DriverTest, OtherDevicesFail) {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int active = 0;
  for (const CUdevice device : {-1, 99}) {
    EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRetain)(&context, device), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRelease)(device), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(DRIVER(cuDevicePrimaryCtxReset)(device), CUDA_ERROR_INVALID_DEVICE);
  }
}

TEST_F(DriverTest, ErrorsAndDevice) {
  const char* text = nullptr;
  EXPECT_EQ(
      driver<CUresult(CUresult, const char**)>("cuGetErrorString")(CUDA_ERROR_INVALID_VALUE, &text),
      CUDA_SUCCESS);
  EXPECT_STREQ(text, "invalid argument");
  EXPECT_EQ(
      driver<CUresult(CUresult, const char**)>("cuGetErrorName")(CUDA_ERROR_INVALID_VALUE, &text),
      CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_INVALID_VALUE");
  int value = 0;
  CUdevice device = -1;
  EXPECT_EQ(driver<CUresult(CUdevice*)>("cuCtxGetDevice")(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(driver<CUresult(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute")(
                &value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 132);
}

const char* const kPtx = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 table[4];
.visible .global .attribute(.managed) .align 4 .u32 managed_table[3];
.visible .entry write_5(.param .u64 out)
{
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], 5;
  ret;
}
)";

TEST_F(DriverTest, Modules) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(driver<CUresult(CUmodule*, const void*)>("cuModuleLoadData")(&module, kPtx),
            CUDA_SUCCESS);
  auto* get = driver<CUresult(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction");
  EXPECT_EQ(get(&function, module, "nope"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(get(&function, module, "write_5"), CUDA_SUCCESS);
  const DeviceArray<int> out(1);
  int* pointer = out.data();
  void* arguments[] = {&pointer};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  auto* launch =
      driver<CUresult(const CUlaunchConfig*, CUfunction, void**, void**)>("cuLaunchKernelEx");
  EXPECT_EQ(launch(&config, function, arguments, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(out.values()[0], 5);
  config.blockDimX = 2000;
  EXPECT_EQ(launch(&config, function, arguments, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cudaGetLastError(), cudaSuccess);  // which is the runtime's alone
  EXPECT_EQ(driver<CUresult(CUmodule)>("cuModuleUnload")(module), CUDA_SUCCESS);
}

TEST_F(DriverTest, Contexts) {
  EXPECT_EQ(DRIVER(cuInit)(0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  CUcontext current = nullptr;
  ASSERT_EQ(DRIVER(cuCtxCreate)(&context, nullptr, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context);
  EXPECT_EQ(DRIVER(cuCtxPopCurrent)(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuCtxPushCurrent)(context), CUDA_SUCCESS);
  int managed = 0;
  EXPECT_EQ(DRIVER(cuDeviceGetAttribute)(
                &managed, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(managed, 1);
  int major = 0;
  int minor = -1;
  EXPECT_EQ(driver<CUresult(int*, int*, CUdevice)>("cuDeviceComputeCapability")(&major, &minor, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(major * 10 + minor, 90);
  size_t limit = 0;
  EXPECT_EQ(DRIVER(cuCtxGetLimit)(&limit, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(limit, 8u << 20);
  EXPECT_EQ(DRIVER(cuCtxDestroy)(context), CUDA_SUCCESS);
}

TEST_F(DriverTest, StreamsAndEvents) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  ASSERT_EQ(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  const DeviceArray<float> a(std::vector<float>{1, 2});
  const DeviceArray<float> b(std::vector<float>{10, 20});
  CUfunction function = nullptr;
  ASSERT_CUDA(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(&add)));
  const float* from = a.data();
  float* to = b.data();
  int n = 2;
  void* arguments[] = {&from, &to, &n};
  EXPECT_EQ(DRIVER(cuLaunchKernel)(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuEventRecord)(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamWaitEvent)(nullptr, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuEventSynchronize)(event), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamQuery)(stream), CUDA_SUCCESS);
  EXPECT_EQ(b.values(), (std::vector<float>{11, 22}));
  int grid = 0;
  int block = 0;
  EXPECT_EQ(DRIVER(cuOccupancyMaxPotentialBlockSize)(&grid, &block, function, nullptr, 0, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 2 * 132);
  EXPECT_EQ(DRIVER(cuEventDestroy)(event), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamDestroy)(stream), CUDA_SUCCESS);
}

TEST_F(DriverTest, LinkerOfOneText) {
  CUlinkState linker = nullptr;
  ASSERT_EQ(DRIVER(cuLinkCreate)(0, nullptr, nullptr, &linker), CUDA_SUCCESS);
  std::string text = kPtx;
  ASSERT_EQ(DRIVER(cuLinkAddData)(linker, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "mine", 0,
                                  nullptr, nullptr),
            CUDA_SUCCESS);
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(DRIVER(cuLinkComplete)(linker, &image, &bytes), CUDA_SUCCESS);
  EXPECT_GT(bytes, 0u);
  CUmodule module = nullptr;
  ASSERT_EQ(DRIVER(cuModuleLoadData)(&module, image), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuLinkDestroy)(linker), CUDA_SUCCESS);
  CUfunction function = nullptr;
  EXPECT_EQ(DRIVER(cuModuleGetFunction)(&function, module, "write_5"), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuModuleUnload)(module), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuModuleLoad)(&module, "/no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(DriverTest, WhatTheCompilerRefuses) {
  const struct {
    const char* ptx;
    CUresult error;
    const char* part;  // of the log, of either compiler
  } kCases[] = {
      {".version 99.0\n.target sm_90\n.address_size 64\n", CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
       "nsupported .version 99.0"},
      {".version 9.0\n.target sm_120\n.address_size 64\n.visible .entry k(){ret;}\n",
       CUDA_ERROR_INVALID_PTX, ".target"},
      {".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(){mov.u32 a, 1;}\n",
       CUDA_ERROR_INVALID_PTX, "line 4"},
  };
  for (const auto& [ptx, error, part] : kCases) {
    constexpr size_t kCapacity = 512;
    char log[kCapacity] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(kCapacity)};
    CUmodule module = nullptr;
    EXPECT_EQ(DRIVER(cuModuleLoadDataEx)(&module, ptx, 2, options, values), error) << ptx;
    EXPECT_NE(std::string(log).find(part), std::string::npos) << log;
    EXPECT_GT(reinterpret_cast<uintptr_t>(values[1]), 0u);
    EXPECT_LT(reinterpret_cast<uintptr_t>(values[1]), kCapacity);
    EXPECT_EQ(DRIVER(cuModuleLoadData)(&module, ptx), error) << ptx;
  }
}

TEST_F(DriverTest, Libraries) {
  cudaLibrary_t library = nullptr;
  ASSERT_CUDA(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  ASSERT_CUDA(cudaLibraryGetKernelCount(&count, library));
  EXPECT_EQ(count, 1u);
  cudaKernel_t kernel = nullptr;
  EXPECT_CUDA(cudaLibraryGetKernel(&kernel, library, "nope"), cudaErrorSymbolNotFound);
  ASSERT_CUDA(cudaLibraryGetKernel(&kernel, library, "write_5"));
  const DeviceArray<int> out(1);
  int* pointer = out.data();
  void* arguments[] = {&pointer};
  ASSERT_CUDA(cudaLaunchKernel(kernel, 1, 1, arguments, 0, nullptr));
  EXPECT_EQ(out.values()[0], 5);
  void* table = nullptr;
  size_t bytes = 0;
  ASSERT_CUDA(cudaLibraryGetGlobal(&table, &bytes, library, "table"));
  EXPECT_EQ(bytes, 16u);
  EXPECT_CUDA(cudaMemset(table, 0, bytes), cudaSuccess);
  EXPECT_CUDA(cudaLibraryGetGlobal(&table, &bytes, library, "nope"), cudaErrorSymbolNotFound);
  ASSERT_CUDA(cudaLibraryGetManaged(&table, &bytes, library, "managed_table"));
  EXPECT_EQ(bytes, 12u);
  for (const char* name : {"table", "write_5", "nope"}) {
    EXPECT_CUDA(cudaLibraryGetManaged(&table, &bytes, library, name), cudaErrorSymbolNotFound);
  }
  EXPECT_CUDA(cudaLibraryUnload(library), cudaSuccess);
}

TEST_F(DriverTest, TensorMaps) {
  const DeviceArray<float> tensor(64 * 64);
  CUtensorMap map{};
  const cuuint64_t dim[] = {64, 64};
  const cuuint64_t strides[] = {256};
  const cuuint32_t box[] = {32, 8};
  const cuuint32_t element_strides[] = {1, 1};
  auto* encode = driver<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  const auto call = [&](const cuuint64_t* stride) {
    return encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, tensor.data(), dim, stride, box,
                  element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_EQ(call(strides), CUDA_SUCCESS);
  const cuuint64_t odd[] = {260};
  EXPECT_EQ(call(odd), CUDA_ERROR_INVALID_VALUE);
  auto* replace = driver<decltype(cuTensorMapReplaceAddress)>("cuTensorMapReplaceAddress");
  ASSERT_EQ(call(strides), CUDA_SUCCESS);
  EXPECT_EQ(replace(&map, tensor.data() + 4), CUDA_SUCCESS);
  EXPECT_EQ(replace(&map, tensor.data() + 1), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace mpfa::sim
