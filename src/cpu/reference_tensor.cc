#include "cpu/reference_tensor.h"

namespace mpfa::internal {
namespace {

bool is_fp64(DLDataType dtype) {
  return dtype.code == kDLFloat && dtype.bits == 64 && dtype.lanes == 1;
}

}  // namespace

RealTensor::RealTensor(const DLTensor& tensor, std::string_view name, int ndim)
    : tensor_(&tensor), fp64_(is_fp64(tensor.dtype)) {
  check_layout(tensor, name, ndim, false);
  if (!fp64_) type_ = float_type(tensor, name);
}

int64_t RealTensor::offset(int64_t i, int64_t j, int64_t k) const {
  const int64_t inner = tensor_->ndim == 3 ? k * stride_of(*tensor_, 2) : 0;
  return i * stride_of(*tensor_, 0) + j * stride_of(*tensor_, 1) + inner;
}

double RealTensor::load(int64_t i, int64_t j, int64_t k) const {
  const std::byte* data = data_of(*tensor_);
  const int64_t at = offset(i, j, k);
  if (fp64_) return reinterpret_cast<const double*>(data)[at];
  switch (type_) {
    case FloatType::kBf16:
      return to_float(reinterpret_cast<const Bf16*>(data)[at]);
    case FloatType::kFp16:
      return to_float(reinterpret_cast<const Fp16*>(data)[at]);
    default:
      return reinterpret_cast<const float*>(data)[at];
  }
}

void RealTensor::store(double value, int64_t i, int64_t j, int64_t k) const {
  std::byte* data = data_of(*tensor_);
  const int64_t at = offset(i, j, k);
  if (fp64_) {
    reinterpret_cast<double*>(data)[at] = value;
    return;
  }
  const auto rounded = static_cast<float>(value);
  switch (type_) {
    case FloatType::kBf16:
      reinterpret_cast<Bf16*>(data)[at] = from_float<Bf16>(rounded);
      return;
    case FloatType::kFp16:
      reinterpret_cast<Fp16*>(data)[at] = from_float<Fp16>(rounded);
      return;
    default:
      reinterpret_cast<float*>(data)[at] = rounded;
  }
}

}  // namespace mpfa::internal
