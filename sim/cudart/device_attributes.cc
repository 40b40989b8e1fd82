#include "sim/cudart/device_attributes.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "sim/cudart/api.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

std::map<int, int> make_table(const DeviceModel& model) {
  return {
#define ATTRIBUTE(number, value) {number, value},
#include "sim/cudart/device_attributes.def"
#undef ATTRIBUTE
  };
}

// Properties that are attributes, one for one.
void set_attributes(cudaDeviceProp& prop) {
  const auto get = [](cudaDeviceAttr attribute) { return device_attribute(attribute, 0); };
  const auto get_bytes = [](cudaDeviceAttr attribute) {
    return static_cast<size_t>(device_attribute(attribute, 0));
  };
  prop.sharedMemPerBlock = get_bytes(cudaDevAttrMaxSharedMemoryPerBlock);
  prop.regsPerBlock = get(cudaDevAttrMaxRegistersPerBlock);
  prop.warpSize = get(cudaDevAttrWarpSize);
  prop.memPitch = get_bytes(cudaDevAttrMaxPitch);
  prop.maxThreadsPerBlock = get(cudaDevAttrMaxThreadsPerBlock);
  prop.maxThreadsDim[0] = get(cudaDevAttrMaxBlockDimX);
  prop.maxThreadsDim[1] = get(cudaDevAttrMaxBlockDimY);
  prop.maxThreadsDim[2] = get(cudaDevAttrMaxBlockDimZ);
  prop.maxGridSize[0] = get(cudaDevAttrMaxGridDimX);
  prop.maxGridSize[1] = get(cudaDevAttrMaxGridDimY);
  prop.maxGridSize[2] = get(cudaDevAttrMaxGridDimZ);
  prop.totalConstMem = get_bytes(cudaDevAttrTotalConstantMemory);
  prop.major = get(cudaDevAttrComputeCapabilityMajor);
  prop.minor = get(cudaDevAttrComputeCapabilityMinor);
  prop.textureAlignment = get_bytes(cudaDevAttrTextureAlignment);
  prop.texturePitchAlignment = get_bytes(cudaDevAttrTexturePitchAlignment);
  prop.multiProcessorCount = get(cudaDevAttrMultiProcessorCount);
  prop.canMapHostMemory = get(cudaDevAttrCanMapHostMemory);
  prop.surfaceAlignment = get_bytes(cudaDevAttrSurfaceAlignment);
  prop.concurrentKernels = get(cudaDevAttrConcurrentKernels);
  prop.ECCEnabled = get(cudaDevAttrEccEnabled);
  prop.pciBusID = get(cudaDevAttrPciBusId);
  prop.pciDeviceID = get(cudaDevAttrPciDeviceId);
  prop.pciDomainID = get(cudaDevAttrPciDomainId);
  prop.asyncEngineCount = get(cudaDevAttrAsyncEngineCount);
  prop.unifiedAddressing = get(cudaDevAttrUnifiedAddressing);
  prop.memoryBusWidth = get(cudaDevAttrGlobalMemoryBusWidth);
  prop.l2CacheSize = get(cudaDevAttrL2CacheSize);
  prop.persistingL2CacheMaxSize = get(cudaDevAttrMaxPersistingL2CacheSize);
  prop.maxThreadsPerMultiProcessor = get(cudaDevAttrMaxThreadsPerMultiProcessor);
  prop.streamPrioritiesSupported = get(cudaDevAttrStreamPrioritiesSupported);
  prop.globalL1CacheSupported = get(cudaDevAttrGlobalL1CacheSupported);
  prop.localL1CacheSupported = get(cudaDevAttrLocalL1CacheSupported);
  prop.sharedMemPerMultiprocessor = get_bytes(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  prop.regsPerMultiprocessor = get(cudaDevAttrMaxRegistersPerMultiprocessor);
  prop.managedMemory = get(cudaDevAttrManagedMemory);
  prop.concurrentManagedAccess = get(cudaDevAttrConcurrentManagedAccess);
  prop.computePreemptionSupported = get(cudaDevAttrComputePreemptionSupported);
  prop.canUseHostPointerForRegisteredMem = get(cudaDevAttrCanUseHostPointerForRegisteredMem);
  prop.cooperativeLaunch = get(cudaDevAttrCooperativeLaunch);
  prop.sharedMemPerBlockOptin = get_bytes(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  prop.maxBlocksPerMultiProcessor = get(cudaDevAttrMaxBlocksPerMultiprocessor);
  prop.accessPolicyMaxWindowSize = get(cudaDevAttrMaxAccessPolicyWindowSize);
  prop.reservedSharedMemPerBlock = get_bytes(cudaDevAttrReservedSharedMemoryPerBlock);
  prop.hostRegisterSupported = get(cudaDevAttrHostRegisterSupported);
  prop.hostRegisterReadOnlySupported = get(cudaDevAttrHostRegisterReadOnlySupported);
  prop.memoryPoolsSupported = get(cudaDevAttrMemoryPoolsSupported);
  prop.clusterLaunch = get(cudaDevAttrClusterLaunch);
  prop.deviceNumaId = get(cudaDevAttrNumaId);
}

}  // namespace

void require_device(int device) {
  require(device == 0, cudaErrorInvalidDevice, "device = ", device, ": there is only device 0");
}

int device_attribute(int attribute, int device) {
  static const auto& table = *new auto(make_table(model()));
  require_device(device);
  const auto found = table.find(attribute);
  require(found != table.end(), cudaErrorInvalidValue, "attr = ", attribute, " is not known");
  return found->second;
}

// What textures and surfaces may be stays 0: they are not simulated.
cudaDeviceProp device_properties() {
  cudaDeviceProp prop{};
  std::strncpy(prop.name, model().name.c_str(), sizeof prop.name - 1);
  constexpr char kUuid[] = "mpfa-simulator0";
  static_assert(sizeof kUuid == sizeof prop.uuid.bytes);
  std::memcpy(prop.uuid.bytes, kUuid, sizeof kUuid);
  prop.totalGlobalMem = model().memory_bytes;
  set_attributes(prop);
  return prop;
}

extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api_call("cudaDeviceGetAttribute", Needs::kCaller, [&] {
    require_pointer(value, "value");
    *value = device_attribute(attribute, device);
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return api_call("cudaGetDeviceProperties", Needs::kNothing, [&] {
    require_pointer(prop, "prop");
    require_device(device);
    *prop = device_properties();
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
