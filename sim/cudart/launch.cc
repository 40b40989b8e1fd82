#include "sim/cudart/launch.h"

#include <cuda.h>

#include <cstring>
#include <utility>

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/event.h"
#include "sim/cudart/occupancy.h"
#include "sim/cudart/runtime.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

std::string to_string(const Dim3& dim) {
  return internal::str_cat("(", dim.x, ", ", dim.y, ", ", dim.z, ")");
}

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr Dim3 kMaxGrid = {2147483647, 65535, 65535};
constexpr Dim3 kMaxBlock = {1024, 1024, 64};

void check_extent(const char* what, const Dim3& dim, const Dim3& max) {
  require(dim.count() != 0 && dim.x <= max.x && dim.y <= max.y && dim.z <= max.z,
          cudaErrorInvalidValue, what, " = ", to_string(dim), ": must be from (1, 1, 1) to ",
          to_string(max));
}

void check_shared(const KernelWork& work, const Kernel& kernel) {
  const uint64_t limit = work.function->max_dynamic_shared_bytes();
  require(work.dynamic_shared_bytes <= limit, cudaErrorInvalidValue, kernel.name, ": ",
          work.dynamic_shared_bytes, " bytes of dynamic shared memory; at most ", limit,
          " unless cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize) allows more");
}

void check_cluster(const KernelWork& work, const Kernel& kernel) {
  const Dim3& cluster = work.cluster;
  const Dim3 required = work.function->required_cluster();
  require(required.x == 0 || cluster == required, cudaErrorInvalidClusterSize, kernel.name,
          ": a cluster of ", to_string(cluster), "; the kernel needs ", to_string(required));
  require(cluster.count() != 0, cudaErrorInvalidClusterSize, kernel.name, ": a cluster of ",
          to_string(cluster));
  const auto limit = static_cast<uint64_t>(work.function->max_cluster_size());
  require(cluster.count() <= limit, cudaErrorInvalidClusterSize, kernel.name, ": a cluster of ",
          cluster.count(), " blocks; at most ", limit,
          work.function->non_portable_cluster_allowed
              ? ""
              : " unless cudaFuncAttributeNonPortableClusterSizeAllowed is set");
  require(
      work.grid.x % cluster.x == 0 && work.grid.y % cluster.y == 0 && work.grid.z % cluster.z == 0,
      cudaErrorInvalidClusterSize, kernel.name, ": the cluster ", to_string(cluster),
      " does not divide the grid ", to_string(work.grid));
}

void check_cooperative(const KernelWork& work, const Kernel& kernel) {
  if (!work.cooperative) return;
  const int per_sm =
      max_active_blocks(*work.function, work.block.count(), work.dynamic_shared_bytes);
  const auto most = static_cast<uint64_t>(per_sm) * static_cast<uint64_t>(model().sm_count);
  require(work.grid.count() <= most, cudaErrorCooperativeLaunchTooLarge, kernel.name,
          ": a cooperative launch of ", work.grid.count(), " blocks, of which the device holds ",
          most, " at once");
}

// An H200 takes a buffer that is too short, but leaves open what the other parameters are; one that
// is too long needs more than there is of a launch's resources.
void copy_buffer(const Kernel& kernel, std::span<const std::byte> buffer,
                 std::vector<std::byte>& packed) {
  require(buffer.size() <= packed.size(), cudaErrorLaunchOutOfResources, kernel.name,
          ": a buffer of ", buffer.size(), " bytes for ", packed.size(), " bytes of parameters");
  if (buffer.size() < packed.size()) {
    say(internal::str_cat(kernel.name, ": the buffer of arguments has ", buffer.size(), " of ",
                          packed.size(), " bytes; the others, which are undefined, are 0 here"));
  }
  std::memcpy(packed.data(), buffer.data(), buffer.size());
}

std::vector<std::byte> pack(const Kernel& kernel, const LaunchArguments& arguments) {
  std::vector<std::byte> packed(kernel.param_bytes);
  if (arguments.values == nullptr && !arguments.buffer.empty()) {
    copy_buffer(kernel, arguments.buffer, packed);
    return packed;
  }
  require(kernel.params.empty() || arguments.values != nullptr, cudaErrorInvalidValue, kernel.name,
          ": no arguments are given for ", kernel.params.size(), " parameters");
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const KernelParam& param = kernel.params[i];
    require(arguments.values[i] != nullptr, cudaErrorInvalidValue, kernel.name, ": argument ", i,
            " is null");
    std::memcpy(packed.data() + param.offset, arguments.values[i], param.bytes);
  }
  return packed;
}

