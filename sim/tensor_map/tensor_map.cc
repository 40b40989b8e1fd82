#include "sim/tensor_map/tensor_map.h"

#include <cstring>
#include <span>
#include <string>

namespace mpfa::sim {
namespace {

struct TypeFacts {
  std::string_view name;
  uint32_t global_bytes;  // of 16 elements
  uint32_t shared_bytes;  // of 16 elements, with their padding
  bool is_float;
};
constexpr std::array<TypeFacts, 16> kTypes = {{{"u8", 16, 16, false},
                                               {"u16", 32, 32, false},
                                               {"u32", 64, 64, false},
                                               {"s32", 64, 64, false},
                                               {"u64", 128, 128, false},
                                               {"s64", 128, 128, false},
                                               {"f16", 32, 32, true},
                                               {"f32", 64, 64, true},
                                               {"f32.ftz", 64, 64, true},
                                               {"f64", 128, 128, true},
                                               {"bf16", 32, 32, true},
                                               {"tf32", 64, 64, true},
                                               {"tf32.ftz", 64, 64, true},
                                               {"b4x16", 8, 8, false},
                                               {"b4x16_p64", 8, 16, false},
                                               {"b6x16_p32", 12, 16, false}}};

const TypeFacts& facts_of(TensorMapType type) { return kTypes.at(static_cast<size_t>(type)); }

template <typename... Args>
[[noreturn]] void fail(const Args&... args) {
  throw TensorMapError(internal::str_cat("tensor map: ", args...));
}

// Throws unless first <= value <= last.
void require(std::string_view field, uint64_t value, uint64_t first, uint64_t last) {
  if (value < first || value > last) {
    fail(field, " = ", value, ": must be in [", first, ", ", last, "]");
  }
}

constexpr uint64_t kLastGlobalStride = (uint64_t{1} << 40) - 1;
constexpr uint32_t kLastBoxDim = 256;
constexpr uint32_t kLastElementStride = 8;

// The encoding, little-endian: magic, checksum of all that follows it, the fields, zeros.
constexpr uint64_t kMagic = 0x70616D5F414D542E;  // ".TMA_map"

// Writes or reads the fields one after another, so that both walk the same layout.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> out) : out_(out) {}
  template <typename Stored, typename Field>
  void field(std::string_view /*name*/, const Field& value, uint64_t /*first*/, uint64_t /*last*/) {
    const auto stored = static_cast<Stored>(value);
    std::memcpy(out_.data() + at_, &stored, sizeof(stored));
    at_ += sizeof(stored);
  }

 private:
  std::span<std::byte> out_;
  size_t at_ = 0;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}
  template <typename Stored, typename Field>
  void field(std::string_view name, Field& value, uint64_t first, uint64_t last) {
    Stored stored;
    std::memcpy(&stored, in_.data() + at_, sizeof(stored));
    at_ += sizeof(stored);
    if constexpr (std::is_unsigned_v<Stored>) require(name, stored, first, last);
    value = static_cast<Field>(stored);
  }
  size_t at() const { return at_; }

 private:
  std::span<const std::byte> in_;
  size_t at_ = 0;
};

template <typename Walker, typename Map>
void walk_fields(Walker& walker, Map& map) {
  walker.template field<uint8_t>("mode", map.mode, 0, 1);
  walker.template field<uint8_t>("elemtype", map.type, 0, kTypes.size() - 1);
  walker.template field<uint8_t>("rank", map.rank, 1, kMaxTensorRank);
  walker.template field<uint8_t>("interleave_layout", map.interleave, 0, 2);
  walker.template field<uint8_t>("swizzle_mode", map.swizzle.span, 0, 3);
  walker.template field<uint8_t>("swizzle_atomicity", map.swizzle.atom, 0, 3);
  walker.template field<uint8_t>("l2_promotion", map.l2_promotion, 0, 3);
  walker.template field<uint8_t>("fill_mode", map.fill, 0, 1);
  walker.template field<uint64_t>("global_address", map.global_address, 0, UINT64_MAX);
  for (auto& stride : map.global_stride) {
    walker.template field<uint64_t>("global_stride", stride, 0, kLastGlobalStride);
  }
  // Less one: a dimension may be 2^32.
  for (auto& dim : map.global_dim) {
    auto low = static_cast<uint32_t>(dim - 1);
    walker.template field<uint32_t>("global_dim", low, 0, UINT32_MAX);
    if constexpr (!std::is_const_v<Map>) dim = uint64_t{low} + 1;
  }
  for (auto& dim : map.box_dim) {
    walker.template field<uint16_t>("box_dim", dim, 1, kLastBoxDim);
  }
  for (auto& stride : map.element_stride) {
    walker.template field<uint8_t>("element_stride", stride, 1, kLastElementStride);
  }
  for (auto& corner : map.lower_corner) {
    walker.template field<int16_t>("lower_corner", corner, 0, 0);
  }
  for (auto& corner : map.upper_corner) {
    walker.template field<int16_t>("upper_corner", corner, 0, 0);
  }
  walker.template field<uint16_t>("channels_per_pixel", map.channels_per_pixel, 1, 256);
  walker.template field<uint16_t>("pixels_per_column", map.pixels_per_column, 1, 1024);
}

constexpr size_t kChecksumAt = sizeof(uint64_t);
constexpr size_t kFieldsAt = kChecksumAt + sizeof(uint32_t);

