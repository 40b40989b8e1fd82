// Brings tiles of a sequence's keys and values from the pages into the operands of dot-inl.h, and
// never reads past the sequence's end.

#if defined(MPFA_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_CPU_TILE_INL_H_
#undef MPFA_CPU_TILE_INL_H_
#else
#define MPFA_CPU_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cpu/attention_item.h"
#include "cpu/dequant-inl.h"
#include "cpu/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Tokens that never leave a page.
inline constexpr int64_t kGroupTokens = 16;

// Sixteen tokens of one page, or their copy padded with zeros where fewer are valid, so that bytes
// past the sequence's end are never read.
struct TokenGroup {
  WordRows codes;
  WordRows scales;
  WordRows residual;
  WordRows v;
};

struct PaddedGroup {
  uint8_t codes[kGroupTokens * kMaxHeadDim / 2];
  uint8_t scales[kGroupTokens * kMaxHeadDim / 16];
  uint8_t residual[kGroupTokens * kMaxResidualRank];
  uint8_t v[kGroupTokens * kMaxHeadDim];
};

HWY_INLINE WordRows pad_rows(const WordRows& rows, int64_t valid, int64_t bytes, uint8_t* copy) {
  std::memset(copy, 0, kGroupTokens * bytes);
  for (int64_t t = 0; t < valid; ++t) {
    std::memcpy(copy + t * bytes, rows.data + t * rows.stride, bytes);
  }
  return {copy, bytes};
}

// Where a token of the item's sequence stands in the cache.
struct TokenPlace {
  int64_t page;
  int64_t slot;
};

HWY_INLINE TokenPlace place_of(const ItemContext& c, int64_t token) {
  const int64_t page_size = c.in.cache.page_size;
  return {*c.in.block_table.at(c.item.sequence, token / page_size), token % page_size};
}

HWY_INLINE TokenGroup cache_rows(const ItemContext& c, int64_t token) {
  const CacheTensors& cache = c.in.cache;
  const TokenPlace at = place_of(c, token);
  const auto rows = [&](const auto& tensor) -> WordRows {
    if (!tensor) return {nullptr, 0};
    return {reinterpret_cast<const uint8_t*>(tensor.at(at.page, c.item.kv_head, at.slot)),
            tensor.stride(2)};
  };
  return {rows(cache.k_codes), rows(cache.k_scales), rows(cache.k_residual), rows(cache.v)};
}

HWY_INLINE TokenGroup locate_group(const ItemContext& c, int64_t token, int64_t valid,
                                   PaddedGroup& padded) {
  TokenGroup group = cache_rows(c, token);
  if (valid >= kGroupTokens) return group;
  const int d = c.in.cache.head_dim;
  group.codes = pad_rows(group.codes, valid, d / 2, padded.codes);
  group.scales = pad_rows(group.scales, valid, d / 16, padded.scales);
  group.residual = pad_rows(group.residual, group.residual.data == nullptr ? 0 : valid,
                            c.in.cache.residual_rank, padded.residual);
  group.v = pad_rows(group.v, valid, d, padded.v);
  return group;
}

// Asks for a token group of the tile to come. Tiles run backwards through scattered pages, which
// the hardware's prefetchers do not follow: without this half of decode's time is waiting.
HWY_INLINE void prefetch_group(const ItemContext& c, int64_t token) {
  if (token < c.item.k_begin) return;
  constexpr int kLine = 64;
  const int d = c.in.cache.head_dim;
  const TokenGroup group = cache_rows(c, token);
  const auto prefetch = [](const WordRows& rows, int bytes) {
    if (rows.data == nullptr) return;
    // Rows that lie back to back are taken as one stretch.
    const bool dense = rows.stride == bytes;
    const int64_t stretches = dense ? 1 : kGroupTokens;
    const int64_t length = dense ? int64_t{kGroupTokens} * bytes : bytes;
    for (int64_t i = 0; i < stretches; ++i) {
      for (int64_t j = 0; j < length; j += kLine) {
        __builtin_prefetch(rows.data + i * rows.stride + j, 0, 2);
      }
    }
  };
  prefetch(group.v, d);
  prefetch(group.codes, d / 2);
  prefetch(group.scales, d / 16);
  prefetch(group.residual, c.in.cache.residual_rank);
}

