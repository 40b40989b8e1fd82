#include <cuda_runtime_api.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "cudart_test.h"
#include "kernels.h"

namespace mpfa::sim {
namespace {

using MemoryTest = CudartTest;

TEST_F(MemoryTest, Allocations) {
  void* pointer = nullptr;
  EXPECT_CUDA(cudaMalloc(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_CUDA(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMalloc(&pointer, size_t{1} << 45), cudaErrorMemoryAllocation);
  ASSERT_CUDA(cudaMalloc(&pointer, 1000));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % 256, 0u);
  EXPECT_CUDA(cudaFree(static_cast<char*>(pointer) + 8), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(pointer), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(pointer), cudaSuccess);
  EXPECT_CUDA(cudaFree(pointer), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(nullptr), cudaSuccess);
  EXPECT_CUDA(cudaFree(&pointer), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(nullptr), cudaSuccess);
  EXPECT_CUDA(cudaFreeHost(&pointer), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeAsync(nullptr, nullptr), cudaSuccess);
  EXPECT_CUDA(cudaFreeAsync(&pointer, nullptr), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, PitchedAllocations) {
  void* pointer = nullptr;
  size_t pitch = 0;
  ASSERT_CUDA(cudaMallocPitch(&pointer, &pitch, 1025, 5));
  EXPECT_EQ(pitch, 1536u);
  EXPECT_CUDA(cudaFree(pointer), cudaSuccess);
  cudaPitchedPtr memory{};
  ASSERT_CUDA(cudaMalloc3D(&memory, {100, 3, 4}));
  EXPECT_EQ(memory.pitch, 512u);
  EXPECT_EQ(memory.xsize, 100u);
  EXPECT_EQ(memory.ysize, 3u);
  EXPECT_CUDA(cudaMemset(memory.ptr, 0, size_t{512} * 12), cudaSuccess);
  EXPECT_CUDA(cudaFree(memory.ptr), cudaSuccess);
}

TEST_F(MemoryTest, FreeMemoryShrinksByWhatIsAllocated) {
  constexpr size_t kBytes = size_t{64} << 20;
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&before, &total));
  void* pointer = nullptr;
  ASSERT_CUDA(cudaMalloc(&pointer, kBytes));
  ASSERT_CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before - after, kBytes);
  EXPECT_LE(before, total);
  EXPECT_CUDA(cudaFree(pointer), cudaSuccess);
  ASSERT_CUDA(cudaMallocHost(&pointer, kBytes));
  ASSERT_CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  EXPECT_CUDA(cudaFreeHost(pointer), cudaSuccess);
}

TEST_F(MemoryTest, CopiesStayInTheirAllocations) {
  const DeviceArray<char> device(1000);
  std::vector<char> host(2000);
  constexpr auto kTo = cudaMemcpyHostToDevice;
  constexpr auto kFrom = cudaMemcpyDeviceToHost;
  char* d = device.data();
  EXPECT_CUDA(cudaMemcpy(d, host.data(), 1000, kTo), cudaSuccess);
  EXPECT_CUDA(cudaMemcpy(d, host.data(), 1001, kTo), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpy(d + 999, host.data(), 1, kTo), cudaSuccess);
  EXPECT_CUDA(cudaMemcpy(d + 999, host.data(), 2, kTo), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpy(d + 1000, host.data(), 1, kTo), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpy(host.data(), d, 1001, kFrom), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpyAsync(d, host.data(), 1001, kTo, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemset(d, 0, 1001), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemset(d, 0, 1000), cudaSuccess);
}

TEST_F(MemoryTest, KindsOfCopiesAndAddresses) {
  const DeviceArray<char> device(64);
  std::vector<char> host(64);
  char* d = device.data();
  char* h = host.data();
  struct Case {
    void* dst;
    const void* src;
    int kind;
    cudaError_t expected;
  };
  const Case cases[] = {
      {h, d, cudaMemcpyHostToDevice, cudaErrorInvalidValue},
      {d, h, cudaMemcpyDeviceToHost, cudaErrorInvalidValue},
      {d, h, cudaMemcpyDeviceToDevice, cudaErrorInvalidValue},
      {h, h + 32, cudaMemcpyDeviceToDevice, cudaErrorInvalidValue},
      {h, h + 32, cudaMemcpyHostToHost, cudaSuccess},
      {h, h + 32, cudaMemcpyDefault, cudaSuccess},
      {h, d, cudaMemcpyDefault, cudaSuccess},
      {d, h, cudaMemcpyDefault, cudaSuccess},
      {d, d + 32, cudaMemcpyHostToDevice, cudaSuccess},
      {d, d + 32, cudaMemcpyDeviceToHost, cudaSuccess},
      {h, d, cudaMemcpyHostToHost, cudaSuccess},
      {h, d, 7, cudaErrorInvalidMemcpyDirection},
      {d, nullptr, cudaMemcpyHostToDevice, cudaErrorInvalidValue},
      {nullptr, h, cudaMemcpyHostToDevice, cudaErrorInvalidValue},
  };
  for (const Case& c : cases) {
    EXPECT_CUDA(cudaMemcpy(c.dst, c.src, 16, static_cast<cudaMemcpyKind>(c.kind)), c.expected)
        << c.kind << " of case " << &c - cases;
  }
  EXPECT_CUDA(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_CUDA(cudaMemset(h, 0, 4), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemset(nullptr, 0, 4), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemset(nullptr, 0, 0), cudaSuccess);
}

// Where a box of a copy lies in its memory.
struct Layout {
  size_t pitch;
  size_t rows;
  size_t x;
  size_t y;
  size_t z;
  size_t at(size_t i, size_t j, size_t k) const { return ((z + k) * rows + y + j) * pitch + x + i; }
};

TEST_F(MemoryTest, CopiesOfTwoDimensions) {
  std::vector<char> host(20 * 12);
  std::iota(host.begin(), host.end(), 0);
  std::vector<char> expected(32 * 12, 9);
  const DeviceArray device(expected);
  ASSERT_CUDA(
      cudaMemcpy2D(device.data() + 5, 32, host.data() + 3, 20, 15, 11, cudaMemcpyHostToDevice));
  for (size_t y = 0; y < 11; ++y) {
    for (size_t x = 0; x < 15; ++x) expected[5 + y * 32 + x] = host[3 + y * 20 + x];
  }
  EXPECT_EQ(device.values(), expected);
  ASSERT_CUDA(cudaMemset2D(device.data() + 1, 32, 0x1AB, 7, 12));
  for (size_t y = 0; y < 12; ++y) {
    for (size_t x = 0; x < 7; ++x) expected[1 + y * 32 + x] = static_cast<char>(0xAB);
  }
  EXPECT_EQ(device.values(), expected);

  constexpr auto kTo = cudaMemcpyHostToDevice;
  char* d = device.data();
  EXPECT_CUDA(cudaMemcpy2D(d, 10, host.data(), 20, 15, 2, kTo), cudaErrorInvalidPitchValue);
  EXPECT_CUDA(cudaMemcpy2D(d, 20, host.data(), 10, 15, 2, kTo), cudaErrorInvalidPitchValue);
  EXPECT_CUDA(cudaMemcpy2D(d, 40, host.data(), 20, 15, 12, kTo), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpy2D(d, 20, host.data(), 20, 0, 60, kTo), cudaSuccess);
  EXPECT_CUDA(cudaMemcpy2D(d, 0, host.data(), 20, 15, 1, kTo), cudaSuccess);         // one row
  EXPECT_CUDA(cudaMemcpy2D(d + 17, 32, host.data(), 20, 15, 12, kTo), cudaSuccess);  // to the end
  EXPECT_CUDA(cudaMemcpy2D(d + 18, 32, host.data(), 20, 15, 12, kTo), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemset2D(d, 10, 0, 15, 2), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemset2D(d, 32, 0, 15, 13), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, CopiesOfThreeDimensions) {
  const Layout from = {20, 6, 2, 1, 1};
  const Layout to = {32, 5, 4, 0, 2};
  const cudaExtent extent = {13, 4, 3};
  std::vector<char> host(20 * 6 * 4);
  std::iota(host.begin(), host.end(), 1);
  std::vector<char> expected(32 * 5 * 5, 0);
  const DeviceArray device(expected);
  cudaMemcpy3DParms params{};
  params.srcPtr = {host.data(), from.pitch, 20, from.rows};
  params.srcPos = {from.x, from.y, from.z};
  params.dstPtr = {device.data(), to.pitch, 32, to.rows};
  params.dstPos = {to.x, to.y, to.z};
  params.extent = extent;
  params.kind = cudaMemcpyHostToDevice;
  ASSERT_CUDA(cudaMemcpy3D(&params));
  for (size_t k = 0; k < extent.depth; ++k) {
    for (size_t j = 0; j < extent.height; ++j) {
      for (size_t i = 0; i < extent.width; ++i) expected[to.at(i, j, k)] = host[from.at(i, j, k)];
    }
  }
  EXPECT_EQ(device.values(), expected);

  params.extent = {19, 4, 3};  // x + width exceeds the source's pitch
  EXPECT_CUDA(cudaMemcpy3D(&params), cudaErrorInvalidValue);
  params.extent = {21, 4, 3};
  EXPECT_CUDA(cudaMemcpy3D(&params), cudaErrorInvalidPitchValue);
  params.extent = {13, 6, 3};
  EXPECT_CUDA(cudaMemcpy3D(&params), cudaErrorInvalidPitchValue);
  params.extent = {13, 4, 0};
  EXPECT_CUDA(cudaMemcpy3D(&params), cudaSuccess);
  EXPECT_CUDA(cudaMemcpy3D(nullptr), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, FillsOfThreeDimensions) {
  std::vector<char> expected(20 * 5 * 5, 1);
  const DeviceArray device(expected);
  ASSERT_CUDA(cudaMemset3D({device.data(), 20, 20, 5}, 7, {11, 3, 5}));
  for (size_t z = 0; z < 5; ++z) {
    for (size_t y = 0; y < 3; ++y) {
      for (size_t x = 0; x < 11; ++x) expected[(z * 5 + y) * 20 + x] = 7;
    }
  }
  EXPECT_EQ(device.values(), expected);
  EXPECT_CUDA(cudaMemset3D({device.data(), 20, 20, 5}, 0, {21, 5, 5}), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemset3D({device.data(), 20, 20, 5}, 0, {20, 6, 5}), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, Variables) {
  const std::vector<int> values = {10, 20, 30, 40, 50, 60, 70, 80};
  constexpr auto kTo = cudaMemcpyHostToDevice;
  const void* global = global_values_symbol();
  ASSERT_CUDA(cudaMemcpyToSymbol(global, values.data(), 32, 0, kTo));
  ASSERT_CUDA(cudaMemcpyToSymbol(global, values.data(), 4, 12, kTo));  // [3] = 10
  const int constant = 7;
  ASSERT_CUDA(cudaMemcpyToSymbol(constant_value_symbol(), &constant, 4, 0, kTo));
  managed_value_on_host() = 1000;
  const DeviceArray<int> out(1);
  int* pointer = out.data();
  void* arguments[] = {&pointer};
  ASSERT_CUDA(
      cudaLaunchKernel(reinterpret_cast<const void*>(use_variables), 1, 1, arguments, 0, nullptr));
  EXPECT_EQ(out.values()[0], 7 + 10 + 1000);
  std::vector<int> back(8);
  ASSERT_CUDA(cudaMemcpyFromSymbol(back.data(), global, 32, 0, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, (std::vector{10, 20, 30, 10, 50, 60, 70, 80}));
}

TEST_F(MemoryTest, VariablesHaveBounds) {
  std::vector<int> host(16);
  constexpr auto kTo = cudaMemcpyHostToDevice;
  const void* global = global_values_symbol();
  EXPECT_CUDA(cudaMemcpyToSymbol(global, host.data(), 33, 0, kTo), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpyToSymbol(global, host.data(), 4, 30, kTo), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpyToSymbol(global, host.data(), 4, 28, kTo), cudaSuccess);
  EXPECT_CUDA(cudaMemcpyToSymbol(host.data(), host.data(), 4, 0, kTo), cudaErrorInvalidSymbol);
  EXPECT_CUDA(cudaMemcpyToSymbol(global, host.data(), 4, 0, cudaMemcpyDeviceToHost),
              cudaErrorInvalidMemcpyDirection);
  size_t bytes = 0;
  EXPECT_CUDA(cudaGetSymbolSize(&bytes, global), cudaSuccess);
  EXPECT_EQ(bytes, 32u);
  void* address = nullptr;
  EXPECT_CUDA(cudaGetSymbolAddress(&address, managed_value_symbol()), cudaSuccess);
  EXPECT_EQ(address, &managed_value_on_host());
  EXPECT_CUDA(cudaGetSymbolAddress(&address, host.data()), cudaErrorInvalidSymbol);
  EXPECT_CUDA(cudaGetSymbolAddress(&address, reinterpret_cast<const void*>(add)),
              cudaErrorInvalidSymbol);
}

cudaPointerAttributes attributes_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
  return attributes;
}

TEST_F(MemoryTest, PointerAttributes) {
  const DeviceArray<int> device(4);
  cudaPointerAttributes attributes = attributes_of(device.data() + 1);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, device.data() + 1);
  EXPECT_EQ(attributes.hostPointer, nullptr);

  int local = 0;
  attributes = attributes_of(&local);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes.device, -2);
  EXPECT_EQ(attributes.devicePointer, nullptr);
  EXPECT_EQ(attributes.hostPointer, &local);

  void* pinned = nullptr;
  ASSERT_CUDA(cudaMallocHost(&pinned, 64));
  attributes = attributes_of(pinned);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.devicePointer, pinned);
  EXPECT_EQ(attributes.hostPointer, pinned);
  EXPECT_CUDA(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(pinned), cudaSuccess);

  void* managed = nullptr;
  ASSERT_CUDA(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal));
  EXPECT_EQ(attributes_of(managed).type, cudaMemoryTypeManaged);
  EXPECT_CUDA(cudaFree(managed), cudaSuccess);
  EXPECT_CUDA(cudaMallocManaged(&managed, 100, 0), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, RegisteredHostMemory) {
  std::vector<char> host(8192);
  char* h = host.data();
  void* device = nullptr;
  unsigned flags = 0;
  ASSERT_CUDA(cudaHostRegister(h, 4096, cudaHostRegisterDefault));
  EXPECT_CUDA(cudaHostRegister(h, 4096, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(attributes_of(h).type, cudaMemoryTypeHost);
  EXPECT_CUDA(cudaHostGetFlags(&flags, h), cudaSuccess);
  EXPECT_EQ(flags, static_cast<unsigned>(cudaHostRegisterMapped));
  EXPECT_CUDA(cudaHostGetDevicePointer(&device, h + 8, 0), cudaSuccess);
  EXPECT_EQ(device, h + 8);
  EXPECT_CUDA(cudaHostGetDevicePointer(&device, h, 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaHostGetDevicePointer(&device, &flags, 0), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(h), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaHostUnregister(h + 8), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaHostUnregister(h), cudaSuccess);
  EXPECT_CUDA(cudaHostUnregister(h), cudaErrorHostMemoryNotRegistered);
  EXPECT_CUDA(cudaHostRegister(nullptr, 16, 0), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaHostRegister(h, 0, 0), cudaErrorInvalidValue);
  const DeviceArray<char> memory(64);
  EXPECT_CUDA(cudaHostRegister(memory.data(), 16, 0), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaHostAlloc(&device, 16, 77), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, KernelsReachPinnedAndRegisteredMemory) {
  int* pinned = nullptr;
  ASSERT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), 4));
  std::vector<int> registered(1024);
  ASSERT_CUDA(cudaHostRegister(registered.data(), 4096, 0));
  for (int* pointer : {pinned, registered.data()}) {
    void* arguments[] = {&pointer};
    ASSERT_CUDA(
        cudaLaunchKernel(reinterpret_cast<const void*>(store_at), 1, 1, arguments, 0, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(*pointer, 3);
  }
  EXPECT_CUDA(cudaHostUnregister(registered.data()), cudaSuccess);
  EXPECT_CUDA(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(MemoryTest, Pools) {
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t used = 0;
  ASSERT_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 0u);
  const TestStream stream;
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&memory, 1024, stream));
  ASSERT_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 1024u);
  EXPECT_CUDA(cudaFreeAsync(memory, stream), cudaSuccess);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 0u);
  EXPECT_CUDA(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);
  uint64_t threshold = UINT64_MAX;
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
              cudaSuccess);
  uint64_t got = 0;
  EXPECT_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got), cudaSuccess);
  EXPECT_EQ(got, threshold);
  threshold = 0;
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
              cudaSuccess);

  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t own = nullptr;
  ASSERT_CUDA(cudaMemPoolCreate(&own, &props));
  ASSERT_CUDA(cudaMallocFromPoolAsync(&memory, 100, own, stream));
  EXPECT_CUDA(cudaFreeAsync(memory, stream), cudaSuccess);
  EXPECT_CUDA(cudaMemPoolDestroy(own), cudaSuccess);
}

