#include "quant/add_row.h"

#include "quant/row_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/add_row.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WideTag = hn::ScalableTag<double>;
using FloatTag = hn::Rebind<float, WideTag>;

template <typename T>
void add_row_simd(const T* row, int64_t size, double* sum) {
  const WideTag f64;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(f64));
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto value = hn::PromoteTo(f64, load_widened(FloatTag(), row + i));
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