// FNV-1a.
uint32_t checksum_of(std::span<const std::byte> bytes) {
  uint32_t hash = 2166136261u;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint32_t>(byte)) * 16777619u;
  return hash;
}

void require_ordinal(std::string_view field, uint32_t ordinal, uint32_t count) {
  if (ordinal >= count) {
    fail(field, "[", ordinal, "]: the ordinal must be in [0, ", count - 1, "]");
  }
}

std::string element_name(std::string_view field, uint32_t ordinal) {
  return internal::str_cat(field, "[", ordinal, "]");
}

}  // namespace

std::string_view name_of(TensorMapType type) { return facts_of(type).name; }
bool is_float(TensorMapType type) { return facts_of(type).is_float; }
bool is_packed(TensorMapType type) { return type >= TensorMapType::kB4x16; }
bool is_padded(TensorMapType type) { return type >= TensorMapType::kB4x16P64; }

uint64_t global_bytes_of(TensorMapType type, uint64_t elements) {
  return elements * facts_of(type).global_bytes / 16;
}

uint32_t shared_bytes_of(TensorMapType type, uint32_t elements) {
  return elements * facts_of(type).shared_bytes / 16;
}

TensorMapBytes encode(const TensorMap& map) {
  TensorMapBytes bytes = {};
  const std::span fields = std::span(bytes).subspan(kFieldsAt);
  ByteWriter writer(fields);
  walk_fields(writer, map);
  const uint32_t checksum = checksum_of(fields);
  std::memcpy(bytes.data(), &kMagic, sizeof(kMagic));
  std::memcpy(bytes.data() + kChecksumAt, &checksum, sizeof(checksum));
  return bytes;
}

TensorMap decode_tensor_map(const void* bytes) {
  uint64_t magic = 0;
  uint32_t checksum = 0;
  TensorMapBytes copy;
  std::memcpy(copy.data(), bytes, copy.size());
  std::memcpy(&magic, copy.data(), sizeof(magic));
  std::memcpy(&checksum, copy.data() + kChecksumAt, sizeof(checksum));
  if (magic != kMagic) {
    fail("magic = ", magic, ": must be ", kMagic,
         "; these 128 bytes were not written by cuTensorMapEncode*, or only in part");
  }
  const std::span fields = std::span<const std::byte>(copy).subspan(kFieldsAt);
  if (checksum != checksum_of(fields)) {
    fail("checksum = ", checksum, ": must be ", checksum_of(fields),
         "; the map was changed other than by tensormap.replace, or copied in part");
  }
  TensorMap map;
  ByteReader reader(fields);
  walk_fields(reader, map);
  return map;
}

void replace_global_address(TensorMap& map, uint64_t value) {
  if (value % 16 != 0) fail("global_address = ", value, ": must be a multiple of 16");
  map.global_address = value;
}

void replace_rank(TensorMap& map, uint32_t value) {
  require("rank, less one,", value, 0, kMaxTensorRank - 1);
  map.rank = static_cast<int>(value) + 1;
}

void replace_global_dim(TensorMap& map, uint32_t ordinal, uint32_t value) {
  require_ordinal("global_dim", ordinal, kMaxTensorRank);
  require(element_name("global_dim", ordinal), value, 1, UINT32_MAX);
  map.global_dim[ordinal] = value;
}

void replace_global_stride(TensorMap& map, uint32_t ordinal, uint64_t value) {
  require_ordinal("global_stride", ordinal, kMaxTensorRank - 1);
  const std::string name = element_name("global_stride", ordinal);
  require(name, value, 0, kLastGlobalStride);
  if (value % 16 != 0) fail(name, " = ", value, ": must be a multiple of 16");
  map.global_stride[ordinal] = value;
}

void replace_box_dim(TensorMap& map, uint32_t ordinal, uint32_t value) {
  require_ordinal("box_dim", ordinal, kMaxTensorRank);
  require(element_name("box_dim", ordinal), value, 1, kLastBoxDim);
  map.box_dim[ordinal] = value;
}

void replace_element_stride(TensorMap& map, uint32_t ordinal, uint32_t value) {
  require_ordinal("element_stride", ordinal, kMaxTensorRank);
  require(element_name("element_stride", ordinal), value, 1, kLastElementStride);
  map.element_stride[ordinal] = value;
}

void replace_elemtype(TensorMap& map, uint32_t value) {
  require("elemtype", value, 0, kTypes.size() - 1);
  map.type = static_cast<TensorMapType>(value);
}

void replace_interleave_layout(TensorMap& map, uint32_t value) {
  require("interleave_layout", value, 0, 2);
  map.interleave = static_cast<TensorInterleave>(value);
}

void replace_swizzle_mode(TensorMap& map, uint32_t value) {
  if (value == 4) fail("swizzle_mode = 4 (96B): not supported; only sm_103a has it");
  require("swizzle_mode", value, 0, 3);
  map.swizzle.span = static_cast<SwizzleSpan>(value);
}

void replace_swizzle_atomicity(TensorMap& map, uint32_t value) {
  require("swizzle_atomicity", value, 0, 3);
  map.swizzle.atom = static_cast<SwizzleAtom>(value);
}

void replace_fill_mode(TensorMap& map, uint32_t value) {
  require("fill_mode", value, 0, 1);
  map.fill = static_cast<TensorFill>(value);
}

}  // namespace mpfa::sim
