// Copies between the host and GPUs, for frameworks that know only one of them.
#include <tvm/ffi/string.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "args.h"
#include "core/tensor.h"
#include "export.h"

#if defined(MPFA_HAS_CUDA)
#include "cuda/device.h"
#endif

namespace mpfa::python {
namespace {

bool is_on_gpu(const Tensor& tensor) { return tensor.device().device_type == kDLCUDA; }

#if defined(MPFA_HAS_CUDA)
void synchronize_with(const Tensor& tensor) {
  if (!is_on_gpu(tensor)) return;
  const internal::DeviceGuard guard(tensor.device().device_id);
  internal::check_cuda(cudaStreamSynchronize(stream_of(tensor)), "cudaStreamSynchronize");
}
#endif

// Checks that `source`, the statistics of this name, may be copied into a row of the cache's
// tensor.
void check_row(const std::string& name, const Tensor& source, const Tensor& target, int64_t row) {
  const std::string from_name = "statistics." + name;
  const std::string given = internal::dtype_string(source.dtype());
  const std::string expected = internal::dtype_string(target.dtype());
  MPFA_CHECK(given == expected, from_name, " has type ", given, ": must be ", expected);
  MPFA_CHECK(source.IsContiguous(), from_name, " is not compact: must be on a GPU");
  MPFA_CHECK(target.IsContiguous(), "cache.", name, " is not compact: must be");
  const int64_t rows = target.size(0);
  MPFA_CHECK(row >= 0 && row < rows, "row = ", row, ": must be 0 to ", rows - 1);
  MPFA_CHECK(source.numel() * rows == target.numel(), from_name, " has ", source.numel(),
             " elements: must have ", target.numel() / rows);
#if !defined(MPFA_HAS_CUDA)
  MPFA_CHECK(!is_on_gpu(source) && !is_on_gpu(target), from_name, " or cache.", name,
             " is on a GPU: this build of MpFA has no CUDA");
#endif
}

// Copies and waits; at least one of both lies on a GPU.
void copy_row([[maybe_unused]] const Tensor& source, [[maybe_unused]] const Tensor& target,
              [[maybe_unused]] int64_t row) {
#if defined(MPFA_HAS_CUDA)
  const size_t bytes = static_cast<size_t>(source.numel()) * source.dtype().bits / 8;
  std::byte* begin = internal::data_of(view(target)) + static_cast<size_t>(row) * bytes;
  synchronize_with(source);  // its stream need not be the target's
  const Tensor& on_gpu = is_on_gpu(target) ? target : source;
  const internal::DeviceGuard guard(on_gpu.device().device_id);
  internal::check_cuda(cudaMemcpyAsync(begin, internal::data_of(view(source)), bytes,
                                       cudaMemcpyDefault, stream_of(on_gpu)),
                       "cudaMemcpyAsync");
  synchronize_with(on_gpu);
#endif
}

// Copies a layer's statistics into a row of the cache's tensors of the same names. Sources and
// targets are compact and of one type, of each pair at least one on a GPU. Nothing is written where
// one does not fit.
void copy_rows(const Array<tvm::ffi::String>& names, const Array<Tensor>& sources,
               const Array<Tensor>& targets, int64_t row) {
  const size_t count = names.size();
  for (size_t i = 0; i < count; ++i) check_row(names[i], sources[i], targets[i], row);
  for (size_t i = 0; i < count; ++i) copy_row(sources[i], targets[i], row);
}

}  // namespace
}  // namespace mpfa::python

MPFA_PYTHON_EXPORT(copy_rows)
