#include "sim/tensor_map/encode.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "expect_error.h"

namespace mpfa::sim {
namespace {

// CUtensorMapDataType.
constexpr uint32_t kUint8 = 0, kUint16 = 1, kFloat16 = 6, kFloat64 = 8, kBfloat16 = 9;
constexpr uint32_t kFloat32Ftz = 10, kTfloat32Ftz = 12;
constexpr uint32_t k16U4Align8 = 13, k16U4Align16 = 14, k16U6Align16 = 15;

// Arguments of both functions, right unless a test changes them: [8][16][64] halves.
struct Call {
  uint32_t data_type = kFloat16;
  uint32_t rank = 3;
  uint64_t address = 0x7000;
  std::vector<uint64_t> dim = {64, 16, 8, 1, 1};
  std::vector<uint64_t> strides = {128, 2048, 16384, 16384};
  std::vector<uint32_t> box = {64, 8, 2, 1, 1};
  std::vector<uint32_t> element_strides = {1, 1, 1, 1, 1};
  uint32_t interleave = 0;
  uint32_t swizzle = 3;
  uint32_t l2_promotion = 2;
  uint32_t oob_fill = 0;
  std::vector<int> lower = {-1, -1, -1};
  std::vector<int> upper = {-1, -1, -1};
  uint32_t channels = 64;
  uint32_t pixels = 32;

  alignas(64) std::array<std::byte, 256> out = {};
  size_t out_at = 0;

