// Sizes of a prefill kernel for sm_90a and where things lie in its shared memory.
#pragma once

#include <cstdint>

#include "kernels/any/prefill/config.h"
#include "kernels/sm90/prefill/params.h"

namespace mpfa::kernels::sm90 {

// kDim: head dimension. kResidual: with residual columns. kExtra: with softcap.
template <int kDim, bool kResidual, bool kExtra>
struct Sm90PrefillConfig {
  static constexpr bool kHasExtra = kExtra;
  static constexpr bool kHasResidual = kResidual;
  static constexpr int kHeadDim = kDim;
  static constexpr int kConsumers = 2;                     // warpgroups, 64 query rows each
  static constexpr int kRows = 64 * kConsumers;            // of a CTA
  static constexpr int kThreads = 128 * (1 + kConsumers);  // and a producer's
  static constexpr int kKeys = kTileKeys;                  // of a step
  static constexpr int kStages = 2;                        // tiles under way
  static constexpr int kSteps = kDim / 16;                 // of QK's depth
  static constexpr int kChunks = kDim / 8;                 // a row's pieces of 16 bytes in FP16
  static constexpr int kSums = (kDim + 8) / 2;  // accumulators of PV a thread, row sums included

  // ---- shared memory, in bytes; operands begin at multiples of 1024 ----
  static constexpr int kBox = 128 * 128;    // 128 rows of 64 FP16 columns
  static constexpr int kBoxes = kDim / 64;  // of a row of queries or keys
  static constexpr int kNarrow = 128 * 2 * kMaxRank;
  static constexpr int kQueries = 0;                              // [boxes][rows][128]
  static constexpr int kCoefficients = kQueries + kBoxes * kBox;  // [rows][16] FP16
  // [stages] keys of a tile, [boxes][keys][128], and their residuals, [keys][16] FP16.
  static constexpr int kKeyTiles = kCoefficients + kNarrow;
  static constexpr int kResidualsOfTile = kBoxes * kBox;
  static constexpr int kKeyTileBytes = kResidualsOfTile + kNarrow;
  // [stages] values of a tile, [d][128], and eight rows more: ones, which make PV add up the row,
  // and zeros.
  static constexpr int kValueTiles = kKeyTiles + kStages * kKeyTileBytes;
  static constexpr int kValueTileBytes = (kDim + 8) * 128;
  static constexpr int kScalars = kValueTiles + kStages * kValueTileBytes;  // [rows] RowScalars
  static constexpr int kBarriers = kScalars + kRows * static_cast<int>(sizeof(RowScalars));
  static constexpr int kSegment = kBarriers + 4 * kStages * 8;
  static constexpr int kView = kSegment + static_cast<int>(sizeof(DecodeSegment)) + 16;
  static constexpr int kBytes = kView + 16;
  // What all rows need to be prepared, where the first tile will come.
  static constexpr int kVectors = kKeyTiles;
  static constexpr int kVectorBytes = kStages * kKeyTileBytes;

  // As a tensor map's swizzle of 128 bytes puts it.
  static constexpr int query_chunk(int row, int chunk) {
    return kQueries + chunk / 8 * kBox + row * 128 + ((chunk ^ row) & 7) * 16;
  }
};

}  // namespace mpfa::kernels::sm90
