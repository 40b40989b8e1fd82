#include "io/dtype.h"

#include <array>

#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

struct DtypeRow {
  std::string_view name;
  std::uint8_t code;  // DLDataTypeCode
  std::uint8_t size;  // bytes of one element
};

// One row per Dtype, indexed by its value.
constexpr std::array<DtypeRow, 15> kRows = {{
    {"BOOL", kDLBool, 1},
    {"U8", kDLUInt, 1},
    {"I8", kDLInt, 1},
    {"F8_E5M2", kDLFloat8_e5m2, 1},
    {"F8_E4M3", kDLFloat8_e4m3fn, 1},
    {"I16", kDLInt, 2},
    {"U16", kDLUInt, 2},
    {"F16", kDLFloat, 2},
    {"BF16", kDLBfloat, 2},
    {"I32", kDLInt, 4},
    {"U32", kDLUInt, 4},
    {"F32", kDLFloat, 4},
    {"F64", kDLFloat, 8},
    {"I64", kDLInt, 8},
    {"U64", kDLUInt, 8},
}};
static_assert(kRows.size() == static_cast<std::size_t>(Dtype::U64) + 1);

const DtypeRow& row(Dtype dtype) { return kRows.at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::size_t dtype_size(Dtype dtype) { return row(dtype).size; }

std::string_view dtype_name(Dtype dtype) { return row(dtype).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const DtypeRow& r : kRows) {
    if (!names.empty()) names += ", ";
    names += r.name;
  }
  return names;
}

DLDataType dtype_to_dlpack(Dtype dtype) {
  const DtypeRow& r = row(dtype);
  return {r.code, static_cast<std::uint8_t>(r.size * 8), 1};
}

Dtype dtype_from_dlpack(DLDataType type) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const DtypeRow& r = kRows[i];
    if (type.lanes == 1 && type.code == r.code && type.bits == r.size * 8) {
      return static_cast<Dtype>(i);
    }
  }
  throw InvalidArgument(str_cat("dtype = (code ", int{type.code}, ", bits ", int{type.bits},
                                ", lanes ", type.lanes, ") has no safetensors type; allowed are ",
                                dtype_names()));
}

}  // namespace mpfa::internal
