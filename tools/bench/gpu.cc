#include "bench/gpu.h"

#include <algorithm>

#include "bench/sm_clock.h"

namespace mpfa::tools {

using internal::check_cuda;

namespace {

DLDevice current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return {kDLCUDA, device};
}

size_t bytes_of(DLDataType dtype, std::span<const int64_t> shape) {
  auto bytes = static_cast<size_t>(dtype.bits / 8);
  for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

std::span<const int64_t> shape_of(const DLTensor& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.ndim)};
}

}  // namespace

void FreeGpuMemory::operator()(void* memory) const { static_cast<void>(cudaFree(memory)); }

GpuMemory allocate_gpu_memory(size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, std::max<size_t>(bytes, 1)), "cudaMalloc");
  return GpuMemory(memory);
}

GpuTensor::GpuTensor(DLDataType dtype, std::span<const int64_t> shape)
    : memory_(allocate_gpu_memory(bytes_of(dtype, shape))),
      view_(memory_.get(), dtype, shape, {}, current_device()) {}

GpuTensor::GpuTensor(const DLTensor& host) : GpuTensor(host.dtype, shape_of(host)) {
  check_cuda(cudaMemcpy(memory_.get(), static_cast<std::byte*>(host.data) + host.byte_offset,
                        bytes(), cudaMemcpyHostToDevice),
             "cudaMemcpy");
}

size_t GpuTensor::bytes() const { return bytes_of(view_.dtype, shape_of(view_)); }

GpuStream::GpuStream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
}

GpuStream::~GpuStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

void GpuStream::synchronize() const {
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void GpuGraph::begin(cudaStream_t stream) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
}

void GpuGraph::end(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  const cudaError_t error = cudaGraphInstantiate(&exec_, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check_cuda(error, "cudaGraphInstantiate");
}

GpuGraph::~GpuGraph() { static_cast<void>(cudaGraphExecDestroy(exec_)); }

void GpuGraph::launch(cudaStream_t stream) const {
  check_cuda(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch");
}

GpuTimer::GpuTimer(cudaStream_t stream, int64_t flush_bytes, SmClock* clock)
    : stream_(stream),
      flush_bytes_(static_cast<size_t>(flush_bytes)),
      flush_(allocate_gpu_memory(flush_bytes_)),
      clock_(clock) {
  check_cuda(cudaEventCreate(&started_), "cudaEventCreate");
  check_cuda(cudaEventCreate(&stopped_), "cudaEventCreate");
}

GpuTimer::~GpuTimer() {
  static_cast<void>(cudaEventDestroy(started_));
  static_cast<void>(cudaEventDestroy(stopped_));
}

// The write also keeps the GPU busy until what is timed has been enqueued, so that the host's time
// for that is not measured.
void GpuTimer::start() {
  check_cuda(cudaMemsetAsync(flush_.get(), 0, flush_bytes_, stream_), "cudaMemsetAsync");
  if (clock_ != nullptr) clock_->start(stream_);
  check_cuda(cudaEventRecord(started_, stream_), "cudaEventRecord");
}

double GpuTimer::stop() {
  check_cuda(cudaEventRecord(stopped_, stream_), "cudaEventRecord");
  if (clock_ != nullptr) clock_->stop(stream_);
  check_cuda(cudaEventSynchronize(stopped_), "cudaEventSynchronize");
  float milliseconds = 0.0f;
  check_cuda(cudaEventElapsedTime(&milliseconds, started_, stopped_), "cudaEventElapsedTime");
  return std::max(static_cast<double>(milliseconds) * 1e-3, 1e-9);  // rates divide by it
}

double GpuTimer::read_clock() const { return clock_->mhz(); }

}  // namespace mpfa::tools
