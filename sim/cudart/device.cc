// The calls about the device as a whole, of which there is one: number 0.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <map>
#include <string_view>

#include "sim/cudart/api.h"
#include "sim/cudart/device_attributes.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

constexpr int kVersion = 13000;  // CUDA 13.0
constexpr const char* kBusId = "0000:00:06.0";

// An H200's. They are only remembered: a stack is as large as a kernel's code needs, or 256 KiB
// where calls leave that open (sim/machine/gpu.cc); malloc() takes what the device's memory has;
// nothing that printf() says is lost.
std::map<cudaLimit, size_t>& limits() {
  static auto& all = *new std::map<cudaLimit, size_t>{
      {cudaLimitStackSize, 1024},           {cudaLimitPrintfFifoSize, 8650752},
      {cudaLimitMallocHeapSize, 8388608},   {cudaLimitDevRuntimePendingLaunchCount, 2048},
      {cudaLimitMaxL2FetchGranularity, 64}, {cudaLimitPersistingL2CacheSize, 0}};
  return all;
}

unsigned device_flags = cudaDeviceMapHost;
cudaFuncCache cache_config = cudaFuncCachePreferNone;

void check_flags(unsigned flags) {
  constexpr unsigned kKnown =
      cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;
  const unsigned schedule = flags & cudaDeviceScheduleMask;
  const bool one_schedule = (schedule & (schedule - 1)) == 0;
  require((flags & ~kKnown) == 0 && one_schedule, cudaErrorInvalidValue, "flags = ", flags);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return api_call("cudaGetDeviceCount", Needs::kNothing, [&] {
    require_pointer(count, "count");
    model();  // fails if the simulator's settings are wrong
    *count = 1;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api_call("cudaGetDevice", Needs::kCaller, [&] {
    require_pointer(device, "device");
    *device = 0;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api_call("cudaSetDevice", Needs::kCaller, [&] { require_device(device); });
}

cudaError_t cudaInitDevice(int device, unsigned flags, unsigned /*unused*/) {
  return api_call("cudaInitDevice", [&] {
    require_device(device);
    check_flags(flags);
  });
}

cudaError_t cudaSetValidDevices(int* devices, int count) {
  return api_call("cudaSetValidDevices", [&] {
    for (int i = 0; i < count; ++i) require_device(devices[i]);
  });
}

// Whatever the properties ask for, there is one device to choose from.
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* /*prop*/) {
  return api_call("cudaChooseDevice", [&] {
    require_pointer(device, "device");
    *device = 0;
  });
}

// Unlike the real one, it destroys nothing: allocations, streams, events and modules stay as they
// are. A fault, too, stays one (reset_after_fault).
cudaError_t cudaDeviceReset() {
  return api_call("cudaDeviceReset", Needs::kNothing, [] { reset_after_fault(); });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return api_call("cudaDriverGetVersion", Needs::kNothing, [&] {
    require_pointer(version, "driverVersion");
    *version = kVersion;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return api_call("cudaRuntimeGetVersion", Needs::kNothing, [&] {
    require_pointer(version, "runtimeVersion");
    *version = kVersion;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return api_call("cudaSetDeviceFlags", [&] {
    check_flags(flags);
    device_flags = flags | cudaDeviceMapHost;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return api_call("cudaGetDeviceFlags", [&] {
    require_pointer(flags, "flags");
    *flags = device_flags;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return api_call("cudaDeviceGetLimit", [&] {
    require_pointer(value, "pValue");
    const auto found = limits().find(limit);
    require(found != limits().end(), cudaErrorUnsupportedLimit, "limit ", static_cast<int>(limit));
    *value = found->second;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return api_call("cudaDeviceSetLimit", [&] {
    const auto found = limits().find(limit);
    require(found != limits().end(), cudaErrorInvalidValue, "limit ", static_cast<int>(limit));
    found->second = value;
  });
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  return api_call("cudaCtxResetPersistingL2Cache", [] {});
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return api_call("cudaDeviceGetCacheConfig", [&] {
    require_pointer(config, "pCacheConfig");
    *config = cache_config;
  });
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return api_call("cudaDeviceSetCacheConfig", [&] { cache_config = config; });
}

cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return api_call("cudaDeviceGetSharedMemConfig", [&] {
    require_pointer(config, "pConfig");
    *config = cudaSharedMemBankSizeFourByte;
  });
}

cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig /*config*/) {
  return api_call("cudaDeviceSetSharedMemConfig", [] {});
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return api_call("cudaDeviceGetPCIBusId", [&] {
    require_pointer(text, "pciBusId");
    require_device(device);
    require(bytes > static_cast<int>(std::string_view(kBusId).size()), cudaErrorInvalidValue,
            "len = ", bytes, ": too short for ", kBusId);
    std::snprintf(text, static_cast<size_t>(bytes), "%s", kBusId);
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return api_call("cudaDeviceGetByPCIBusId", [&] {
    require_pointer(device, "device");
    require_pointer(text, "pciBusId");
    require(std::string_view(text) == kBusId, cudaErrorInvalidDevice, "there is no device ", text);
    *device = 0;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api_call("cudaDeviceCanAccessPeer", [&] {
    require_pointer(can, "canAccessPeer");
    require_device(device);
    require_device(peer);
    *can = 0;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api_call("cudaDeviceEnablePeerAccess", [&] {
    require_device(peer);
    require(flags == 0, cudaErrorInvalidValue, "flags = ", flags, ": must be 0");
    fail(cudaErrorPeerAccessUnsupported, "a device is not its own peer");
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return api_call("cudaDeviceDisablePeerAccess", [&] {
    require_device(peer);
    fail(cudaErrorPeerAccessNotEnabled, "peer access is not enabled");
  });
}

cudaError_t cudaProfilerStart() {
  return api_call("cudaProfilerStart", [] {});
}

cudaError_t cudaProfilerStop() {
  return api_call("cudaProfilerStop", [] {});
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
