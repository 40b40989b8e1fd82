// A cache whose pages lie so far apart that no 32 bits reach from one to the other.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "kernels/device_case.h"

namespace mpfa::testing {

class FarPages {
 public:
  static constexpr int64_t kFirst = int64_t{1} << 20;  // number of a problem's first page
  static constexpr int64_t kStride = 16384;            // bytes from one page to the next

  // Whether the GPU has the memory.
  static bool fit() {
    size_t free = 0;
    size_t total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess && free > (kFirst + 1024) * kStride;
  }

  // Moves the pages of `device` there and tells its block table. Pages must fit kStride.
  FarPages(AttentionCase& host, DeviceCase& device)
      : memory_(static_cast<size_t>((kFirst + device.cache.k_codes->shape[0]) * kStride)) {
    KvCacheView& cache = device.cache;
    for (const DLTensor** tensor :
         {&cache.k_codes, &cache.k_scales, &cache.v, &cache.k_residual, &cache.k_first}) {
      if (*tensor != nullptr) *tensor = &move(**tensor);
    }
    renumber(host.block_table(), kFirst);
    device.copies().upload(device.block_table);
    renumber(host.block_table(), -kFirst);
  }

 private:
  struct Moved {
    DLTensor tensor;
    int64_t shape[4];
    int64_t strides[4];
  };

  // Behind what each page has already.
  const DLTensor& move(const DLTensor& from) {
    Moved& moved = moved_.emplace_back();
    std::copy_n(from.shape, from.ndim, moved.shape);
    std::copy_n(from.strides, from.ndim, moved.strides);
    const int64_t element = from.dtype.bits / 8;
    const int64_t bytes = from.strides[0] * element;
    moved.shape[0] += kFirst;
    moved.strides[0] = kStride / element;
    moved.tensor = from;
    moved.tensor.shape = moved.shape;
    moved.tensor.strides = moved.strides;
    moved.tensor.data = memory_.data() + std::exchange(used_, used_ + bytes);
    moved.tensor.byte_offset = 0;
    const cudaError_t error = cudaMemcpy2D(
        static_cast<std::byte*>(moved.tensor.data) + kFirst * kStride, kStride,
        static_cast<std::byte*>(from.data) + from.byte_offset, static_cast<size_t>(bytes),
        static_cast<size_t>(bytes), static_cast<size_t>(from.shape[0]), cudaMemcpyDeviceToDevice);
    EXPECT_EQ(error, cudaSuccess);
    return moved.tensor;
  }

  static void renumber(TestTensor& table, int64_t by) {
    table.for_each(
        [&](const TestTensor::Shape& i) { table.at<int32_t>(i[0], i[1]) += static_cast<int>(by); });
  }

  DeviceMemory memory_;
  int64_t used_ = 0;  // bytes of each page
  std::deque<Moved> moved_;
};

}  // namespace mpfa::testing
