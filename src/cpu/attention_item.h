// A work item's working memory and the values that hold for all of it.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "core/shapes.h"
#include "cpu/attention_kernel.h"

namespace mpfa::internal {

// Tokens of one tile. Unpacked K and V of a tile (16 KB each in BF16) stay in the first two caches.
inline constexpr int64_t kTileTokens = 64;
inline constexpr int64_t kMaxHeadDim = kHeadDims.back();
inline constexpr int64_t kMaxResidualRank = kResidualRanks.back();
inline constexpr double kLog2E = 1.44269504088896340736;

// Makes room for `count` elements, whose values are lost. Where there is no memory everything stays
// as it was, so that a later, smaller item does not write past the old room.
template <typename T>
void grow(hwy::AlignedFreeUniquePtr<T[]>& buffer, int64_t& capacity, int64_t count) {
  if (count <= capacity) return;
  auto larger = hwy::AllocateAligned<T>(static_cast<size_t>(count));
  if (larger == nullptr) throw std::bad_alloc();
  buffer = std::move(larger);
  capacity = count;
}

// A thread's working memory; grows to the largest item it has met.
struct Scratch {
  using Words = hwy::AlignedFreeUniquePtr<uint32_t[]>;
  using Floats = hwy::AlignedFreeUniquePtr<float[]>;

  Words q;        // [rows][q_words]
  Floats o;       // [rows][d]
  Words k_tile;   // [d + r][kTileTokens]
  Words v_tile;   // [kTileTokens][d]
  Floats deltas;  // [group][kTileTokens]
  int64_t q_capacity = 0;
  int64_t o_capacity = 0;
  int64_t k_tile_capacity = 0;
  int64_t v_tile_capacity = 0;
  int64_t deltas_capacity = 0;
  std::vector<RowState> states;
  std::vector<float> first_key;    // [rows]: what token 0's score gains
  std::vector<float> delta_scale;  // [rows]: delta_s into the row's units
  std::vector<float> cap_bias;     // [rows]: softcap only: logit = (score + bias) * unit
  std::vector<float> cap_unit;
  std::vector<float> cap_factor;   // [rows]: unit / softcap
  std::vector<int64_t> positions;  // [rows]: query row within the sequence

  void reserve(int64_t rows, int64_t q_words, int64_t head_dim, int64_t group) {
    grow(k_tile, k_tile_capacity, (kMaxHeadDim + kMaxResidualRank) * kTileTokens);
    grow(v_tile, v_tile_capacity, kTileTokens * kMaxHeadDim);
    grow(q, q_capacity, rows * q_words);
    grow(o, o_capacity, rows * head_dim);
    grow(deltas, deltas_capacity, group * kTileTokens);
    states.resize(rows);
    first_key.resize(rows);
    delta_scale.resize(rows);
    cap_unit.resize(rows);
    cap_bias.resize(rows);
    cap_factor.resize(rows);
    positions.resize(rows);
  }
};

// A stretch of the summed dimension: `steps` words of the rows meet the tile's steps from `begin`
// on.
struct Segment {
  int begin;
  int steps;
};

// What is the same for every row and tile of an item.
struct ItemContext {
  const AttentionInputs& in;
  const WorkItem& item;
  int64_t rows;  // query rows of the item: tokens times group
  int64_t stats_row;
  float k_scale;
  int q_terms;      // BF16 terms that hold a query element (Bf16Dot)
  int64_t q_words;  // operand words of a query row
  Segment segments[4];
  int num_segments = 0;
};

}  // namespace mpfa::internal
