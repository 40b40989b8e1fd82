#include <dlfcn.h>

#include <filesystem>

#include "bench/gpu.h"
#include "peer.h"
#include "xqa_call.h"

namespace mpfa::peers {
namespace {

using internal::check_cuda;
using internal::str_cat;
using tools::GpuMemory;

constexpr size_t kSemaphoreBytes = size_t{8} << 20;  // as FlashInfer reserves
constexpr size_t kScratchBytes = size_t{512} << 20;

XqaRun find_library(const PeerShape& shape, const std::string& cache_name) {
  const std::string name = str_cat("libxqa_", cache_name, "_g", shape.group_size(), "_p",
                                   shape.page_size, "_d", shape.head_dim, ".so");
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  void* const library = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) throw Unsupported(name + " is not there");
  void* const run = dlsym(library, "peer_xqa_run");
  if (run == nullptr) throw std::runtime_error(name + " has no peer_xqa_run");
  return reinterpret_cast<XqaRun>(run);
}

class Xqa : public PeerKernel {
 public:
  Xqa(const PeerStep& step, const std::string& cache_name)
      : step_(step), run_(find_library(step.shape, cache_name)) {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    sm_count_ = static_cast<uint32_t>(internal::device_info(device).sm_count);
    check_cuda(cudaMemset(semaphores_.get(), 0, kSemaphoreBytes), "cudaMemset");
  }

  void run(const PeerCache& cache, cudaStream_t stream) override {
    const PeerShape& shape = step_.shape;
    XqaCall call;
    call.sm_count = sm_count_;
    call.num_kv_heads = static_cast<uint32_t>(shape.num_kv_heads);
    call.batch_size = static_cast<uint32_t>(shape.batch_size);
    call.max_seqlen_k = static_cast<uint32_t>(step_.max_pages * shape.page_size);
    call.out = step_.out;
    call.q = step_.q;
    call.k = cache.k;
    call.v = cache.v;
    call.block_table = step_.block_table;
    call.seq_lens = step_.seq_lens;
    call.token_stride = static_cast<uint64_t>(shape.head_dim);
    call.head_stride = call.token_stride * static_cast<uint64_t>(shape.page_size);
    call.page_stride = call.head_stride * static_cast<uint64_t>(shape.num_kv_heads);
    call.semaphores = static_cast<uint32_t*>(semaphores_.get());
    call.scratch = scratch_.get();
    run_(call, stream);
  }

 private:
  const PeerStep& step_;
  XqaRun run_;
  uint32_t sm_count_ = 0;
  GpuMemory semaphores_ = tools::allocate_gpu_memory(kSemaphoreBytes);
  GpuMemory scratch_ = tools::allocate_gpu_memory(kScratchBytes);
};

}  // namespace

std::unique_ptr<PeerKernel> make_xqa(const PeerStep& step, const std::string& cache_name) {
  if (step.shape.seqlen_q != 1) throw Unsupported("it takes one query row a sequence here");
  return std::make_unique<Xqa>(step, cache_name);
}

}  // namespace mpfa::peers
