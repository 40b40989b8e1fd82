#include "quant/add_row.h"

#include "quant/row_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/add_row.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WideTag = hn::ScalableTag<double>;
using FloatTag = hn::Rebind<float, WideTag>;
using BitsTag = hn::Rebind<uint32_t, WideTag>;
using HalfTag = hn::Rebind<uint16_t, WideTag>;

// As many FP32 values as a vector holds of FP64.
hn::Vec<FloatTag> load_widened(const float* p) { return hn::LoadU(FloatTag(), p); }

hn::Vec<FloatTag> load_widened(const Bf16* p) {
  const auto bits =
      hn::PromoteTo(BitsTag(), hn::LoadU(HalfTag(), reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bits));
}

// The same steps as widen(Fp16): Highway's own conversion loses infinities where the CPU has no
// instruction for it.
hn::Vec<FloatTag> load_widened(const Fp16* p) {
  const BitsTag u32;
  const FloatTag f32;
  const auto bits = hn::PromoteTo(u32, hn::LoadU(HalfTag(), reinterpret_cast<const uint16_t*>(p)));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u32, 0x8000u)));
  const auto abs = hn::And(bits, hn::Set(u32, 0x7FFFu));
  const auto exponent = hn::Set(u32, 0x7C00u);
  const auto special =
      hn::IfThenElseZero(hn::Eq(hn::And(abs, exponent), exponent), hn::Set(u32, 0x7F800000u));
  const auto scaled = hn::Mul(hn::BitCast(f32, hn::ShiftLeft<13>(abs)), hn::Set(f32, 0x1p112f));
  return hn::BitCast(f32, hn::Or(hn::Or(hn::BitCast(u32, scaled), special), sign));
}

template <typename T>
void add_row_simd(const T* row, int64_t size, double* sum) {
  const WideTag f64;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(f64));
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto value = hn::PromoteTo(f64, load_widened(row + i));
    hn::StoreU(hn::Add(hn::LoadU(f64, sum + i), value), f64, sum + i);
  }
  for (; i < size; ++i) sum[i] += static_cast<double>(widen(row[i]));
}

void add_row_bf16(const Bf16* row, int64_t size, double* sum) { add_row_simd(row, size, sum); }
void add_row_fp16(const Fp16* row, int64_t size, double* sum) { add_row_simd(row, size, sum); }
void add_row_fp32(const float* row, int64_t size, double* sum) { add_row_simd(row, size, sum); }

}  // namespace HWY_NAMESPACE
}  // namespace mpfa::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::internal {

HWY_EXPORT(add_row_bf16);
HWY_EXPORT(add_row_fp16);
HWY_EXPORT(add_row_fp32);

void add_row(const Bf16* row, int64_t size, double* sum) {
  HWY_DYNAMIC_DISPATCH(add_row_bf16)(row, size, sum);
}
void add_row(const Fp16* row, int64_t size, double* sum) {
  HWY_DYNAMIC_DISPATCH(add_row_fp16)(row, size, sum);
}
void add_row(const float* row, int64_t size, double* sum) {
  HWY_DYNAMIC_DISPATCH(add_row_fp32)(row, size, sum);
}

}  // namespace mpfa::internal
#endif
