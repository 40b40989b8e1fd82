#include "sim/cudart/driver.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "sim/cudart/api.h"
#include "sim/cudart/device_attributes.h"
#include "sim/cudart/driver_call.h"
#include "sim/cudart/function_attributes.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/launch.h"
#include "sim/cudart/library.h"
#include "sim/cudart/module.h"
#include "sim/cudart/occupancy.h"
#include "sim/cudart/runtime.h"
#include "sim/cudart/stream.h"
#include "sim/tensor_map/encode.h"

namespace mpfa::sim::cudart {
namespace {

// --- errors, device, context ---

// nullptr for a number that is no error.
const char* name_of(CUresult error) {
  switch (error) {
#define ERROR(name) \
  case name:        \
    return #name;
#include "sim/cudart/driver_errors.def"
#undef ERROR
  }
  return nullptr;
}

CUresult get_error_name(CUresult error, const char** name) {
  *name = name_of(error);
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_error_string(CUresult error, const char** text) {
  const bool is_known = name_of(error) != nullptr;
  *text = is_known ? cudaGetErrorString(static_cast<cudaError_t>(error)) : nullptr;
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult init(unsigned /*flags*/) { return CUDA_SUCCESS; }

CUresult driver_get_version(int* version) {
  return forward(cudaDriverGetVersion(version), peek_last_error());
}

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

CUresult ctx_get_current(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = the_context();
  return CUDA_SUCCESS;
}

CUresult ctx_set_current(CUcontext /*context*/) { return CUDA_SUCCESS; }

CUresult ctx_push_current(CUcontext /*context*/) { return CUDA_SUCCESS; }

CUresult ctx_pop_current(CUcontext* context) {
  if (context != nullptr) *context = the_context();
  return CUDA_SUCCESS;
}

CUresult ctx_get_device(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult ctx_synchronize() { return forward(cudaDeviceSynchronize(), peek_last_error()); }

CUresult primary_ctx_retain(CUcontext* context, CUdevice /*device*/) {
  return ctx_get_current(context);
}

CUresult primary_ctx_release(CUdevice /*device*/) { return CUDA_SUCCESS; }

CUresult primary_ctx_get_state(CUdevice /*device*/, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}

// --- modules and functions ---

// A module is loaded at once.
CUmodule load_now(void* handle) {
  try {
    find_library(handle)->program();
  } catch (...) {
    unload_library(handle);
    throw;
  }
  return static_cast<CUmodule>(handle);
}

CUresult module_load_data(CUmodule* module, const void* image) {
  return driver_call("cuModuleLoadData", [&] {
    require_pointer(module, "module");
    *module = load_now(add_library(image));
  });
}

CUresult module_load(CUmodule* module, const char* file_name) {
  return driver_call("cuModuleLoad", [&] {
    require_pointer(module, "module");
    *module = load_now(add_library_file(file_name));
  });
}

CUresult module_load_data_ex(CUmodule* module, const void* image, unsigned /*count*/,
                             CUjit_option* /*options*/, void** /*values*/) {
  return module_load_data(module, image);
}

CUresult module_unload(CUmodule module) {
  return driver_call("cuModuleUnload", [&] { unload_library(module); });
}

CUresult module_get_function(CUfunction* function, CUmodule module, const char* name) {
  return driver_call("cuModuleGetFunction", [&] {
    require_pointer(function, "hfunc");
    *function = to_handle<CUfunction>(find_library_function(module, name));
  });
}

CUresult module_get_global(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  return driver_call("cuModuleGetGlobal", [&] {
    require_pointer(name, "name");
    const Symbol symbol = find_library(module)->program().find_symbol(name);
    require(symbol.bytes != 0, cudaErrorSymbolNotFound, "the module has no variable ", name);
    if (address != nullptr) *address = symbol.address;
    if (bytes != nullptr) *bytes = symbol.bytes;
  });
}

CUresult library_load_data(CUlibrary* library, const void* code, CUjit_option* /*options*/,
                           void** /*values*/, unsigned /*count*/,
                           CUlibraryOption* /*library_options*/, void** /*library_values*/,
                           unsigned /*library_count*/) {
  return driver_call("cuLibraryLoadData", [&] {
    require_pointer(library, "library");
    *library = static_cast<CUlibrary>(add_library(code));
  });
}

CUresult library_unload(CUlibrary library) {
  return driver_call("cuLibraryUnload", [&] { unload_library(library); });
}

CUresult library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return driver_call("cuLibraryGetKernel", [&] {
    require_pointer(kernel, "pKernel");
    *kernel = to_handle<CUkernel>(find_library_function(library, name));
  });
}

CUresult kernel_get_function(CUfunction* function, CUkernel kernel) {
  return driver_call("cuKernelGetFunction", [&] {
    require_pointer(function, "pFunc");
    *function = to_handle<CUfunction>(find_function(kernel).get());
  });
}

CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
  return driver_call("cuKernelSetAttribute", [&] {
    require_device(device);
    set_function_attribute(*find_function(kernel), static_cast<cudaFuncAttribute>(attribute),
                           value);
  });
}

CUresult func_set_attribute(CUfunction function, CUfunction_attribute attribute, int value) {
  // The attributes that can be set have the same numbers as the runtime's.
  return driver_call("cuFuncSetAttribute", [&] {
    set_function_attribute(*find_function(function), static_cast<cudaFuncAttribute>(attribute),
                           value);
  });
}

CUresult func_get_attribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return driver_call("cuFuncGetAttribute", [&] {
    require_pointer(value, "pi");
    const cudaFuncAttributes all = attributes_of(*find_function(function));
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = all.maxThreadsPerBlock;
        return;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(all.sharedSizeBytes);
        return;
      case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = static_cast<int>(all.constSizeBytes);
        return;
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = static_cast<int>(all.localSizeBytes);
        return;
      case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = all.numRegs;
        return;
      case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = all.ptxVersion;
        return;
      case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = all.binaryVersion;
        return;
      case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = all.cacheModeCA;
        return;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = all.maxDynamicSharedSizeBytes;
        return;
      case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = all.preferredShmemCarveout;
        return;
      case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = all.clusterDimMustBeSet;
        return;
      case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        *value = all.requiredClusterWidth;
        return;
      case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        *value = all.requiredClusterHeight;
        return;
      case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = all.requiredClusterDepth;
        return;
      case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = all.nonPortableClusterSizeAllowed;
        return;
      case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = all.clusterSchedulingPolicyPreference;
        return;
      default:
        break;
    }
    fail(cudaErrorInvalidValue, "attrib = ", static_cast<int>(attribute));
  });
}

CUresult kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice /*device*/) {
  return func_get_attribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}

