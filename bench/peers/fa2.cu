// FlashInfer's fa2 kernels for one type of cache (PEER_CACHE) and one head dimension
// (PEER_HEAD_DIM); build_flashinfer.sh compiles this once for each.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/mask.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>
#include <type_traits>

#include "bench/gpu.h"
#include "peer.h"

namespace mpfa::peers {
namespace {

namespace fi = flashinfer;
using internal::check_cuda;
using internal::str_cat;
using tools::GpuMemory;

constexpr size_t kFloatWorkspaceBytes = size_t{512} << 20;
constexpr size_t kIntWorkspaceBytes = size_t{32} << 20;
constexpr auto kNoRope = fi::PosEncodingMode::kNone;
// As FlashInfer itself chooses on Hopper.
constexpr bool kOverlapLaunches = true;

template <class Cache>
using KvType = std::conditional_t<std::is_same_v<Cache, E4m3Cache>, __nv_fp8_e4m3, __nv_bfloat16>;

using Variant = fi::DefaultAttention<false, false, false, false>;  // no mask, window, cap, ALiBi

struct FreePinned {
  void operator()(void* memory) const { static_cast<void>(cudaFreeHost(memory)); }
};

// What plans and kernels of both kinds need.
struct Workspace {
  Workspace() {
    void* memory = nullptr;
    check_cuda(cudaMallocHost(&memory, kIntWorkspaceBytes), "cudaMallocHost");
    pinned.reset(memory);
  }

  template <typename T>
  T* ints_at(int64_t offset) const {
    return fi::GetPtrFromBaseOffset<T>(ints.get(), offset);
  }
  template <typename T>
  T* floats_at(int64_t offset) const {
    return fi::GetPtrFromBaseOffset<T>(floats.get(), offset);
  }

  GpuMemory floats = tools::allocate_gpu_memory(kFloatWorkspaceBytes);
  GpuMemory ints = tools::allocate_gpu_memory(kIntWorkspaceBytes);
  std::unique_ptr<void, FreePinned> pinned;
};

template <class Kv>
fi::paged_kv_t<Kv, int32_t> paged_kv(const PeerStep& step, const PeerCache& cache) {
  const PeerShape& s = step.shape;
  return {static_cast<uint32_t>(s.num_kv_heads),
          static_cast<uint32_t>(s.page_size),
          static_cast<uint32_t>(s.head_dim),
          static_cast<uint32_t>(s.batch_size),
          fi::QKVLayout::kHND,
          static_cast<Kv*>(cache.k),
          static_cast<Kv*>(cache.v),
          step.page_indices,
          step.page_indptr_gpu,
          step.last_page_len};
}

float softmax_scale(const PeerShape& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
}

// What the parameters of both kernels have in common.
template <class Params>
void set_step(const PeerStep& step, Params& params) {
  params.q = static_cast<__nv_bfloat16*>(step.q);
  params.o = static_cast<__nv_bfloat16*>(step.out);
  params.num_qo_heads = static_cast<uint32_t>(step.shape.num_q_heads);
  params.q_stride_n = step.shape.num_q_heads * step.shape.head_dim;
  params.q_stride_h = step.shape.head_dim;
  params.window_left = -1;
  params.sm_scale = softmax_scale(step.shape);
}

template <class Cache, int kHeadDim>
class CudaCores : public PeerKernel {
  using Kv = KvType<Cache>;
  using Params = fi::BatchDecodeParams<__nv_bfloat16, Kv, __nv_bfloat16, int32_t>;

 public:
  CudaCores(const PeerStep& step, cudaStream_t stream) : step_(step) {
    if (step.shape.seqlen_q != 1) throw Unsupported("it takes one query row a sequence");
    const int group_size = step.shape.group_size();
    const auto groups = {1, 2, 3, 4, 6, 8};  // of DISPATCH_GQA_GROUP_SIZE
    if (std::find(groups.begin(), groups.end(), group_size) == groups.end()) {
      throw Unsupported(str_cat("it has no group of ", group_size));
    }
    plan(stream);
  }

