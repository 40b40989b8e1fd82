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
  // Registers are dealt out to four warps at a time.
  static constexpr int kMaxWarps = kTiles == 1 ? kMaxDecodeWarps : 8;
  static constexpr int kMaxThreads = kMaxWarps * 32;
};

// Barriers of a slot: K is there, V is there.
inline constexpr int kSlotBarrierBytes = 2 * 8;

// What a query row needs beside its values.
struct alignas(16) RowScalars {
  float lambda;       // turns scores into exponents of 2
  float first_key;    // adds to the score of token 0
  float delta_scale;  // delta_s in units of scores
  float cap_factor;   // softcap: tanh((score + cap_bias) * cap_factor)
  float cap_bias;
  float bias;          // rowbias as a logit, where the scores do not have it yet
  int32_t begin, end;  // keys that the row sees
  // FP16 twice: what the residual's values are multiplied by (the same for all rows).
  uint32_t residual_factor;
  uint32_t unused[3];
};
static_assert(sizeof(RowScalars) == 48);

// Where a CTA's parts lie in its shared memory, in bytes.
struct SharedMemoryPlan {
  int v = 0;      // [warps][stages] tiles of V, swizzled as a tensor map does
  int tiles = 0;  // [warps][stages] tiles of the rest, each:
  int codes = 0, scales = 0, residual = 0, delta = 0, tile_bytes = 0;
  int merge = 0;  // [2][warps] states
  int state_bytes = 0;
  int query = 0;  // [3] prepared queries
  int coefficients = 0, scalars = 0, query_bytes = 0;
  int segments = 0;  // [warps][2] segments
  int barriers = 0;  // [warps][stages]
  int flag = 0;
  int total = 0;
};

template <class Config>
constexpr SharedMemoryPlan plan_shared_memory(int warps, int rank, bool has_delta) {
  constexpr int kRows = Config::kRows;
  SharedMemoryPlan plan;
  const int tiles = warps * kMaxStages;
  plan.tiles = tiles * kTileTokens * Config::kHeadDim;
  plan.scales = kTileTokens * Config::kCodesRow;
  plan.residual = plan.scales + kTileTokens * Config::kScalesRow;
  plan.delta = plan.residual + kTileTokens * rank;
  plan.tile_bytes = plan.delta + (has_delta ? kRows * kTileTokens * 2 : 0);
  plan.merge = plan.tiles + tiles * plan.tile_bytes;
  plan.state_bytes = kRows * (2 * Config::kHeadDim + 8);
  plan.query = plan.merge + 2 * warps * plan.state_bytes;
  plan.coefficients = kRows * 2 * Config::kHeadDim;
  plan.scalars = plan.coefficients + kRows * 2 * kMaxRank;
  plan.query_bytes = plan.scalars + kRows * static_cast<int>(sizeof(RowScalars));
  plan.segments = plan.query + 3 * plan.query_bytes;
  plan.barriers = plan.segments + 2 * warps * static_cast<int>(sizeof(DecodeSegment));
  plan.flag = plan.barriers + tiles * kSlotBarrierBytes;
  plan.total = plan.flag + 16;
  return plan;
}

}  // namespace mpfa::kernels
