// Memory of a GPU, for what does not belong to a stream of the caller. All calls have ended when
// they return.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>

namespace mpfa::internal {

// Zeroed memory, aligned to 256 bytes; null where there is not enough. Errors: InvalidArgument for
// a GPU that is not there or too old, CudaError.
void* cuda_allocate(int device, int64_t bytes);

// Waits for the work that the GPU has been given. Errors are ignored: nobody is left to be told.
void cuda_free(void* memory) noexcept;

// Copies from host memory to the start of a tensor on a GPU. Errors: CudaError.
void cuda_upload(const void* from, int64_t bytes, const DLTensor& to);

// Copies the elements of a tensor on a GPU, whose shape and strides have been checked, one after
// the other to host memory, when the GPU has done what it has been given. Errors: CudaError.
void cuda_download(const DLTensor& from, std::byte* to);

}  // namespace mpfa::internal