// Unpacks tokens [begin, begin + valid) of the item's KV head; the rest of the tile becomes zero.
// Returns whether a NaN stands in the tile's V.
template <class Dot>
HWY_NOINLINE bool unpack_tile(const ItemContext& c, int64_t begin, int64_t valid,
                              Scratch& scratch) {
  const int d = c.in.cache.head_dim;
  const int r = c.in.cache.residual_rank;
  bool has_nan = false;
  for (int64_t t = 0; t < kTileTokens; t += kGroupTokens) {
    prefetch_group(c, begin - kTileTokens + t);
    PaddedGroup padded;
    const int64_t here = std::min<int64_t>(kGroupTokens, valid - t);
    TokenGroup group;
    if (here > 0) {
      group = locate_group(c, begin + t, here, padded);
    } else {
      std::memset(&padded, 0, sizeof(padded));
      group = {{padded.codes, d / 2}, {padded.scales, d / 16}, {padded.residual, r}, {padded.v, d}};
    }
    for (int lane = 0; lane < kGroupTokens; lane += kLanes) {
      unpack_k_lanes<Dot>(group.codes, group.scales, group.residual, lane, d, r, kTileTokens,
                          scratch.k_tile.get() + t + lane);
    }
    for (int i = 0; i < kGroupTokens; i += Dot::kPerWord) {
      const uint8_t* first = group.v.data + i * group.v.stride;
      const uint8_t* second = group.v.data + (i + Dot::kPerWord - 1) * group.v.stride;
      unpack_v_step<Dot>(first, second, d,
                         scratch.v_tile.get() + (t + i) / Dot::kPerWord * int64_t{d});
      has_nan = has_nan || find_nan_codes(first, d);
      if constexpr (Dot::kPerWord == 2) has_nan = has_nan || find_nan_codes(second, d);
    }
  }
  return has_nan;
}

// delta_s of the tile's tokens for every head of the group, as floats.
HWY_INLINE void load_deltas(const ItemContext& c, int64_t begin, int64_t valid, Scratch& scratch) {
  const CacheTensors& cache = c.in.cache;
  for (int64_t g = 0; g < c.in.group_size; ++g) {
    const int64_t head = c.item.kv_head * c.in.group_size + g;
    float* out = scratch.deltas.get() + g * kTileTokens;
    std::fill(out, out + kTileTokens, 0.0f);
    for (int64_t t = 0; t < valid; ++t) {
      const TokenPlace at = place_of(c, begin + t);
      out[t] = bf16_to_float(*cache.delta_s.at(at.page, head, at.slot));
    }
  }
}

// A NaN in V reaches exactly the rows that see its token; the packed operand holds a number there,
// so that 0 * NaN cannot reach the others.
template <class Dot>
HWY_NOINLINE void add_nan_values(const ItemContext& c, int64_t begin, int64_t valid,
                                 Scratch& scratch) {
  const CacheTensors& cache = c.in.cache;
  const int d = cache.head_dim;
  for (int64_t t = 0; t < valid; ++t) {
    const int64_t token = begin + t;
    const TokenPlace at = place_of(c, token);
    const E4m3* v = cache.v.at(at.page, c.item.kv_head, at.slot);
    for (int i = 0; i < d; ++i) {
      if ((v[v_dim_at<Dot>(i)].bits & 0x7F) != kE4m3NanCode) continue;
      for (int64_t r = 0; r < c.rows; ++r) {
        const KeyRange range = c.in.visible_keys(c.item.sequence, scratch.positions[r]);
        if (token >= range.begin && token < range.end) {
          scratch.o[r * d + i] = std::numeric_limits<float>::quiet_NaN();
        }
      }
    }
  }
}

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
