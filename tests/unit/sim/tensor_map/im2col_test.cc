// Copies of im2col maps.
#include <gtest/gtest.h>

#include <random>

#include "expect_error.h"
#include "sim/tensor_map/box_walk.h"

namespace mpfa::sim {
namespace {

// 16 channels of halves, W x H x D x N pixels; rows of the tensor are 32 bytes.
TensorMap image_map(int rank, std::array<uint64_t, 4> pixels) {
  TensorMap map;
  map.mode = TensorMapMode::kIm2col;
  map.type = TensorMapType::kF16;
  map.rank = rank;
  map.channels_per_pixel = 16;
  map.global_dim[0] = 16;
  uint64_t stride = 32;
  for (int i = 1; i < rank; ++i) {
    map.global_dim[i] = pixels[i - 1];
    map.global_stride[i - 1] = stride;
    stride *= pixels[i - 1];
  }
  return map;
}

// A row of the copy: the pixel's number in the tensor; -1 for one out of bounds.
std::vector<int64_t> pixels_of(const BoxWalk& walk) {
  std::vector<int64_t> pixels;
  walk.visit_runs([&](const CopyRun& run) {
    EXPECT_EQ(run.bytes, 32u);
    EXPECT_EQ(run.shared_offset, pixels.size() * 32);
    pixels.push_back(run.in_bounds ? static_cast<int64_t>(run.global_address / 32) : -1);
  });
  return pixels;
}

// The figures' example 1 of "im2col mode": 3 x 3 filter with padding of one pixel. W 14, H 9, N 64;
// corners -1; from (N 7, H 7, W 4).
TEST(Im2col, FirstExampleOfTheIsa) {
  TensorMap map = image_map(4, {14, 9, 64, 1});
  map.lower_corner = {-1, -1, 0};
  map.upper_corner = {-1, -1, 0};
  map.pixels_per_column = 64;
  const int32_t at[] = {0, 4, 7, 7};
  const uint16_t offsets[] = {0, 0};
  std::vector<int64_t> expected;
  int w = 4;
  int h = 7;
  int n = 7;
  while (expected.size() < 64) {
    expected.push_back(w < 0 || h < 0 ? -1 : (n * 9 + h) * 14 + w);
    // The box is W -1 to 12, H -1 to 7.
    if (++w > 12) w = -1, ++h;
    if (h > 7) h = -1, ++n;
  }
  const BoxWalk walk = BoxWalk::im2col(map, at, offsets, 0, CopyDirection::kLoad);
  EXPECT_EQ(pixels_of(walk), expected);
  EXPECT_EQ(walk.transaction_bytes(), 64u * 32);
}

// An im2col matrix by definition: column by column of the output, for each filter tap.
TEST(Im2col, IsTheMatrixOfAConvolution) {
  // 2-D convolution, filter 3 x 2 (W x H), padding 1 in W and 0 in H, stride 2 in W.
  constexpr int kW = 7, kH = 5, kN = 2, kFilterW = 3, kFilterH = 2, kPad = 1, kStrideW = 2;
  constexpr int kOutW = (kW + 2 * kPad - kFilterW) / kStrideW + 1;
  constexpr int kOutH = kH - kFilterH + 1;
  TensorMap map = image_map(4, {kW, kH, kN, 1});
  map.lower_corner = {-kPad, 0, 0};
  map.upper_corner = {kPad - kFilterW + 1, 1 - kFilterH, 0};
  map.element_stride = {1, kStrideW, 1, 1, 1};
  map.pixels_per_column = kOutW * kOutH * kN;
  for (uint16_t r = 0; r < kFilterH; ++r) {
    for (uint16_t s = 0; s < kFilterW; ++s) {
      std::vector<int64_t> expected;
      for (int n = 0; n < kN; ++n)
        for (int p = 0; p < kOutH; ++p)
          for (int q = 0; q < kOutW; ++q) {
            const int w = q * kStrideW - kPad + s;
            const int h = p + r;
            expected.push_back(w < 0 || w >= kW ? -1 : (n * kH + h) * kW + w);
          }
      const int32_t at[] = {0, -kPad, 0, 0};
      const uint16_t offsets[] = {s, r};
      EXPECT_EQ(pixels_of(BoxWalk::im2col(map, at, offsets, 0, CopyDirection::kLoad)), expected);
    }
  }
}

TEST(Im2col, VolumesAndTheEndOfTheBatch) {
  TensorMap map = image_map(5, {3, 2, 2, 2});
  map.pixels_per_column = 30;
  const int32_t at[] = {0, 1, 1, 0, 0};
  const uint16_t offsets[] = {0, 0, 0};
  // Corners of zero: all 12 pixels of an image, from W 1, H 1 on, and nothing after 24.
  std::vector<int64_t> expected;
  for (int64_t pixel = 4; pixel < 34; ++pixel) expected.push_back(pixel < 24 ? pixel : -1);
  EXPECT_EQ(pixels_of(BoxWalk::im2col(map, at, offsets, 0, CopyDirection::kLoad)), expected);
  EXPECT_EQ(pixels_of(BoxWalk::im2col(map, at, {}, 0, CopyDirection::kStore)), expected);
}

TEST(Im2col, ThreeDimensionsWithSwizzle) {
  TensorMap map = image_map(3, {9, 3, 1, 1});
  map.swizzle = {SwizzleSpan::k32B, SwizzleAtom::k16B};
  map.pixels_per_column = 20;
  map.lower_corner = {2, 0, 0};
  const int32_t at[] = {0, 2, 1};
  const uint16_t offsets[] = {0};
  const BoxWalk walk = BoxWalk::im2col(map, at, offsets, 256, CopyDirection::kLoad);
  uint32_t half = 0;
  walk.visit_runs([&](const CopyRun& run) {
    // W 2 to 8, in images 1, 2 and (out of bounds) 3.
    const uint32_t pixel = half / 2;
    EXPECT_EQ(run.in_bounds, pixel < 14);
    if (run.in_bounds) {
      EXPECT_EQ(run.global_address, (9 * (1 + pixel / 7) + 2 + pixel % 7) * 32 + half % 2 * 16);
    }
    const uint32_t linear = half * 16;
    EXPECT_EQ(run.shared_offset, linear / 128 % 2 == 0 ? linear : linear ^ 16);
    ++half;
  });
  EXPECT_EQ(half, 40u);
}

TEST(Im2col, RejectsWhatTheIsaDoesNotAllow) {
  const uint16_t offsets[] = {0, 0};
  const auto rejects = [](const TensorMap& map, std::vector<int32_t> at,
                          std::span<const uint16_t> offset, CopyDirection direction,
                          const char* part) {
    expect_error<TensorMapError>([&] { BoxWalk::im2col(map, at, offset, 0, direction); }, part);
  };
  const auto load = CopyDirection::kLoad;
  const auto store = CopyDirection::kStore;
  TensorMap map = image_map(4, {14, 9, 64, 1});
  map.lower_corner = {-1, 1, 0};
  map.upper_corner = {-2, 2, 0};
  rejects(map, {0, 0, 1}, offsets, load, "3 coordinates: must be 4");
  rejects(map, {0, -2, 1, 0}, offsets, load,
          "coordinate 1 = -2: must lie in the bounding box [-1, 11]");
  rejects(map, {0, 12, 1, 0}, offsets, load,
          "coordinate 1 = 12: must lie in the bounding box [-1, 11]");
  rejects(map, {0, 0, 0, 0}, offsets, load,
          "coordinate 2 = 0: must lie in the bounding box [1, 10]");
  rejects(map, {0, 0, 1, 0}, std::span(offsets).first(1), load, "1 im2col offsets: must be 2");
  const uint16_t large[] = {255, 256};
  rejects(map, {0, 0, 1, 0}, large, load, "im2col offset 1 = 256: must be at most 255");
  rejects(map, {0, 0, 1, 0}, offsets, store, "a store has none (.im2col_no_offs)");
  rejects(map, {0, 0, 1, -1}, {}, store, "coordinate 3 = -1: must not be negative");
  rejects(map, {0, 0, 1, 0}, {}, store, "lower corner 0 = -1: must not be negative in a store");
  map.lower_corner = {0, 0, 0};
  rejects(map, {0, 0, 1, 0}, {}, store, "upper corner 1 = 2: must not be positive in a store");
  map.mode = TensorMapMode::kTiled;
  rejects(map, {0, 0, 1, 0}, offsets, load, "the map is a tiled one");
  map = image_map(3, {14, 9, 1, 1});
  const uint16_t largest[] = {65535};
  EXPECT_NO_THROW(BoxWalk::im2col(map, std::vector<int32_t>{0, 0, 0}, largest, 0, load));
}

}  // namespace
}  // namespace mpfa::sim
