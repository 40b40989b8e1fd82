// Unpacks a tile of the cache into the operand words of dot-inl.h: K transposed to [dims][tokens],
// V as [tokens][dims]. Both conversions are exact.

#if defined(MPFA_CPU_DEQUANT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_CPU_DEQUANT_INL_H_
#undef MPFA_CPU_DEQUANT_INL_H_
#else
#define MPFA_CPU_DEQUANT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "cpu/attention_kernel.h"
#include "cpu/dot-inl.h"
#include "mpfa/formats.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of 32-bit words of consecutive tokens: codes, scales or residuals of one KV head.
struct WordRows {
  const uint8_t* data;
  int64_t stride;  // bytes from one token to the next

  HWY_INLINE uint32_t word(int64_t token, int64_t index) const {
    uint32_t value;
    std::memcpy(&value, data + token * stride + index * 4, 4);
    return value;
  }
};

// Words `first` .. `first` + 3 of kLanes consecutive tokens, transposed: out[i] holds word
// first + i of every token, one token per lane.
HWY_INLINE void load_transposed_words(const WordRows& rows, int64_t token, int64_t first,
                                      VU (&out)[4]) {
  const DU du;
  const hn::FixedTag<uint32_t, 4> d4;
  VU in[4];
  for (int i = 0; i < 4; ++i) {
    const uint8_t* p = rows.data + (token + i) * rows.stride + first * 4;
    const auto load = [&](int block) {
      return hn::BitCast(
          d4, hn::LoadU(hn::FixedTag<uint8_t, 16>(), p + int64_t{4} * block * rows.stride));
    };
#if HWY_MAX_BYTES == 64
    const hn::FixedTag<uint32_t, 8> d8;
    in[i] = hn::Combine(du, hn::Combine(d8, load(3), load(2)), hn::Combine(d8, load(1), load(0)));
#elif HWY_MAX_BYTES == 32
    in[i] = hn::Combine(du, load(1), load(0));
#else
    in[i] = load(0);
#endif
  }
  transpose_quads(du, in, out);
}

// e2m1 code in bits 0..3 of each lane (higher bits are ignored) to float.
HWY_INLINE VF e2m1_lanes_to_float(VU code) {
  const DF df;
#if HWY_MAX_BYTES == 64
  HWY_ALIGN static constexpr float kTable[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                 4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                 -2.0f, -3.0f, -4.0f, -6.0f};
  // The permutation reads four bits of the index, whatever stands above them.
  return hn::TableLookupLanes(hn::Load(df, kTable), hn::Indices512<float>{code.raw});
#else
  const DU du;
  const VU sign = hn::ShiftLeft<28>(hn::And(code, hn::Set(du, 8)));
#if HWY_MAX_BYTES == 32
  HWY_ALIGN static constexpr float kTable[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  // The permutation reads three bits of the index.
  const VU bits =
      hn::BitCast(du, hn::TableLookupLanes(hn::Load(df, kTable), hn::Indices256<float>{code.raw}));
#else
  const VU magnitude = hn::And(code, hn::Set(du, 7));
  const VU one_or_more = hn::Add(hn::ShiftLeft<22>(magnitude), hn::Set(du, 126u << 23));
  const VU half_or_zero = hn::And(hn::Sub(hn::Zero(du), magnitude), hn::Set(du, 0x3F000000u));
  const VU bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 2)), half_or_zero, one_or_more);
#endif
  return hn::BitCast(df, hn::Or(bits, sign));
#endif
}

// Two floats that are exact in BF16 to one operand word.
HWY_INLINE VU pack_bf16(VF low, VF high) {
  const DU du;
  return hn::Or(hn::ShiftRight<16>(hn::BitCast(du, low)),
                hn::And(hn::BitCast(du, high), hn::Set(du, 0xFFFF0000u)));
}

// Stores values of dims 2i and 2i + 1 of kLanes tokens at step position i.
template <class Dot>
HWY_INLINE void store_dim_pair(VF even, VF odd, int64_t pair, int64_t tile_tokens,
                               uint32_t* HWY_RESTRICT tile) {
  const DU du;
  if constexpr (Dot::kPerWord == 2) {
    hn::Store(pack_bf16(even, odd), du, tile + pair * tile_tokens);
  } else {
    hn::Store(hn::BitCast(du, even), du, tile + (2 * pair) * tile_tokens);
    hn::Store(hn::BitCast(du, odd), du, tile + (2 * pair + 1) * tile_tokens);
  }
}

