#include "bench/gpu_bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/empty_kernel.h"
#include "bench/gpu.h"
#include "bench/gpu_decode.h"
#include "common/table.h"

namespace mpfa::tools {

using internal::check_cuda;

namespace {

// Of the memory that is free: tables, queries, workspaces and what the allocator loses.
constexpr double kUsableMemory = 0.95;

double free_memory() {
  size_t free = 0;
  size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<double>(free);
}

// How many caches to measure with: as many as wanted, or as fit.
int64_t fitting_caches(const DecodeCase& decode, int64_t wanted) {
  const double usable = kUsableMemory * free_memory();
  const double needed = memory_bytes(cache_config(decode));
  if (needed > usable) {
    throw IoError(fmt::format("shape {} needs {}: must be below the GPU's {}", decode.shape.str(),
                              bytes_text(needed), bytes_text(usable)));
  }
  return std::min(wanted, static_cast<int64_t>(usable / std::max(needed, 1.0)));
}

}  // namespace

std::string gpu_name() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    throw IoError(fmt::format("--backend cuda: there is no CUDA device here{}{}",
                              error != cudaSuccess ? ": " : "",
                              error != cudaSuccess ? cudaGetErrorString(error) : ""));
  }
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  internal::device_info(device);  // throws where the GPU is too old
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

struct GpuBench::Impl {
  explicit Impl(const GpuBenchOptions& bench_options)
      : options(bench_options), timer(stream.get(), bench_options.flush_bytes) {}

  double copy_bytes_per_s() {
    const auto bytes = static_cast<size_t>(options.copy_bytes);
    const GpuMemory from = allocate_gpu_memory(bytes);
    const GpuMemory to = allocate_gpu_memory(bytes);
    check_cuda(cudaMemsetAsync(from.get(), 1, bytes, stream.get()), "cudaMemsetAsync");
    const Samples samples = timer.time(options.repeat, [&] {
      check_cuda(
          cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream.get()),
          "cudaMemcpyAsync");
    });
    return 2.0 * static_cast<double>(bytes) / samples.median();
  }

  template <typename Fn>
  Samples time(Fn&& enqueue) {
    const GpuGraph graph(stream.get(), enqueue);
    return timer.time(options.repeat, graph);
  }

  GpuBenchOptions options;
  GpuStream stream;
  GpuTimer timer;
  GpuReference reference;
};

GpuBench::GpuBench(const GpuBenchOptions& options) {
  std::string name = gpu_name();
  impl_ = std::make_unique<Impl>(options);
  impl_->reference.name = std::move(name);
  impl_->reference.empty_kernel_s =
      impl_
          ->time([&] {
            check_cuda(launch_empty_kernel(impl_->stream.get()), "launch of an empty kernel");
          })
          .median();
  impl_->reference.copy_bytes_per_s = impl_->copy_bytes_per_s();
}

GpuBench::~GpuBench() = default;

const GpuReference& GpuBench::reference() const { return impl_->reference; }

GpuDecodeTimes GpuBench::decode(const DecodeCase& decode) {
  GpuDecode work(decode, fitting_caches(decode, impl_->options.num_caches), impl_->stream.get());
  GpuDecodeTimes times;
  times.num_caches = work.num_caches();
  times.schedule_s = impl_->time([&] { work.schedule(); }).median();
  times.attention = impl_->time([&] { work.attend(0); });
  const double all = impl_
                         ->time([&] {
                           for (int64_t i = 0; i < work.num_caches(); ++i) work.attend(i);
                         })
                         .median();
  times.back_to_back_s = all / static_cast<double>(work.num_caches());
  work.check_result();
  return times;
}

}  // namespace mpfa::tools