  EncodeArguments arguments() const {
    EncodeArguments arguments;
    arguments.data_type = data_type;
    arguments.rank = rank;
    arguments.global_address = address;
    arguments.global_dim = dim.data();
    arguments.global_strides = strides.data();
    arguments.element_strides = element_strides.data();
    arguments.interleave = interleave;
    arguments.swizzle = swizzle;
    arguments.l2_promotion = l2_promotion;
    arguments.oob_fill = oob_fill;
    return arguments;
  }
  std::string tiled() { return encode_tiled(&out[out_at], arguments(), box.data()); }
  std::string im2col() {
    Im2colArguments more;
    more.pixel_box_lower_corner = lower.data();
    more.pixel_box_upper_corner = upper.data();
    more.channels_per_pixel = channels;
    more.pixels_per_column = pixels;
    return encode_im2col(&out[out_at], arguments(), more);
  }
};

using Change = std::function<void(Call&)>;

void accepts(const Change& change) {
  Call call;
  change(call);
  EXPECT_EQ(call.tiled(), "");
}

void rejects(const Change& change, const char* part) {
  Call call;
  change(call);
  expect_finding(call.tiled(), part);
  for (const std::byte byte : call.out) ASSERT_EQ(byte, std::byte{0}) << "written: " << part;
}

void im2col_accepts(const Change& change) {
  Call call;
  change(call);
  EXPECT_EQ(call.im2col(), "");
}

void im2col_rejects(const Change& change, const char* part) {
  Call call;
  change(call);
  expect_finding(call.im2col(), part);
}

TEST(EncodeTiled, WritesTheArguments) {
  Call call;
  call.data_type = kBfloat16;
  call.element_strides = {1, 2, 3, 1, 1};
  call.oob_fill = 1;
  ASSERT_EQ(call.tiled(), "");
  TensorMap expected;
  expected.type = TensorMapType::kBf16;
  expected.rank = 3;
  expected.global_address = 0x7000;
  expected.global_dim = {64, 16, 8, 1, 1};
  expected.global_stride = {128, 2048, 0, 0};
  expected.box_dim = {64, 8, 2, 1, 1};
  expected.element_stride = {1, 2, 3, 1, 1};
  expected.swizzle = {SwizzleSpan::k128B, SwizzleAtom::k16B};
  expected.l2_promotion = TensorL2Promotion::k128B;
  expected.fill = TensorFill::kNan;
  EXPECT_EQ(decode_tensor_map(call.out.data()), expected);
  EXPECT_EQ(check(expected), "");
}

// CUtensorMapDataType and tensormap.replace.elemtype number some types differently.
TEST(EncodeTiled, TypesByTheDriversNumbers) {
  const char* names[] = {"u8",  "u16", "u32",  "s32",     "u64",  "s64",      "f16",
                         "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz", "b4x16"};
  for (uint32_t i = 0; i < std::size(names); ++i) {
    Call call;
    call.data_type = i;
    call.box[0] = 32;
    call.swizzle = 0;
    ASSERT_EQ(call.tiled(), "") << i;
    EXPECT_EQ(name_of(decode_tensor_map(call.out.data()).type), names[i]);
  }
}

TEST(EncodeTiled, SwizzlesByTheDriversNumbers) {
  const Swizzle expected[] = {
      {SwizzleSpan::kNone, SwizzleAtom::k16B}, {SwizzleSpan::k32B, SwizzleAtom::k16B},
      {SwizzleSpan::k64B, SwizzleAtom::k16B},  {SwizzleSpan::k128B, SwizzleAtom::k16B},
      {SwizzleSpan::k128B, SwizzleAtom::k32B}, {SwizzleSpan::k128B, SwizzleAtom::k32BFlip8B},
      {SwizzleSpan::k128B, SwizzleAtom::k64B}};
  for (uint32_t i = 0; i < std::size(expected); ++i) {
    Call call;
    call.swizzle = i;
    call.box[0] = 16;
    ASSERT_EQ(call.tiled(), "") << i;
    EXPECT_EQ(decode_tensor_map(call.out.data()).swizzle, expected[i]);
  }
  rejects([](Call& c) { c.swizzle = 7; }, "swizzle = 7: must be in [0, 6]");
}

TEST(EncodeTiled, MapAndEnums) {
  rejects([](Call& c) { c.out_at = 32; }, ": must be a multiple of 64");
  accepts([](Call& c) { c.out_at = 64; });
  rejects([](Call& c) { c.data_type = 16; }, "tensorDataType = 16: must be in [0, 15]");
  rejects([](Call& c) { c.interleave = 3; }, "interleave = 3: must be in [0, 2]");
  rejects([](Call& c) { c.l2_promotion = 4; }, "l2Promotion = 4: must be in [0, 3]");
  rejects([](Call& c) { c.oob_fill = 2; }, "oobFill = 2: must be in [0, 1]");
}

TEST(EncodeTiled, NullPointers) {
  Call call;
  EncodeArguments arguments = call.arguments();
  expect_finding(encode_tiled(nullptr, arguments, call.box.data()), "tensorMap = null");
  expect_finding(encode_tiled(&call.out, arguments, nullptr), "boxDim = null");
  arguments.global_dim = nullptr;
  expect_finding(encode_tiled(&call.out, arguments, call.box.data()), "globalDim = null");
  arguments = call.arguments();
  arguments.element_strides = nullptr;
  expect_finding(encode_tiled(&call.out, arguments, call.box.data()), "elementStrides = null");
  arguments = call.arguments();
  arguments.global_strides = nullptr;
  expect_finding(encode_tiled(&call.out, arguments, call.box.data()), "globalStrides = null");
  arguments.rank = 1;
  EXPECT_EQ(encode_tiled(&call.out, arguments, call.box.data()), "");
}

TEST(EncodeTiled, Rank) {
  rejects([](Call& c) { c.rank = 0; }, "tensorRank = 0: must be in [1, 5]");
  rejects([](Call& c) { c.rank = 6; }, "tensorRank = 6: must be in [1, 5]");
  for (uint32_t rank = 1; rank <= 5; ++rank) accepts([&](Call& c) { c.rank = rank; });
  rejects([](Call& c) { c.rank = 2, c.interleave = 1; }, "tensorRank = 2: must be at least 3");
  accepts([](Call& c) { c.rank = 3, c.interleave = 1; });
}

TEST(EncodeTiled, Address) {
  rejects([](Call& c) { c.address += 8; }, "globalAddress = 28680: must be a multiple of 16");
  accepts([](Call& c) { c.address += 16; });
  rejects([](Call& c) { c.address += 16, c.interleave = 2, c.swizzle = 1; },
          "globalAddress = 28688: must be a multiple of 32 with interleave 32B");
}

TEST(EncodeTiled, Dimensions) {
  rejects([](Call& c) { c.dim[1] = 0; }, "globalDim[1] = 0: must be in [1, 4294967296]");
  rejects([](Call& c) { c.dim[2] = (uint64_t{1} << 32) + 1; }, "globalDim[2] = 4294967297: must");
  accepts([](Call& c) { c.dim[2] = uint64_t{1} << 32; });
  accepts([](Call& c) { c.dim[3] = 0; });  // beyond the rank
}

TEST(EncodeTiled, Strides) {
  rejects([](Call& c) { c.strides[0] = 136; }, "globalStrides[0] = 136: must be a multiple of 16");
  rejects([](Call& c) { c.strides[1] = uint64_t{1} << 40; }, "globalStrides[1] = 1099511627776: ");
  accepts([](Call& c) { c.strides[1] = (uint64_t{1} << 40) - 16; });
  // Overlapping rows are nothing that the driver minds.
  accepts([](Call& c) { c.strides[0] = 16; });
  accepts([](Call& c) { c.strides[0] = 0; });
  rejects([](Call& c) { c.strides[0] = 144, c.interleave = 2, c.swizzle = 1; },
          "globalStrides[0] = 144: must be a multiple of 32 with interleave 32B");
}

TEST(EncodeTiled, Box) {
  rejects([](Call& c) { c.box[1] = 0; }, "boxDim[1] = 0: must be in [1, 256]");
  rejects([](Call& c) { c.box[2] = 257; }, "boxDim[2] = 257: must be in [1, 256]");
  accepts([](Call& c) { c.box[1] = 256; });
  rejects([](Call& c) { c.box[0] = 12; },
          "boxDim[0] = 12, 24 bytes of type f16: must be a multiple of 16");
  accepts([](Call& c) { c.box[0] = 12, c.interleave = 1; });
  // Larger than the tensor is allowed.
  accepts([](Call& c) { c.dim[0] = 3; });
}

TEST(EncodeTiled, BoxWithinTheSwizzle) {
  const uint32_t spans[] = {0, 32, 64, 128, 128, 128, 128};
  for (uint32_t swizzle = 1; swizzle < 7; ++swizzle) {
    accepts([&](Call& c) { c.swizzle = swizzle, c.box[0] = spans[swizzle] / 2; });
    rejects([&](Call& c) { c.swizzle = swizzle, c.box[0] = spans[swizzle] / 2 + 8; },
            ": must be at most the swizzle's ");
  }
  accepts([](Call& c) { c.swizzle = 0, c.box[0] = 256, c.data_type = kFloat64; });
  accepts([](Call& c) { c.swizzle = 3, c.box[0] = 128, c.interleave = 1; });
}

TEST(EncodeTiled, ElementStrides) {
  rejects([](Call& c) { c.element_strides[1] = 0; }, "elementStrides[1] = 0: must be in [1, 8]");
  rejects([](Call& c) { c.element_strides[2] = 9; }, "elementStrides[2] = 9: must be in [1, 8]");
  rejects([](Call& c) { c.element_strides[0] = 9; }, "elementStrides[0] = 9: must be in [1, 8]");
  Call call;
  call.element_strides = {5, 8, 8, 8, 8};
  ASSERT_EQ(call.tiled(), "");
  // Without interleave the first has no effect.
  EXPECT_EQ(decode_tensor_map(call.out.data()).element_stride,
            (std::array<uint32_t, 5>{1, 8, 8, 1, 1}));
}

TEST(EncodeTiled, Interleave) {
  for (const uint32_t swizzle : {0u, 2u, 3u}) {
    rejects([&](Call& c) { c.interleave = 2, c.swizzle = swizzle, c.box[0] = 16; },
            "must be 1 (32B) with interleave 32B");
    accepts([&](Call& c) { c.interleave = 1, c.swizzle = swizzle; });
  }
  accepts([](Call& c) { c.interleave = 2, c.swizzle = 1; });
}

TEST(EncodeTiled, Fill) {
  for (const uint32_t type : {kFloat16, kBfloat16, kFloat32Ftz, kTfloat32Ftz}) {
    accepts([&](Call& c) { c.oob_fill = 1, c.data_type = type, c.box[0] = 16; });
  }
  for (const uint32_t type : {kUint8, kUint16, k16U4Align8}) {
    rejects([&](Call& c) { c.oob_fill = 1, c.data_type = type, c.box[0] = 32; },
            "oobFill = 1 (NaN): must be 0 for the type ");
  }
}

void make_padded(Call& c, uint32_t type) {
  c.data_type = type;
  c.dim[0] = 256;
  c.box[0] = 128;
}

TEST(EncodeTiled, PackedTypes) {
  accepts([](Call& c) { c.data_type = k16U4Align8, c.box[0] = 32; });
  rejects([](Call& c) { c.data_type = k16U4Align8, c.box[0] = 33; },
          "boxDim[0] = 33, 16 bytes of type b4x16: must be a multiple of 16 bytes");
  rejects([](Call& c) { c.data_type = k16U4Align8, c.box[0] = 32, c.dim[0] = 63; },
          "globalDim[0] = 63: must be a multiple of 2");
  for (const uint32_t type : {k16U4Align16, k16U6Align16}) {
    accepts([&](Call& c) { make_padded(c, type); });
    rejects([&](Call& c) { make_padded(c, type), c.address += 16; },
            "globalAddress = 28688: must be a multiple of 32 for a type with padding");
    rejects([&](Call& c) { make_padded(c, type), c.strides[0] = 144; },
            "globalStrides[0] = 144: must be a multiple of 32 for a type with padding");
    rejects([&](Call& c) { make_padded(c, type), c.dim[0] = 64; },
            "globalDim[0] = 64: must be a multiple of 128");
    rejects([&](Call& c) { make_padded(c, type), c.box[0] = 64; }, "boxDim[0] = 64: must be 128");
    for (const uint32_t swizzle : {0u, 3u, 4u}) {
      accepts([&](Call& c) { make_padded(c, type), c.swizzle = swizzle; });
    }
    rejects([&](Call& c) { make_padded(c, type), c.swizzle = 5; }, "must not be 32B with 8B flip");
  }
  rejects([](Call& c) { make_padded(c, k16U4Align16), c.swizzle = 2; },
          "swizzle = 2: must be none or 128B for a type with padding");
  rejects([](Call& c) { make_padded(c, k16U6Align16), c.swizzle = 2; }, "swizzle's 64 bytes");
  accepts([](Call& c) { make_padded(c, k16U6Align16), c.swizzle = 6; });
  rejects([](Call& c) { make_padded(c, k16U4Align16), c.swizzle = 6; },
          "must be 16B or 32B for b4x16_p64");
  rejects([](Call& c) { make_padded(c, k16U6Align16), c.interleave = 1; },
          "interleave = 1: must be 0 (none) for 6-bit values");
}

TEST(EncodeIm2col, WritesTheArguments) {
  Call call;
  call.rank = 5;
  call.dim = {64, 9, 10, 11, 3};
  call.lower = {-3, -2, -1};
  call.upper = {1, 2, 3};
  ASSERT_EQ(call.im2col(), "");
  const TensorMap map = decode_tensor_map(call.out.data());
  EXPECT_EQ(map.mode, TensorMapMode::kIm2col);
  EXPECT_EQ(map.lower_corner, (std::array<int32_t, 3>{-3, -2, -1}));
  EXPECT_EQ(map.upper_corner, (std::array<int32_t, 3>{1, 2, 3}));
  EXPECT_EQ(map.channels_per_pixel, 64u);
  EXPECT_EQ(map.pixels_per_column, 32u);
}

TEST(EncodeIm2col, Rules) {
  im2col_accepts([](Call&) {});
  im2col_rejects([](Call& c) { c.rank = 2; }, "tensorRank = 2: must be in [3, 5]");
  im2col_rejects([](Call& c) { c.channels = 0; }, "channelsPerPixel = 0: must be in [1, 256]");
  im2col_rejects([](Call& c) { c.channels = 257; }, "channelsPerPixel = 257: must be in [1, 256]");
  im2col_rejects([](Call& c) { c.channels = 4; }, "channelsPerPixel = 4, 8 bytes of type f16");
  im2col_rejects([](Call& c) { c.channels = 72; }, "must be at most the swizzle's 128 bytes");
  im2col_rejects([](Call& c) { c.pixels = 0; }, "pixelsPerColumn = 0: must be in [1, 1024]");
  im2col_rejects([](Call& c) { c.pixels = 1025; }, "pixelsPerColumn = 1025: must be in [1, 1024]");
  im2col_accepts([](Call& c) { c.pixels = 1024; });
  im2col_rejects([](Call& c) { c.address = 8; }, "globalAddress = 8: ");
  im2col_rejects([](Call& c) { c.oob_fill = 1, c.data_type = kUint16; }, "oobFill = 1 (NaN)");
}

TEST(EncodeIm2col, Corners) {
  // By rank: the range.
  const int last[] = {32767, 127, 15};
  for (uint32_t rank = 3; rank <= 5; ++rank) {
    const int n = last[rank - 3];
    im2col_accepts(
        [&](Call& c) { c.rank = rank, c.lower.assign(3, -n - 1), c.upper.assign(3, n); });
    im2col_rejects([&](Call& c) { c.rank = rank, c.lower[rank - 3] = -n - 2; },
                   "pixelBoxLowerCorner[");
    im2col_rejects([&](Call& c) { c.rank = rank, c.upper[0] = n + 1; },
                   "pixelBoxUpperCorner[0] = ");
  }
  // Dimension 1 has 16 pixels, from 15 to 15.
  im2col_accepts([](Call& c) { c.lower[0] = 15, c.upper[0] = 0; });
  im2col_rejects([](Call& c) { c.lower[0] = 15, c.upper[0] = -1; },
                 "leaves 0 pixels between the corners");
}

TEST(EncodeIm2col, NullPointers) {
  Call call;
  Im2colArguments more;
  expect_finding(encode_im2col(&call.out, call.arguments(), more), "pixelBoxLowerCorner = null");
  more.pixel_box_lower_corner = call.lower.data();
  expect_finding(encode_im2col(&call.out, call.arguments(), more), "pixelBoxUpperCorner = null");
}

// tensormap.replace can make maps that the driver would not have.
TEST(CheckMap, FindsWhatReplaceBroke) {
  Call call;
  ASSERT_EQ(call.tiled(), "");
  const TensorMap good = decode_tensor_map(call.out.data());
  EXPECT_EQ(check(good), "");
  TensorMap map = good;
  replace_swizzle_mode(map, 1);
  expect_finding(check(map),
                 "boxDim[0] = 64, 128 bytes of type f16: must be at most the swizzle's 32");
  map = good;
  replace_box_dim(map, 0, 3);
  expect_finding(check(map), "boxDim[0] = 3, 6 bytes of type f16");
  map = good;
  replace_swizzle_mode(map, 2);
  replace_box_dim(map, 0, 32);
  replace_swizzle_atomicity(map, 1);
  expect_finding(check(map), "swizzle atomicity = 1: must be 0 (16B)");
  map = good;
  replace_elemtype(map, 0);
  replace_fill_mode(map, 1);
  expect_finding(check(map), "oobFill = 1 (NaN): must be 0 for the type u8");
  map = good;
  replace_interleave_layout(map, 1);
  replace_rank(map, 1);
  expect_finding(check(map), "tensorRank = 2: must be at least 3");
}

}  // namespace
}  // namespace mpfa::sim
