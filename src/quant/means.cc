#include "cuda/means.h"

#include <algorithm>
#include <vector>

#include "core/overlap.h"
#include "core/parallel.h"
#include "core/tensor.h"
#include "mpfa/quant.h"
#include "quant/add_row.h"

namespace mpfa {
namespace {

using internal::Tensor;

// Tasks that the heads of one sequence are spread over, at most about.
constexpr int64_t kHeadStretches = 4;

// Means of heads [first_head, last_head) over tokens [begin, end). Tokens are the outer loop, which
// reads memory in order; every sum still adds its own tokens one by one, so how heads are spread
// over threads changes nothing.
template <typename T>
void mean_of_heads(const Tensor<T, 3>& x, int64_t begin, int64_t end, int64_t first_head,
                   int64_t last_head, const Tensor<float, 3>& out, int64_t sequence) {
  const int64_t d = x.size(2);
  std::vector<double> sums(static_cast<size_t>((last_head - first_head) * d));
  for (int64_t t = begin; t < end; ++t) {
    double* sum = sums.data();
    for (int64_t h = first_head; h < last_head; ++h, sum += d) {
      internal::add_row(x.at(t, h), d, sum);
    }
  }
  const double count = static_cast<double>(std::max<int64_t>(end - begin, 1));
  const double* sum = sums.data();
  for (int64_t h = first_head; h < last_head; ++h, sum += d) {
    for (int64_t i = 0; i < d; ++i) out.at(sequence, h)[i] = static_cast<float>(sum[i] / count);
  }
}

}  // namespace

void compute_means(const DLTensor& x, const DLTensor* cu_seqlens, const DLTensor& out,
                   cudaStream_t stream) {
  if (x.device.device_type == kDLCUDA) {
    internal::cuda_compute_means(x, cu_seqlens, out, stream);
    return;
  }
  const auto cu = Tensor<int32_t, 1>::from(cu_seqlens, "cu_seqlens", false);
  const auto means = Tensor<float, 3>::from(out, "out");
  internal::visit_float_tensor<3>(x, "x", [&](const auto& values) {
    const int64_t tokens = values.size(0);
    const int64_t heads = values.size(1);
    const int64_t batch_size = cu ? internal::check_cu_seqlens(cu, "cu_seqlens", tokens) : 1;
    internal::check_size(out, "out", 0, batch_size, "the number of sequences");
    internal::check_size(out, "out", 1, heads, "as x has");
    internal::check_size(out, "out", 2, values.size(2), "as x has");
    const internal::NamedTensor written[] = {{&out, "out"}};
    const internal::NamedTensor inputs[] = {{&x, "x"}, {cu_seqlens, "cu_seqlens"}};
    internal::check_written(written, inputs);
    // Stretches of heads rather than single ones: rows of one token lie side by side in memory.
    const int64_t stretch = std::max<int64_t>(1, heads / kHeadStretches);
    const int64_t stretches = (heads + stretch - 1) / stretch;
    internal::parallel_for(batch_size * stretches, [&](int64_t task) {
      const int64_t sequence = task / stretches;
      const int64_t first = task % stretches * stretch;
      const int64_t begin = cu ? *cu.at(sequence) : 0;
      const int64_t end = cu ? *cu.at(sequence + 1) : tokens;
      mean_of_heads(values, begin, end, first, std::min(first + stretch, heads), means, sequence);
    });
  });
}

}  // namespace mpfa
