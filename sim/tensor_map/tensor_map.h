// A tensor map: what the copy engine knows of a tensor in global memory and of the boxes that it
// copies (PTX ISA, "Tensors" and "Tensor-map").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mpfa/check.h"
#include "sim/tensor_map/swizzle.h"

namespace mpfa::sim {

// A tensor map that is not one, or that says what the copy engine cannot do. The message names the
// field, its value and what is allowed.
class TensorMapError : public Error {
 public:
  using Error::Error;
};

// The values are those of tensormap.replace.elemtype, not of the driver's CUtensorMapDataType.
enum class TensorMapType : uint8_t {
  kU8,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF32Ftz,
  kF64,
  kBf16,
  kTf32,
  kTf32Ftz,
  kB4x16,     // 16 4-bit values in 8 bytes
  kB4x16P64,  // in shared memory 8 bytes of padding follow them
  kB6x16P32,  // 16 6-bit values in 12 bytes; in shared memory 4 bytes of padding follow them
};

enum class TensorInterleave : uint8_t { kNone, k16B, k32B };
enum class TensorL2Promotion : uint8_t { kNone, k64B, k128B, k256B };
enum class TensorFill : uint8_t { kZero, kNan };
enum class TensorMapMode : uint8_t { kTiled, kIm2col };

std::string_view name_of(TensorMapType type);
bool is_float(TensorMapType type);
// 4- and 6-bit values.
bool is_packed(TensorMapType type);
// With padding in shared memory.
bool is_padded(TensorMapType type);
// Bytes of `elements` elements in global memory; packed ones must be an even number.
uint64_t global_bytes_of(TensorMapType type, uint64_t elements);
// In shared memory, padding included: packed ones must be a multiple of 16.
uint32_t shared_bytes_of(TensorMapType type, uint32_t elements);

constexpr int kMaxTensorRank = 5;
constexpr size_t kTensorMapBytes = 128;

struct TensorMap {
  TensorMapMode mode = TensorMapMode::kTiled;
  TensorMapType type = TensorMapType::kU8;
  int rank = 1;
  uint64_t global_address = 0;
  std::array<uint64_t, kMaxTensorRank> global_dim = {1, 1, 1, 1, 1};  // elements, innermost first
  std::array<uint64_t, kMaxTensorRank - 1> global_stride = {};        // bytes, of dimensions 1 to 4
  std::array<uint32_t, kMaxTensorRank> box_dim = {1, 1, 1, 1, 1};     // elements
  std::array<uint32_t, kMaxTensorRank> element_stride = {1, 1, 1, 1, 1};
  TensorInterleave interleave = TensorInterleave::kNone;
  Swizzle swizzle;
  TensorL2Promotion l2_promotion = TensorL2Promotion::kNone;  // no effect on what is copied
  TensorFill fill = TensorFill::kZero;

  // Of an im2col map, which has no box. Corners are innermost first: W, H, D.
  std::array<int32_t, kMaxTensorRank - 2> lower_corner = {};
  std::array<int32_t, kMaxTensorRank - 2> upper_corner = {};
  uint32_t channels_per_pixel = 1;
  uint32_t pixels_per_column = 1;

  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

// The 128 bytes of a CUtensorMap. NVIDIA's encoding is not public, and programs only copy these
// bytes, so the encoding is the simulator's own.
using TensorMapBytes = std::array<std::byte, kTensorMapBytes>;
TensorMapBytes encode(const TensorMap& map);
// Throws TensorMapError where the bytes are not what encode() wrote.
TensorMap decode_tensor_map(const void* bytes);

// tensormap.replace.tile.FIELD. Each throws TensorMapError for a value that its field cannot hold;
// whether the fields go together shows at the next copy.
void replace_global_address(TensorMap& map, uint64_t value);
void replace_rank(TensorMap& map, uint32_t value);  // of rank - 1, as the PTX ISA has it
void replace_global_dim(TensorMap& map, uint32_t ordinal, uint32_t value);
void replace_global_stride(TensorMap& map, uint32_t ordinal, uint64_t value);
void replace_box_dim(TensorMap& map, uint32_t ordinal, uint32_t value);
void replace_element_stride(TensorMap& map, uint32_t ordinal, uint32_t value);
void replace_elemtype(TensorMap& map, uint32_t value);
void replace_interleave_layout(TensorMap& map, uint32_t value);
void replace_swizzle_mode(TensorMap& map, uint32_t value);
void replace_swizzle_atomicity(TensorMap& map, uint32_t value);
void replace_fill_mode(TensorMap& map, uint32_t value);

}  // namespace mpfa::sim
