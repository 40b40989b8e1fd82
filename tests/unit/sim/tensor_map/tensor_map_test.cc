#include "sim/tensor_map/tensor_map.h"

#include <gtest/gtest.h>

#include <set>

#include "expect_error.h"

namespace mpfa::sim {
namespace {

// Every field other than its default, at or near the end of its range.
TensorMap extreme_map() {
  TensorMap map;
  map.mode = TensorMapMode::kIm2col;
  map.type = TensorMapType::kB6x16P32;
  map.rank = 5;
  map.global_address = 0xFEDCBA9876543210;
  map.global_dim = {uint64_t{1} << 32, 2, 3, 4, (uint64_t{1} << 32) - 1};
  map.global_stride = {16, (uint64_t{1} << 40) - 16, 48, 64};
  map.box_dim = {256, 255, 3, 2, 1};
  map.element_stride = {1, 8, 7, 2, 3};
  map.interleave = TensorInterleave::k32B;
  map.swizzle = {SwizzleSpan::k128B, SwizzleAtom::k64B};
  map.l2_promotion = TensorL2Promotion::k256B;
  map.fill = TensorFill::kNan;
  map.lower_corner = {-32768, -1, 15};
  map.upper_corner = {32767, 7, -16};
  map.channels_per_pixel = 256;
  map.pixels_per_column = 1024;
  return map;
}

TEST(TensorMap, DecodesWhatItEncodes) {
  EXPECT_EQ(decode_tensor_map(encode(TensorMap{}).data()), TensorMap{});
  const TensorMapBytes bytes = encode(extreme_map());
  EXPECT_EQ(decode_tensor_map(bytes.data()), extreme_map());
}

TEST(TensorMap, EncodingTellsMapsApart) {
  std::set<TensorMapBytes> seen = {encode(TensorMap{})};
  for (int field = 0; field < 16; ++field) {
    TensorMap map;
    const TensorMap other = extreme_map();
    if (field == 0) map.mode = other.mode;
    if (field == 1) map.type = other.type;
    if (field == 2) map.rank = other.rank;
    if (field == 3) map.global_address = other.global_address;
    if (field == 4) map.global_dim = other.global_dim;
    if (field == 5) map.global_stride = other.global_stride;
    if (field == 6) map.box_dim = other.box_dim;
    if (field == 7) map.element_stride = other.element_stride;
    if (field == 8) map.interleave = other.interleave;
    if (field == 9) map.swizzle = other.swizzle;
    if (field == 10) map.l2_promotion = other.l2_promotion;
    if (field == 11) map.fill = other.fill;
    if (field == 12) map.lower_corner = other.lower_corner;
    if (field == 13) map.upper_corner = other.upper_corner;
    if (field == 14) map.channels_per_pixel = other.channels_per_pixel;
    if (field == 15) map.pixels_per_column = other.pixels_per_column;
    EXPECT_TRUE(seen.insert(encode(map)).second) << field;
  }
}

TEST(TensorMap, AnyChangedByteIsFound) {
  const TensorMapBytes bytes = encode(extreme_map());
  for (size_t i = 0; i < bytes.size(); ++i) {
    TensorMapBytes changed = bytes;
    changed[i] ^= std::byte{0x10};
    expect_error<TensorMapError>([&] { decode_tensor_map(changed.data()); },
                                 i < 8 ? "magic = " : "checksum = ");
  }
}

TEST(TensorMap, UninitialisedBytesAreFound) {
  TensorMapBytes bytes = {};
  expect_error<TensorMapError>([&] { decode_tensor_map(bytes.data()); }, "magic = 0: must be ");
  bytes.fill(std::byte{0xFF});
  expect_error<TensorMapError>([&] { decode_tensor_map(bytes.data()); }, "magic = ");
}

TEST(TensorMap, Types) {
  EXPECT_EQ(name_of(TensorMapType::kB4x16P64), "b4x16_p64");
  EXPECT_EQ(name_of(TensorMapType::kF32Ftz), "f32.ftz");
  const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
  for (int i = 0; i < 13; ++i) {
    const auto type = static_cast<TensorMapType>(i);
    EXPECT_EQ(global_bytes_of(type, 3), 3u * bytes[i]) << i;
    EXPECT_EQ(shared_bytes_of(type, 3), 3u * bytes[i]) << i;
    EXPECT_FALSE(is_packed(type));
    EXPECT_FALSE(is_padded(type));
    EXPECT_EQ(is_float(type), i >= 6) << i;
  }
  EXPECT_EQ(global_bytes_of(TensorMapType::kB4x16, 128), 64u);
  EXPECT_EQ(shared_bytes_of(TensorMapType::kB4x16, 128), 64u);
  EXPECT_EQ(global_bytes_of(TensorMapType::kB4x16P64, 128), 64u);
  EXPECT_EQ(shared_bytes_of(TensorMapType::kB4x16P64, 128), 128u);
  EXPECT_EQ(global_bytes_of(TensorMapType::kB6x16P32, 128), 96u);
  EXPECT_EQ(shared_bytes_of(TensorMapType::kB6x16P32, 128), 128u);
  EXPECT_FALSE(is_float(TensorMapType::kB4x16));
}

TEST(TensorMapReplace, SetsItsField) {
  TensorMap map;
  TensorMap expected;
  replace_global_address(map, 0x1230);
  expected.global_address = 0x1230;
  replace_rank(map, 4);
  expected.rank = 5;
  replace_global_dim(map, 4, 4294967295u);
  expected.global_dim[4] = 4294967295u;
  replace_global_stride(map, 3, (uint64_t{1} << 40) - 16);
  expected.global_stride[3] = (uint64_t{1} << 40) - 16;
  replace_box_dim(map, 2, 256);
  expected.box_dim[2] = 256;
  replace_element_stride(map, 1, 8);
  expected.element_stride[1] = 8;
  replace_elemtype(map, 10);
  expected.type = TensorMapType::kBf16;
  replace_interleave_layout(map, 1);
  expected.interleave = TensorInterleave::k16B;
  replace_swizzle_mode(map, 3);
  expected.swizzle.span = SwizzleSpan::k128B;
  replace_swizzle_atomicity(map, 2);
  expected.swizzle.atom = SwizzleAtom::k32BFlip8B;
  replace_fill_mode(map, 1);
  expected.fill = TensorFill::kNan;
  EXPECT_EQ(map, expected);
  EXPECT_EQ(decode_tensor_map(encode(map).data()), expected);
}

TEST(TensorMapReplace, RejectsWhatAFieldCannotHold) {
  TensorMap map;
  const auto rejects = [](auto&& action, const char* part) {
    expect_error<TensorMapError>(action, part);
  };
  rejects([&] { replace_global_address(map, 8); }, "global_address = 8: must be a multiple of 16");
  rejects([&] { replace_rank(map, 5); }, "rank, less one, = 5: must be in [0, 4]");
  rejects([&] { replace_global_dim(map, 5, 1); }, "global_dim[5]: the ordinal must be in [0, 4]");
  rejects([&] { replace_global_dim(map, 1, 0); }, "global_dim[1] = 0: must be in [1, 4294967295]");
  rejects([&] { replace_global_stride(map, 4, 16); }, "global_stride[4]: the ordinal");
  rejects([&] { replace_global_stride(map, 0, 8); }, "global_stride[0] = 8: must be a multiple");
  rejects([&] { replace_global_stride(map, 0, uint64_t{1} << 40); },
          "global_stride[0] = 109951162");
  rejects([&] { replace_box_dim(map, 0, 0); }, "box_dim[0] = 0: must be in [1, 256]");
  rejects([&] { replace_box_dim(map, 0, 257); }, "box_dim[0] = 257: must be in [1, 256]");
  rejects([&] { replace_element_stride(map, 0, 0); }, "element_stride[0] = 0: must be in [1, 8]");
  rejects([&] { replace_element_stride(map, 0, 9); }, "element_stride[0] = 9: must be in [1, 8]");
  rejects([&] { replace_elemtype(map, 16); }, "elemtype = 16: must be in [0, 15]");
  rejects([&] { replace_interleave_layout(map, 3); }, "interleave_layout = 3: must be in [0, 2]");
  rejects([&] { replace_swizzle_mode(map, 4); }, "swizzle_mode = 4 (96B)");
  rejects([&] { replace_swizzle_mode(map, 5); }, "swizzle_mode = 5: must be in [0, 3]");
  rejects([&] { replace_swizzle_atomicity(map, 4); }, "swizzle_atomicity = 4: must be in [0, 3]");
  rejects([&] { replace_fill_mode(map, 2); }, "fill_mode = 2: must be in [0, 1]");
  EXPECT_EQ(map, TensorMap{});
}

}  // namespace
}  // namespace mpfa::sim