CUresult occupancy_max_active_blocks(int* blocks, CUfunction function, int threads,
                                     size_t dynamic_shared_bytes) {
  return forward(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads,
                                                               dynamic_shared_bytes),
                 peek_last_error());
}

// --- launches ---

// The two APIs' attributes have the same layout and numbers.
static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
static_assert(static_cast<int>(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) ==
              static_cast<int>(cudaLaunchAttributeClusterDimension));

CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void** extra) {
  return driver_call("cuLaunchKernelEx", [&] {
    require_pointer(config, "config");
    const auto* attributes = reinterpret_cast<const cudaLaunchAttribute*>(config->attrs);
    issue(config->hStream,
          make_kernel_work(function,
                           {{config->gridDimX, config->gridDimY, config->gridDimZ},
                            {config->blockDimX, config->blockDimY, config->blockDimZ},
                            config->sharedMemBytes},
                           std::span(attributes, config->numAttrs),
                           {arguments, argument_buffer(extra)}));
  });
}

CUresult launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z,
                       unsigned dynamic_shared_bytes, CUstream stream, void** arguments,
                       void** extra) {
  CUlaunchConfig config{};
  config.gridDimX = grid_x;
  config.gridDimY = grid_y;
  config.gridDimZ = grid_z;
  config.blockDimX = block_x;
  config.blockDimY = block_y;
  config.blockDimZ = block_z;
  config.sharedMemBytes = dynamic_shared_bytes;
  config.hStream = stream;
  return launch_kernel_ex(&config, function, arguments, extra);
}