  void run(const PeerCache& cache, cudaStream_t stream) override {
    Params params;
    set_step(step_, params);
    params.paged_kv = paged_kv<Kv>(step_, cache);
    params.padded_batch_size = static_cast<uint32_t>(info_.padded_batch_size);
    params.request_indices = workspace_.ints_at<int32_t>(info_.request_indices_offset);
    params.kv_tile_indices = workspace_.ints_at<int32_t>(info_.kv_tile_indices_offset);
    params.o_indptr = workspace_.ints_at<int32_t>(info_.o_indptr_offset);
    params.kv_chunk_size_ptr = workspace_.ints_at<int32_t>(info_.kv_chunk_size_ptr_offset);
    __nv_bfloat16* states = nullptr;
    float* sums = nullptr;
    if (info_.split_kv) {
      states = workspace_.floats_at<__nv_bfloat16>(info_.v_offset);
      sums = workspace_.floats_at<float>(info_.s_offset);
    }
    check_cuda(fi::BatchDecodeWithPagedKVCacheDispatched<kHeadDim, kNoRope, Variant>(
                   params, states, sums, kOverlapLaunches, stream),
               "FlashInfer's decode");
  }

 private:
  void plan(cudaStream_t stream) {
    const PeerShape& shape = step_.shape;
    const auto group_size = static_cast<uint32_t>(shape.group_size());
    std::vector<int32_t> indptr = step_.page_indptr;
    const auto make = [&]() -> cudaError_t {
      DISPATCH_GQA_GROUP_SIZE(group_size, kGroupSize, {
        return fi::DecodePlan<kHeadDim, kNoRope, Variant, Params>(
            workspace_.floats.get(), kFloatWorkspaceBytes, workspace_.ints.get(),
            workspace_.pinned.get(), kIntWorkspaceBytes, info_, indptr.data(), shape.batch_size,
            shape.num_q_heads, shape.page_size, /*enable_cuda_graph=*/false, stream,
            fi::BatchDecodeWithPagedKVCacheWorkEstimationDispatched<kGroupSize, kHeadDim, kNoRope,
                                                                    Variant, Params>);
      });
      return cudaErrorInvalidValue;
    };
    check_cuda(make(), "FlashInfer's DecodePlan");
    check_cuda(cudaStreamSynchronize(stream), "FlashInfer's DecodePlan");
  }

  const PeerStep& step_;
  Workspace workspace_;
  fi::DecodePlanInfo info_;
};

template <class Cache, int kHeadDim>
class TensorCores : public PeerKernel {
  using Kv = KvType<Cache>;
  using Params = fi::BatchPrefillPagedParams<__nv_bfloat16, Kv, __nv_bfloat16, int32_t>;
  static constexpr int kTileQ = 16;

 public:
  TensorCores(const PeerStep& step, cudaStream_t stream) : step_(step) {
    const PeerShape& shape = step.shape;
    const int rows = shape.seqlen_q * shape.group_size();
    if (rows > kTileQ) throw Unsupported(str_cat(rows, " rows exceed a tile of ", kTileQ));
    std::vector<int32_t> q_indptr = step.q_indptr;
    std::vector<int32_t> indptr = step.page_indptr;
    check_cuda(
        fi::PrefillPlan<int32_t>(
            workspace_.floats.get(), kFloatWorkspaceBytes, workspace_.ints.get(),
            workspace_.pinned.get(), kIntWorkspaceBytes, info_, q_indptr.data(), indptr.data(),
            static_cast<uint32_t>(shape.batch_size * shape.seqlen_q), shape.batch_size,
            shape.num_q_heads, shape.num_kv_heads, kHeadDim, kHeadDim, shape.page_size,
            /*enable_cuda_graph=*/false, sizeof(__nv_bfloat16), /*window_left=*/-1,
            /*fixed_split_size=*/-1, /*disable_split_kv=*/false, /*num_colocated_ctas=*/0,
            /*uniform_q_len=*/0, /*fixed_uniform_q_len=*/false, stream, sizeof(Kv)),
        "FlashInfer's PrefillPlan");
    check_cuda(cudaStreamSynchronize(stream), "FlashInfer's PrefillPlan");
    if (info_.cta_tile_q != kTileQ) {
      throw Unsupported(str_cat("its plan takes tiles of ", info_.cta_tile_q));
    }
  }