// One word (8 codes, dims 8 * index ...) of kLanes tokens times the block scale.
template <class Dot>
HWY_INLINE void unpack_code_word(VU word, VF scale, int64_t index, int64_t tile_tokens,
                                 uint32_t* HWY_RESTRICT tile) {
  const auto pair = [&](VU low, VU high, int i) {
    store_dim_pair<Dot>(hn::Mul(e2m1_lanes_to_float(low), scale),
                        hn::Mul(e2m1_lanes_to_float(high), scale), 4 * index + i, tile_tokens,
                        tile);
  };
  pair(word, hn::ShiftRight<4>(word), 0);
  pair(hn::ShiftRight<8>(word), hn::ShiftRight<12>(word), 1);
  pair(hn::ShiftRight<16>(word), hn::ShiftRight<20>(word), 2);
  pair(hn::ShiftRight<24>(word), hn::ShiftRight<28>(word), 3);
}

// Word `index` of kLanes tokens, one token per lane.
HWY_INLINE VU load_word_column(const WordRows& rows, int64_t token, int64_t index) {
  HWY_ALIGN uint32_t words[kLanes];
  for (int i = 0; i < kLanes; ++i) words[i] = rows.word(token + i, index);
  return hn::Load(DU(), words);
}

HWY_INLINE VF e4m3_byte_to_float(VU word, int byte) {
  const DU du;
  return e4m3_decode(hn::And(hn::ShiftRightSame(word, 8 * byte), hn::Set(du, 0xFF)));
}

// K of kLanes tokens from `token` on to columns of `tile`: head_dim dims, then the residual's
// columns.
template <class Dot>
HWY_INLINE void unpack_k_lanes(const WordRows& codes, const WordRows& scales,
                               const WordRows& residual, int64_t token, int head_dim,
                               int residual_rank, int64_t tile_tokens,
                               uint32_t* HWY_RESTRICT tile) {
  for (int scale_word = 0; scale_word < head_dim / 64; ++scale_word) {
    const VU packed_scales = load_word_column(scales, token, scale_word);
    for (int half = 0; half < 2; ++half) {
      const int first = scale_word * 8 + half * 4;  // 4 words of codes are 2 blocks
      VU words[4];
      load_transposed_words(codes, token, first, words);
      const VF scale0 = e4m3_byte_to_float(packed_scales, 2 * half);
      const VF scale1 = e4m3_byte_to_float(packed_scales, 2 * half + 1);
      unpack_code_word<Dot>(words[0], scale0, first, tile_tokens, tile);
      unpack_code_word<Dot>(words[1], scale0, first + 1, tile_tokens, tile);
      unpack_code_word<Dot>(words[2], scale1, first + 2, tile_tokens, tile);
      unpack_code_word<Dot>(words[3], scale1, first + 3, tile_tokens, tile);
    }
  }
  for (int i = 0; i < residual_rank / 4; ++i) {
    const VU word = load_word_column(residual, token, i);
    const int64_t pair = head_dim / 2 + 2 * i;
    store_dim_pair<Dot>(e4m3_byte_to_float(word, 0), e4m3_byte_to_float(word, 1), pair, tile_tokens,
                        tile);
    store_dim_pair<Dot>(e4m3_byte_to_float(word, 2), e4m3_byte_to_float(word, 3), pair + 1,
                        tile_tokens, tile);
  }
}

// kLanes e4m3 codes to float, times kVUnit. NaN codes read as numbers: find_nan_codes() looks for
// them.
HWY_INLINE VF load_v_lanes(const uint8_t* p) {
  const DF df;
  const hn::Rebind<int8_t, DF> d8;
  const hn::Rebind<int16_t, DF> d16;
  const hn::Rebind<hwy::float16_t, DF> d_half;
  // s eeee mmm -> s 0eeee mmm0000000: an FP16 number whose value is 2^-8 times the code's.
  const auto wide = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(p)));
  const auto bits = hn::And(hn::ShiftLeft<7>(wide), hn::Set(d16, static_cast<int16_t>(0xBF80)));
  return hn::PromoteTo(df, hn::BitCast(d_half, bits));
}

