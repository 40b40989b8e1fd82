#include "kernels/any/append/kernel.cuh"

namespace mpfa::kernels {

template cudaError_t launch_append_as<AppendConfig<InputType::kBf16, 128, false>>(
    const AppendParams&, cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kFp16, 128, false>>(
    const AppendParams&, cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kFp32, 128, false>>(
    const AppendParams&, cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kBf16, 128, true>>(
    const AppendParams&, cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kFp16, 128, true>>(
    const AppendParams&, cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kFp32, 128, true>>(
    const AppendParams&, cudaStream_t);

}  // namespace mpfa::kernels
