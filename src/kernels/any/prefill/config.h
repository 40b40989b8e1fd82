// Sizes of a prefill kernel and where things lie in its shared memory.
#pragma once

#include <cstdint>

#include "kernels/any/decode/config.h"

namespace mpfa::kernels {

// kDim: head dimension. kExtra: with delta_s and softcap.
template <int kDim, bool kExtra>
struct PrefillConfig {
  static constexpr bool kHasExtra = kExtra;
  static constexpr int kHeadDim = kDim;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  // Two tiles of 16 query rows a warp: what it reads of K and V out of shared memory serves both.
  static constexpr int kRowTiles = 2;
  static constexpr int kWarpRows = 16 * kRowTiles;
  static constexpr int kRows = kWarpRows * kWarps;  // of a CTA
  static constexpr int kKeys = 64;                  // of a tile
  static constexpr int kKeyTiles = kKeys / 8;       // the N of m16n8k16
  static constexpr int kSteps = kDim / 16;          // of QK's depth
  static constexpr int kDimTiles = kDim / 8;        // of PV's columns
  static constexpr int kChunks = kDim / 8;          // a row's pieces of 16 bytes in FP16
  static constexpr int kCodesRow = kDim / 2;        // bytes of a token
  static constexpr int kScalesRow = kDim / 16;      // likewise
  // CTAs of a multiprocessor: while one unpacks a tile another multiplies.
  static constexpr int kMinCtas = 2;

  // ---- shared memory, in bytes ----
  static constexpr int kQueries = 0;                                       // [rows][d] FP16
  static constexpr int kKeyTile = kQueries + kRows * kDim * 2;             // [keys][d] FP16
  static constexpr int kValueTile = kKeyTile + kKeys * kDim * 2;           // [keys][d] FP16
  static constexpr int kCoefficients = kValueTile + kKeys * kDim * 2;      // [rows][16] FP16
  static constexpr int kResiduals = kCoefficients + kRows * kMaxRank * 2;  // [keys][16] FP16
  static constexpr int kScalars = kResiduals + kKeys * kMaxRank * 2;       // [rows] RowScalars
  static constexpr int kNanDims =
      kScalars + kRows * static_cast<int>(sizeof(RowScalars));  // [rows][d] bits
  // A tile as it lies in the cache, on its way.
  static constexpr int kRawCodes = kNanDims + kRows * kDim / 8;
  static constexpr int kRawScales = kRawCodes + kKeys * kCodesRow;
  static constexpr int kRawValues = kRawScales + kKeys * kScalesRow;
  static constexpr int kRawResiduals = kRawValues + kKeys * kDim;
  static constexpr int kSegment = kRawResiduals + kKeys * kMaxRank;
  static constexpr int kDelta = kSegment + static_cast<int>(sizeof(DecodeSegment));  // [2][heads]
  // A head's delta_s of a tile; 16 bytes more, so that heads meet different banks.
  static constexpr int kDeltaRow = kKeys * 2 + 16;

  // Query heads that a CTA's rows have, in the order of rows.
  __host__ __device__ static constexpr int delta_heads(int group_size) {
    return group_size < kRows ? group_size : kRows;
  }
  static constexpr int shared_bytes(bool has_delta, int group_size) {
    return kDelta + (has_delta ? 2 * delta_heads(group_size) * kDeltaRow : 0);
  }
};

// Byte of the 16-byte piece `chunk` of a row of 16-bit elements in shared memory. Pieces are
// exchanged so that 8 rows' pieces of one number lie in different banks.
template <int kDim>
constexpr int chunk_at(int row, int chunk) {
  return row * kDim * 2 + (chunk ^ (row & 7)) * 16;
}
// Likewise of rows of 16 elements.
constexpr int narrow_chunk_at(int row, int chunk) {
  return row * 32 + (chunk ^ (row >> 2 & 1)) * 16;
}

}  // namespace mpfa::kernels
