#include "core/tensor.h"

namespace mpfa::internal {

std::string shape_string(const DLTensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.ndim; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

std::string dtype_string(DLDataType dtype) {
  std::string text;
  switch (dtype.code) {
    case kDLInt:
      text = "int" + std::to_string(dtype.bits);
      break;
    case kDLUInt:
      text = "uint" + std::to_string(dtype.bits);
      break;
    case kDLFloat:
      text = "float" + std::to_string(dtype.bits);
      break;
    case kDLBfloat:
      text = "bfloat" + std::to_string(dtype.bits);
      break;
    case kDLFloat8_e4m3fn:
      text = "float8_e4m3fn";
      break;
    case kDLFloat4_e2m1fn:
      text = "float4_e2m1fn";
      break;
    default:
      text = "DLPack type code " + std::to_string(dtype.code) + " of " +
             std::to_string(dtype.bits) + " bits";
  }
  if (dtype.lanes != 1) text += "x" + std::to_string(dtype.lanes);
  return text;
}

namespace {

bool is_type(DLDataType dtype, DLDataTypeCode code, int bits) {
  return dtype.code == code && dtype.bits == bits && dtype.lanes == 1;
}

}  // namespace

FloatType float_type(const DLTensor& tensor, std::string_view name) {
  if (is_type(tensor.dtype, kDLBfloat, 16)) return FloatType::kBf16;
  if (is_type(tensor.dtype, kDLFloat, 16)) return FloatType::kFp16;
  MPFA_CHECK(is_type(tensor.dtype, kDLFloat, 32), name, " has type ", dtype_string(tensor.dtype),
             ": must be bfloat16, float16 or float32");
  return FloatType::kFp32;
}

size_t float_type_size(FloatType type) { return type == FloatType::kFp32 ? 4 : 2; }

template <>
bool dtype_matches<float>(DLDataType dtype) {
  return is_type(dtype, kDLFloat, 32);
}
template <>
bool dtype_matches<int32_t>(DLDataType dtype) {
  return is_type(dtype, kDLInt, 32);
}
template <>
bool dtype_matches<int64_t>(DLDataType dtype) {
  return is_type(dtype, kDLInt, 64);
}
template <>
bool dtype_matches<Bf16>(DLDataType dtype) {
  return is_type(dtype, kDLBfloat, 16);
}
template <>
bool dtype_matches<Fp16>(DLDataType dtype) {
  return is_type(dtype, kDLFloat, 16);
}
template <>
bool dtype_matches<E4m3>(DLDataType dtype) {
  return is_type(dtype, kDLFloat8_e4m3fn, 8) || is_type(dtype, kDLUInt, 8);
}
template <>
bool dtype_matches<uint8_t>(DLDataType dtype) {
  const bool e2m1_pair = dtype.code == kDLFloat4_e2m1fn && dtype.bits == 4 && dtype.lanes == 2;
  return is_type(dtype, kDLUInt, 8) || e2m1_pair;
}

template <>
const char* dtype_expected<float>() {
  return "float32";
}
template <>
const char* dtype_expected<int32_t>() {
  return "int32";
}
template <>
const char* dtype_expected<int64_t>() {
  return "int64";
}
template <>
const char* dtype_expected<Bf16>() {
  return "bfloat16";
}
template <>
const char* dtype_expected<Fp16>() {
  return "float16";
}
template <>
const char* dtype_expected<E4m3>() {
  return "float8_e4m3fn (or uint8)";
}
template <>
const char* dtype_expected<uint8_t>() {
  return "uint8 (or float4_e2m1fn x2)";
}

int64_t stride_of(const DLTensor& tensor, int i) {
  if (tensor.strides != nullptr) return tensor.strides[i];
  int64_t stride = 1;
  for (int dim = tensor.ndim - 1; dim > i; --dim) stride *= tensor.shape[dim];
  return stride;
}

void check_layout(const DLTensor& tensor, std::string_view name, int ndim, bool inner_contiguous) {
  const DLDeviceType device = tensor.device.device_type;
  MPFA_CHECK(device == kDLCPU || device == kDLCUDAHost, name, " lies on DLPack device type ",
             static_cast<int>(device),
             ": must be host memory (device type 1), or lie with all others on one GPU (type 2)");
  MPFA_CHECK(tensor.ndim == ndim, name, " has shape ", shape_string(tensor), ": must have ", ndim,
             " dimensions");
  bool empty = false;
  int64_t elements = 1;  // of the dimensions that are not 0, so that compact strides fit as well
  for (int i = 0; i < ndim; ++i) {
    const int64_t n = tensor.shape[i];
    MPFA_CHECK(n >= 0, name, " has shape ", shape_string(tensor), ": a dimension is negative");
    empty = empty || n == 0;
    MPFA_CHECK(n == 0 || !__builtin_mul_overflow(elements, n, &elements), name, " has shape ",
               shape_string(tensor), ": must have fewer than 2^63 elements");
  }
  MPFA_CHECK(empty || tensor.data != nullptr, name, " has shape ", shape_string(tensor),
             " but its data pointer is null");
  MPFA_CHECK(!inner_contiguous || ndim == 0 || empty || tensor.shape[ndim - 1] == 1 ||
                 stride_of(tensor, ndim - 1) == 1,
             name, " has stride ", stride_of(tensor, ndim - 1),
             " in its last dimension: must be 1 (contiguous)");
}

void check_alignment(const DLTensor& tensor, std::string_view name, size_t size) {
  const auto misalignment = reinterpret_cast<uintptr_t>(data_of(tensor)) % size;
  MPFA_CHECK(misalignment == 0, name, " starts at an address that is ", misalignment, " modulo ",
             size, ": must be aligned to its elements");
}

void check_size(const DLTensor& tensor, std::string_view name, int dim, int64_t expected,
                std::string_view why) {
  MPFA_CHECK(tensor.shape[dim] == expected, name, " has shape ", shape_string(tensor),
             ": dimension ", dim, " must be ", expected, " (", why, ")");
}

int64_t count_sequences(const Tensor<int32_t, 1>& cu_seqlens, std::string_view name) {
  MPFA_CHECK(cu_seqlens.size(0) >= 1, name, " is empty: must have one element more than sequences");
  return cu_seqlens.size(0) - 1;
}

int64_t check_cu_seqlens(const Tensor<int32_t, 1>& cu_seqlens, std::string_view name,
                         int64_t total) {
  const int64_t batch_size = count_sequences(cu_seqlens, name);
  MPFA_CHECK(*cu_seqlens.at(0) == 0, name, "[0] = ", *cu_seqlens.at(0), ": must be 0");
  for (int64_t i = 0; i < batch_size; ++i) {
    MPFA_CHECK(*cu_seqlens.at(i) <= *cu_seqlens.at(i + 1), name, "[", i + 1,
               "] = ", *cu_seqlens.at(i + 1), ": must not be below ", name, "[", i,
               "] = ", *cu_seqlens.at(i));
  }
  MPFA_CHECK(*cu_seqlens.at(batch_size) <= total, name, "[", batch_size,
             "] = ", *cu_seqlens.at(batch_size), ": must not exceed the number of rows, ", total);
  return batch_size;
}

}  // namespace mpfa::internal