// Events that a launch is to record when its blocks have all begun, or said so.
void record_launch_events(Stream& stream, std::span<const cudaLaunchAttribute> attributes) {
  for (const cudaLaunchAttribute& attribute : attributes) {
    cudaEvent_t event = nullptr;
    if (attribute.id == cudaLaunchAttributeProgrammaticEvent) {
      event = attribute.val.programmaticEvent.event;
    } else if (attribute.id == cudaLaunchAttributeLaunchCompletionEvent) {
      event = attribute.val.launchCompletionEvent.event;
    }
    if (event == nullptr) continue;
    const std::shared_ptr<Event> found = find_event(event);
    if (stream.capture != nullptr) {
      capture_event_record(stream, *found);
    } else {
      found->record();
    }
  }
}

}  // namespace

std::span<const std::byte> argument_buffer(void* const* extra) {
  const void* start = nullptr;
  size_t bytes = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) start = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const size_t*>(extra[1]);
  }
  return {static_cast<const std::byte*>(start), start != nullptr ? bytes : 0};
}

void set_attribute(KernelWork& work, cudaLaunchAttributeID id,
                   const cudaLaunchAttributeValue& value) {
  work.attributes[id] = value;
  switch (id) {
    case cudaLaunchAttributeClusterDimension:
      work.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
      break;
    case cudaLaunchAttributeCooperative:
      work.cooperative = value.cooperative != 0;
      break;
    case cudaLaunchAttributeDeviceUpdatableKernelNode:
      require(value.deviceUpdatableKernelNode.deviceUpdatable == 0, cudaErrorNotSupported,
              "kernel nodes that the device updates are not simulated");
      break;
    default:
      break;  // hints, priorities and overlap: work is done in order, one piece at a time
  }
}

void check_kernel_work(const KernelWork& work) {
  const Kernel& kernel = work.function->kernel();
  check_extent("the grid", work.grid, kMaxGrid);
  check_extent("the block", work.block, kMaxBlock);
  require(work.block.count() <= kernel.max_threads, cudaErrorInvalidValue, kernel.name,
          ": a block of ", work.block.count(), " threads; at most ", kernel.max_threads);
  check_shared(work, kernel);
  check_cluster(work, kernel);
  check_cooperative(work, kernel);
}

KernelWork make_kernel_work(const void* function, const LaunchShape& shape,
                            std::span<const cudaLaunchAttribute> attributes,
                            const LaunchArguments& arguments) {
  KernelWork work;
  work.function = find_function(function);
  work.handle = function;
  work.grid = shape.grid;
  work.block = shape.block;
  work.dynamic_shared_bytes = shape.dynamic_shared_bytes;
  const Dim3 required = work.function->required_cluster();
  if (required.x != 0) work.cluster = required;
  for (const cudaLaunchAttribute& attribute : attributes) {
    set_attribute(work, attribute.id, attribute.val);
  }
  check_kernel_work(work);
  work.params = pack(work.function->kernel(), arguments);
  return work;
}

void launch(const void* function, const LaunchShape& shape,
            std::span<const cudaLaunchAttribute> attributes, const LaunchArguments& arguments,
            cudaStream_t stream_handle) {
  Stream& stream = find_stream(stream_handle);
  KernelWork work;
  try {
    work = make_kernel_work(function, shape, attributes, arguments);
  } catch (...) {
    if (stream.capture != nullptr) invalidate(*stream.capture);
    throw;
  }
  issue(stream, std::move(work));
  record_launch_events(stream, attributes);
}

cudaLaunchAttribute cooperative_attribute() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  return attribute;
}

KernelWork make_kernel_work(const cudaKernelNodeParams& params) {
  return make_kernel_work(
      params.func, {to_dim3(params.gridDim), to_dim3(params.blockDim), params.sharedMemBytes}, {},
      {params.kernelParams, argument_buffer(params.extra)});
}

cudaKernelNodeParams to_params(KernelWork& work) {
  work.param_pointers.clear();
  for (const KernelParam& param : work.function->kernel().params) {
    work.param_pointers.push_back(work.params.data() + param.offset);
  }
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(work.handle);
  params.gridDim = to_cuda(work.grid);
  params.blockDim = to_cuda(work.block);
  params.sharedMemBytes = static_cast<unsigned>(work.dynamic_shared_bytes);
  params.kernelParams = work.param_pointers.data();
  return params;
}

}  // namespace mpfa::sim::cudart
