// Rows go through in batches that live in the L1 cache: centre K, choose all scales, then code by
// code and dot product by dot product (docs/spec.md, sections 1 and 2).
#include "cpu/append_simd.h"

#include <cstring>

#define HWY_WANT_AVX3_DL
// Arrays of vectors need vectors of a known size; NEON serves Arm.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/append_simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cache/append_reference.h"
#include "core/shapes.h"
#include "cpu/quantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

template <typename T>
void append_typed(const AppendConfig& config, const AppendRow* rows, int64_t count) {
  const auto convert = [&config](const std::byte* from, float(&to)[kHeadDims.back()]) {
    for (int i = 0; i < config.head_dim; ++i) {
      T value;
      std::memcpy(&value, from + i * sizeof(T), sizeof(T));
      to[i] = to_float(value);
    }
  };
  float k[kHeadDims.back()];
  float v[kHeadDims.back()];
  for (int64_t i = 0; i < count; ++i) {
    convert(rows[i].k, k);
    convert(rows[i].v, v);
    append_token_reference(config, rows[i].stats, k, v, rows[i].out);
  }
}

#else

// Four rows are whole vectors of blocks on every target: 16 blocks at head_dim 64.
inline constexpr int64_t kBatchRows = 4;
// Dot products of one row that are reduced together.
inline constexpr int64_t kMaxDots = 16;

template <int kHeadDim>
struct Batch {
  static constexpr int64_t kBlocks = kHeadDim / kNvfp4BlockSize;

  int64_t count = 0;
  const AppendRow* rows = nullptr;

  // [row][element], flat, because blocks and vectors run on over the ends of rows.
  alignas(64) float scaled[kBatchRows * kHeadDim];   // Kc / k_scale
  alignas(64) float centred[kBatchRows * kHeadDim];  // Kc; an infinite element becomes its K^
  alignas(64) float error[kBatchRows * kHeadDim];    // E
  // [row][block], flat.
  alignas(64) float scale[kBatchRows * kBlocks];
  alignas(64) float reciprocal[kBatchRows * kBlocks];
  alignas(64) uint8_t scale_code[kBatchRows * kBlocks];

  // Dot products [row][j], row-major without gaps: 16 partial sums each, then one.
  alignas(64) float partial[kBatchRows * kMaxDots * kNvfp4BlockSize];
  alignas(64) float dot[kBatchRows * kMaxDots];
  alignas(64) float divisor[kBatchRows * kMaxDots];
  alignas(64) uint8_t residual[kBatchRows * kMaxDots];
};

template <typename T, int kHeadDim>
HWY_NOINLINE void centre_key(const AppendRow& row, float* centred, float* scaled) {
  const auto* k = reinterpret_cast<const T*>(row.k);
  const bool unit = row.stats.k_scale == 1.0f;
  const VF k_scale = set(row.stats.k_scale);
  for (int64_t i = 0; i < kHeadDim; i += kLanes) {
    const VF kc = hn::Sub(load_widened(DF(), k + i), hn::LoadU(DF(), row.stats.k_mean + i));
    hn::Store(kc, DF(), centred + i);
    hn::Store(unit ? kc : hn::Div(kc, k_scale), DF(), scaled + i);
  }
}

template <int kHeadDim>
HWY_NOINLINE void choose_batch_scales(Batch<kHeadDim>& batch, ScaleRule rule) {
  const int64_t blocks = batch.count * batch.kBlocks;
  for (int64_t b = 0; b < blocks; b += kLanes) {
    const Scales scales = choose_scales(batch.scaled + b * kNvfp4BlockSize, rule);
    hn::Store(scales.value, DF(), batch.scale + b);
    hn::Store(scales.reciprocal, DF(), batch.reciprocal + b);
    store_u8(scales.code, batch.scale_code + b);
  }
}

// Codes and, where wanted, error of one vector of a block whose scale is a number.
template <bool kWithError>
HWY_INLINE void quantize_vector(const float* scaled, float scale, float reciprocal, float k_scale,
                                uint8_t* codes, float* centred, float* error) {
  const VF x = hn::Load(DF(), scaled);
  const Rounded rounded = round_e2m1(hn::Mul(from_bits(abs_bits(x)), set(reciprocal)));
  store_nibbles(hn::Or(rounded.code, hn::ShiftRight<28>(sign_bits(x))), codes);
  if constexpr (kWithError) {
    const VF magnitude = hn::Mul(hn::Mul(rounded.value, set(scale)), set(k_scale));
    const VF quantized = from_bits(hn::Or(bits_of(magnitude), sign_bits(x)));
    const VF kc = hn::Load(DF(), centred);
    const auto infinite = hn::RebindMask(DF(), hn::Eq(abs_bits(kc), set_bits(0x7F800000u)));
    hn::Store(hn::IfThenZeroElse(infinite, hn::Sub(kc, quantized)), DF(), error);
    hn::Store(hn::IfThenElse(infinite, quantized, kc), DF(), centred);
  }
}

