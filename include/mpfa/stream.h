// The CUDA stream type, without the CUDA toolkit's headers.
#pragma once

// The same declaration as in the CUDA runtime; repeating it is legal C++.
typedef struct CUstream_st* cudaStream_t;  // NOLINT(modernize-use-using)
