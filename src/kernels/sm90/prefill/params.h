// What the host hands to the prefill kernels for sm_90a.
#pragma once

#include "kernels/any/prefill/params.h"

namespace mpfa::kernels::sm90 {

inline constexpr int kTileKeys = 128;  // keys of a step; a sequence's tokens begin at a multiple

// The cache of a step, unpacked into what tensor cores read: sequences one after the other, each
// from a multiple of kTileKeys on, and zeros behind its last key.
struct UnpackedCache {
  // [Hkv][capacity][d] FP16: K^ 2^kKeyExponent with its residual, and what the first key lacks; of
  // each 8 dims the even ones first.
  std::byte* keys = nullptr;
  // [Hkv][d][capacity] e4m3. Of each 16 tokens byte 4 w + i is token 2 w + (0, 1, 8, 9)[i]: then
  // the columns of an accumulator of scores are an A operand as they lie in registers.
  std::byte* values = nullptr;
  // [Hkv][capacity / kTileKeys]: whether a value of the tile is NaN; it is 0 in `values`.
  uint32_t* has_nan = nullptr;
  int32_t capacity = 0;  // tokens, a multiple of kTileKeys
};

inline constexpr int kSchedulerWords = 64;

struct Sm90PrefillParams {
  PrefillParams common = {};
  UnpackedCache cache = {};
  // KV heads [first_head, first_head + num_heads) of the cache, which are heads 0 on there.
  int32_t first_head = 0;
  int32_t num_heads = 0;
  int32_t num_ctas = 0;  // that take tiles in turn, at most: one per multiprocessor
  // [kSchedulerWords] the kernel's own; launch_unpack() writes what they begin with.
  uint32_t* scheduler = nullptr;
  // CUtensorMap of each: boxes of 128 tokens and 64 columns, all dims.
  alignas(64) std::byte keys_map[128] = {};
  alignas(64) std::byte values_map[128] = {};
};

}  // namespace mpfa::kernels::sm90
