#include "sim/tensor_map/box_walk.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "expect_error.h"

namespace mpfa::sim {
namespace {

constexpr std::byte kUntouched{0xEE};
constexpr uint64_t kBase = 0x10000;  // global address of the first byte of a test's memory

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(n);
  for (std::byte& byte : bytes) byte = std::byte(random() & 0xFF);
  return bytes;
}

// What the engine would leave in shared memory, from address 0.
Bytes loaded(const BoxWalk& walk, const TensorMap& map, const Bytes& global, uint32_t at,
             size_t shared_bytes) {
  Bytes shared(shared_bytes, kUntouched);
  const FillElement fill = fill_of(map);
  walk.visit_runs([&](const CopyRun& run) {
    const std::span<std::byte> out = std::span(shared).subspan(at + run.shared_offset, run.bytes);
    EXPECT_FALSE(run.in_padding);
    if (run.in_bounds) {
      EXPECT_LE(run.global_address - kBase + run.bytes, global.size());
      std::memcpy(out.data(), &global[run.global_address - kBase], run.bytes);
      convert_loaded(map.type, out);
    } else {
      fill_run(fill, out);
    }
  });
  return shared;
}

Bytes stored(const BoxWalk& walk, Bytes global, const Bytes& shared, uint32_t at) {
  walk.visit_runs([&](const CopyRun& run) {
    if (!run.in_bounds) return;
    std::memcpy(&global[run.global_address - kBase], &shared[at + run.shared_offset], run.bytes);
  });
  return global;
}

// Where byte `address` of a linear layout stands: pieces of 16 bytes, by the tables of the ISA.
uint32_t swizzled(const Swizzle& swizzle, uint32_t address) {
  const uint32_t line = address / 128;
  uint32_t piece = address % 128 / 16;
  if (swizzle.span == SwizzleSpan::k32B) piece ^= line % 2;
  if (swizzle.span == SwizzleSpan::k64B) piece ^= line % 4;
  if (swizzle.span == SwizzleSpan::k128B) {
    const uint32_t by_atom[] = {line % 8, line % 4 * 2, line % 4 * 2, line % 2 * 4};
    piece ^= by_atom[static_cast<int>(swizzle.atom)];
  }
  uint32_t in_piece = address % 16;
  if (swizzle.span == SwizzleSpan::k128B && swizzle.atom == SwizzleAtom::k32BFlip8B &&
      line % 2 == 1) {
    in_piece = (in_piece + 8) % 16;
  }
  return line * 128 + piece * 16 + in_piece;
}

// A box element: its place in the tensor and in shared memory.
struct Element {
  bool in_bounds = true;
  uint64_t global_offset = 0;
  uint32_t shared_linear = 0;
};

// A literal reading of "Tiled Mode": element (j0, j1, ...) of the box is element c + j * stride of
// the tensor, ceil(box / stride) of them; shared memory has them densely, dimension 0 fastest.
std::vector<Element> elements_of(const TensorMap& map, const std::vector<int32_t>& c,
                                 uint32_t size) {
  uint32_t extent[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < map.rank; ++i) {
    const uint32_t stride = i == 0 ? 1 : map.element_stride[i];
    extent[i] = (map.box_dim[i] + stride - 1) / stride;
  }
  // With a swizzle wider than the box's rows, rows begin at multiples of its span (as on an H200).
  const uint32_t pitch = std::max(extent[0] * size, map.swizzle.span_bytes());
  std::vector<Element> elements;
  uint32_t row = 0;
  for (uint32_t j4 = 0; j4 < extent[4]; ++j4)
    for (uint32_t j3 = 0; j3 < extent[3]; ++j3)
      for (uint32_t j2 = 0; j2 < extent[2]; ++j2)
        for (uint32_t j1 = 0; j1 < extent[1]; ++j1, ++row)
          for (uint32_t j0 = 0; j0 < extent[0]; ++j0) {
            const uint32_t j[] = {j0, j1, j2, j3, j4};
            Element element;
            int64_t offset = 0;
            for (int i = 0; i < map.rank; ++i) {
              const int64_t x = c[i] + int64_t{j[i]} * (i == 0 ? 1 : map.element_stride[i]);
              if (x < 0 || x >= static_cast<int64_t>(map.global_dim[i])) element.in_bounds = false;
              offset += x * static_cast<int64_t>(i == 0 ? size : map.global_stride[i - 1]);
            }
            element.global_offset = static_cast<uint64_t>(offset);
            element.shared_linear = row * pitch + j0 * size;
            elements.push_back(element);
          }
  return elements;
}

struct RandomCase {
  TensorMap map;
  std::vector<int32_t> coordinates;
  uint32_t size = 1;  // of an element
  uint32_t at = 0;    // shared address
  size_t global_bytes = 0;
};

RandomCase random_case(std::mt19937& random, bool store) {
  const auto below = [&](uint32_t n) { return random() % n; };
  const TensorMapType types[] = {TensorMapType::kU8,  TensorMapType::kU16,  TensorMapType::kF32,
                                 TensorMapType::kF64, TensorMapType::kBf16, TensorMapType::kF32Ftz};
  RandomCase c;
  TensorMap& map = c.map;
  map.type = types[below(6)];
  c.size = static_cast<uint32_t>(global_bytes_of(map.type, 1));
  map.rank = 1 + static_cast<int>(below(5));
  map.global_address = kBase;
  map.swizzle.span = static_cast<SwizzleSpan>(below(4));
  if (map.swizzle.span == SwizzleSpan::k128B) {
    map.swizzle.atom = static_cast<SwizzleAtom>(below(4));
    if (store && map.swizzle.atom == SwizzleAtom::k32BFlip8B) map.swizzle.atom = SwizzleAtom::k16B;
  }
  if (is_float(map.type)) map.fill = static_cast<TensorFill>(below(2));
  const uint32_t span = map.swizzle.span_bytes() == 0 ? 160 : map.swizzle.span_bytes();
  map.box_dim[0] = 16 * (1 + below(span / 16)) / c.size;
  map.global_dim[0] = 1 + below(100);
  const int32_t step = 16 / static_cast<int32_t>(c.size);
  const auto blocks = static_cast<int32_t>(map.global_dim[0]) / step + 1;
  c.coordinates = {step * (static_cast<int32_t>(below(blocks + 2)) - (store ? 0 : 2))};
  uint64_t stride = (map.global_dim[0] * c.size + 15) / 16 * 16;
  for (int i = 1; i < map.rank; ++i) {
    stride += 16 * below(3);
    map.global_stride[i - 1] = stride;
    map.global_dim[i] = 1 + below(6);
    stride *= map.global_dim[i];
    map.box_dim[i] = 1 + below(6);
    map.element_stride[i] = 1 + below(3);
    c.coordinates.push_back(static_cast<int32_t>(below(9)) - (store ? 0 : 3));
  }
  c.global_bytes = stride + 16;
  c.at = 128 * below(9);
  return c;
}

TEST(BoxWalk, LoadsAsALoopOverElementsWould) {
  std::mt19937 random(1);
  for (int n = 0; n < 400; ++n) {
    const RandomCase c = random_case(random, /*store=*/false);
    const Bytes global = random_bytes(c.global_bytes, n);
    const BoxWalk walk = BoxWalk::tile(c.map, c.coordinates, c.at, CopyDirection::kLoad);
    const Bytes got = loaded(walk, c.map, global, c.at, c.at + walk.shared_bytes() + 128);
    Bytes expected(got.size(), kUntouched);
    const std::vector<Element> elements = elements_of(c.map, c.coordinates, c.size);
    for (const Element& element : elements) {
      for (uint32_t i = 0; i < c.size; ++i) {
        std::byte& out = expected[swizzled(c.map.swizzle, c.at + element.shared_linear + i)];
        EXPECT_EQ(out, kUntouched);
        const std::byte nan{static_cast<uint8_t>(i % 2 == 0 ? 0xF7 : 0x7F)};
        const std::byte fill = c.map.fill == TensorFill::kNan ? nan : std::byte{0};
        out = element.in_bounds ? global[element.global_offset + i] : fill;
      }
    }
    ASSERT_EQ(got, expected) << n;
    EXPECT_EQ(walk.transaction_bytes(), elements.size() * c.size);
  }
}

TEST(BoxWalk, StoresAsALoopOverElementsWould) {
  std::mt19937 random(2);
  for (int n = 0; n < 400; ++n) {
    const RandomCase c = random_case(random, /*store=*/true);
    const Bytes global = random_bytes(c.global_bytes, n);
    const BoxWalk walk = BoxWalk::tile(c.map, c.coordinates, c.at, CopyDirection::kStore);
    const Bytes shared = random_bytes(c.at + walk.shared_bytes() + 128, n + 1000);
    const Bytes got = stored(walk, global, shared, c.at);
    Bytes expected = global;
    // Stores end at a multiple of 16 bytes of the tensor's row (as on an H200).
    TensorMap padded = c.map;
    const uint64_t step = 16 / c.size;
    padded.global_dim[0] = (padded.global_dim[0] + step - 1) / step * step;
    for (const Element& element : elements_of(padded, c.coordinates, c.size)) {
      if (!element.in_bounds) continue;
      for (uint32_t i = 0; i < c.size; ++i) {
        expected[element.global_offset + i] =
            shared[swizzled(c.map.swizzle, c.at + element.shared_linear + i)];
      }
    }
    ASSERT_EQ(got, expected) << n;
  }
}

TensorMap matrix_map() {
  TensorMap map;
  map.type = TensorMapType::kBf16;
  map.rank = 2;
  map.global_address = kBase;
  map.global_dim = {100, 10, 1, 1, 1};
  map.global_stride = {208, 0, 0, 0};
  map.box_dim = {64, 4, 1, 1, 1};
  map.swizzle = {SwizzleSpan::k128B, SwizzleAtom::k16B};
  return map;
}

struct RunTotals {
  uint32_t in_bounds = 0;
  uint32_t padding = 0;
  uint32_t out_of_bounds = 0;
};

RunTotals totals_of(const BoxWalk& walk) {
  RunTotals totals;
  walk.visit_runs([&](const CopyRun& run) {
    EXPECT_GT(run.bytes, 0u);
    (!run.in_bounds   ? totals.out_of_bounds
     : run.in_padding ? totals.padding
                      : totals.in_bounds) += run.bytes;
  });
  return totals;
}

TEST(BoxWalk, SaysWhichBytesOfAStoreArePadding) {
  const int32_t at[] = {64, 0};
  // 36 elements to the row's end, 72 bytes; a multiple of 16 is 8 bytes further.
  const RunTotals store = totals_of(BoxWalk::tile(matrix_map(), at, 0, CopyDirection::kStore));
  EXPECT_EQ(store.in_bounds, 4u * 72);
  EXPECT_EQ(store.padding, 4u * 8);
  EXPECT_EQ(store.out_of_bounds, 4u * 48);
  const RunTotals load = totals_of(BoxWalk::tile(matrix_map(), at, 0, CopyDirection::kLoad));
  EXPECT_EQ(load.in_bounds, 4u * 72);
  EXPECT_EQ(load.padding, 0u);
  EXPECT_EQ(load.out_of_bounds, 4u * 56);
}

TEST(BoxWalk, CountsTheWholeBoxWhereverItLies) {
  for (const int32_t row : {INT32_MIN, -4, -1, 0, 8, 10, INT32_MAX}) {
    for (const int32_t column : {-(1 << 30), -64, 0, 96, 1 << 30}) {
      const int32_t at[] = {column, row};
      const BoxWalk walk = BoxWalk::tile(matrix_map(), at, 1024, CopyDirection::kLoad);
      EXPECT_EQ(walk.transaction_bytes(), 512u);
      EXPECT_EQ(walk.shared_bytes(), 512u);
      EXPECT_EQ(walk.row_count(), 4u);
      const RunTotals totals = totals_of(walk);
      EXPECT_EQ(totals.in_bounds + totals.out_of_bounds, 512u);
    }
  }
}

TEST(BoxWalk, WithoutASwizzleARowIsOneRun) {
  TensorMap map = matrix_map();
  map.swizzle = {};
  const int32_t at[] = {0, 0};
  int runs = 0;
  BoxWalk::tile(map, at, 0, CopyDirection::kLoad).visit_runs([&](const CopyRun& run) {
    EXPECT_EQ(run.bytes, 128u);
    ++runs;
  });
  EXPECT_EQ(runs, 4);
}

TEST(BoxWalk, Gather4TakesFourRows) {
  TensorMap map = matrix_map();
  map.box_dim[1] = 1;
  const Bytes global = random_bytes(208 * 10, 5);
  const int32_t at[] = {8, 7, 2, 11, 7};
  const BoxWalk walk = BoxWalk::four_rows(map, at, 1024, CopyDirection::kLoad);
  EXPECT_EQ(walk.transaction_bytes(), 512u);
  const Bytes got = loaded(walk, map, global, 1024, 2048);
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t byte = 0; byte < 128; ++byte) {
      const std::byte expected =
          at[i + 1] == 11 ? std::byte{0} : global[at[i + 1] * 208 + 16 + byte];
      EXPECT_EQ(got[swizzled(map.swizzle, 1024 + i * 128 + byte)], expected) << i << " " << byte;
    }
  }
}

