// The driver's functions about the device.
#include "sim/cudart/device_attributes.h"
#include "sim/cudart/driver_call.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

CUresult device_get(CUdevice* device, int ordinal) {
  return driver_call("cuDeviceGet", [&] {
    require_pointer(device, "device");
    require_device(ordinal);
    *device = ordinal;
  });
}

CUresult device_get_count(int* count) {
  return driver_call("cuDeviceGetCount", [&] {
    require_pointer(count, "count");
    *count = 1;
  });
}

CUresult device_get_name(char* name, int bytes, CUdevice device) {
  return driver_call("cuDeviceGetName", [&] {
    require_pointer(name, "name");
    require_device(device);
    require(bytes > 0, cudaErrorInvalidValue, "len = ", bytes);
    const size_t copied = model().name.copy(name, static_cast<size_t>(bytes) - 1);
    name[copied] = '\0';
  });
}

CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return driver_call("cuDeviceGetAttribute", [&] {
    require_pointer(value, "pi");
    *value = device_attribute(static_cast<int>(attribute), device);
  });
}

CUresult device_total_mem(size_t* bytes, CUdevice device) {
  return driver_call("cuDeviceTotalMem", [&] {
    require_pointer(bytes, "bytes");
    require_device(device);
    *bytes = model().memory_bytes;
  });
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
  return driver_call("cuDeviceGetUuid", [&] {
    require_pointer(uuid, "uuid");
    require_device(device);
    *uuid = device_properties().uuid;
  });
}

}  // namespace

std::span<const DriverFunction> device_functions() {
  static const DriverFunction kAll[] = {
      entry<device_get>("cuDeviceGet", 2000),
      entry<device_get_count>("cuDeviceGetCount", 2000),
      entry<device_get_name>("cuDeviceGetName", 2000),
      entry<device_get_attribute>("cuDeviceGetAttribute", 2000),
      entry<device_total_mem>("cuDeviceTotalMem", 3020),
      entry<device_compute_capability>("cuDeviceComputeCapability", 2000),
      entry<device_get_uuid>("cuDeviceGetUuid", 9020),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
