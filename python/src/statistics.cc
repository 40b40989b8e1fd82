// Statistics and quantisers on plain tensors (mpfa/quant.h).
#include <array>
#include <cstdint>

#include "args.h"
#include "export.h"
#include "mpfa/quant.h"

namespace mpfa::python {
namespace {

void compute_means(const Tensor& x, const OptionalTensor& cu_seqlens, const Tensor& out) {
  mpfa::compute_means(view(x), view_or_null(cu_seqlens), view(out), stream_of(x));
}

void calibrate(const Tensor& q, const Tensor& k, const Tensor& k_mean, const OptionalTensor& q_mean,
               const OptionalTensor& residual_basis, const OptionalTensor& residual_scale,
               bool search_scales, const OptionalTensor& k_scale,
               const OptionalTensor& cu_seqlens) {
  mpfa::calibrate(view(q), view(k),
                  {.k_mean = &view(k_mean),
                   .q_mean = view_or_null(q_mean),
                   .residual_basis = view_or_null(residual_basis),
                   .residual_scale = view_or_null(residual_scale)},
                  {.scale_rule = scale_rule_of(search_scales),
                   .k_scale = view_or_null(k_scale),
                   .cu_seqlens = view_or_null(cu_seqlens)},
                  stream_of(k));
}

void quantize_q(const Tensor& q, const Tensor& codes, const Tensor& scales,
                const OptionalTensor& codes2, const OptionalTensor& scales2,
                const OptionalTensor& rowbias, const OptionalTensor& residual,
                const OptionalTensor& first_key, bool search_scales, const OptionalTensor& q_mean,
                const OptionalTensor& k_mean, const OptionalTensor& residual_basis,
                const OptionalTensor& k_first, const OptionalTensor& stats_index,
                const OptionalTensor& cu_seqlens_q, const OptionalTensor& error_count) {
  mpfa::quantize_q(view(q),
                   {.codes = &view(codes),
                    .scales = &view(scales),
                    .codes2 = view_or_null(codes2),
                    .scales2 = view_or_null(scales2),
                    .rowbias = view_or_null(rowbias),
                    .residual = view_or_null(residual),
                    .first_key = view_or_null(first_key)},
                   {.scale_rule = scale_rule_of(search_scales),
                    .q_mean = view_or_null(q_mean),
                    .k_mean = view_or_null(k_mean),
                    .residual_basis = view_or_null(residual_basis),
                    .k_first = view_or_null(k_first),
                    .stats_index = view_or_null(stats_index),
                    .cu_seqlens_q = view_or_null(cu_seqlens_q),
                    .error_count = view_or_null(error_count)},
                   stream_of(q));
}

}  // namespace
}  // namespace mpfa::python

MPFA_PYTHON_EXPORT(compute_means)
MPFA_PYTHON_EXPORT(calibrate)
MPFA_PYTHON_EXPORT(quantize_q)