TEST(BoxWalk, Scatter4IsTheStoreOfGather4) {
  TensorMap map = matrix_map();
  map.box_dim[1] = 1;
  const Bytes shared = random_bytes(512, 6);
  const int32_t at[] = {0, 3, 12, 0, 9};
  const Bytes got = stored(BoxWalk::four_rows(map, at, 0, CopyDirection::kStore),
                           Bytes(2080, kUntouched), shared, 0);
  Bytes expected(2080, kUntouched);
  for (const uint32_t i : {0u, 2u, 3u}) {
    for (uint32_t byte = 0; byte < 128; ++byte) {
      expected[at[i + 1] * 208 + byte] = shared[swizzled(map.swizzle, i * 128 + byte)];
    }
  }
  EXPECT_EQ(got, expected);
}

// 16 elements take 16 bytes of shared memory; the bytes after their data stay as they were.
TEST(BoxWalk, PaddedTypes) {
  for (const TensorMapType type : {TensorMapType::kB4x16P64, TensorMapType::kB6x16P32}) {
    const uint32_t group = type == TensorMapType::kB4x16P64 ? 8 : 12;
    TensorMap map;
    map.type = type;
    map.rank = 2;
    map.global_address = kBase;
    map.global_dim = {256, 5, 1, 1, 1};
    map.global_stride = {224, 0, 0, 0};
    map.box_dim = {128, 3, 1, 1, 1};
    map.swizzle = {SwizzleSpan::k128B, SwizzleAtom::k16B};
    const Bytes global = random_bytes(224 * 5, 7);
    const int32_t at[] = {128, 3};
    const BoxWalk walk = BoxWalk::tile(map, at, 0, CopyDirection::kLoad);
    EXPECT_EQ(walk.transaction_bytes(), 3 * 8 * group);
    EXPECT_EQ(walk.shared_bytes(), 3u * 128);
    const Bytes got = loaded(walk, map, global, 0, 384);
    for (uint32_t i = 0; i < 384; ++i) {
      const uint32_t row = i / 128;
      std::byte expected = kUntouched;
      if (i % 16 < group) {
        const uint32_t from = (3 + row) * 224 + 8 * group + i % 128 / 16 * group + i % 16;
        expected = row < 2 ? global[from] : std::byte{0};
      }
      EXPECT_EQ(got[swizzled(map.swizzle, i)], expected) << i;
    }
  }
}

