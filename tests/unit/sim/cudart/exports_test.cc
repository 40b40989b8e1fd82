// The simulated library has every function of the real one.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "cudart_test.h"

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
}

}  // namespace
}  // namespace mpfa::sim
