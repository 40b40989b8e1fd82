#include "fa3_forward.h"

#include <cmath>
#include <cstddef>
#include <tuple>

#include "bench/gpu.h"
#include "cutlass/numeric_types.h"
#include "flash.h"
#include "heuristics.h"
#include "peer.h"
#include "tile_size.h"

namespace mpfa::peers {

using internal::check_cuda;

namespace {

constexpr int kArch = 90;
// Above it, FA3 launches the kernel that prepares the schedule without dependent launch.
constexpr int kMaxBatchOfDependentLaunch = 992;

constexpr int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The kernels that are compiled: without splits, pages and softcap.
template <typename Element, int kHeadDim>
void run_kernel(Flash_fwd_params& params, cudaStream_t stream) {
  if (params.pack_gqa) {
    run_mha_fwd_<kArch, Element, kHeadDim, kHeadDim, false, false, false, true>(params, stream);
  } else {
    run_mha_fwd_<kArch, Element, kHeadDim, kHeadDim, false, false, false, false>(params, stream);
  }
}

template <typename Element>
void run_head_dim(Flash_fwd_params& params, cudaStream_t stream) {
  if (params.d == 64) {
    run_kernel<Element, 64>(params, stream);
  } else {
    run_kernel<Element, 128>(params, stream);
  }
}

bool choose_pack_gqa(const Flash_fwd_params& params) {
  if (params.h == params.h_k) return false;
  const int tile_rows =
      std::get<0>(tile_size_fwd_sm90(params.d_rounded, params.dv_rounded, params.is_causal,
                                     params.is_local, params.is_e4m3 ? 1 : 2));
  return should_pack_gqa(params.cu_seqlens_q != nullptr, params.seqlen_q, params.h / params.h_k,
                         tile_rows);
}

void set_tensors(const PrefillShape& shape, const PrefillTensors& tensors,
                 Flash_fwd_params& params) {
  const int64_t q_row = static_cast<int64_t>(shape.num_q_heads) * shape.head_dim;
  const int64_t kv_row = static_cast<int64_t>(shape.num_kv_heads) * shape.head_dim;
  params.q_ptr = tensors.q;
  params.k_ptr = tensors.k;
  params.v_ptr = tensors.v;
  params.o_ptr = tensors.out;
  params.softmax_lse_ptr = tensors.lse;
  params.q_row_stride = params.o_row_stride = q_row;
  params.k_row_stride = params.v_row_stride = kv_row;
  params.q_head_stride = params.k_head_stride = shape.head_dim;
  params.v_head_stride = params.o_head_stride = shape.head_dim;
  params.v_dim_stride = 1;
  if (shape.is_varlen()) {
    params.cu_seqlens_q = tensors.cu_seqlens_q;
    params.cu_seqlens_k = tensors.cu_seqlens_k;
  } else {
    params.q_batch_stride = params.o_batch_stride = q_row * params.seqlen_q;
    params.k_batch_stride = params.v_batch_stride = kv_row * params.seqlen_k;
  }
}

void set_shape(const PrefillShape& shape, Flash_fwd_params& params) {
  params.b = params.b_k = shape.batch_size();
  params.h = shape.num_q_heads;
  params.h_k = shape.num_kv_heads;
  params.d = params.dv = params.d_rounded = params.dv_rounded = shape.head_dim;
  params.seqlen_q = shape.max_seqlen_q();
  params.seqlen_k = shape.max_seqlen_k();
  params.seqlen_q_rounded = round_up(params.seqlen_q, 128);
  params.seqlen_k_rounded = round_up(params.seqlen_k, 128);
  params.total_q = static_cast<int>(shape.total_q());
  params.total_k = static_cast<int>(shape.total_k());
  params.page_size = 1;
}

void set_options(const PrefillShape& shape, Flash_fwd_params& params) {
  params.scale_softmax = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  params.p_dropout = 1.0f;
  params.p_dropout_in_uint8_t = 255;
  params.rp_dropout = 1.0f;
  params.is_causal = shape.is_causal && params.seqlen_q > 1;
  params.window_size_left = params.seqlen_k - 1;
  params.window_size_right = params.is_causal ? 0 : params.seqlen_q - 1;
  params.num_splits = 1;
  params.pack_gqa = choose_pack_gqa(params);
}

}  // namespace

struct Fa3Forward::Call {
  Flash_fwd_params params{};
  tools::GpuMemory schedule;
  size_t bytes_to_clear = 0;

  void make_schedule();
};

// The schedule's vectors of one entry for each sequence, and the counter of tiles behind them.
void Fa3Forward::Call::make_schedule() {
  const bool is_varlen = params.cu_seqlens_q != nullptr;
  params.varlen_sort_batches = true;
  params.head_swizzle = params.is_causal;
  params.prepare_varlen_pdl = is_varlen && params.b <= kMaxBatchOfDependentLaunch;
  if (!params.is_causal && !is_varlen) return;

  const int stride = round_up(params.b, 4);
  const int vectors = (is_varlen ? 2 : 0) + 1 + (params.head_swizzle ? 1 : 0);
  params.tile_count_semaphore_offset = stride * vectors;
  const size_t bytes = (static_cast<size_t>(params.tile_count_semaphore_offset) + 1) * sizeof(int);
  schedule = tools::allocate_gpu_memory(bytes);
  auto* const entries = static_cast<int*>(schedule.get());
  params.tile_count_semaphore = entries + params.tile_count_semaphore_offset;
  if (!is_varlen) {  // otherwise the kernel that makes the schedule clears the counter
    bytes_to_clear = bytes;
    return;
  }
  params.num_splits_dynamic_ptr = entries;
  params.num_m_blocks_ptr = entries + stride;
  params.varlen_batch_idx_ptr = params.num_m_blocks_ptr + stride;
  params.num_nheads_in_l2_ptr =
      params.head_swizzle ? params.varlen_batch_idx_ptr + stride : nullptr;
}

Fa3Forward::Fa3Forward(const PrefillShape& shape, const PrefillTensors& tensors)
    : call_(std::make_unique<Call>()) {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const internal::DeviceInfo& info = internal::device_info(device);
  if (info.compute_capability != kArch) throw Unsupported("needs compute capability 9.0");
  if (shape.head_dim != 64 && shape.head_dim != 128) throw Unsupported("head_dim 64 and 128 only");
  Flash_fwd_params& params = call_->params;
  params.arch = kArch;
  params.num_sm = info.sm_count;
  params.is_bf16 = !tensors.is_e4m3;
  params.is_e4m3 = tensors.is_e4m3;
  set_shape(shape, params);
  set_tensors(shape, tensors, params);
  set_options(shape, params);
  call_->make_schedule();
}

Fa3Forward::~Fa3Forward() = default;

void Fa3Forward::run(cudaStream_t stream) {
  if (call_->bytes_to_clear > 0) {
    check_cuda(cudaMemsetAsync(call_->schedule.get(), 0, call_->bytes_to_clear, stream),
               "cudaMemsetAsync");
  }
  if (call_->params.is_e4m3) {
    run_head_dim<cutlass::float_e4m3_t>(call_->params, stream);
  } else {
    run_head_dim<cutlass::bfloat16_t>(call_->params, stream);
  }
}

bool Fa3Forward::packs_gqa() const { return call_->params.pack_gqa; }

}  // namespace mpfa::peers