TEST(BoxWalk, PackedFourBitValues) {
  TensorMap map = matrix_map();
  map.type = TensorMapType::kB4x16;
  map.global_dim = {400, 10, 1, 1, 1};
  map.box_dim = {256, 4, 1, 1, 1};
  const Bytes global = random_bytes(2080, 8);
  const int32_t at[] = {32, 1};
  const BoxWalk walk = BoxWalk::tile(map, at, 0, CopyDirection::kLoad);
  EXPECT_EQ(walk.transaction_bytes(), 512u);
  const Bytes got = loaded(walk, map, global, 0, 512);
  for (uint32_t i = 0; i < 512; ++i) {
    EXPECT_EQ(got[swizzled(map.swizzle, i)], global[(1 + i / 128) * 208 + 16 + i % 128]);
  }
}

TEST(BoxWalk, RejectsWhatTheIsaDoesNotAllow) {
  const auto rejects = [](const TensorMap& map, std::vector<int32_t> at, uint32_t shared,
                          CopyDirection direction, const char* part) {
    expect_error<TensorMapError>([&] { BoxWalk::tile(map, at, shared, direction); }, part);
  };
  const TensorMap map = matrix_map();
  const auto load = CopyDirection::kLoad;
  const auto store = CopyDirection::kStore;
  rejects(map, {0}, 0, load, "1 coordinates: must be 2");
  rejects(map, {0, 0}, 64, load, "shared address = 64: must be a multiple of 128");
  rejects(map, {4, 0}, 0, load, "coordinate 0 = 4: must be a multiple of 8 for the type bf16");
  rejects(map, {-8, 0}, 0, store, "coordinate 0 = -8: must not be negative in a store");
  rejects(map, {0, -1}, 0, store, "coordinate 1 = -1: must not be negative in a store");
  TensorMap other = map;
  other.mode = TensorMapMode::kIm2col;
  rejects(other, {0, 0}, 0, load, "the map is an im2col one");
  other = map;
  other.rank = 3;
  other.interleave = TensorInterleave::k16B;
  rejects(other, {0, 0, 0}, 0, load, "interleave_layout = 1: copies with an interleaved layout");
  other = map;
  other.swizzle.atom = SwizzleAtom::k32BFlip8B;
  rejects(other, {0, 0}, 0, store, "swizzle_atomicity = 2 (32B with 8B flip): loads only");
  other = map;
  other.box_dim[0] = 128;
  rejects(other, {0, 0}, 0, load, "tensor map: boxDim[0] = 128, 256 bytes");
  other = map;
  other.type = TensorMapType::kB4x16P64;
  other.box_dim[0] = 128;
  other.global_dim[0] = 256;
  other.global_stride[0] = 224;
  rejects(other, {0, 0}, 0, store, "elemtype = b4x16_p64: stores of this type");
  rejects(other, {32, 0}, 0, load, "coordinate 0 = 32: must be a multiple of 128");
}

