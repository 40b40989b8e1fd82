// What stand-ins for functions do (not_implemented.cc), without CUDA's header.
#pragma once

namespace mpfa::sim::cudart {

// Says that `name` is missing and makes cudaErrorNotSupported the thread's last error. That error.
int not_implemented(const char* name);

}  // namespace mpfa::sim::cudart