// --- memory and streams ---

CUresult mem_alloc(CUdeviceptr* address, size_t bytes) {
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  const CUresult result = forward(cudaMalloc(&pointer, bytes), peek_last_error());
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return result;
}

CUresult mem_free(CUdeviceptr address) {
  return forward(cudaFree(to_pointer(address)), peek_last_error());
}

CUresult mem_get_info(size_t* free, size_t* total) {
  return forward(cudaMemGetInfo(free, total), peek_last_error());
}

CUresult memcpy_async(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return forward(
      cudaMemcpyAsync(to_pointer(dst), to_pointer(src), bytes, cudaMemcpyDefault, stream),
      peek_last_error());
}

CUresult memcpy_to_device_async(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  return forward(cudaMemcpyAsync(to_pointer(dst), src, bytes, cudaMemcpyHostToDevice, stream),
                 peek_last_error());
}

CUresult memcpy_to_host_async(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return forward(cudaMemcpyAsync(dst, to_pointer(src), bytes, cudaMemcpyDeviceToHost, stream),
                 peek_last_error());
}

CUresult memcpy_to_device(CUdeviceptr dst, const void* src, size_t bytes) {
  return memcpy_to_device_async(dst, src, bytes, nullptr);
}

CUresult memcpy_to_host(void* dst, CUdeviceptr src, size_t bytes) {
  return memcpy_to_host_async(dst, src, bytes, nullptr);
}

CUresult memset(CUdeviceptr address, uint32_t value, size_t element_bytes, size_t count,
                CUstream stream) {
  return driver_call("cuMemset", [&] {
    Fill fill = fill_1d(to_pointer(address), 0, count);
    fill.value = value;
    fill.element_bytes = element_bytes;
    fill.pitch = count * element_bytes;
    check_fill(fill);
    issue(stream, fill);
  });
}

CUresult memset_8_async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream) {
  return memset(address, value, 1, count, stream);
}

CUresult memset_16_async(CUdeviceptr address, unsigned short value,  // NOLINT(google-runtime-int)
                         size_t count, CUstream stream) {
  return memset(address, value, 2, count, stream);
}

CUresult memset_32_async(CUdeviceptr address, unsigned value, size_t count, CUstream stream) {
  return memset(address, value, 4, count, stream);
}

CUresult pointer_get_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return driver_call("cuPointerGetAttribute", [&] {
    require_pointer(value, "data");
    const auto found = gpu().memory().find(address);
    require(found.has_value(), cudaErrorInvalidValue, "the pointer is to no allocation");
    const bool is_host =
        found->kind == MemoryKind::kPinnedHost || found->kind == MemoryKind::kRegisteredHost;
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(value) = the_context();
        return;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(value) = is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *static_cast<CUdeviceptr*>(value) = address;
        return;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(value) = found->kind == MemoryKind::kManaged ? 1 : 0;
        return;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(value) = 0;
        return;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(value) = found->address;
        return;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t*>(value) = found->bytes;
        return;
      default:
        break;
    }
    fail(cudaErrorNotSupported, "attribute = ", static_cast<int>(attribute));
  });
}

CUresult stream_get_ctx(CUstream stream, CUcontext* context) {
  return driver_call("cuStreamGetCtx", [&] {
    require_pointer(context, "pctx");
    find_stream(stream);
    *context = the_context();
  });
}

CUresult stream_synchronize(CUstream stream) {
  return forward(cudaStreamSynchronize(stream), peek_last_error());
}