TEST(BoxWalk, RejectsWrongGathers) {
  const int32_t at[] = {0, 0, 1, 2, 3};
  const auto rejects = [&](const TensorMap& map, std::span<const int32_t> coordinates,
                           const char* part) {
    expect_error<TensorMapError>(
        [&] { BoxWalk::four_rows(map, coordinates, 0, CopyDirection::kStore); }, part);
  };
  TensorMap map = matrix_map();
  rejects(map, at, "box_dim[1] = 4: must be 1 for gather4");
  map.box_dim[1] = 1;
  rejects(map, std::span(at).first(4), "4 coordinates: must be 5");
  const int32_t negative[] = {0, 0, 1, -2, 3};
  rejects(map, negative, "coordinate 3 = -2: must not be negative");
  map.rank = 1;
  rejects(map, at, "rank = 1: must be 2 for gather4");
}

TEST(FillElement, NanOfEachType) {
  TensorMap map;
  map.fill = TensorFill::kNan;
  for (const TensorMapType type : {TensorMapType::kF16, TensorMapType::kBf16, TensorMapType::kF32,
                                   TensorMapType::kTf32, TensorMapType::kF64}) {
    map.type = type;
    Bytes out(16);
    fill_run(fill_of(map), out);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i], std::byte{static_cast<uint8_t>(i % 2 == 0 ? 0xF7 : 0x7F)});
    }
  }
}

