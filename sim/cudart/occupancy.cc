// The rules are those of the CUDA C++ Programming Guide ("Multiprocessor Level", "Technical
// Specifications per Compute Capability") and of NVIDIA's occupancy calculator.
#include "sim/cudart/occupancy.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/cudart/api.h"
#include "sim/cudart/launch.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

constexpr uint64_t kWarpThreads = 32;
constexpr uint64_t kSharedUnit = 128;    // shared memory is given in multiples of it
constexpr uint64_t kRegisterUnit = 256;  // of a warp's registers
constexpr uint64_t kPartitions = 4;      // of a multiprocessor, each with its own registers

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr uint64_t round_down(uint64_t value, uint64_t unit) { return value / unit * unit; }

// The sizes in KiB that shared memory may have out of what it shares with the L1 cache.
std::vector<uint64_t> shared_sizes_kib() {
  std::vector<uint64_t> all;
  for (const uint64_t size : {8, 16, 32, 64, 100, 132, 164, 196, 228}) {
    if (size << 10 <= static_cast<uint64_t>(model().shared_bytes_per_sm)) all.push_back(size);
  }
  return all;
}

// Shared memory of a multiprocessor that runs the function: all, or by the carveout that was set.
uint64_t shared_bytes_per_sm(const Function& function) {
  const auto all = static_cast<uint64_t>(model().shared_bytes_per_sm);
  if (function.shared_carveout < 0) return all;
  const uint64_t wanted = all * static_cast<uint64_t>(function.shared_carveout) / 100;
  for (const uint64_t size : shared_sizes_kib()) {
    if (size << 10 >= wanted) return size << 10;
  }
  return all;
}

uint64_t blocks_by_registers(const Kernel& kernel, uint64_t warps) {
  const auto registers = static_cast<uint64_t>(std::max(registers_of(kernel), 1));
  const uint64_t per_warp = round_up(registers * kWarpThreads, kRegisterUnit);
  const uint64_t per_partition = static_cast<uint64_t>(model().registers_per_sm) / kPartitions;
  return per_partition / per_warp * kPartitions / warps;
}

// SMs are grouped in GPCs, and a cluster is within one. NVIDIA does not document the groups; these
// of an H200 agree with what cudaOccupancyMaxActiveClusters says on one where each SM has room for
// one block. Where there is room for more, the H200 may hold a few clusters more than are counted.
std::vector<int> gpc_sizes() {
  if (model().major == 9 && model().sm_count == 132) return {18, 18, 18, 18, 18, 16, 16, 10};
  constexpr int kSmsPerGpc = 16;
  std::vector<int> sizes(static_cast<size_t>(model().sm_count / kSmsPerGpc), kSmsPerGpc);
  if (model().sm_count % kSmsPerGpc != 0) sizes.push_back(model().sm_count % kSmsPerGpc);
  return sizes;
}

Dim3 cluster_of(const Function& function, const cudaLaunchConfig_t& config) {
  Dim3 cluster = function.required_cluster();
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id != cudaLaunchAttributeClusterDimension) continue;
    cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z};
  }
  return cluster.x == 0 ? Dim3{} : cluster;
}

int max_active_clusters(const Function& function, const cudaLaunchConfig_t& config) {
  const Dim3 cluster = cluster_of(function, config);
  require(
      cluster.count() != 0 && cluster.count() <= static_cast<uint64_t>(function.max_cluster_size()),
      cudaErrorInvalidClusterSize, "a cluster of ", cluster.count(), " blocks; at most ",
      function.max_cluster_size());
  // Of launches that say a cluster's size an H200 holds at most 8 blocks on an SM.
  constexpr int kMostOfClusters = 8;
  const int per_sm = std::min(
      max_active_blocks(function, to_dim3(config.blockDim).count(), config.dynamicSmemBytes),
      kMostOfClusters);
  const std::vector<int> gpcs = gpc_sizes();
  return std::accumulate(gpcs.begin(), gpcs.end(), 0, [&](int sum, int sms) {
    return sum + sms / static_cast<int>(cluster.count()) * per_sm;
  });
}