#if MPFA_HAVE_BF16_DOT
// e4m3 codes 0..127 to BF16 times kVUnit, as separate bytes. A NaN code reads as 0:
// find_nan_codes() looks for them.
struct E4m3Table {
  HWY_ALIGN uint8_t low[128];
  HWY_ALIGN uint8_t high[128];
};

constexpr E4m3Table make_e4m3_table() {
  E4m3Table table{};
  for (int code = 0; code < kE4m3NanCode; ++code) {
    const uint32_t bits = float_bits(e4m3_to_float({static_cast<uint8_t>(code)}) * kVUnit) >> 16;
    table.low[code] = static_cast<uint8_t>(bits);
    table.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  return table;
}

// Looks 64 seven-bit indices up in 128 bytes; bit 7 of an index is ignored. (AVX512_VBMI, which
// this Highway's AVX-512 target does not assume; choose_dot_kind() asks the CPU first.)
template <class V>
HWY_INLINE V lookup_128(V index, V table0, V table1) {
  asm("vpermi2b %2, %1, %0" : "+v"(index.raw) : "v"(table0.raw), "v"(table1.raw));
  return index;
}

// V of a token pair to one step of `tile`, 64 dims at a time, by table. The cheapest interleaving
// leaves the dims of a stretch of 64 in another order: see v_dim_at().
HWY_INLINE void unpack_v_pair(const uint8_t* first, const uint8_t* second, int head_dim,
                              uint32_t* HWY_RESTRICT tile) {
  static constexpr E4m3Table kTable = make_e4m3_table();
  const hn::FixedTag<uint8_t, 64> d8;
  const DU du;
  const auto low0 = hn::Load(d8, kTable.low);
  const auto low1 = hn::Load(d8, kTable.low + 64);
  const auto high0 = hn::Load(d8, kTable.high);
  const auto high1 = hn::Load(d8, kTable.high + 64);
  const auto sign = hn::Set(d8, 0x80);
  for (int i = 0; i < head_dim; i += 64) {
    const auto a = hn::LoadU(d8, first + i);
    const auto b = hn::LoadU(d8, second + i);
    const auto convert = [&](auto codes, uint32_t* out) {
      const auto low = lookup_128(codes, low0, low1);
      const auto high = hn::OrAnd(lookup_128(codes, high0, high1), codes, sign);
      hn::Store(hn::BitCast(du, hn::InterleaveLower(d8, low, high)), du, out);
      hn::Store(hn::BitCast(du, hn::InterleaveUpper(d8, low, high)), du, out + kLanes);
    };
    convert(hn::InterleaveLower(d8, a, b), tile + i);
    convert(hn::InterleaveUpper(d8, a, b), tile + i + 2 * kLanes);
  }
}
#endif  // MPFA_HAVE_BF16_DOT

// V of one token pair (Bf16Dot) or one token (Fp32Dot) to one step of `tile`.
template <class Dot>
HWY_INLINE void unpack_v_step(const uint8_t* first, const uint8_t* second, int head_dim,
                              uint32_t* HWY_RESTRICT tile) {
#if MPFA_HAVE_BF16_DOT
  if constexpr (Dot::kPerWord == 2) return unpack_v_pair(first, second, head_dim, tile);
#endif
  (void)second;
  const DU du;
  for (int i = 0; i < head_dim; i += kLanes) {
    hn::Store(hn::BitCast(du, load_v_lanes(first + i)), du, tile + i);
  }
}

// Which dim stands at column `i` of an unpacked V tile, and so of O.
template <class Dot>
constexpr int v_dim_at(int i) {
  if constexpr (Dot::kPerWord == 1) return i;
  // Vector j of a stretch of 64 holds, in its 128-bit block b, dims 16 b + 4 j ....
  const int vector = i / 16 % 4;
  const int block = i / 4 % 4;
  return i / 64 * 64 + 16 * block + 4 * vector + i % 4;
}

// Whether any of `n` e4m3 codes (a multiple of 64) is a NaN.
HWY_INLINE bool find_nan_codes(const uint8_t* p, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const auto mask = hn::Set(d, kE4m3NanCode);
  auto any = hn::Zero(d);
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    any = hn::Max(any, hn::And(hn::LoadU(d, p + i), mask));
  }
  return !hn::AllFalse(d, hn::Eq(any, mask));
}

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
