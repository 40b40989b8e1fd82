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
  return visit_float_type(type_, [&](auto element) -> double {
    return to_float(reinterpret_cast<const decltype(element)*>(data)[at]);
  });
}

void RealTensor::store(double value, int64_t i, int64_t j, int64_t k) const {
  std::byte* data = data_of(*tensor_);
  const int64_t at = offset(i, j, k);
  if (fp64_) {
    reinterpret_cast<double*>(data)[at] = value;
    return;
  }
  const auto rounded = static_cast<float>(value);
  visit_float_type(type_, [&](auto element) {
    reinterpret_cast<decltype(element)*>(data)[at] = from_float<decltype(element)>(rounded);
  });
}

}  // namespace mpfa::internal
