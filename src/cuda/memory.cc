#include "cuda/memory.h"

#include "core/tensor.h"
#include "cuda/device.h"

namespace mpfa::internal {
namespace {

// A stream of its own: the default stream waits for others, which may be in the middle of a graph's
// capture.
class OwnStream {
 public:
  OwnStream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  cudaStream_t get() const { return stream_; }
  void wait() const { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

int64_t item_size(const DLTensor& tensor) {
  return (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
}

// Bytes of one index of dimension dim - 1 where its elements lie one after the other; -1 where they
// do not.
int64_t compact_bytes(const DLTensor& tensor, int dim) {
  int64_t bytes = item_size(tensor);
  for (int i = tensor.ndim - 1; i >= dim; --i) {
    if (tensor.shape[i] > 1 && stride_of(tensor, i) * item_size(tensor) != bytes) return -1;
    bytes *= tensor.shape[i];
  }
  return bytes;
}

// Copies the elements of one index of dimension dim - 1, and returns the place after them.
std::byte* download_from(const DLTensor& tensor, int dim, const std::byte* from, std::byte* to,
                         cudaStream_t stream) {
  if (const int64_t bytes = compact_bytes(tensor, dim); bytes >= 0) {
    check_cuda(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
    return to + bytes;
  }
  const int64_t rows = tensor.shape[dim];
  const int64_t pitch = stride_of(tensor, dim) * item_size(tensor);
  const int64_t width = compact_bytes(tensor, dim + 1);
  if (width >= 0 && pitch >= width && pitch <= INT32_MAX) {
    check_cuda(cudaMemcpy2DAsync(to, static_cast<size_t>(width), from, static_cast<size_t>(pitch),
                                 static_cast<size_t>(width), static_cast<size_t>(rows),
                                 cudaMemcpyDeviceToHost, stream),
               "cudaMemcpy2DAsync");
    return to + rows * width;
  }
  for (int64_t i = 0; i < rows; ++i) {
    to = download_from(tensor, dim + 1, from + i * pitch, to, stream);
  }
  return to;
}

bool is_empty(const DLTensor& tensor) {
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return true;
  }
  return false;
}

}  // namespace

void* cuda_allocate(int device, int64_t bytes) {
  static_cast<void>(device_info(device));
  const DeviceGuard guard(device);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // which the caller has been told
    return nullptr;
  }
  check_cuda(error, "cudaMalloc");
  try {
    const OwnStream stream;
    check_cuda(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream.get()),
               "cudaMemsetAsync");
    stream.wait();
  } catch (...) {
    cuda_free(memory);
    throw;
  }
  return memory;
}

void cuda_free(void* memory) noexcept { static_cast<void>(cudaFree(memory)); }

void cuda_upload(const void* from, int64_t bytes, const DLTensor& to) {
  const DeviceGuard guard(to.device.device_id);
  const OwnStream stream;
  check_cuda(cudaMemcpyAsync(data_of(to), from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                             stream.get()),
             "cudaMemcpyAsync");
  stream.wait();
}

void cuda_download(const DLTensor& from, std::byte* to) {
  if (is_empty(from)) return;
  const DeviceGuard guard(from.device.device_id);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const OwnStream stream;
  download_from(from, 0, data_of(from), to, stream.get());
  stream.wait();
}

}  // namespace mpfa::internal
