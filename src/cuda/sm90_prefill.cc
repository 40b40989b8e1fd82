#include "cuda/sm90_prefill.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "cuda/decode_plan.h"
#include "cuda/device.h"
#include "cuda/tensor_map.h"
#include "kernels/sm90/prefill/prefill.h"
#include "kernels/sm90/prefill/unpack.h"

namespace mpfa::internal {
namespace {

using kernels::sm90::kTileKeys;
using kernels::sm90::Sm90PrefillParams;

#ifdef MPFA_HAS_SM90_KERNELS
constexpr bool kHasKernels = true;
#else
constexpr bool kHasKernels = false;
#endif

// What PrefillPrecision::kAuto stands for. The faster ones do not take logits of every size yet
// (PrefillPrecision).
constexpr PrefillPrecision kAutoPrecision = PrefillPrecision::kFp16;

constexpr int64_t kAlignment = 1024;
constexpr auto kWordBytes = static_cast<int64_t>(sizeof(uint32_t));

// Where things lie in the workspace, in bytes.
struct UnpackedLayout {
  int64_t scheduler = 0;
  int64_t has_nan = 0;
  int64_t keys = 0;
  int64_t values = 0;
  int64_t total_bytes = 0;
  int64_t capacity = 0;   // tokens of all sequences
  int64_t num_heads = 0;  // that are unpacked at once
};

PrefillPrecision precision_of(const PlanParams& params) {
  return params.prefill_precision == PrefillPrecision::kAuto ? kAutoPrecision
                                                             : params.prefill_precision;
}

// Of all sequences: each begins at a multiple of a tile, and those without queries have none.
int64_t max_tokens(const PlanParams& params) {
  const int64_t sequences = std::min(params.batch_size, params.total_seqlen_q);
  return std::max<int64_t>(1, sequences * ceil_div(params.max_seqlen_k, kTileKeys)) * kTileKeys;
}

// Of an unpacked key and its value.
int64_t token_bytes(const PlanParams& params) { return 3 * params.head_dim; }

int64_t aligned(int64_t bytes) { return ceil_div(bytes, kAlignment) * kAlignment; }

UnpackedLayout layout_unpacked(const PlanParams& params, int64_t unpacked_bytes) {
  UnpackedLayout layout;
  layout.capacity = max_tokens(params);
  layout.num_heads = std::clamp<int64_t>(unpacked_bytes / (layout.capacity * token_bytes(params)),
                                         1, params.num_kv_heads);
  const int64_t tokens = layout.num_heads * layout.capacity;
  // Flags before what is large: where several sequences claim the same rows of q, which is an error
  // of the caller, tiles may be looked for behind the last.
  layout.has_nan = aligned(kernels::sm90::kSchedulerWords * kWordBytes);
  layout.keys = layout.has_nan + aligned(tokens / kTileKeys * kWordBytes);
  layout.values = layout.keys + aligned(tokens * 2 * params.head_dim);
  layout.total_bytes = layout.values + aligned(tokens * params.head_dim);
  return layout;
}

// Of a call: fewer keys than the plan's leave room for more heads.
UnpackedLayout layout_unpacked(const Sm90PrefillCall& call) {
  const UnpackedLayout plan = layout_unpacked(call.plan, kUnpackedBytes);
  const int64_t room = plan.num_heads * plan.capacity * token_bytes(call.plan);
  return layout_unpacked(call.limits, std::min(room, call.unpacked_bytes));
}

// ---- a call's parameters ------------------------------------------------------------------------

void set_cache(const Sm90PrefillCall& call, const UnpackedLayout& layout,
               Sm90PrefillParams& params) {
  params.cache.has_nan = reinterpret_cast<uint32_t*>(call.workspace + layout.has_nan);
  params.cache.keys = call.workspace + layout.keys;
  params.cache.values = call.workspace + layout.values;
  params.cache.capacity = static_cast<int32_t>(layout.capacity);
  const int64_t head_dim = call.limits.head_dim;
  const int64_t capacity = layout.capacity;
  constexpr int kL2Bytes = 256;
  constexpr int64_t kKeyColumns = 64;
  const TiledDim keys[] = {{head_dim, 0, kKeyColumns},
                           {capacity, 2 * head_dim, kTileKeys},
                           {layout.num_heads, 2 * head_dim * capacity, 1}};
  encode_tiles("unpacked keys", params.cache.keys, MapElement::kFp16, keys, kL2Bytes,
               params.keys_map);
  const TiledDim values[] = {{capacity, 0, kTileKeys},
                             {head_dim, capacity, head_dim},
                             {layout.num_heads, head_dim * capacity, 1}};
  encode_tiles("unpacked values", params.cache.values, MapElement::kByte, values, kL2Bytes,
               params.values_map);
}

kernels::sm90::PrefillLaunch launch_of(const Sm90PrefillCall& call) {
  kernels::sm90::PrefillLaunch launch;
  launch.head_dim = static_cast<int>(call.limits.head_dim);
  launch.scores = precision_of(call.limits) == PrefillPrecision::kFp8Fp16Scores
                      ? kernels::sm90::ScoreType::kFp16
                      : kernels::sm90::ScoreType::kFp32;
  launch.has_extra = call.common.attention.softcap > 0;
  return launch;
}

}  // namespace

bool is_for_sm90_prefill(const PlanParams& params) {
  return kHasKernels && precision_of(params) != PrefillPrecision::kFp16 &&
         device_info(params.device.device_id).compute_capability == 90 &&
         is_for_prefill(params, false) &&
         max_tokens(params) <= kUnpackedHeadBytes / token_bytes(params);
}

int64_t sm90_prefill_workspace_bytes(const PlanParams& params) {
  return layout_unpacked(params, kUnpackedBytes).total_bytes;
}

void enqueue_sm90_prefill(const Sm90PrefillCall& call, cudaStream_t stream) {
  if constexpr (kHasKernels) {
    const UnpackedLayout layout = layout_unpacked(call);
    Sm90PrefillParams params;
    params.common = call.common;
    params.num_ctas = device_info(call.limits.device.device_id).sm_count;
    params.scheduler = reinterpret_cast<uint32_t*>(call.workspace + layout.scheduler);
    set_cache(call, layout, params);
    const kernels::sm90::PrefillLaunch launch = launch_of(call);
    for (int64_t head = 0; head < call.limits.num_kv_heads; head += layout.num_heads) {
      params.first_head = static_cast<int32_t>(head);
      params.num_heads =
          static_cast<int32_t>(std::min(layout.num_heads, call.limits.num_kv_heads - head));
      check_cuda(kernels::sm90::launch_unpack(launch.head_dim, params, stream),
                 "launch of the unpack kernel");
      check_cuda(kernels::sm90::launch_prefill(launch, params, stream),
                 "launch of the prefill kernel for sm_90a");
    }
  }
}

}  // namespace mpfa::internal
