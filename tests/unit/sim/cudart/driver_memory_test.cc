// The driver's memory: allocations, copies, fills, virtual memory.
#include <cuda.h>

#include <vector>

#include "driver_entry.h"

namespace mpfa::sim {
namespace {

using DriverMemoryTest = DriverApiTest;

constexpr size_t kPage = 2 << 20;

CUmemAllocationProp on_device() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

CUresult allow(CUdeviceptr address, size_t bytes) {
  CUmemAccessDesc access{};
  access.location = on_device().location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return DRIVER(cuMemSetAccess)(address, bytes, &access, 1);
}

CUmemGenericAllocationHandle make(size_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = on_device();
  EXPECT_EQ(DRIVER(cuMemCreate)(&handle, bytes, &properties, 0), CUDA_SUCCESS);
  return handle;
}

TEST_F(DriverMemoryTest, NoBytesAreNoAllocation) {
  CUdeviceptr memory = 0;
  EXPECT_EQ(DRIVER(cuMemAlloc)(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemAlloc)(nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemAllocManaged)(&memory, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
  size_t pitch = 0;
  EXPECT_EQ(DRIVER(cuMemAllocPitch)(&memory, &pitch, 0, 4, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemAllocPitch)(&memory, &pitch, 4, 0, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverMemoryTest, CopiesAndFills) {
  CUdeviceptr memory = 0;
  ASSERT_EQ(DRIVER(cuMemAlloc)(&memory, 64), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemsetD32)(memory, 0x01020304, 16), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemsetD16)(memory + 4, 0xABCD, 1), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemsetD8)(memory + 8, 0xEE, 3), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemsetD2D32)(memory + 32, 16, 7, 2, 2), CUDA_SUCCESS);
  std::vector<uint32_t> values(16);
  EXPECT_EQ(DRIVER(cuMemcpyDtoH)(values.data(), memory, 64), CUDA_SUCCESS);
  const uint32_t same = 0x01020304;
  EXPECT_EQ(values, (std::vector<uint32_t>{same, 0x0102ABCD, 0x01EEEEEE, same, same, same, same,
                                           same, 7, 7, same, same, 7, 7, same, same}));
  EXPECT_EQ(DRIVER(cuMemcpyDtoD)(memory, memory + 32, 8), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemcpy)(memory + 8, memory + 4, 4), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemcpyDtoH)(values.data(), memory, 12), CUDA_SUCCESS);
  EXPECT_EQ(values[0] + values[1] + values[2], 21u);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_EQ(DRIVER(cuMemGetAddressRange)(&base, &bytes, memory + 63), CUDA_SUCCESS);
  EXPECT_EQ(base, memory);
  EXPECT_EQ(bytes, 64u);
  EXPECT_EQ(DRIVER(cuMemGetAddressRange)(&base, &bytes, 16), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(DRIVER(cuMemFree)(memory), CUDA_SUCCESS);
}

TEST_F(DriverMemoryTest, CopiesOfRows) {
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  ASSERT_EQ(DRIVER(cuMemAllocPitch)(&memory, &pitch, 12, 3, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 512u);
  const std::vector<uint8_t> in = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = 4;
  copy.srcXInBytes = 1;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = pitch;
  copy.dstXInBytes = 5;
  copy.dstY = 1;
  copy.WidthInBytes = 2;
  copy.Height = 2;
  EXPECT_EQ(DRIVER(cuMemcpy2D)(&copy), CUDA_SUCCESS);
  std::vector<uint8_t> row(2);
  EXPECT_EQ(DRIVER(cuMemcpyDtoH)(row.data(), memory + pitch + 5, 2), CUDA_SUCCESS);
  EXPECT_EQ(row, (std::vector<uint8_t>{6, 7}));
  EXPECT_EQ(DRIVER(cuMemcpyDtoH)(row.data(), memory + 2 * pitch + 5, 2), CUDA_SUCCESS);
  EXPECT_EQ(row, (std::vector<uint8_t>{10, 11}));
  EXPECT_EQ(DRIVER(cuMemFree)(memory), CUDA_SUCCESS);
}

TEST_F(DriverMemoryTest, PhysicalMemoryIsMappedWhereTheProgramSays) {
  size_t unit = 0;
  const CUmemAllocationProp properties = on_device();
  ASSERT_EQ(
      DRIVER(cuMemGetAllocationGranularity)(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      CUDA_SUCCESS);
  ASSERT_EQ(unit, kPage);
  CUdeviceptr start = 0;
  ASSERT_EQ(DRIVER(cuMemAddressReserve)(&start, 3 * kPage, 0, 0, 0), CUDA_SUCCESS);
  const CUmemGenericAllocationHandle a = make(kPage);
  const CUmemGenericAllocationHandle b = make(kPage);
  ASSERT_EQ(DRIVER(cuMemMap)(start, kPage, 0, a, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemMap)(start + kPage, kPage, 0, b, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemMap)(start + 2 * kPage, kPage, 0, a, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemMap)(start, kPage, 0, b, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemsetD8)(start, 1, 1), CUDA_ERROR_INVALID_VALUE);  // not allowed yet
  ASSERT_EQ(allow(start, 3 * kPage), CUDA_SUCCESS);
  // Across the border of two mappings, and seen where the first is mapped again.
  EXPECT_EQ(DRIVER(cuMemsetD8)(start + kPage - 2, 5, 4), CUDA_SUCCESS);
  std::vector<uint8_t> values(4);
  EXPECT_EQ(DRIVER(cuMemcpyDtoH)(values.data(), start + 3 * kPage - 4, 4), CUDA_SUCCESS);
  EXPECT_EQ(values, (std::vector<uint8_t>{0, 0, 5, 5}));
  EXPECT_CUDA(cudaFree(reinterpret_cast<void*>(start)), cudaErrorInvalidValue);
  EXPECT_EQ(DRIVER(cuMemRelease)(a), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemRelease)(a), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemRelease)(b), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemUnmap)(start, kPage), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemsetD8)(start, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemsetD8)(start + kPage, 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemAddressFree)(start, 3 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemUnmap)(start + kPage, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemAddressFree)(start, 3 * kPage), CUDA_SUCCESS);
}

TEST_F(DriverMemoryTest, VirtualMemoryHasTheGranularityOfPages) {
  CUdeviceptr start = 0;
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = on_device();
  EXPECT_EQ(DRIVER(cuMemAddressReserve)(&start, kPage + 4096, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemCreate)(&handle, 4096, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(DRIVER(cuMemAddressReserve)(&start, kPage, 8 * kPage, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(start % (8 * kPage), 0u);
  EXPECT_EQ(DRIVER(cuMemAddressFree)(start, kPage), CUDA_SUCCESS);
}

}  // namespace
}  // namespace mpfa::sim
