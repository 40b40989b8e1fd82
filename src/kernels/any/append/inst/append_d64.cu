#include "kernels/any/append/kernel.cuh"

namespace mpfa::kernels {

template cudaError_t launch_append_as<AppendConfig<InputType::kBf16, 64, false>>(
    const AppendParams&, cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kFp16, 64, false>>(
    const AppendParams&, cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kFp32, 64, false>>(
    const AppendParams&, cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kBf16, 64, true>>(const AppendParams&,
                                                                                cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kFp16, 64, true>>(const AppendParams&,
                                                                                cudaStream_t);
template cudaError_t launch_append_as<AppendConfig<InputType::kFp32, 64, true>>(const AppendParams&,
                                                                                cudaStream_t);

}  // namespace mpfa::kernels
