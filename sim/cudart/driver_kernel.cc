// The driver's functions about a kernel: its attributes, and what the device can hold of it.
#include <algorithm>

#include "sim/cudart/device_attributes.h"
#include "sim/cudart/driver_call.h"
#include "sim/cudart/function.h"
#include "sim/cudart/function_attributes.h"
#include "sim/cudart/occupancy.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

int attribute_of(const Function& function, CUfunction_attribute attribute) {
  const cudaFuncAttributes all = attributes_of(function);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return all.maxThreadsPerBlock;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(all.sharedSizeBytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      return static_cast<int>(all.constSizeBytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return static_cast<int>(all.localSizeBytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return all.numRegs;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return all.ptxVersion;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return all.binaryVersion;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      return all.cacheModeCA;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return all.maxDynamicSharedSizeBytes;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return all.preferredShmemCarveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      return all.clusterDimMustBeSet;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      return all.requiredClusterWidth;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      return all.requiredClusterHeight;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return all.requiredClusterDepth;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return all.nonPortableClusterSizeAllowed;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return all.clusterSchedulingPolicyPreference;
    default:
      break;
  }
  fail(cudaErrorInvalidValue, "attrib = ", static_cast<int>(attribute));
}

CUresult kernel_get_function(CUfunction* function, CUkernel kernel) {
  return driver_call("cuKernelGetFunction", [&] {
    require_pointer(function, "pFunc");
    *function = to_handle<CUfunction>(find_function(kernel).get());
  });
}

CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
  return driver_call("cuKernelSetAttribute", [&] {
    require_device(device);
    set_function_attribute(*find_function(kernel), static_cast<cudaFuncAttribute>(attribute),
                           value);
  });
}

CUresult func_set_attribute(CUfunction function, CUfunction_attribute attribute, int value) {
  // The attributes that can be set have the same numbers as the runtime's.
  return driver_call("cuFuncSetAttribute", [&] {
    set_function_attribute(*find_function(function), static_cast<cudaFuncAttribute>(attribute),
                           value);
  });
}

CUresult func_get_attribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return driver_call("cuFuncGetAttribute", [&] {
    require_pointer(value, "pi");
    *value = attribute_of(*find_function(function), attribute);
  });
}

CUresult kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) {
  return driver_call("cuKernelGetAttribute", [&] {
    require_pointer(value, "pi");
    require_device(device);
    *value = attribute_of(*find_function(kernel), attribute);
  });
}

// The program's callback may call the API itself.
size_t shared_bytes_of(CUoccupancyB2DSize shared_of, int threads) {
  const Unlocked unlocked;
  return shared_of(threads);
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
      const size_t shared =
          shared_of != nullptr ? shared_bytes_of(shared_of, threads) : shared_bytes;
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

std::span<const DriverFunction> kernel_functions() {
  static const DriverFunction kAll[] = {
      entry<kernel_get_function>("cuKernelGetFunction", 12000),
      entry<kernel_get_attribute>("cuKernelGetAttribute", 12000),
      entry<kernel_set_attribute>("cuKernelSetAttribute", 12000),
      entry<func_set_attribute>("cuFuncSetAttribute", 9000),
      entry<func_get_attribute>("cuFuncGetAttribute", 2020),
      entry<max_potential_block_size>("cuOccupancyMaxPotentialBlockSize", 6050),
      entry<max_potential_block_size_with_flags>("cuOccupancyMaxPotentialBlockSizeWithFlags", 7000),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
