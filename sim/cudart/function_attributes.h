// What can be asked of a function and set, by the runtime's calls and the driver's.
#pragma once

#include <cuda_runtime_api.h>

#include "sim/cudart/function.h"

namespace mpfa::sim::cudart {

void set_function_attribute(Function& function, cudaFuncAttribute attribute, int value);
cudaFuncAttributes attributes_of(const Function& function);

}  // namespace mpfa::sim::cudart
