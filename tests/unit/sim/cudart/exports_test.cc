// The simulated library has every function of the real one.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>

#include "driver_entry.h"

namespace mpfa::sim {
namespace {

std::set<std::string> names_of_table() {
  return {
#define EXPORT(name) #name,
#include "sim/cudart/exports.def"
#undef EXPORT
  };
}

TEST(Exports, EveryNameOfTheTableIsThere) {
  void* library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const std::string& name : names_of_table()) {
    EXPECT_NE(dlvsym(library, name.c_str(), "libcudart.so.13"), nullptr) << name;
  }
  dlclose(library);
}

#ifdef MPFA_REAL_CUDART
TEST(Exports, TheTableIsTheRealLibrarys) {
  const std::string command = "nm -D --defined-only " MPFA_REAL_CUDART;
  std::FILE* output = popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  ASSERT_NE(output, nullptr);
  std::set<std::string> real;
  char type = 0;
  char name[256];
  char line[512];
  while (std::fgets(line, sizeof line, output) != nullptr) {
    if (std::sscanf(line, "%*s %c %255[^@\n]", &type, name) == 2 && type == 'T') real.insert(name);
  }
  ASSERT_EQ(pclose(output), 0) << command;
  EXPECT_EQ(names_of_table(), real);
}
#endif

TEST(Exports, StandInsFailByName) {
  testing::internal::CaptureStderr();
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format{};
  EXPECT_CUDA(cudaMallocArray(&array, &format, 4, 0, 0), cudaErrorNotSupported);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "simulated libcudart: cudaMallocArray is not implemented\n");
  EXPECT_CUDA(cudaGetLastError(), cudaErrorNotSupported);
  EXPECT_CUDA(cudaGetLastError(), cudaSuccess);
}

// The real library writes to the null pointer.
TEST(Exports, NamesOfErrorsNeedAPlace) {
  EXPECT_EQ(DRIVER(cuGetErrorName)(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuGetErrorString)(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST(Exports, PhysicalMemoryThatIsNotToBeHadLeavesNoFile) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;  // the memory's file may not be larger
  std::signal(SIGXFSZ, SIG_IGN);
  const auto files = open_files();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const CUresult result = DRIVER(cuMemCreate)(&handle, 2 << 20, &properties, 0);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(open_files(), files);
}

TEST(Exports, AShortBufferOfArgumentsIsSaid) {
  const char* ptx =
      ".version 9.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry two(.param .u64 a, .param .u32 b)\n{\n  ret;\n}\n";
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(DRIVER(cuModuleLoadData)(&module, ptx), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuModuleGetFunction)(&function, module, "two"), CUDA_SUCCESS);
  const uint64_t values[2] = {};
  const auto said_of = [&](size_t bytes) {
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<uint64_t*>(values),
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    testing::internal::CaptureStderr();
    EXPECT_EQ(DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
              CUDA_SUCCESS);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_of(12), "");
  EXPECT_NE(said_of(8).find("two: the buffer of arguments has 8 of 12 bytes"), std::string::npos);
  EXPECT_EQ(DRIVER(cuModuleUnload)(module), CUDA_SUCCESS);
}

// What nvcc's headers make of cudaGetDriverEntryPointByVersion with --default-stream per-thread.
extern "C" decltype(cudaGetDriverEntryPointByVersion) cudaGetDriverEntryPointByVersion_ptsz;

TEST(Exports, EntryPointsFollowTheCallersDefaultStream) {
  unsigned long long per_thread = 0;
  ASSERT_CUDA(cudaStreamGetId(cudaStreamPerThread, &per_thread));
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ASSERT_CUDA(cudaGetDriverEntryPointByVersion_ptsz("cuStreamGetId", &function, 12000,
                                                    cudaEnableDefault, &result));
  unsigned long long id = 0;
  EXPECT_EQ(reinterpret_cast<decltype(&cuStreamGetId)>(function)(nullptr, &id), CUDA_SUCCESS);
  EXPECT_EQ(id, per_thread);
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuStreamGetId", &function, 12000, 7, &result),
              cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGetLastError(), cudaErrorInvalidValue);
}

#ifdef MPFA_SIM_CUDA_DRIVER
TEST(Exports, LibcudaHasBothDefaultStreams) {
  void* library = dlopen(MPFA_SIM_CUDA_DRIVER, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto id_of_null = [&](const char* name) {
    auto* get = reinterpret_cast<CUresult (*)(CUstream, unsigned long long*)>(dlsym(library, name));
    unsigned long long id = 0;
    EXPECT_EQ(get(nullptr, &id), CUDA_SUCCESS) << name;
    return id;
  };
  unsigned long long legacy = 0;
  unsigned long long per_thread = 0;
  ASSERT_CUDA(cudaStreamGetId(cudaStreamLegacy, &legacy));
  ASSERT_CUDA(cudaStreamGetId(cudaStreamPerThread, &per_thread));
  EXPECT_EQ(id_of_null("cuStreamGetId"), legacy);
  EXPECT_EQ(id_of_null("cuStreamGetId_ptsz"), per_thread);
  EXPECT_EQ(id_of_null("cuStreamGetId"), legacy);
  dlclose(library);
}
#endif

// An H200 runs what is left of the code in its memory, which a program cannot rely on.
TEST(Exports, AGraphOfUnloadedCodeFails) {
  const char* ptx =
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{\n  ret;\n}\n";
  cudaLibrary_t library = nullptr;
  ASSERT_CUDA(cudaLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaKernel_t kernel = nullptr;
  ASSERT_CUDA(cudaLibraryGetKernel(&kernel, library, "nothing"));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  cudaKernelNodeParams params{};
  params.func = kernel;
  params.gridDim = params.blockDim = dim3(1);
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(cudaGraphLaunch(exec, nullptr), cudaSuccess);
  ASSERT_CUDA(cudaLibraryUnload(library));
  EXPECT_CUDA(cudaGraphLaunch(exec, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaGraphKernelNodeGetParams(node, &params), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
}

TEST(Exports, FreedGraphMemoryIsNotUsed) {
  const auto used = [] {
    uint64_t value = 1;
    EXPECT_CUDA(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &value),
                cudaSuccess);
    return value;
  };
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams params{};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location.type = cudaMemLocationTypeDevice;
  params.bytesize = 1000;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_EQ(used(), 0u);
  ASSERT_CUDA(cudaGraphLaunch(exec, nullptr));
  EXPECT_EQ(used(), 1000u);
  ASSERT_CUDA(cudaFree(params.dptr));
  EXPECT_EQ(used(), 0u);
  EXPECT_CUDA(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
}

TEST(Exports, TheLinkerTakesOneTextOfPtx) {
  CUlinkState linker = nullptr;
  ASSERT_EQ(DRIVER(cuLinkCreate)(0, nullptr, nullptr, &linker), CUDA_SUCCESS);
  std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n";
  const auto add_text = [&](CUjitInputType type) {
    return DRIVER(cuLinkAddData)(linker, type, text.data(), text.size() + 1, "mine", 0, nullptr,
                                 nullptr);
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(add_text(CU_JIT_INPUT_OBJECT), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(add_text(CU_JIT_INPUT_PTX), CUDA_SUCCESS);
  EXPECT_EQ(add_text(CU_JIT_INPUT_PTX), CUDA_ERROR_NOT_SUPPORTED);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("mine is not PTX"), std::string::npos) << said;
  EXPECT_NE(said.find("mine is a second input"), std::string::npos) << said;
  EXPECT_EQ(DRIVER(cuLinkDestroy)(linker), CUDA_SUCCESS);
}

}  // namespace
}  // namespace mpfa::sim
