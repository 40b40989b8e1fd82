// Objects of the program that graphs keep alive (cudaUserObjectCreate).
#pragma once

#include <cuda_runtime_api.h>

namespace mpfa::sim::cudart {

struct UserObject {
  void* object = nullptr;
  cudaHostFn_t destroy = nullptr;
  unsigned references = 0;
};

void retain(UserObject& object, unsigned count);
// Destroys the object with its last reference. Throws ApiError if it has fewer.
void release(UserObject& object, unsigned count);

}  // namespace mpfa::sim::cudart