int max_potential_cluster_size(const Function& function, const cudaLaunchConfig_t& config) {
  const Dim3 required = function.required_cluster();
  require(required.x == 0 || required.count() != 0, cudaErrorInvalidClusterSize,
          "the function's required cluster has a dimension of 0");
  const bool fits =
      max_active_blocks(function, to_dim3(config.blockDim).count(), config.dynamicSmemBytes) > 0;
  return fits ? function.max_cluster_size() : 0;
}

uint64_t available_shared(const Function& function, int blocks, int threads) {
  require(blocks > 0 && threads > 0 && blocks <= model().max_blocks_per_sm, cudaErrorInvalidValue,
          "numBlocks = ", blocks, ", blockSize = ", threads, ": must be at least 1, and at most ",
          model().max_blocks_per_sm, " blocks");
  const uint64_t used = function.kernel().static_shared_bytes;
  const uint64_t share =
      round_down(shared_bytes_per_sm(function) / static_cast<uint64_t>(blocks), kSharedUnit);
  const uint64_t most =
      std::min(share, static_cast<uint64_t>(model().shared_bytes_per_block_optin));
  return used < most ? most - used : 0;
}

}  // namespace

int registers_of(const Kernel& kernel) {
  constexpr int kMost = 255;
  const uint64_t threads = round_up(std::max<uint64_t>(kernel.max_threads, 1), kWarpThreads) *
                           static_cast<uint64_t>(std::max(kernel.min_blocks_per_sm, 1));
  const auto room = static_cast<uint64_t>(model().registers_per_sm) / threads;
  const int limit = static_cast<int>(round_down(std::min<uint64_t>(room, kMost + 1), 8));
  return std::clamp(kernel.registers, 0, std::clamp(limit, 8, kMost));
}

int max_active_blocks(const Function& function, uint64_t threads, uint64_t dynamic_shared_bytes) {
  const Kernel& kernel = function.kernel();
  if (threads == 0 || threads > static_cast<uint64_t>(model().max_threads_per_block)) return 0;
  if (dynamic_shared_bytes > function.max_dynamic_shared_bytes()) return 0;
  const uint64_t warps = round_up(threads, kWarpThreads) / kWarpThreads;
  const uint64_t shared = round_up(kernel.static_shared_bytes + dynamic_shared_bytes +
                                       static_cast<uint64_t>(model().reserved_shared_bytes),
                                   kSharedUnit);
  const uint64_t by_threads =
      static_cast<uint64_t>(model().max_threads_per_sm) / kWarpThreads / warps;
  // Where the carveout leaves too little for one block, it is not heeded.
  const uint64_t by_shared =
      std::max(shared_bytes_per_sm(function) / shared,
               std::min<uint64_t>(static_cast<uint64_t>(model().shared_bytes_per_sm) / shared, 1));
  return static_cast<int>(std::min({by_threads, by_shared, blocks_by_registers(kernel, warps),
                                    static_cast<uint64_t>(model().max_blocks_per_sm)}));
}

extern "C" {

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, size_t dynamic_shared_bytes, unsigned flags) {
  return api_call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", [&] {
    require_pointer(blocks, "numBlocks");
    require(flags == cudaOccupancyDefault || flags == cudaOccupancyDisableCachingOverride,
            cudaErrorInvalidValue, "flags = ", flags);
    require(threads > 0, cudaErrorInvalidValue, "blockSize = ", threads, ": must be at least 1");
    *blocks = max_active_blocks(*find_function(function), static_cast<uint64_t>(threads),
                                dynamic_shared_bytes);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads,
                                                          size_t dynamic_shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, function, threads, dynamic_shared_bytes, cudaOccupancyDefault);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                      int blocks, int threads) {
  return api_call("cudaOccupancyAvailableDynamicSMemPerBlock", [&] {
    require_pointer(bytes, "dynamicSmemSize");
    *bytes = available_shared(*find_function(function), blocks, threads);
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const cudaLaunchConfig_t* config) {
  return api_call("cudaOccupancyMaxActiveClusters", [&] {
    require_pointer(clusters, "numClusters");
    require_pointer(config, "launchConfig");
    *clusters = max_active_clusters(*find_function(function), *config);
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function,
                                                 const cudaLaunchConfig_t* config) {
  return api_call("cudaOccupancyMaxPotentialClusterSize", [&] {
    require_pointer(blocks, "clusterSize");
    require_pointer(config, "launchConfig");
    *blocks = max_potential_cluster_size(*find_function(function), *config);
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
