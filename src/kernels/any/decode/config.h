// Sizes of a decode kernel and its plan of shared memory.
#pragma once

#include <cstdint>

#include "kernels/any/decode/params.h"

namespace mpfa::kernels {

// What a kernel does beside the plain case. Instructions that are not needed cost time all the
// same: after a launch they have to be read from memory.
enum class Variant {
  kBulk,       // copies by the copy engine (sm_90 on)
  kBulkExtra,  // likewise, and delta_s and softcap
  kLanes,      // copies by lanes: any GPU, any strides; also all that kBulkExtra does
};

// Of a CTA. A tile of a small head brings fewer bytes for its instructions: more warps share them.
constexpr int max_decode_warps(int head_dim, int row_tiles) {
  return head_dim == 64 && row_tiles == 1 ? 12 : 8;
}

// kDim: head dimension. kTiles: tiles of 8 query rows, the N of mma.m16n8k16.
template <int kDim, int kTiles, Variant kVariant>
struct DecodeConfig {
  static constexpr bool kIsBulk = kVariant != Variant::kLanes;
  static constexpr bool kHasExtra = kVariant != Variant::kBulk;
  static constexpr int kHeadDim = kDim;
  static constexpr int kRowTiles = kTiles;
  static constexpr int kRows = 8 * kTiles;
  static constexpr int kCodesRow = kDim / 2;    // bytes of a token
  static constexpr int kScalesRow = kDim / 16;  // likewise
  static constexpr int kLaneDims = kDim / 8;    // of V, in a lane: consecutive ones
  static constexpr int kSteps = kDim / 16;      // of QK's depth; also tiles of PV's rows
  static constexpr int kMaxThreads = 32 * max_decode_warps(kDim, kTiles);
  // Parts of a tile of keys: codes come first.
  static constexpr int kScalesAt = kTileTokens * kCodesRow;
  static constexpr int kResidualAt = kScalesAt + kTileTokens * kScalesRow;
};

// Barriers of a slot: K is there, V is there.
inline constexpr int kSlotBarrierBytes = 2 * 8;

// What a row needs when its output is there.
struct alignas(16) RowEnd {
  std::byte* out;  // where the output goes; null: there is no such row
  float bias;      // rowbias as a logit, where the scores do not have it yet
  float v_scale;
};

// What a query row needs beside its values.
struct alignas(16) RowScalars {
  float lambda;       // turns scores into exponents of 2
  float first_key;    // adds to the score of token 0
  float delta_scale;  // delta_s in units of scores
  float cap_factor;   // softcap: tanh((score + cap_bias) * cap_factor)
  float cap_bias;
  // FP16 twice: what the residual's values are multiplied by (the same for all rows).
  uint32_t residual_factor;
  int32_t begin, end;  // keys that the row sees
  RowEnd result;
};
static_assert(sizeof(RowScalars) == 48);

// A warp's own copy of its CTA's record and segments: the one at hand, the next, and the one after
// that.
inline constexpr int kSegmentCopies = 3;
struct WarpSegments {
  DecodeRecordHead head;
  DecodeSegment segments[kSegmentCopies];
};

// A pair that has parts in other CTAs too: what a warp keeps of it until it is merged.
template <int kRows>
struct alignas(16) SharedPair {
  DecodeSegment segment;  // any of the pair's
  RowEnd ends[kRows];
};

// Where a CTA's parts lie in its shared memory, in bytes. Tiles of V, [warps][stages], swizzled as
// a tensor map does, come first.
struct alignas(64) SharedMemoryPlan {
  int tiles = 0;  // [warps][stages] tiles of the rest: codes, scales, residual, and at `delta`:
  int delta = 0, tile_bytes = 0;
  int segments = 0;  // [warps] WarpSegments
  int barriers = 0;  // [warps][stages]
  int query = 0;     // [3] prepared queries
  int coefficients = 0, scalars = 0, query_bytes = 0;
  int merge = 0;  // [2][warps] states
  int state_bytes = 0;
  int shared_pairs = 0;  // [warps][2]
  int is_ours = 0;       // [2] int32: this CTA merges the parts of the pair
  int total = 0;
};

template <class Config>
constexpr SharedMemoryPlan plan_shared_memory(int warps, int rank, bool has_delta) {
  constexpr int kRows = Config::kRows;
  SharedMemoryPlan plan;
  const int tiles = warps * kMaxStages;
  plan.tiles = tiles * kTileTokens * Config::kHeadDim;
  plan.delta = Config::kResidualAt + kTileTokens * rank;
  plan.tile_bytes = plan.delta + (has_delta ? kRows * kTileTokens * 2 : 0);
  plan.merge = plan.tiles + tiles * plan.tile_bytes;
  plan.state_bytes = kRows * partial_row_bytes(Config::kHeadDim);
  plan.query = plan.merge + 2 * warps * plan.state_bytes;
  plan.coefficients = kRows * 2 * Config::kHeadDim;
  plan.scalars = plan.coefficients + kRows * 2 * kMaxRank;
  plan.query_bytes = plan.scalars + kRows * static_cast<int>(sizeof(RowScalars));
  plan.segments = plan.query + 3 * plan.query_bytes;
  plan.barriers = plan.segments + warps * static_cast<int>(sizeof(WarpSegments));
  plan.shared_pairs = plan.barriers + tiles * kSlotBarrierBytes;
  plan.is_ours = plan.shared_pairs + 2 * warps * static_cast<int>(sizeof(SharedPair<kRows>));
  plan.total = plan.is_ours + 16;
  return plan;
}

}  // namespace mpfa::kernels
