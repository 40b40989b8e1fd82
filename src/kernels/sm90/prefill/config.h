// Sizes of a prefill kernel for sm_90a and where things lie in its shared memory.
#pragma once

#include <cstdint>

#include "kernels/any/prefill/config.h"
#include "kernels/sm90/prefill/params.h"
#include "kernels/sm90/prefill/prefill.h"

namespace mpfa::kernels::sm90 {

// kDim: head dimension. kExtra: with softcap.
template <int kDim, ScoreType kScores, bool kExtra>
struct Sm90PrefillConfig {
  static constexpr ScoreType kScoreType = kScores;
  static constexpr bool kHasExtra = kExtra;
  static constexpr int kHeadDim = kDim;
  static constexpr int kConsumers = 2;                     // warpgroups, 64 query rows each
  static constexpr int kRows = 64 * kConsumers;            // of a CTA's tile
  static constexpr int kThreads = 128 * (1 + kConsumers);  // and those that bring things
  // Of a thread: 168 at the launch, which those that bring things hand over.
  static constexpr int kBringerRegisters = kScores == ScoreType::kFp32 ? 24 : 40;
  static constexpr int kConsumerRegisters = kScores == ScoreType::kFp32 ? 240 : 232;
  static constexpr int kLoaders = 64;           // threads of these that find work and load queries
  static constexpr int kKeys = kTileKeys;       // of a step
  static constexpr int kStages = 2;             // tiles of keys, of values, under way
  static constexpr int kWorks = 3;              // tiles of query rows, likewise
  static constexpr int kSteps = kDim / 16;      // of QK's depth
  static constexpr int kChunks = kDim / 8;      // a row's pieces of 16 bytes in FP16
  static constexpr int kSums = (kDim + 8) / 2;  // accumulators of PV a thread, row sums included

  // ---- shared memory, in bytes; operands begin at multiples of 1024 ----
  static constexpr int kBox = 128 * 128;    // 128 rows of 64 FP16 columns
  static constexpr int kBoxes = kDim / 64;  // of a row of queries or keys
  static constexpr int kQueries = 0;        // [works][boxes][rows][128]
  static constexpr int kQueryBytes = kBoxes * kBox;
  static constexpr int kKeyTiles = kQueries + kWorks * kQueryBytes;  // [stages][boxes][keys][128]
  static constexpr int kKeyTileBytes = kBoxes * kBox;
  // [stages] values of a tile, [d][128], and eight rows more: ones, which make PV add up the row,
  // and zeros.
  static constexpr int kValueTiles = kKeyTiles + kStages * kKeyTileBytes;
  static constexpr int kValueTileBytes = (kDim + 8) * 128;
  static constexpr int kScalars = kValueTiles + kStages * kValueTileBytes;  // [works][rows]
  static constexpr int kScalarBytes = kRows * static_cast<int>(sizeof(RowScalars));
  static constexpr int kBarriers = kScalars + kWorks * kScalarBytes;
  static constexpr int kNumBarriers = 4 * kStages + 3 * kWorks;
  static constexpr int kWork = kBarriers + (kNumBarriers + 1) / 2 * 16;  // [works] WorkTile
  static constexpr int kWorkBytes = 128;
  static constexpr int kBytes = kWork + kWorks * kWorkBytes;

  // As a tensor map's swizzle of 128 bytes puts it.
  static constexpr int query_chunk(int work, int row, int chunk) {
    return kQueries + work * kQueryBytes + chunk / 8 * kBox + row * 128 + ((chunk ^ row) & 7) * 16;
  }
};

}  // namespace mpfa::kernels::sm90
