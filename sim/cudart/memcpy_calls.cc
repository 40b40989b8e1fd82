// cudaMemcpy and its kin. CUDA arrays, which textures need, are not simulated.
#include <cuda_runtime_api.h>

#include "sim/cudart/api.h"
#include "sim/cudart/copy.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

void require_devices(int dst, int src) {
  require(dst == 0 && src == 0, cudaErrorInvalidDevice, "devices ", dst, " and ", src,
          ": there is only device 0");
}

cudaMemcpy3DParms to_params(const cudaMemcpy3DPeerParms& peer) {
  require_devices(peer.dstDevice, peer.srcDevice);
  cudaMemcpy3DParms params{};
  params.srcArray = peer.srcArray;
  params.srcPos = peer.srcPos;
  params.srcPtr = peer.srcPtr;
  params.dstArray = peer.dstArray;
  params.dstPos = peer.dstPos;
  params.dstPtr = peer.dstPtr;
  params.extent = peer.extent;
  params.kind = cudaMemcpyDeviceToDevice;
  return params;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return api_call("cudaMemcpy", [&] { issue_checked(nullptr, copy_1d(dst, src, bytes, kind)); });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return api_call("cudaMemcpyAsync",
                  [&] { issue_checked(stream, copy_1d(dst, src, bytes, kind)); });
}

cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return api_call("cudaMemcpy2D", [&] {
    issue_checked(nullptr, copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind));
  });
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return api_call("cudaMemcpy2DAsync", [&] {
    issue_checked(stream, copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind));
  });
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* params) {
  return api_call("cudaMemcpy3D", [&] {
    require_pointer(params, "p");
    issue_checked(nullptr, copy_3d(*params));
  });
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* params, cudaStream_t stream) {
  return api_call("cudaMemcpy3DAsync", [&] {
    require_pointer(params, "p");
    issue_checked(stream, copy_3d(*params));
  });
}

cudaError_t cudaMemcpyPeer(void* dst, int dst_device, const void* src, int src_device,
                           size_t bytes) {
  return api_call("cudaMemcpyPeer", [&] {
    require_devices(dst_device, src_device);
    issue_checked(nullptr, copy_1d(dst, src, bytes, cudaMemcpyDeviceToDevice));
  });
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device,
                                size_t bytes, cudaStream_t stream) {
  return api_call("cudaMemcpyPeerAsync", [&] {
    require_devices(dst_device, src_device);
    issue_checked(stream, copy_1d(dst, src, bytes, cudaMemcpyDeviceToDevice));
  });
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* params) {
  return api_call("cudaMemcpy3DPeer", [&] {
    require_pointer(params, "p");
    issue_checked(nullptr, copy_3d(to_params(*params)));
  });
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* params, cudaStream_t stream) {
  return api_call("cudaMemcpy3DPeerAsync", [&] {
    require_pointer(params, "p");
    issue_checked(stream, copy_3d(to_params(*params)));
  });
}

cudaError_t cudaMemcpyBatchAsync(void* const* dsts, const void* const* srcs, const size_t* sizes,
                                 size_t count, cudaMemcpyAttributes* /*attributes*/,
                                 size_t* /*attribute_starts*/, size_t /*attribute_count*/,
                                 cudaStream_t stream) {
  return api_call("cudaMemcpyBatchAsync", [&] {
    require(dsts != nullptr && srcs != nullptr && sizes != nullptr && count != 0,
            cudaErrorInvalidValue, "a batch of ", count, " copies, or a list that is null");
    for (size_t i = 0; i < count; ++i) {
      issue_checked(stream, copy_1d(dsts[i], srcs[i], sizes[i], cudaMemcpyDefault));
    }
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
