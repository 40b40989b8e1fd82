#include <initializer_list>

#include "kernels/any/append/append.h"

namespace mpfa::kernels {

template <InputType kType, int kDim, bool kCompensates>
struct AppendConfig;
template <class Config>
cudaError_t launch_append_as(const AppendParams& params, cudaStream_t stream);

namespace {

bool are_multiples(int64_t of, std::initializer_list<int64_t> values) {
  for (const int64_t value : values) {
    if (value % of != 0) return false;
  }
  return true;
}

bool is_aligned(const void* pointer, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
}

bool has_input_vectors(const AppendParams& p) {
  return is_aligned(p.k, 16) && is_aligned(p.v, 16) &&
         are_multiples(16, {p.k_token_stride, p.k_head_stride, p.v_token_stride, p.v_head_stride});
}

// Four floats at a time of k_mean and residual_basis, two of q_mean.
bool has_stats_vectors(const AppendParams& p) {
  if (!is_aligned(p.k_mean, 16) || !are_multiples(4, {p.k_mean_strides[0], p.k_mean_strides[1]})) {
    return false;
  }
  if (p.delta_s != nullptr &&
      (!is_aligned(p.q_mean, 8) || !are_multiples(2, {p.q_mean_strides[0], p.q_mean_strides[1]}))) {
    return false;
  }
  return p.residual_rank == 0 ||
         (is_aligned(p.residual_basis, 16) &&
          are_multiples(4, {p.residual_basis_strides[0], p.residual_basis_strides[1],
                            p.residual_basis_strides[2]}));
}

bool has_vectors(const void* tensor, const PagedStrides& strides, int64_t bytes) {
  return is_aligned(tensor, bytes) &&
         are_multiples(bytes, {strides.page, strides.head, strides.token});
}

bool has_output_vectors(const AppendParams& p) {
  return has_vectors(p.k_codes, p.k_codes_strides, 8) &&
         has_vectors(p.v_out, p.v_out_strides, 16) &&
         (p.k_first == nullptr ||
          has_vectors(p.k_first, {p.k_first_strides.page, p.k_first_strides.head, 0}, 4));
}

bool is_valid(const AppendParams& p) {
  const bool has_rank =
      p.residual_rank == 0 || p.residual_rank == 4 || p.residual_rank == 8 || p.residual_rank == 16;
  return has_rank && (p.head_dim == 64 || p.head_dim == 128) && p.page_shift >= 0 &&
         p.page_shift < 31 && p.num_kv_heads > 0 && p.num_tokens >= 0 &&
         p.num_tokens <= kMaxAppendTokens && p.num_pages <= UINT32_MAX &&
         p.sequences.batch_size >= 0 && (p.delta_s == nullptr || p.group_size > 0);
}

template <InputType kType, bool kCompensates>
cudaError_t launch_for(const AppendParams& p, cudaStream_t stream) {
  return p.head_dim == 64 ? launch_append_as<AppendConfig<kType, 64, kCompensates>>(p, stream)
                          : launch_append_as<AppendConfig<kType, 128, kCompensates>>(p, stream);
}

}  // namespace

cudaError_t launch_append(const AppendParams& params, cudaStream_t stream) {
  if (!is_valid(params)) return cudaErrorInvalidValue;
  if (params.num_tokens == 0) return cudaSuccess;
  AppendParams p = params;
  p.input_vectors = has_input_vectors(p);
  p.stats_vectors = has_stats_vectors(p);
  p.output_vectors = has_output_vectors(p);
  const bool compensates = p.delta_s != nullptr || p.residual_rank > 0 || p.k_first != nullptr;
  return launch_for_type(p.type, [&]<InputType kType>() {
    return compensates ? launch_for<kType, true>(p, stream) : launch_for<kType, false>(p, stream);
  });
}

}  // namespace mpfa::kernels