CUresult stream_is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  static_assert(sizeof(CUstreamCaptureStatus) == sizeof(cudaStreamCaptureStatus));
  return forward(cudaStreamIsCapturing(stream, reinterpret_cast<cudaStreamCaptureStatus*>(status)),
                 peek_last_error());
}

// --- tensor maps ---

EncodeArguments encode_arguments(CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dim, const cuuint64_t* strides,
                                 const cuuint32_t* element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  EncodeArguments arguments;
  arguments.data_type = static_cast<uint32_t>(type);
  arguments.rank = rank;
  arguments.global_address = reinterpret_cast<uint64_t>(address);
  arguments.global_dim = dim;
  arguments.global_strides = strides;
  arguments.element_strides = element_strides;
  arguments.interleave = static_cast<uint32_t>(interleave);
  arguments.swizzle = static_cast<uint32_t>(swizzle);
  arguments.l2_promotion = static_cast<uint32_t>(promotion);
  arguments.oob_fill = static_cast<uint32_t>(fill);
  return arguments;
}

CUresult tensor_map_encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* dim, const cuuint64_t* strides,
                                 const cuuint32_t* box, const cuuint32_t* element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return driver_call("cuTensorMapEncodeTiled", [&] {
    const std::string problem =
        encode_tiled(map,
                     encode_arguments(type, rank, address, dim, strides, element_strides,
                                      interleave, swizzle, promotion, fill),
                     box);
    require(problem.empty(), cudaErrorInvalidValue, problem);
  });
}

CUresult tensor_map_encode_im2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                  void* address, const cuuint64_t* dim, const cuuint64_t* strides,
                                  const int* lower_corner, const int* upper_corner,
                                  cuuint32_t channels, cuuint32_t pixels,
                                  const cuuint32_t* element_strides,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return driver_call("cuTensorMapEncodeIm2col", [&] {
    const std::string problem =
        encode_im2col(map,
                      encode_arguments(type, rank, address, dim, strides, element_strides,
                                       interleave, swizzle, promotion, fill),
                      {lower_corner, upper_corner, channels, pixels});
    require(problem.empty(), cudaErrorInvalidValue, problem);
  });
}

CUresult tensor_map_replace_address(CUtensorMap* map, void* address) {
  return driver_call("cuTensorMapReplaceAddress", [&] {
    require_pointer(map, "tensorMap");
    TensorMap changed = decode_tensor_map(map);
    changed.global_address = reinterpret_cast<uint64_t>(address);
    const std::string problem = check(changed);
    require(problem.empty(), cudaErrorInvalidValue, problem);
    const TensorMapBytes bytes = encode(changed);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(map));
  });
}

CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t /*flags*/,
                          CUdriverProcAddressQueryResult* result) {
  cudaDriverEntryPointQueryResult answer{};
  const cudaError_t before = peek_last_error();
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      name, function, static_cast<unsigned>(version), cudaEnableDefault, &answer);
  if (result != nullptr) *result = static_cast<CUdriverProcAddressQueryResult>(answer);
  return forward(error, before);
}

}  // namespace

