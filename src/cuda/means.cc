#include "cuda/means.h"

#include "core/overlap.h"
#include "cuda/device.h"
#include "cuda/device_args.h"
#include "cuda/kernel_params.h"
#include "kernels/any/means/means.h"

namespace mpfa::internal {

void cuda_compute_means(const DLTensor& x, const DLTensor* cu_seqlens, const DLTensor& out,
                        cudaStream_t stream) {
  DeviceArgs args(x, "x");
  const DLTensor& host_x = args.take(x, "x");
  const DLTensor& host_out = args.take(out, "out");
  const DLTensor* host_cu = args.take(cu_seqlens, "cu_seqlens");
  const FloatType type = float_type(host_x, "x");
  check_alignment(host_x, "x", float_type_size(type));
  const auto values = Tensor<const std::byte, 3>::untyped(host_x, "x");
  const auto cu = Tensor<int32_t, 1>::from(host_cu, "cu_seqlens", false);
  const auto means = Tensor<float, 3>::from(host_out, "out");
  const int64_t batch_size = cu ? count_sequences(cu, "cu_seqlens") : 1;
  check_size(host_out, "out", 0, batch_size, "the number of sequences");
  check_size(host_out, "out", 1, values.size(1), "as x has");
  check_size(host_out, "out", 2, values.size(2), "as x has");
  const NamedTensor written[] = {{&host_out, "out"}};
  const NamedTensor inputs[] = {{&host_x, "x"}, {host_cu, "cu_seqlens"}};
  check_written(written, inputs);
  if (means.empty()) return;

  const auto size = static_cast<int64_t>(float_type_size(type));
  kernels::MeansParams p;
  p.x = values.at();
  p.x_token_stride = values.stride(0) * size;
  p.x_head_stride = values.stride(1) * size;
  if (cu) {
    p.cu_seqlens = cu.at();
    p.cu_seqlens_stride = cu.stride(0);
  }
  p.out = means.at();
  set_strides(p.out_strides, means);
  p.num_tokens = values.size(0);
  p.batch_size = static_cast<int32_t>(batch_size);
  p.num_heads = static_cast<int32_t>(values.size(1));
  p.head_dim = static_cast<int32_t>(values.size(2));
  p.type = input_type(type);
  static_cast<void>(device_info(args.device()));
  const DeviceGuard guard(args.device());
  check_cuda(kernels::launch_means(p, stream), "launch of the kernel of means");
}

}  // namespace mpfa::internal