  void run(const PeerCache& cache, cudaStream_t stream) override {
    Params params;
    set_step(step_, params);
    params.paged_kv = paged_kv<Kv>(step_, cache);
    params.q_indptr = step_.q_indptr_gpu;
    params.group_size = fi::uint_fastdiv(static_cast<uint32_t>(step_.shape.group_size()));
    params.request_indices = workspace_.ints_at<int32_t>(info_.request_indices_offset);
    params.qo_tile_indices = workspace_.ints_at<int32_t>(info_.qo_tile_indices_offset);
    params.kv_tile_indices = workspace_.ints_at<int32_t>(info_.kv_tile_indices_offset);
    params.o_indptr = workspace_.ints_at<int32_t>(info_.o_indptr_offset);
    params.kv_chunk_size_ptr = workspace_.ints_at<int32_t>(info_.kv_chunk_size_ptr_offset);
    params.padded_batch_size = static_cast<uint32_t>(info_.padded_batch_size);
    params.max_total_num_rows = static_cast<uint32_t>(info_.total_num_rows);
    __nv_bfloat16* states = nullptr;
    float* sums = nullptr;
    if (info_.split_kv) {
      params.merge_indptr = workspace_.ints_at<int32_t>(info_.merge_indptr_offset);
      states = workspace_.floats_at<__nv_bfloat16>(info_.v_offset);
      sums = workspace_.floats_at<float>(info_.s_offset);
    }
    // A single row sees every key, so the mask is left out, as FlashInfer's wrapper does.
    const cudaError_t error = step_.shape.seqlen_q == 1
                                  ? launch<fi::MaskMode::kNone>(params, states, sums, stream)
                                  : launch<fi::MaskMode::kCausal>(params, states, sums, stream);
    check_cuda(error, "FlashInfer's prefill");
  }

 private:
  template <fi::MaskMode kMask>
  static cudaError_t launch(const Params& params, __nv_bfloat16* states, float* sums,
                            cudaStream_t stream) {
    return fi::BatchPrefillWithPagedKVCacheDispatched<
        /*SAME_KV_STRIDES=*/true, kTileQ, kHeadDim, kHeadDim, kNoRope,
        /*USE_FP16_QK_REDUCTION=*/false, kMask, /*USE_TOKEN_HEAD_SF=*/false, Variant>(
        params, states, sums, kOverlapLaunches, stream);
  }

  const PeerStep& step_;
  Workspace workspace_;
  fi::PrefillPlanInfo info_;
};

}  // namespace

template <class Cache, int kHeadDim>
std::unique_ptr<PeerKernel> make_fa2_cuda_cores(const PeerStep& step, cudaStream_t stream) {
  return std::make_unique<CudaCores<Cache, kHeadDim>>(step, stream);
}

template <class Cache, int kHeadDim>
std::unique_ptr<PeerKernel> make_fa2_tensor_cores(const PeerStep& step, cudaStream_t stream) {
  return std::make_unique<TensorCores<Cache, kHeadDim>>(step, stream);
}

template std::unique_ptr<PeerKernel> make_fa2_cuda_cores<PEER_CACHE, PEER_HEAD_DIM>(
    const PeerStep& step, cudaStream_t stream);
template std::unique_ptr<PeerKernel> make_fa2_tensor_cores<PEER_CACHE, PEER_HEAD_DIM>(
    const PeerStep& step, cudaStream_t stream);

}  // namespace mpfa::peers
