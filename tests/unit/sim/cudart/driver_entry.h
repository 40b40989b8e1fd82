// How the tests reach the driver's functions: as programs that are not linked with it do.
#pragma once

#include <cuda.h>

#include "cudart_test.h"

namespace mpfa::sim {

template <typename Function>
Function* driver(const char* name, unsigned version = 12000) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  EXPECT_CUDA(
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &result),
      cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSuccess) << name;
  return reinterpret_cast<Function*>(function);
}

// Driver functions need a context, which a first call of the runtime makes.
class DriverApiTest : public CudartTest {
 protected:
  DriverApiTest() { cudaFree(nullptr); }
};

// A function of cuda.h, whose macros name its newest version.
#define DRIVER(name) driver<decltype(name)>(#name, CUDA_VERSION)

}  // namespace mpfa::sim
