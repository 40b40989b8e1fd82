#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/dtype.h"

namespace mpfa::internal {

// A safetensors file is: the header's length N (8 bytes, little endian), N bytes of JSON, then the
// data. The JSON maps each tensor's name to {"dtype", "shape", "data_offsets": [begin, end]},
// offsets counted from the start of the data, and "__metadata__" to a map from string to string.
inline constexpr std::size_t kLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr std::string_view kMetadataKey = "__metadata__";

// More dimensions than any tensor library takes; bounds what a hostile header can make us hold.
inline constexpr std::size_t kMaxRank = 64;

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::U8;
  std::vector<std::int64_t> shape;    // every extent >= 0; empty for a scalar
  std::vector<std::int64_t> strides;  // row major, in elements; as many as shape has
  std::uint64_t begin = 0;            // first byte, from the start of the data
  std::uint64_t end = 0;              // one past the last byte
  const std::byte* data = nullptr;    // the first byte in memory; may be misaligned for dtype
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;   // by begin, an empty tensor before the one that follows it
  std::vector<std::size_t> by_name;  // indices of tensors, sorted by name
  std::map<std::string, std::string> metadata;
};

// Parses and checks a whole file's bytes. `source` names it in messages, already quoted. Throws
// IoError, naming the source, the tensor, what was found and what is allowed, unless all of this
// holds: the header is a UTF-8 JSON object within the file; no key occurs twice; every entry has
// exactly the three keys above, a known dtype, a shape without a problem (below), and offsets that
// match it; and the tensors cover the data without
// overlap, gap or trailing bytes. This is what the format's own reader accepts, less names and
// metadata keys that occur twice, unknown keys in an entry, a null "__metadata__", and shapes of
// empty tensors that no int64 holds. Memory stays proportional to the header.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& source);

// What is wrong with a shape, or nothing: more than kMaxRank extents, a negative one, or bytes
// (extents of 0 counted as 1, so that strides fit too) beyond 63 bits.
std::string shape_problem(std::span<const std::int64_t> shape, Dtype dtype);

// Row-major strides in elements, and the bytes of a tensor, of a shape without a problem.
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);
std::uint64_t tensor_bytes(std::span<const std::int64_t> shape, Dtype dtype);

// A shape for messages, such as "[3, 512, 64]".
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace mpfa::internal