// What an H200 gives.
TEST(ConvertLoaded, Tf32MapsRound) {
  const uint32_t pairs[][2] = {
      {0x00000000, 0x00000000}, {0x80000000, 0x80000000}, {0x00000001, 0x00000000},
      {0x807FFFFF, 0x80800000}, {0x3F800FFF, 0x3F800000}, {0x3F801000, 0x3F800000},
      {0x3F801001, 0x3F802000}, {0x3F803000, 0x3F804000}, {0x00001001, 0x00002000},
      {0x80003000, 0x80004000}, {0x7F7FFFFF, 0x7F800000}, {0xFF7FF000, 0xFF800000},
      {0x7F800000, 0x7F800000}, {0xFF800000, 0xFF800000}, {0x7F800001, 0x7FFFE000},
      {0xFFC12345, 0x7FFFE000}, {0x3EAAAAAB, 0x3EAAA000}, {0x40490FDB, 0x40490000}};
  for (const auto& [bits, rounded] : pairs) {
    for (int type = 0; type < 13; ++type) {
      const auto t = static_cast<TensorMapType>(type);
      const bool is_tf32 = t == TensorMapType::kTf32 || t == TensorMapType::kTf32Ftz;
      uint32_t value[] = {bits, bits};
      convert_loaded(t, std::as_writable_bytes(std::span(value)));
      EXPECT_EQ(value[0], is_tf32 ? rounded : bits) << name_of(t);
      EXPECT_EQ(value[1], value[0]);
    }
  }
}

}  // namespace
}  // namespace mpfa::sim
