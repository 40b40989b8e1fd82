// Launches of kernels: what the caller gives, checked as the real runtime does.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "sim/cudart/work.h"

namespace mpfa::sim::cudart {

struct LaunchShape {
  Dim3 grid;
  Dim3 block;
  uint64_t dynamic_shared_bytes = 0;
};

// Parameters as launches give them: a pointer to each one's value, or a buffer that holds them all.
struct LaunchArguments {
  void* const* values = nullptr;
  std::span<const std::byte> buffer;
};

// Throws ApiError for what the device cannot launch.
KernelWork make_kernel_work(const void* function, const LaunchShape& shape,
                            std::span<const cudaLaunchAttribute> attributes,
                            const LaunchArguments& arguments);
// After a change of the work's attributes.
void check_kernel_work(const KernelWork& work);
// Applies an attribute to the work: its cluster, its being cooperative, or only to be remembered.
void set_attribute(KernelWork& work, cudaLaunchAttributeID id,
                   const cudaLaunchAttributeValue& value);

// The buffer in a list of CU_LAUNCH_PARAM_* and values (cuLaunchKernel, "extra"); empty if null.
std::span<const std::byte> argument_buffer(void* const* extra);

// Issues the kernel's work, and records the events that the attributes name. A launch that fails
// invalidates the stream's capture.
void launch(const void* function, const LaunchShape& shape,
            std::span<const cudaLaunchAttribute> attributes, const LaunchArguments& arguments,
            cudaStream_t stream);
// What makes a launch a cooperative one.
cudaLaunchAttribute cooperative_attribute();

// A graph node's parameters, and the inverse. What the inverse points to lives as long as the work.
KernelWork make_kernel_work(const cudaKernelNodeParams& params);
cudaKernelNodeParams to_params(KernelWork& work);

inline Dim3 to_dim3(const dim3& dim) { return {dim.x, dim.y, dim.z}; }
inline dim3 to_cuda(const Dim3& dim) { return {dim.x, dim.y, dim.z}; }

}  // namespace mpfa::sim::cudart
