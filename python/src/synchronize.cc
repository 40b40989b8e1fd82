// For frameworks that do not know the stream that the library's work is on.
#include "args.h"
#include "export.h"

#if defined(MPFA_HAS_CUDA)
#include "cuda/device.h"
#endif

namespace mpfa::python {
namespace {

// Waits for what the library has been given to do on the tensor's GPU; nothing on the CPU.
void synchronize(const Tensor& tensor) {
  if (tensor.device().device_type != kDLCUDA) return;
#if defined(MPFA_HAS_CUDA)
  const internal::DeviceGuard guard(tensor.device().device_id);
  internal::check_cuda(cudaStreamSynchronize(stream_of(tensor)), "cudaStreamSynchronize");
#endif
}

}  // namespace
}  // namespace mpfa::python

MPFA_PYTHON_EXPORT(synchronize)
