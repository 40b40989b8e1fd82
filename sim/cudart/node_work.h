// The work of a graph node from the parameters that the API takes for each kind of node.
#pragma once

#include <cuda_runtime_api.h>

#include "sim/cudart/work.h"

namespace mpfa::sim::cudart {

// All throw ApiError for parameters that the work could not be done with.
Work kernel_node(const cudaKernelNodeParams* params);
Work memcpy_node(const cudaMemcpy3DParms* params);
Work memcpy_node(const Copy& copy);
Work memset_node(const cudaMemsetParams* params);
Work host_node(const cudaHostNodeParams* params);
Work child_node(cudaGraph_t graph);
Work event_record_node(cudaEvent_t event);
Work event_wait_node(cudaEvent_t event);
// Makes the memory; its address is then in the parameters.
Work alloc_node(cudaMemAllocNodeParams* params);
Work free_node(void* address);
// Of the parameters' type.
Work any_node(cudaGraphNodeParams& params);

// Gives an existing node's work new parameters. Throws ApiError if it is of another kind.
void replace_work(Work& work, Work replacement);

}  // namespace mpfa::sim::cudart
