// The driver's functions about the context, the device and what it can hold of a function.
#include <algorithm>

#include "sim/cudart/device_attributes.h"
#include "sim/cudart/driver_call.h"
#include "sim/cudart/launch.h"
#include "sim/cudart/occupancy.h"
#include "sim/cudart/runtime.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

// There is one context, the primary one, which every other stands for. The versions of cuCtxCreate
// differ in what follows the handle.
CUresult ctx_create(CUcontext* context) {
  return driver_call("cuCtxCreate", [&] {
    require_pointer(context, "pctx");
    *context = the_context();
  });
}

CUresult ctx_destroy(CUcontext /*context*/) { return CUDA_SUCCESS; }

CUresult ctx_get_api_version(CUcontext /*context*/, unsigned* version) {
  return driver_call("cuCtxGetApiVersion", [&] {
    require_pointer(version, "version");
    *version = CUDA_VERSION;
  });
}

CUresult ctx_get_flags(unsigned* flags) {
  return driver_call("cuCtxGetFlags", [&] {
    require_pointer(flags, "flags");
    *flags = CU_CTX_SCHED_AUTO;
  });
}

CUresult primary_ctx_set_flags(CUdevice device, unsigned /*flags*/) {
  return driver_call("cuDevicePrimaryCtxSetFlags", [&] { require_device(device); });
}

CUresult primary_ctx_reset(CUdevice /*device*/) {
  const cudaError_t before = peek_last_error();
  return forward(cudaDeviceReset(), before);
}

CUresult device_compute_capability(int* major, int* minor, CUdevice device) {
  return driver_call("cuDeviceComputeCapability", [&] {
    require_pointer(major, "major");
    require_pointer(minor, "minor");
    require_device(device);
    *major = model().major;
    *minor = model().minor;
  });
}

CUresult device_get_uuid(CUuuid* uuid, CUdevice device) {
  const cudaError_t before = peek_last_error();
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess && uuid != nullptr) *uuid = properties.uuid;
  return forward(uuid == nullptr ? cudaErrorInvalidValue : error, before);
}

CUresult launch_cooperative_kernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned dynamic_shared_bytes, CUstream stream,
                                   void** arguments) {
  return driver_call("cuLaunchCooperativeKernel", [&] {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    issue(stream, make_kernel_work(
                      function,
                      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared_bytes},
                      std::span(&attribute, 1), {.values = arguments, .buffer = {}}));
  });
}

// The block of most threads at which the device holds most of them, as cuda_occupancy.h looks for
// it: from the largest block downwards, in warps.
CUresult max_potential_block_size_with_flags(int* grid, int* block, CUfunction function,
                                             CUoccupancyB2DSize shared_of, size_t shared_bytes,
                                             int limit, unsigned /*flags*/) {
  return driver_call("cuOccupancyMaxPotentialBlockSize", [&] {
    require_pointer(grid, "minGridSize");
    require_pointer(block, "blockSize");
    const auto found = find_function(function);
    const auto most = static_cast<int>(found->kernel().max_threads);
    const int largest = limit > 0 ? std::min(limit, most) : most;
    int best = 0;
    *grid = *block = 0;
    for (int rounded = (largest + 31) / 32 * 32; rounded > 0; rounded -= 32) {
      const int threads = std::min(rounded, largest);
      const size_t shared = shared_of != nullptr ? shared_of(threads) : shared_bytes;
      const int blocks = max_active_blocks(*found, static_cast<uint64_t>(threads), shared);
      if (blocks * threads <= best) continue;
      best = blocks * threads;
      *block = threads;
      *grid = blocks * model().sm_count;
    }
  });
}

CUresult max_potential_block_size(int* grid, int* block, CUfunction function,
                                  CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit) {
  return max_potential_block_size_with_flags(grid, block, function, shared_of, shared_bytes, limit,
                                             0);
}

}  // namespace

std::span<const DriverFunction> context_functions() {
  static const DriverFunction kAll[] = {
      entry("cuCtxCreate", ctx_create, 3020),
      entry("cuCtxDestroy", ctx_destroy, 4000),
      entry("cuCtxGetApiVersion", ctx_get_api_version, 3020),
      entry("cuCtxGetFlags", ctx_get_flags, 7000),
      entry("cuDeviceComputeCapability", device_compute_capability, 2000),
      entry("cuDeviceGetUuid", device_get_uuid, 9020),
      entry("cuDevicePrimaryCtxReset", primary_ctx_reset, 7000),
      entry("cuDevicePrimaryCtxSetFlags", primary_ctx_set_flags, 7000),
      entry("cuLaunchCooperativeKernel", launch_cooperative_kernel, 9000),
      entry("cuOccupancyMaxPotentialBlockSize", max_potential_block_size, 6050),
      entry("cuOccupancyMaxPotentialBlockSizeWithFlags", max_potential_block_size_with_flags, 7000),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
