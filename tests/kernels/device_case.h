// Tests' tensors on a GPU, and attention problems that run there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "mpfa/attention.h"
#include "support/attention_case.h"

namespace mpfa::testing {

// Memory of the GPU that is freed again.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// Copies tensors of the host with all bytes around their elements, and gives tensors on the GPU of
// the same shape, strides and offset. They live as long as this object.
class DeviceCopies {
 public:
  // Null stays null.
  const DLTensor* copy(const DLTensor* tensor);
  KvCacheView copy(const KvCacheView& cache);

  // Copies the bytes of the GPU back to where copy() took them from, and from there again.
  void download(const DLTensor* tensor);
  void upload(const DLTensor* tensor);

 private:
  struct Copy {
    const DLTensor* device;
    void* host;
    size_t bytes;
  };
  const Copy& find(const DLTensor* device) const;

  std::vector<Copy> copies_;
  std::deque<DLTensor> tensors_;
  std::deque<std::vector<int64_t>> numbers_;  // shapes and strides
  std::deque<std::unique_ptr<DeviceMemory>> memory_;
};

// The problem of an AttentionCase on the GPU.
class DeviceCase {
 public:
  explicit DeviceCase(AttentionCase& host, PlanParams limits = {});

  // Runs attention() and brings out and lse back into the host's case.
  void attend(bool is_scheduled = false, cudaStream_t stream = nullptr);
  // Only enqueues the work.
  void enqueue(bool is_scheduled, cudaStream_t stream);
  void enqueue_schedule(cudaStream_t stream);
  void fetch();

  int32_t errors() const;
  const Plan& plan() const { return plan_; }
  DeviceMemory& workspace() { return *workspace_; }
  DLTensor workspace_tensor();
  DeviceCopies& copies() { return copies_; }

  const DLTensor* out = nullptr;
  const DLTensor* lse = nullptr;
  const DLTensor* q = nullptr;
  const DLTensor* block_table = nullptr;
  const DLTensor* seq_lens = nullptr;
  const DLTensor* cu_seqlens_q = nullptr;
  KvCacheView cache;
  AttentionParams params;

 private:
  AttentionCase& host_;
  DeviceCopies copies_;
  Plan plan_;
  std::unique_ptr<DeviceMemory> workspace_;
  int64_t workspace_shape_ = 0;
  std::unique_ptr<DeviceMemory> error_count_;
  DLTensor error_tensor_ = {};
  int64_t error_shape_ = 1;
};

}  // namespace mpfa::testing
