#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpfa::internal {

// Element types of a safetensors file, in the format's own order. The order matters: the writer
// lays tensors out from the last type to the first, widest first, as every other writer does.
// The names are the format's. Its types for which this project has no use (complex, packed 4 and 6
// bit, scale exponents) are missing on purpose: a file that has one is rejected by name.
// NOLINTBEGIN(readability-identifier-naming)
enum class Dtype : std::uint8_t {
  BOOL,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  F64,
  I64,
  U64,
};
// NOLINTEND(readability-identifier-naming)

// Bytes of one element: 1, 2, 4 or 8. Also the alignment that an element needs.
std::size_t dtype_size(Dtype dtype);

// The name as it stands in the file, such as "BF16".
std::string_view dtype_name(Dtype dtype);

// The inverse of dtype_name; nothing for a name that is not in the list. Case matters.
std::optional<Dtype> dtype_from_name(std::string_view name);

// All names, comma separated, for error messages.
std::string dtype_names();

// The DLPack type of one lane. F8_E4M3 is float8_e4m3fn (no infinities), F8_E5M2 is float8_e5m2.
DLDataType dtype_to_dlpack(Dtype dtype);

// The inverse of dtype_to_dlpack. Throws InvalidArgument, naming code, bits and lanes, for a type
// that the file format cannot hold.
Dtype dtype_from_dlpack(DLDataType type);

}  // namespace mpfa::internal
