// Tensors of any strides for tests of kernels, in device memory with a copy on the host. Bytes
// between the elements are random, so that a write outside the tensor shows.
#pragma once

#include <cuda_runtime_api.h>
#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/any/append/params.h"

namespace mpfa::kernels::testing {

inline void check_cuda(cudaError_t error, const char* what) {
  ASSERT_EQ(error, cudaSuccess) << what << ": " << cudaGetErrorString(error);
}

enum class Gaps {
  kNone,     // compact
  kAligned,  // 16 bytes after every row and every outer dimension
  kOdd,      // as much as breaks all alignment that the element does not need
};

inline constexpr DLDataType kU8{kDLUInt, 8, 1};
inline constexpr DLDataType kI32{kDLInt, 32, 1};
inline constexpr DLDataType kF32{kDLFloat, 32, 1};
inline constexpr DLDataType kF16{kDLFloat, 16, 1};
inline constexpr DLDataType kBF16{kDLBfloat, 16, 1};

class DeviceTensor {
 public:
  DeviceTensor() = default;

  DeviceTensor(int item_bytes, const std::vector<int64_t>& shape, Gaps gaps, std::mt19937& random,
               int alignment = 0)
      : item_bytes_(item_bytes), shape_(shape) {
    if (alignment == 0) alignment = item_bytes;
    int64_t gap = 0;  // bytes
    if (gaps == Gaps::kAligned) gap = 16;
    if (gaps == Gaps::kOdd) gap = 3 * alignment, offset_ = alignment;
    strides_.assign(shape.size(), item_bytes);
    for (size_t i = shape.size() - 1; i-- > 0;) strides_[i] = strides_[i + 1] * shape[i + 1] + gap;
    for (const int64_t stride : strides_) elements_.push_back(stride / item_bytes);
    bytes_.resize(static_cast<size_t>(offset_ + strides_[0] * shape[0] + 16));
    for (std::byte& b : bytes_) b = static_cast<std::byte>(random());
    check_cuda(cudaMalloc(reinterpret_cast<void**>(&device_), bytes_.size()), "cudaMalloc");
  }

  DeviceTensor(DeviceTensor&& other) noexcept { *this = std::move(other); }
  DeviceTensor& operator=(DeviceTensor&& other) noexcept {
    std::swap(item_bytes_, other.item_bytes_);
    std::swap(offset_, other.offset_);
    std::swap(shape_, other.shape_);
    std::swap(strides_, other.strides_);
    std::swap(elements_, other.elements_);
    std::swap(bytes_, other.bytes_);
    std::swap(device_, other.device_);
    return *this;
  }
  ~DeviceTensor() { cudaFree(device_); }

  explicit operator bool() const { return device_ != nullptr; }

  // Bytes from one index of a dimension to the next.
  int64_t stride(size_t dimension) const { return strides_[dimension]; }
  int64_t elements(size_t dimension) const { return elements_[dimension]; }
  int64_t size(size_t dimension) const { return shape_[dimension]; }

  // The host's copy.
  DLTensor dl(DLDataType type) {
    DLTensor tensor{};
    tensor.data = host();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(shape_.size());
    tensor.dtype = type;
    tensor.shape = shape_.data();
    tensor.strides = elements_.data();
    return tensor;
  }

  template <class T = std::byte>
  T* device() {
    return device_ == nullptr ? nullptr : reinterpret_cast<T*>(device_ + offset_);
  }

  template <class T = std::byte>
  T* host(const std::vector<int64_t>& at = {}) {
    int64_t offset = offset_;
    for (size_t i = 0; i < at.size(); ++i) offset += at[i] * strides_[i];
    return reinterpret_cast<T*>(bytes_.data() + offset);
  }

  // Bytes before the first element.
  int64_t host_offset() const { return offset_; }

  void upload() {
    if (device_ == nullptr) return;
    check_cuda(cudaMemcpy(device_, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice), "upload");
  }

  std::vector<std::byte> download() const {
    std::vector<std::byte> bytes(bytes_.size());
    if (device_ != nullptr) {
      check_cuda(cudaMemcpy(bytes.data(), device_, bytes.size(), cudaMemcpyDeviceToHost),
                 "download");
    }
    return bytes;
  }

  // Everything equals the host's copy, gaps included.
  void expect_equal(const char* name) const {
    const std::vector<std::byte> bytes = download();
    if (bytes == bytes_) return;
    size_t first = 0;
    size_t count = 0;
    for (size_t i = bytes.size(); i-- > 0;) {
      if (bytes[i] == bytes_[i]) continue;
      first = i;
      ++count;
    }
    ADD_FAILURE() << name << ": " << count << " of " << bytes.size() << " bytes differ, first at "
                  << static_cast<int64_t>(first) - offset_ << ": "
                  << std::to_integer<int>(bytes[first]) << " instead of "
                  << std::to_integer<int>(bytes_[first]);
  }

 private:
  int item_bytes_ = 1;
  int64_t offset_ = 0;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;   // bytes
  std::vector<int64_t> elements_;  // the same in elements
  std::vector<std::byte> bytes_;
  std::byte* device_ = nullptr;
};

// Of cu_seqlens [b + 1] and stats_index [b], each of which may be absent.
inline SequenceTable sequence_table(DeviceTensor& cu_seqlens, DeviceTensor& stats_index,
                                    int32_t num_stats) {
  SequenceTable table;
  if (cu_seqlens) {
    table.cu_seqlens = cu_seqlens.device<int32_t>();
    table.cu_seqlens_stride = cu_seqlens.elements(0);
    table.batch_size = static_cast<int32_t>(cu_seqlens.size(0) - 1);
  }
  if (stats_index) {
    table.stats_index = stats_index.device<int32_t>();
    table.stats_index_stride = stats_index.elements(0);
  }
  table.num_stats = num_stats;
  return table;
}

}  // namespace mpfa::kernels::testing
