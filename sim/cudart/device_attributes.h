// Numbers about the device.
#pragma once

#include <cuda_runtime_api.h>

namespace mpfa::sim::cudart {

// Throws ApiError for another device than 0, or an attribute that is none. The driver's attributes
// have the same numbers.
int device_attribute(int attribute, int device);

cudaDeviceProp device_properties();

// Throws ApiError unless it is 0.
void require_device(int device);

}  // namespace mpfa::sim::cudart