std::span<const DriverFunction> core_functions() {
  static const DriverFunction kAll[] = {
      entry("cuGetErrorName", get_error_name, 6000),
      entry("cuGetErrorString", get_error_string, 6000),
      entry("cuGetProcAddress", get_proc_address, 12000),
      entry("cuInit", init, 2000),
      entry("cuDriverGetVersion", driver_get_version, 2020),
      entry("cuDeviceGet", device_get, 2000),
      entry("cuDeviceGetCount", device_get_count, 2000),
      entry("cuDeviceGetName", device_get_name, 2000),
      entry("cuDeviceGetAttribute", device_get_attribute, 2000),
      entry("cuDeviceTotalMem", device_total_mem, 3020),
      entry("cuDevicePrimaryCtxRetain", primary_ctx_retain, 7000),
      entry("cuDevicePrimaryCtxRelease", primary_ctx_release, 7000),
      entry("cuDevicePrimaryCtxGetState", primary_ctx_get_state, 7000),
      entry("cuCtxGetCurrent", ctx_get_current, 4000),
      entry("cuCtxSetCurrent", ctx_set_current, 4000),
      entry("cuCtxPushCurrent", ctx_push_current, 4000),
      entry("cuCtxPopCurrent", ctx_pop_current, 4000),
      entry("cuCtxGetDevice", ctx_get_device, 2000),
      entry("cuCtxSynchronize", ctx_synchronize, 2000),
      entry("cuModuleLoad", module_load, 2000),
      entry("cuModuleLoadData", module_load_data, 2000),
      entry("cuModuleLoadDataEx", module_load_data_ex, 2010),
      entry("cuModuleLoadFatBinary", module_load_data, 2000),
      entry("cuModuleUnload", module_unload, 2000),
      entry("cuModuleGetFunction", module_get_function, 2000),
      entry("cuModuleGetGlobal", module_get_global, 3020),
      entry("cuLibraryLoadData", library_load_data, 12000),
      entry("cuLibraryUnload", library_unload, 12000),
      entry("cuLibraryGetKernel", library_get_kernel, 12000),
      entry("cuKernelGetFunction", kernel_get_function, 12000),
      entry("cuKernelGetAttribute", kernel_get_attribute, 12000),
      entry("cuKernelSetAttribute", kernel_set_attribute, 12000),
      entry("cuFuncSetAttribute", func_set_attribute, 9000),
      entry("cuFuncGetAttribute", func_get_attribute, 2020),
      entry("cuOccupancyMaxActiveBlocksPerMultiprocessor", occupancy_max_active_blocks, 6050),
      entry("cuLaunchKernel", launch_kernel, 4000),
      entry("cuLaunchKernelEx", launch_kernel_ex, 11060),
      entry("cuMemAlloc", mem_alloc, 3020),
      entry("cuMemFree", mem_free, 3020),
      entry("cuMemGetInfo", mem_get_info, 3020),
      entry("cuMemcpyAsync", memcpy_async, 4000),
      entry("cuMemcpyDtoDAsync", memcpy_async, 3020),
      entry("cuMemcpyHtoD", memcpy_to_device, 3020),
      entry("cuMemcpyHtoDAsync", memcpy_to_device_async, 3020),
      entry("cuMemcpyDtoH", memcpy_to_host, 3020),
      entry("cuMemcpyDtoHAsync", memcpy_to_host_async, 3020),
      entry("cuMemsetD8Async", memset_8_async, 3020),
      entry("cuMemsetD16Async", memset_16_async, 3020),
      entry("cuMemsetD32Async", memset_32_async, 3020),
      entry("cuPointerGetAttribute", pointer_get_attribute, 4000),
      entry("cuStreamGetCtx", stream_get_ctx, 9020),
      entry("cuStreamSynchronize", stream_synchronize, 2000),
      entry("cuStreamIsCapturing", stream_is_capturing, 10000),
      entry("cuTensorMapEncodeTiled", tensor_map_encode_tiled, 12000),
      entry("cuTensorMapEncodeIm2col", tensor_map_encode_im2col, 12000),
      entry("cuTensorMapReplaceAddress", tensor_map_replace_address, 12000),
  };
  return kAll;
}

const DriverFunction* find_driver_function(std::string_view name) {
  for (const auto& functions : {core_functions(), context_functions(), forwarded_functions(),
                                link_functions(), memory_functions(), virtual_memory_functions()}) {
    const auto found = std::find_if(functions.begin(), functions.end(),
                                    [name](const DriverFunction& f) { return f.name == name; });
    if (found != functions.end()) return &*found;
  }
  return nullptr;
}

}  // namespace mpfa::sim::cudart