// A block with a NaN: all its values read as NaN.
HWY_NOINLINE void quantize_nan_block(uint8_t* codes, float* centred, float* error) {
  std::memset(codes, 0x77, kNvfp4BlockSize / 2);
  for (int64_t i = 0; i < kNvfp4BlockSize; ++i) {
    const bool infinite = (float_bits(centred[i]) & 0x7FFFFFFFu) == 0x7F800000u;
    const float nan = float_from_bits(0x7FC00000u);
    error[i] = infinite ? 0.0f : nan;
    if (infinite) centred[i] = nan;
  }
}

template <bool kWithError, int kHeadDim>
HWY_NOINLINE void quantize_key(Batch<kHeadDim>& batch, int64_t r) {
  const AppendRow& row = batch.rows[r];
  const int64_t first_block = r * batch.kBlocks;
  std::memcpy(row.out.k_scales, batch.scale_code + first_block, batch.kBlocks);
  for (int64_t b = first_block; b < first_block + batch.kBlocks; ++b) {
    const int64_t begin = b * kNvfp4BlockSize;
    uint8_t* codes = row.out.k_codes + (b - first_block) * (kNvfp4BlockSize / 2);
    if (batch.scale_code[b] == kE4m3NanCode) [[unlikely]] {
      quantize_nan_block(codes, batch.centred + begin, batch.error + begin);
      continue;
    }
    for (int64_t i = 0; i < kNvfp4BlockSize; i += kLanes) {
      quantize_vector<kWithError>(batch.scaled + begin + i, batch.scale[b], batch.reciprocal[b],
                                  row.stats.k_scale, codes + i / 2, batch.centred + begin + i,
                                  batch.error + begin + i);
    }
  }
}

template <typename T, int kHeadDim>
HWY_NOINLINE void quantize_value(const AppendRow& row) {
  const auto* v = reinterpret_cast<const T*>(row.v);
  if (row.stats.v_scale == 1.0f) {
    for (int64_t i = 0; i < kHeadDim; i += kLanes) {
      store_u8(e4m3_stored(load_widened(DF(), v + i)), row.out.v + i);
    }
    return;
  }
  const VF v_scale = set(row.stats.v_scale);
  for (int64_t i = 0; i < kHeadDim; i += kLanes) {
    store_u8(e4m3_stored(hn::Div(load_widened(DF(), v + i), v_scale)), row.out.v + i);
  }
}

// The first halvings of `count` dot products of x with rows of a matrix: 16 partial sums each.
template <int kHeadDim>
HWY_INLINE void start_dots(const float* x, const float* matrix, int64_t stride, int64_t count,
                           float* partial) {
  VF kept[kHeadDim / kLanes];
  for (int64_t i = 0; i < kHeadDim / kLanes; ++i) kept[i] = hn::Load(DF(), x + i * kLanes);
  for (int64_t j = 0; j < count; ++j) {
    const float* row = matrix + j * stride;
    for (int64_t part = 0; part < kNvfp4BlockSize / kLanes; ++part) {
      const VF sum = sum_by_halves<kHeadDim / kNvfp4BlockSize>([&](int m) HWY_ATTR {
        const int64_t vector = m * (kNvfp4BlockSize / kLanes) + part;
        return hn::Mul(hn::LoadU(DF(), row + vector * kLanes), kept[vector]);
      });
      hn::Store(sum, DF(), partial + j * kNvfp4BlockSize + part * kLanes);
    }
  }
}

// The last four halvings of the batch's first `count` dot products.
template <int kHeadDim>
HWY_INLINE void finish_dots(Batch<kHeadDim>& batch, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    sum_blocks(batch.partial + i * kNvfp4BlockSize, batch.dot + i);
  }
}

template <int kHeadDim>
HWY_NOINLINE void write_delta_s(Batch<kHeadDim>& batch, int64_t group_size) {
  for (int64_t first = 0; first < group_size; first += kMaxDots) {
    const int64_t heads = HWY_MIN(kMaxDots, group_size - first);
    for (int64_t r = 0; r < batch.count; ++r) {
      const AppendStats& stats = batch.rows[r].stats;
      start_dots<kHeadDim>(batch.centred + r * kHeadDim, stats.q_mean + first * stats.q_mean_stride,
                           stats.q_mean_stride, heads, batch.partial + r * heads * kNvfp4BlockSize);
    }
    finish_dots(batch, batch.count * heads);
    alignas(64) uint16_t bits[kBatchRows * kMaxDots];
    for (int64_t i = 0; i < batch.count * heads; i += kLanes) {
      store_u16(bf16_stored(hn::Load(DF(), batch.dot + i)), bits + i);
    }
    for (int64_t r = 0; r < batch.count; ++r) {
      const AppendTargets& out = batch.rows[r].out;
      for (int64_t g = 0; g < heads; ++g) {
        std::memcpy(out.delta_s + (first + g) * out.delta_s_stride, bits + r * heads + g, 2);
      }
    }
  }
}

