#include "sim/cudart/function_attributes.h"

#include "sim/cudart/api.h"
#include "sim/cudart/device_attributes.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/launch.h"
#include "sim/cudart/module.h"
#include "sim/cudart/occupancy.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

void set_max_dynamic_shared(Function& function, int value) {
  const int64_t limit = int64_t{model().shared_bytes_per_block_optin} -
                        static_cast<int64_t>(function.kernel().static_shared_bytes);
  require(value >= 0 && value <= limit, cudaErrorInvalidValue, function.name(), ": ", value,
          " bytes of dynamic shared memory; at most ", limit, " beside what is static");
  function.max_dynamic_shared_set = value;
}

void set_required_cluster(Function& function, uint32_t Dim3::*dimension, int value) {
  require(function.kernel().required_cluster.x == 0, cudaErrorInvalidValue, function.name(),
          " was compiled for a cluster of its own");
  require(value >= 0, cudaErrorInvalidValue, "a cluster's dimension of ", value);
  function.required_cluster_set.*dimension = static_cast<uint32_t>(value);
}

}  // namespace

void set_function_attribute(Function& function, cudaFuncAttribute attribute, int value) {
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      set_max_dynamic_shared(function, value);
      return;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      require(value >= -1 && value <= 100, cudaErrorInvalidValue, "a carveout of ", value,
              " percent");
      function.shared_carveout = value;
      return;
    case cudaFuncAttributeClusterDimMustBeSet:
      return;
    case cudaFuncAttributeRequiredClusterWidth:
      set_required_cluster(function, &Dim3::x, value);
      return;
    case cudaFuncAttributeRequiredClusterHeight:
      set_required_cluster(function, &Dim3::y, value);
      return;
    case cudaFuncAttributeRequiredClusterDepth:
      set_required_cluster(function, &Dim3::z, value);
      return;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      function.non_portable_cluster_allowed = value != 0;
      return;
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
      function.cluster_scheduling_policy = value;
      return;
    default:
      break;
  }
  fail(cudaErrorInvalidValue, "attr = ", static_cast<int>(attribute));
}

cudaFuncAttributes attributes_of(const Function& function) {
  const Kernel& kernel = function.kernel();
  const Dim3 cluster = function.required_cluster();
  cudaFuncAttributes attributes{};
  attributes.sharedSizeBytes = kernel.static_shared_bytes;
  attributes.localSizeBytes = kernel.local_bytes;
  attributes.maxThreadsPerBlock = static_cast<int>(kernel.max_threads);
  attributes.numRegs = registers_of(kernel);
  attributes.ptxVersion = kernel.ptx_target;
  attributes.binaryVersion = model().capability();
  attributes.maxDynamicSharedSizeBytes = static_cast<int>(function.max_dynamic_shared_bytes());
  attributes.preferredShmemCarveout = function.shared_carveout;
  attributes.clusterDimMustBeSet =
      static_cast<int>(kernel.required_cluster.x != 0 || kernel.explicit_cluster);
  attributes.requiredClusterWidth = static_cast<int>(cluster.x);
  attributes.requiredClusterHeight = static_cast<int>(cluster.y);
  attributes.requiredClusterDepth = static_cast<int>(cluster.z);
  attributes.clusterSchedulingPolicyPreference = function.cluster_scheduling_policy;
  attributes.nonPortableClusterSizeAllowed =
      static_cast<int>(function.non_portable_cluster_allowed);
  return attributes;
}

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return api_call("cudaFuncSetAttribute",
                  [&] { set_function_attribute(*find_function(function), attribute, value); });
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int device) {
  return api_call("cudaKernelSetAttributeForDevice", [&] {
    require_device(device);
    set_function_attribute(*find_function(kernel), attribute, value);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return api_call("cudaFuncGetAttributes", [&] {
    require_pointer(attributes, "attr");
    *attributes = attributes_of(*find_function(function));
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache /*config*/) {
  return api_call("cudaFuncSetCacheConfig", [&] { find_function(function); });
}

cudaError_t cudaFuncSetSharedMemConfig(const void* function, cudaSharedMemConfig /*config*/) {
  return api_call("cudaFuncSetSharedMemConfig", [&] { find_function(function); });
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return api_call("cudaFuncGetName", [&] {
    require_pointer(name, "name");
    *name = find_function(function)->name().c_str();
  });
}

cudaError_t cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset,
                                 size_t* bytes) {
  return api_call("cudaFuncGetParamInfo", [&] {
    require_pointer(offset, "paramOffset");
    const auto& params = find_function(function)->kernel().params;
    require(index < params.size(), cudaErrorInvalidValue, "paramIndex = ", index, ": there are ",
            params.size());
    *offset = params[index].offset;
    if (bytes != nullptr) *bytes = params[index].bytes;
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* host_stub) {
  return api_call("cudaGetFuncBySymbol", [&] {
    require_pointer(function, "functionPtr");
    *function = to_handle<cudaFunction_t>(find_host_function(host_stub).get());
  });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host_stub) {
  return api_call("cudaGetKernel", [&] {
    require_pointer(kernel, "kernelPtr");
    *kernel = to_handle<cudaKernel_t>(find_host_function(host_stub).get());
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
