#include "sim/tensor_map/encode.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mpfa::sim {
namespace {

using internal::str_cat;

// CUtensorMapDataType, in the driver's order.
constexpr std::array kDriverTypes = {
    TensorMapType::kU8,      TensorMapType::kU16,    TensorMapType::kU32,
    TensorMapType::kS32,     TensorMapType::kU64,    TensorMapType::kS64,
    TensorMapType::kF16,     TensorMapType::kF32,    TensorMapType::kF64,
    TensorMapType::kBf16,    TensorMapType::kF32Ftz, TensorMapType::kTf32,
    TensorMapType::kTf32Ftz, TensorMapType::kB4x16,  TensorMapType::kB4x16P64,
    TensorMapType::kB6x16P32};

// CUtensorMapSwizzle, in the driver's order.
constexpr std::array kDriverSwizzles = {Swizzle{SwizzleSpan::kNone, SwizzleAtom::k16B},
                                        Swizzle{SwizzleSpan::k32B, SwizzleAtom::k16B},
                                        Swizzle{SwizzleSpan::k64B, SwizzleAtom::k16B},
                                        Swizzle{SwizzleSpan::k128B, SwizzleAtom::k16B},
                                        Swizzle{SwizzleSpan::k128B, SwizzleAtom::k32B},
                                        Swizzle{SwizzleSpan::k128B, SwizzleAtom::k32BFlip8B},
                                        Swizzle{SwizzleSpan::k128B, SwizzleAtom::k64B}};

// The first rule that is broken; later ones are not looked at.
class Findings {
 public:
  template <typename... Args>
  void require(bool holds, const Args&... message) {
    if (!holds && message_.empty()) message_ = str_cat(message...);
  }
  // first <= value <= last
  template <typename Value>
  void require_in(const std::string& name, Value value, Value first, Value last) {
    require(value >= first && value <= last, name, " = ", value, ": must be in [", first, ", ",
            last, "]");
  }
  void require_multiple(const std::string& name, uint64_t value, uint64_t factor, const char* why) {
    require(value % factor == 0, name, " = ", value, ": must be a multiple of ", factor, why);
  }
  bool ok() const { return message_.empty(); }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

std::string indexed(const char* name, int i) { return str_cat(name, "[", i, "]"); }

// The types ..._ALIGN16B of the driver.
constexpr const char* kWhyPadded = " for a type with padding in shared memory";
constexpr const char* kWhyInterleave = " with interleave 32B";

// Rules on addresses and strides: 32 bytes for two reasons, else 16.
void check_multiple_of_16_or_32(Findings& findings, const TensorMap& map, const std::string& name,
                                uint64_t value) {
  if (map.interleave == TensorInterleave::k32B) {
    findings.require_multiple(name, value, 32, kWhyInterleave);
  } else if (is_padded(map.type)) {
    findings.require_multiple(name, value, 32, kWhyPadded);
  } else {
    findings.require_multiple(name, value, 16, "");
  }
}

void check_global(Findings& findings, const TensorMap& map) {
  check_multiple_of_16_or_32(findings, map, "globalAddress", map.global_address);
  for (int i = 0; i < map.rank; ++i) {
    findings.require_in<uint64_t>(indexed("globalDim", i), map.global_dim[i], 1, uint64_t{1} << 32);
  }
  if (is_padded(map.type)) {
    findings.require_multiple("globalDim[0]", map.global_dim[0], 128, kWhyPadded);
  } else if (is_packed(map.type)) {
    findings.require_multiple("globalDim[0]", map.global_dim[0], 2, " for 4-bit values");
  }
  for (int i = 0; i < map.rank - 1; ++i) {
    const std::string name = indexed("globalStrides", i);
    check_multiple_of_16_or_32(findings, map, name, map.global_stride[i]);
    findings.require_in<uint64_t>(name, map.global_stride[i], 0, (uint64_t{1} << 40) - 1);
  }
}

void check_element_strides(Findings& findings, const TensorMap& map) {
  // The first has an effect with an interleaved layout only, but the driver checks it all the same.
  for (int i = 0; i < map.rank; ++i) {
    findings.require_in<uint32_t>(indexed("elementStrides", i), map.element_stride[i], 1, 8);
  }
}

// Rules on what is innermost in shared memory: `inner` elements, named `name`.
void check_inner(Findings& findings, const TensorMap& map, const std::string& name,
                 uint32_t inner) {
  if (is_padded(map.type)) {
    findings.require(inner == 128, name, " = ", inner, ": must be 128", kWhyPadded);
  }
  if (map.interleave != TensorInterleave::kNone) return;
  const uint64_t bytes = global_bytes_of(map.type, inner);
  // In sixteenths of bytes, since packed types have no whole ones.
  const bool whole = global_bytes_of(map.type, uint64_t{inner} * 16) % 256 == 0;
  findings.require(whole, name, " = ", inner, ", ", bytes, " bytes of type ", name_of(map.type),
                   ": must be a multiple of 16 bytes");
  const uint32_t span = map.swizzle.span_bytes();
  findings.require(span == 0 || bytes <= span, name, " = ", inner, ", ", bytes, " bytes of type ",
                   name_of(map.type), ": must be at most the swizzle's ", span, " bytes");
}

void check_layout(Findings& findings, const TensorMap& map) {
  const Swizzle& swizzle = map.swizzle;
  const auto atom = static_cast<int>(swizzle.atom);
  findings.require(
      map.type != TensorMapType::kB6x16P32 || map.interleave == TensorInterleave::kNone,
      "interleave = ", static_cast<int>(map.interleave), ": must be 0 (none) for 6-bit values");
  findings.require(map.interleave != TensorInterleave::k32B || swizzle.span == SwizzleSpan::k32B,
                   "swizzle = ", static_cast<int>(swizzle.span),
                   ": must be 1 (32B) with interleave 32B");
  findings.require(swizzle.atom == SwizzleAtom::k16B || swizzle.span == SwizzleSpan::k128B,
                   "swizzle atomicity = ", atom, ": must be 0 (16B) for a swizzle other than 128B");
  if (is_padded(map.type)) {
    findings.require(swizzle.span == SwizzleSpan::kNone || swizzle.span == SwizzleSpan::k128B,
                     "swizzle = ", static_cast<int>(swizzle.span), ": must be none or 128B",
                     kWhyPadded);
    findings.require(swizzle.atom != SwizzleAtom::k32BFlip8B, "swizzle atomicity = ", atom,
                     ": must not be 32B with 8B flip", kWhyPadded);
    findings.require(map.type != TensorMapType::kB4x16P64 || swizzle.atom != SwizzleAtom::k64B,
                     "swizzle atomicity = ", atom, ": must be 16B or 32B for b4x16_p64");
  }
}

void check_fill(Findings& findings, const TensorMap& map) {
  findings.require(map.fill == TensorFill::kZero || is_float(map.type),
                   "oobFill = 1 (NaN): must be 0 for the type ", name_of(map.type),
                   ", which is not a floating-point one");
}

void check_box(Findings& findings, const TensorMap& map) {
  for (int i = 0; i < map.rank; ++i) {
    findings.require_in<uint32_t>(indexed("boxDim", i), map.box_dim[i], 1, 256);
  }
  check_inner(findings, map, "boxDim[0]", map.box_dim[0]);
}

// By rank: what the corners' bits can hold.
int last_corner(int rank) {
  if (rank == 3) return 32767;
  return rank == 4 ? 127 : 15;
}

void check_pixel_box(Findings& findings, const TensorMap& map) {
  const int last = last_corner(map.rank);
  for (int i = 0; i < map.rank - 2; ++i) {
    findings.require_in<int32_t>(indexed("pixelBoxLowerCorner", i), map.lower_corner[i], -last - 1,
                                 last);
    findings.require_in<int32_t>(indexed("pixelBoxUpperCorner", i), map.upper_corner[i], -last - 1,
                                 last);
    const int64_t extent =
        static_cast<int64_t>(map.global_dim[i + 1]) + map.upper_corner[i] - map.lower_corner[i];
    findings.require(extent > 0, "pixelBoxUpperCorner[", i, "] = ", map.upper_corner[i],
                     ": leaves ", extent, " pixels between the corners, must leave at least 1");
  }
  findings.require_in<uint32_t>("channelsPerPixel", map.channels_per_pixel, 1, 256);
  findings.require_in<uint32_t>("pixelsPerColumn", map.pixels_per_column, 1, 1024);
  check_inner(findings, map, "channelsPerPixel", map.channels_per_pixel);
}

void check_map(Findings& findings, const TensorMap& map) {
  check_global(findings, map);
  if (map.mode == TensorMapMode::kTiled) {
    check_box(findings, map);
  } else {
    check_pixel_box(findings, map);
  }
  check_element_strides(findings, map);
  check_layout(findings, map);
  check_fill(findings, map);
}

void check_rank(Findings& findings, uint32_t rank, bool interleaved, bool im2col) {
  if (im2col) {
    findings.require_in<uint32_t>("tensorRank", rank, 3, kMaxTensorRank);
  } else {
    findings.require_in<uint32_t>("tensorRank", rank, 1, kMaxTensorRank);
    findings.require(!interleaved || rank >= 3, "tensorRank = ", rank,
                     ": must be at least 3 with an interleaved layout");
  }
}

// Rules on single arguments, after which they can be read.
void check_arguments(Findings& findings, const void* tensor_map, const EncodeArguments& arguments,
                     bool im2col) {
  findings.require(tensor_map != nullptr, "tensorMap = null");
  findings.require(reinterpret_cast<uintptr_t>(tensor_map) % 64 == 0, "tensorMap = ", tensor_map,
                   ": must be a multiple of 64");
  findings.require_in<uint32_t>("tensorDataType", arguments.data_type, 0, kDriverTypes.size() - 1);
  check_rank(findings, arguments.rank, arguments.interleave != 0, im2col);
  findings.require(arguments.global_dim != nullptr, "globalDim = null");
  findings.require(arguments.rank == 1 || arguments.global_strides != nullptr,
                   "globalStrides = null");
  findings.require(arguments.element_strides != nullptr, "elementStrides = null");
  findings.require_in<uint32_t>("interleave", arguments.interleave, 0, 2);
  findings.require_in<uint32_t>("swizzle", arguments.swizzle, 0, kDriverSwizzles.size() - 1);
  findings.require_in<uint32_t>("l2Promotion", arguments.l2_promotion, 0, 3);
  findings.require_in<uint32_t>("oobFill", arguments.oob_fill, 0, 1);
}

TensorMap map_of(const EncodeArguments& arguments) {
  TensorMap map;
  map.type = kDriverTypes.at(arguments.data_type);
  map.rank = static_cast<int>(arguments.rank);
  map.global_address = arguments.global_address;
  std::copy_n(arguments.global_dim, map.rank, map.global_dim.begin());
  if (map.rank > 1) {
    std::copy_n(arguments.global_strides, map.rank - 1, map.global_stride.begin());
  }
  std::copy_n(arguments.element_strides, map.rank, map.element_stride.begin());
  map.interleave = static_cast<TensorInterleave>(arguments.interleave);
  map.swizzle = kDriverSwizzles.at(arguments.swizzle);
  map.l2_promotion = static_cast<TensorL2Promotion>(arguments.l2_promotion);
  map.fill = static_cast<TensorFill>(arguments.oob_fill);
  return map;
}

std::string finish(void* tensor_map, TensorMap& map) {
  Findings findings;
  check_map(findings, map);
  if (!findings.ok()) return findings.message();
  // Without interleave the engine has no stride in the innermost dimension: the driver ignores what
  // it is given there.
  if (map.interleave == TensorInterleave::kNone) map.element_stride[0] = 1;
  const TensorMapBytes bytes = encode(map);
  std::memcpy(tensor_map, bytes.data(), bytes.size());
  return "";
}

}  // namespace

std::string encode_tiled(void* tensor_map, const EncodeArguments& arguments,
                         const uint32_t* box_dim) {
  Findings findings;
  check_arguments(findings, tensor_map, arguments, /*im2col=*/false);
  findings.require(box_dim != nullptr, "boxDim = null");
  if (!findings.ok()) return findings.message();
  TensorMap map = map_of(arguments);
  std::copy_n(box_dim, map.rank, map.box_dim.begin());
  return finish(tensor_map, map);
}

std::string encode_im2col(void* tensor_map, const EncodeArguments& arguments,
                          const Im2colArguments& im2col) {
  Findings findings;
  check_arguments(findings, tensor_map, arguments, /*im2col=*/true);
  findings.require(im2col.pixel_box_lower_corner != nullptr, "pixelBoxLowerCorner = null");
  findings.require(im2col.pixel_box_upper_corner != nullptr, "pixelBoxUpperCorner = null");
  if (!findings.ok()) return findings.message();
  TensorMap map = map_of(arguments);
  map.mode = TensorMapMode::kIm2col;
  const int corners = map.rank - 2;
  std::copy_n(im2col.pixel_box_lower_corner, corners, map.lower_corner.begin());
  std::copy_n(im2col.pixel_box_upper_corner, corners, map.upper_corner.begin());
  map.channels_per_pixel = im2col.channels_per_pixel;
  map.pixels_per_column = im2col.pixels_per_column;
  return finish(tensor_map, map);
}

std::string check(const TensorMap& map) {
  Findings findings;
  check_rank(findings, static_cast<uint32_t>(map.rank), map.interleave != TensorInterleave::kNone,
             map.mode == TensorMapMode::kIm2col);
  check_map(findings, map);
  return findings.message();
}

}  // namespace mpfa::sim