template <int kHeadDim>
HWY_NOINLINE void write_residual(Batch<kHeadDim>& batch, int64_t rank) {
  for (int64_t r = 0; r < batch.count; ++r) {
    const AppendStats& stats = batch.rows[r].stats;
    start_dots<kHeadDim>(batch.error + r * kHeadDim, stats.residual_basis,
                         stats.residual_basis_stride, rank,
                         batch.partial + r * rank * kNvfp4BlockSize);
    std::memcpy(batch.divisor + r * rank, stats.residual_scale, rank * sizeof(float));
  }
  finish_dots(batch, batch.count * rank);
  for (int64_t i = 0; i < batch.count * rank; i += kLanes) {
    const VF dot = hn::Load(DF(), batch.dot + i);
    store_u8(e4m3_stored(hn::Div(dot, hn::Load(DF(), batch.divisor + i))), batch.residual + i);
  }
  for (int64_t r = 0; r < batch.count; ++r) {
    std::memcpy(batch.rows[r].out.k_residual, batch.residual + r * rank, rank);
  }
}

// What is left of E after the residual, for a token that starts a page.
template <int kHeadDim>
HWY_NOINLINE void write_first_key(const Batch<kHeadDim>& batch, int64_t r, int64_t rank) {
  const AppendStats& stats = batch.rows[r].stats;
  float restored[kMaxDots];
  for (int64_t j = 0; j < rank; ++j) {
    restored[j] = mul_rn(stats.residual_scale[j], e4m3_to_float({batch.residual[r * rank + j]}));
  }
  for (int64_t i = 0; i < kHeadDim; i += kLanes) {
    VF sum = hn::Zero(DF());
    for (int64_t j = 0; j < rank; ++j) {
      const VF u = hn::LoadU(DF(), stats.residual_basis + j * stats.residual_basis_stride + i);
      sum = hn::Add(sum, hn::Mul(u, set(restored[j])));
    }
    store_u16(bf16_stored(hn::Sub(hn::Load(DF(), batch.error + r * kHeadDim + i), sum)),
              batch.rows[r].out.k_first + i);
  }
}

template <typename T, int kHeadDim>
HWY_NOINLINE void append_batch(const AppendConfig& config, Batch<kHeadDim>& batch) {
  for (int64_t r = 0; r < batch.count; ++r) {
    centre_key<T, kHeadDim>(batch.rows[r], batch.centred + r * kHeadDim,
                            batch.scaled + r * kHeadDim);
  }
  choose_batch_scales(batch, config.scale_rule);
  const bool with_error = config.residual_rank > 0 || config.group_size > 0;
  for (int64_t r = 0; r < batch.count; ++r) {
    if (with_error || batch.rows[r].out.k_first != nullptr) {
      quantize_key<true>(batch, r);
    } else {
      quantize_key<false>(batch, r);
    }
    quantize_value<T, kHeadDim>(batch.rows[r]);
  }
  if (config.group_size > 0) write_delta_s(batch, config.group_size);
  if (config.residual_rank > 0) write_residual(batch, config.residual_rank);
  for (int64_t r = 0; r < batch.count; ++r) {
    if (batch.rows[r].out.k_first != nullptr) write_first_key(batch, r, config.residual_rank);
  }
}

// Rows of one head lie too far apart for the hardware to see where the next one is.
template <typename T, int kHeadDim>
HWY_INLINE void prefetch_row(const AppendRow& row) {
  for (size_t i = 0; i < kHeadDim * sizeof(T); i += 64) {
    hwy::Prefetch(row.k + i);
    hwy::Prefetch(row.v + i);
  }
}

template <typename T, int kHeadDim>
void append_batches(const AppendConfig& config, const AppendRow* rows, int64_t count) {
  // Zeroed once: a short batch runs some lanes on whatever an earlier one left there.
  Batch<kHeadDim> batch{};
  for (int64_t first = 0; first < count; first += kBatchRows) {
    for (int64_t next = first + kBatchRows; next < HWY_MIN(first + 2 * kBatchRows, count); ++next) {
      prefetch_row<T, kHeadDim>(rows[next]);
    }
    batch.rows = rows + first;
    batch.count = HWY_MIN(kBatchRows, count - first);
    append_batch<T>(config, batch);
  }
}

template <typename T>
void append_typed(const AppendConfig& config, const AppendRow* rows, int64_t count) {
  static_assert(kHeadDims.size() == 2 && kHeadDims[0] == 64 && kHeadDims[1] == 128);
  if (config.head_dim == 64) return append_batches<T, 64>(config, rows, count);
  append_batches<T, 128>(config, rows, count);
}

#endif  // HWY_TARGET == HWY_SCALAR

void append_rows_on_target(const AppendConfig& config, FloatType type, const AppendRow* rows,
                           int64_t count) {
  visit_float_type(type,
                   [&](auto element) { append_typed<decltype(element)>(config, rows, count); });
}

}  // namespace
}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::internal {

HWY_EXPORT(append_rows_on_target);

void append_rows(const AppendConfig& config, FloatType type, std::span<const AppendRow> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  HWY_DYNAMIC_DISPATCH(append_rows_on_target)(config, type, rows.data(), count);
}

}  // namespace mpfa::internal
#endif
