// The driver's launches: their events, failures within captures, buffers of arguments.
#include <cuda.h>

#include <cstring>

#include "driver_entry.h"
#include "kernels.h"

namespace mpfa::sim {
namespace {

// add_params(out, 1, 2.5, {10, 20, 30}) = 63.
class DriverLaunchTest : public DriverApiTest {
 protected:
  DriverLaunchTest() {
    EXPECT_CUDA(cudaGetFuncBySymbol(&function_, reinterpret_cast<const void*>(&add_params)),
                cudaSuccess);
  }

  CUresult launch(CUstream stream, unsigned block, CUlaunchAttribute* attributes, unsigned count) {
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = block;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return DRIVER(cuLaunchKernelEx)(&config, function_, arguments_, nullptr);
  }

  DeviceArray<int> out_{std::vector<int>{0}};
  int* pointer_ = out_.data();
  char c_ = 1;
  double d_ = 2.5;
  int3 v_ = {10, 20, 30};
  void* arguments_[4] = {&pointer_, &c_, &d_, &v_};
  CUfunction function_ = nullptr;
};

TEST_F(DriverLaunchTest, RecordsTheEventsOfItsAttributes) {
  const TestStream stream(cudaStreamNonBlocking);
  const TestEvent event(cudaEventDisableTiming);
  CUlaunchAttribute completion{};
  completion.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  completion.value.launchCompletionEvent.event = event;
  CUlaunchAttribute programmatic{};
  programmatic.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  programmatic.value.programmaticEvent.event = event;
  for (CUlaunchAttribute* attribute : {&completion, &programmatic}) {
    EXPECT_EQ(launch(stream, 1, attribute, 1), CUDA_SUCCESS);
    EXPECT_CUDA(cudaEventSynchronize(event), cudaSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    EXPECT_EQ(launch(stream, 1, attribute, 1), CUDA_SUCCESS);
    // A record in a capture is not the device's.
    EXPECT_EQ(DRIVER(cuEventQuery)(event), CUDA_ERROR_CAPTURED_EVENT);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphDestroy(graph);
  }
}

TEST_F(DriverLaunchTest, AFailureInvalidatesTheCapture) {
  const TestStream stream(cudaStreamNonBlocking);
  const auto fails_in_capture = [&](const auto& call) {
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(call(), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(DRIVER(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  };
  fails_in_capture([&] { return launch(stream, 2000, nullptr, 0); });
  fails_in_capture([&] {
    return DRIVER(cuLaunchKernel)(function_, 1, 1, 1, 2000, 1, 1, 0, stream, arguments_, nullptr);
  });
  fails_in_capture([&] {
    return DRIVER(cuLaunchCooperativeKernel)(function_, 1, 1, 1, 2000, 1, 1, 0, stream, arguments_);
  });
}

TEST_F(DriverLaunchTest, ABufferHoldsArguments) {
  std::byte packed[48] = {};
  std::memcpy(packed, &pointer_, sizeof pointer_);
  std::memcpy(packed + 8, &c_, sizeof c_);
  std::memcpy(packed + 16, &d_, sizeof d_);
  std::memcpy(packed + 24, &v_, sizeof v_);
  constexpr size_t kParamBytes = 36;
  const auto call = [&](size_t bytes) {
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    return DRIVER(cuLaunchKernel)(function_, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
  };
  EXPECT_EQ(call(sizeof packed), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(out_.values()[0], 0);
  EXPECT_EQ(call(kParamBytes), CUDA_SUCCESS);
  EXPECT_EQ(out_.values()[0], 63);
  EXPECT_EQ(call(8), CUDA_SUCCESS);  // with whatever values
}

size_t shared_of(int threads) {
  int device = -1;
  EXPECT_CUDA(cudaGetDevice(&device), cudaSuccess);
  return threads > 256 ? size_t{1} << 30 : 0;
}

TEST_F(DriverLaunchTest, TheOccupancysCallbackMayCallTheApi) {
  int grid = 0;
  int block = 0;
  ASSERT_EQ(DRIVER(cuOccupancyMaxPotentialBlockSize)(&grid, &block, function_, &shared_of, 0, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(block, 256);
  EXPECT_EQ(grid, 8 * 132);
}

}  // namespace
}  // namespace mpfa::sim