TEST_F(MemoryTest, HintsAreForManagedMemory) {
  const DeviceArray<char> device(100);
  char* managed = nullptr;
  ASSERT_CUDA(cudaMallocManaged(reinterpret_cast<void**>(&managed), 100, cudaMemAttachGlobal));
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  EXPECT_CUDA(cudaMemPrefetchAsync(managed, 100, location, 0, nullptr), cudaSuccess);
  EXPECT_CUDA(cudaMemPrefetchAsync(device.data(), 100, location, 0, nullptr),
              cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemAdvise(managed, 100, cudaMemAdviseSetReadMostly, location), cudaSuccess);
  EXPECT_CUDA(cudaMemAdvise(device.data(), 100, cudaMemAdviseSetReadMostly, location),
              cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(managed), cudaSuccess);
}

TEST_F(MemoryTest, BatchesOfCopies) {
  const DeviceArray<int> a(std::vector<int>{1, 2, 3});
  const DeviceArray<int> b(std::vector<int>{0, 0, 0});
  const TestStream stream;
  void* dsts[] = {b.data() + 2, b.data()};
  const void* srcs[] = {a.data(), a.data() + 1};
  const size_t sizes[] = {sizeof(int), 2 * sizeof(int)};
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t start = 0;
  ASSERT_CUDA(cudaMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &start, 1, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(b.values(), (std::vector<int>{2, 3, 1}));
  EXPECT_CUDA(cudaMemcpyBatchAsync(nullptr, srcs, sizes, 2, &attributes, &start, 1, stream),
              cudaErrorInvalidValue);
}

TEST_F(MemoryTest, PoolsByLocation) {
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t by_location = nullptr;
  cudaMemPool_t by_device = nullptr;
  ASSERT_CUDA(cudaMemGetDefaultMemPool(&by_location, &location, cudaMemAllocationTypePinned));
  ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&by_device, 0));
  EXPECT_EQ(by_location, by_device);
  ASSERT_CUDA(cudaMemSetMemPool(&location, cudaMemAllocationTypePinned, by_device));
  ASSERT_CUDA(cudaMemGetMemPool(&by_location, &location, cudaMemAllocationTypePinned));
  EXPECT_EQ(by_location, by_device);
}

TEST_F(MemoryTest, ChannelDescriptions) {
  const cudaChannelFormatDesc format =
      cudaCreateChannelDesc(8, 16, 32, 4, cudaChannelFormatKindFloat);
  EXPECT_EQ(format.x, 8);
  EXPECT_EQ(format.y, 16);
  EXPECT_EQ(format.z, 32);
  EXPECT_EQ(format.w, 4);
  EXPECT_EQ(format.f, cudaChannelFormatKindFloat);
}

}  // namespace
}  // namespace mpfa::sim
