// The driver's functions about the context.
#include "sim/cudart/device_attributes.h"
#include "sim/cudart/driver_call.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

// There is one context, the primary one, which every other stands for. What only asks for it
// answers even after a fault. The versions of cuCtxCreate differ in what follows the handle.
CUresult ctx_create(CUcontext* context) {
  return driver_call("cuCtxCreate", [&] {
    require_pointer(context, "pctx");
    *context = the_context();
  });
}

CUresult ctx_destroy(CUcontext /*context*/) { return CUDA_SUCCESS; }

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

CUresult ctx_get_api_version(CUcontext /*context*/, unsigned* version) {
  return driver_call("cuCtxGetApiVersion", [&] {
    require_pointer(version, "version");
    *version = CUDA_VERSION;
  });
}

CUresult ctx_get_flags(unsigned* flags) {
  return driver_call("cuCtxGetFlags", [&] {
    require_pointer(flags, "flags");
    *flags = CU_CTX_SCHED_AUTO;
  });
}

CUresult stream_get_ctx(CUstream stream, CUcontext* context) {
  return driver_call("cuStreamGetCtx", [&] {
    require_pointer(context, "pctx");
    find_stream(stream);
    *context = the_context();
  });
}

// --- the primary context ---

CUresult primary_ctx_retain(CUcontext* context, CUdevice device) {
  return device != 0 ? CUDA_ERROR_INVALID_DEVICE : ctx_get_current(context);
}

CUresult primary_ctx_release(CUdevice device) {
  return device != 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult primary_ctx_get_state(CUdevice device, unsigned* flags, int* active) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_CTX_SCHED_AUTO;
  *active = 1;
  return CUDA_SUCCESS;
}

CUresult primary_ctx_set_flags(CUdevice device, unsigned /*flags*/) {
  return driver_call("cuDevicePrimaryCtxSetFlags", [&] { require_device(device); });
}

CUresult primary_ctx_reset(CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  return forward([] { return cudaDeviceReset(); });
}

}  // namespace

std::span<const DriverFunction> context_functions() {
  static const DriverFunction kAll[] = {
      entry<ctx_create>("cuCtxCreate", 3020),
      entry<ctx_destroy>("cuCtxDestroy", 4000),
      entry<ctx_get_current>("cuCtxGetCurrent", 4000),
      entry<ctx_set_current>("cuCtxSetCurrent", 4000),
      entry<ctx_push_current>("cuCtxPushCurrent", 4000),
      entry<ctx_pop_current>("cuCtxPopCurrent", 4000),
      entry<ctx_get_device>("cuCtxGetDevice", 2000),
      entry<ctx_get_api_version>("cuCtxGetApiVersion", 3020),
      entry<ctx_get_flags>("cuCtxGetFlags", 7000),
      entry<stream_get_ctx>("cuStreamGetCtx", 9020),
      entry<primary_ctx_retain>("cuDevicePrimaryCtxRetain", 7000),
      entry<primary_ctx_release>("cuDevicePrimaryCtxRelease", 7000),
      entry<primary_ctx_get_state>("cuDevicePrimaryCtxGetState", 7000),
      entry<primary_ctx_set_flags>("cuDevicePrimaryCtxSetFlags", 7000),
      entry<primary_ctx_reset>("cuDevicePrimaryCtxReset", 7000),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
