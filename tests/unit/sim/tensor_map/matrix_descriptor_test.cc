#include "sim/tensor_map/matrix_descriptor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "expect_error.h"
#include "sim/tensor_map/box_walk.h"

namespace mpfa::sim {
namespace {

using Bytes = std::vector<std::byte>;

constexpr SwizzleSpan kSpans[] = {SwizzleSpan::kNone, SwizzleSpan::k32B, SwizzleSpan::k64B,
                                  SwizzleSpan::k128B};

Bytes random_bytes(size_t n) {
  std::mt19937 random(11);
  Bytes bytes(n);
  for (std::byte& byte : bytes) byte = std::byte(random() & 0xFF);
  return bytes;
}

// --- Decoding ---

// wgmma's swizzling modes.
uint64_t wgmma_mode(SwizzleSpan span) { return (4 - static_cast<uint64_t>(span)) % 4; }

uint64_t wgmma_bits(const MatrixDescriptor& d) {
  return uint64_t{d.start_address} >> 4 | uint64_t{d.leading_byte_offset} >> 4 << 16 |
         uint64_t{d.stride_byte_offset} >> 4 << 32 | uint64_t{d.base_offset} << 49 |
         wgmma_mode(d.swizzle.span) << 62;
}

TEST(WgmmaDescriptor, DecodesItsFields) {
  for (const SwizzleSpan span : kSpans) {
    MatrixDescriptor d;
    d.start_address = 0x3FFF0;
    d.leading_byte_offset = 0x12340;
    d.stride_byte_offset = 0x3FFF0;
    d.base_offset = span == SwizzleSpan::kNone ? 0 : 5;
    d.swizzle.span = span;
    EXPECT_EQ(decode_wgmma_descriptor(wgmma_bits(d)), d);
  }
  EXPECT_EQ(decode_wgmma_descriptor(0), MatrixDescriptor{});
  // The numbers of the PTX ISA: 1 is 128B, 2 is 64B, 3 is 32B.
  EXPECT_EQ(decode_wgmma_descriptor(uint64_t{1} << 62).swizzle.span, SwizzleSpan::k128B);
  EXPECT_EQ(decode_wgmma_descriptor(uint64_t{2} << 62).swizzle.span, SwizzleSpan::k64B);
  EXPECT_EQ(decode_wgmma_descriptor(uint64_t{3} << 62).swizzle.span, SwizzleSpan::k32B);
}

TEST(WgmmaDescriptor, RejectsOtherBits) {
  const uint64_t used = 0xC00E3FFF3FFF3FFF;
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t bits = uint64_t{1} << 63 | uint64_t{1} << bit;  // a swizzle, for the base offset
    if ((used >> bit & 1) != 0) {
      EXPECT_NO_THROW(decode_wgmma_descriptor(bits)) << bit;
    } else {
      expect_error<MatrixDescriptorError>([&] { decode_wgmma_descriptor(bits); }, ": must be 0");
    }
  }
  expect_error<MatrixDescriptorError>([] { decode_wgmma_descriptor(uint64_t{1} << 46); },
                                      "bits 46 to 48 = 1: must be 0");
  expect_error<MatrixDescriptorError>([] { decode_wgmma_descriptor(uint64_t{3} << 49); },
                                      "base offset = 3: must be 0 without a swizzle");
}

TEST(Tcgen05Descriptor, DecodesItsFields) {
  // K-major, 128B swizzle, at 0x1000, SBO 1024, LBO field 1.
  MatrixDescriptor d;
  d.tensor_core = TensorCore::kTcgen05;
  d.start_address = 0x1000;
  d.leading_byte_offset = 16;
  d.stride_byte_offset = 1024;
  d.swizzle.span = SwizzleSpan::k128B;
  EXPECT_EQ(decode_tcgen05_descriptor(0x4000404000010100), d);
  const std::pair<uint64_t, Swizzle> modes[] = {{0, {SwizzleSpan::kNone, SwizzleAtom::k16B}},
                                                {1, {SwizzleSpan::k128B, SwizzleAtom::k32B}},
                                                {2, {SwizzleSpan::k128B, SwizzleAtom::k16B}},
                                                {4, {SwizzleSpan::k64B, SwizzleAtom::k16B}},
                                                {6, {SwizzleSpan::k32B, SwizzleAtom::k16B}}};
  for (const auto& [mode, swizzle] : modes) {
    EXPECT_EQ(decode_tcgen05_descriptor(mode << 61 | uint64_t{1} << 46).swizzle, swizzle);
  }
}

TEST(Tcgen05Descriptor, RejectsOtherBits) {
  constexpr uint64_t kVersion = uint64_t{1} << 46;
  const auto rejects = [](uint64_t bits, const char* part) {
    expect_error<MatrixDescriptorError>([&] { decode_tcgen05_descriptor(bits); }, part);
  };
  rejects(0, "bits 46 to 48 = 0: must be 1 (tcgen05)");
  rejects(uint64_t{3} << 46, "bits 46 to 48 = 3: must be 1 (tcgen05)");
  rejects(kVersion | uint64_t{1} << 52, "leading dimension mode = 1");
  rejects(kVersion | uint64_t{4} << 53, "bits 53 to 60 = 4: must be 0");
  rejects(kVersion | 0x4000, "bits 14 to 15 = 1: must be 0");
  rejects(kVersion | 0x80000000, "bits 30 to 31 = 2: must be 0");
  for (const uint64_t mode : {3, 5, 7}) rejects(kVersion | mode << 61, "must be 0, 1, 2, 4 or 6");
}

// --- Addresses against the canonical layouts of the PTX ISA, as CuTe layouts ---

// A mode of a CuTe layout: its index counts through the shapes, the first fastest.
struct Mode {
  std::vector<uint32_t> shape;  // the last is open
  std::vector<uint32_t> stride;
  uint32_t at(uint32_t index) const {
    uint32_t offset = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool last = i + 1 == shape.size();
      offset += (last ? index : index % shape[i]) * stride[i];
      if (!last) index /= shape[i];
    }
    return offset;
  }
};

// Swizzle<B,4,3> of CuTe: bits [4, 4 + B) ^= bits [7, 7 + B).
uint32_t cute_swizzle(int b, uint32_t x) {
  const uint32_t mask = ((1u << b) - 1) << 7;
  return x ^ ((x & mask) >> 3);
}

TEST(OperandLayout, IsTheCanonicalLayoutOfTheIsa) {
  std::mt19937 random(12);
  for (int n = 0; n < 64; ++n) {
    for (int b = 0; b < 4; ++b) {
      for (const uint32_t size : {1u, 2u, 4u}) {
        MatrixDescriptor d;
        d.swizzle.span = kSpans[b];
        d.start_address = 128 * (random() % 64);
        d.leading_byte_offset = 16 * (random() % 512);
        d.stride_byte_offset = 16 * (random() % 512);
        const uint32_t t = 16 / size;
        const uint32_t w = 1u << b;
        const uint32_t lbo = d.leading_byte_offset / size;
        const uint32_t sbo = d.stride_byte_offset / size;
        const auto expect = [&](MajorDimension major, const Mode& mn, const Mode& k) {
          const OperandLayout layout(d, major, size);
          for (uint32_t row = 0; row < 256; row += 3) {
            for (uint32_t column = 0; column < 32 / size; ++column) {
              const uint32_t linear = d.start_address + (mn.at(row) + k.at(column)) * size;
              ASSERT_EQ(layout.address(row, column), cute_swizzle(b, linear))
                  << row << " " << column;
            }
          }
        };
        // K-major: ((8,m),(T,2k)).
        expect(MajorDimension::kK, Mode{{8, 0}, {w * t, sbo}}, Mode{{t, 0}, {1, b == 0 ? lbo : t}});
        // MN-major: ((T,w,m),(8,k)).
        if (size != 2) continue;
        expect(MajorDimension::kMn, Mode{{t, w, 0}, {1, t, b == 0 ? sbo : lbo}},
               Mode{{8, 0}, {w * t, b == 0 ? lbo : sbo}});
      }
    }
  }
}

// The examples of the PTX ISA, "Canonical Layouts", as exact layouts in elements.
TEST(OperandLayout, ExamplesOfTheIsa) {
  struct Example {
    MajorDimension major;
    uint32_t size;
    int b;
    uint32_t lbo, sbo;  // elements
    Mode mn, k;
  };
  const Example examples[] = {
      {MajorDimension::kK, 4, 0, 64, 32, {{8, 2}, {4, 32}}, {{4, 4}, {1, 64}}},
      {MajorDimension::kK, 4, 1, 4, 64, {{8, 2}, {8, 64}}, {{4, 4}, {1, 4}}},
      {MajorDimension::kMn, 2, 0, 128, 64, {{8, 1, 2}, {1, 8, 64}}, {{8, 2}, {8, 128}}},
      {MajorDimension::kMn, 2, 1, 128, 256, {{8, 2, 2}, {1, 8, 128}}, {{8, 2}, {16, 256}}},
      {MajorDimension::kMn, 2, 2, 256, 512, {{8, 4, 2}, {1, 8, 256}}, {{8, 2}, {32, 512}}}};
  for (const Example& e : examples) {
    MatrixDescriptor d;
    d.swizzle.span = kSpans[e.b];
    d.leading_byte_offset = e.lbo * e.size;
    d.stride_byte_offset = e.sbo * e.size;
    const OperandLayout layout(decode_wgmma_descriptor(wgmma_bits(d)), e.major, e.size);
    for (uint32_t mn = 0; mn < 16; ++mn) {
      for (uint32_t k = 0; k < 32 / e.size; ++k) {
        EXPECT_EQ(layout.address(mn, k), cute_swizzle(e.b, (e.mn.at(mn) + e.k.at(k)) * e.size));
      }
    }
  }
}

// The same tile 128-byte line by line further, with the base offset that says so.
TEST(OperandLayout, BaseOffsetSaysWhereThePatternBegins) {
  for (const SwizzleSpan span : {SwizzleSpan::k32B, SwizzleSpan::k64B, SwizzleSpan::k128B}) {
    MatrixDescriptor aligned;
    aligned.swizzle.span = span;
    aligned.stride_byte_offset = aligned.swizzle.period_bytes();
    for (uint32_t line = 0; line < 8; ++line) {
      MatrixDescriptor moved = aligned;
      moved.start_address = 4096 + 128 * line;
      moved.base_offset = line;
      for (uint32_t mn = 0; mn < 64; ++mn) {
        for (uint32_t k = 0; k < 16; ++k) {
          EXPECT_EQ(
              OperandLayout(moved, MajorDimension::kK, 2).address(mn, k),
              OperandLayout(aligned, MajorDimension::kK, 2).address(mn, k) + moved.start_address);
        }
      }
    }
  }
}

// Descriptors off the beaten track: addresses that an H200 read.
TEST(OperandLayout, AddressesOfAnH200) {
  struct Sample {
    uint64_t bits;
    MajorDimension major;
    uint32_t mn, k, address;
  };
  const Sample samples[] = {
#include "h200_operand_addresses.inc"
  };
  for (const Sample& s : samples) {
    const OperandLayout layout(decode_wgmma_descriptor(s.bits), s.major, 2);
    EXPECT_EQ(layout.address(s.mn, s.k), s.address) << std::hex << s.bits;
  }
}

// --- What a tensor copy laid out, read through a descriptor ---

constexpr uint64_t kGlobalBase = 1 << 20;

// Copies a box of bytes at column, row of a [..][pitch] byte matrix to `shared` at `at`.
void copy_box(const Bytes& global, uint32_t pitch, int32_t column, int32_t row, uint32_t columns,
              uint32_t rows, const Swizzle& swizzle, Bytes& shared, uint32_t at) {
  TensorMap map;
  map.rank = 2;
  map.global_address = kGlobalBase;
  map.global_dim = {pitch, global.size() / pitch, 1, 1, 1};
  map.global_stride[0] = pitch;
  map.box_dim = {columns, rows, 1, 1, 1};
  map.swizzle = swizzle;
  const int32_t coordinates[] = {column, row};
  BoxWalk::tile(map, coordinates, at, CopyDirection::kLoad).visit_runs([&](const CopyRun& run) {
    ASSERT_TRUE(run.in_bounds);
    std::memcpy(&shared[at + run.shared_offset], &global[run.global_address - kGlobalBase],
                run.bytes);
  });
}

// A [rows][256 bytes] matrix in boxes of one span of columns; an instruction takes 32 bytes of K.
TEST(OperandLayout, ReadsKMajorTilesOfTensorCopies) {
  constexpr uint32_t kRows = 192;
  constexpr uint32_t kPitch = 256;
  constexpr uint32_t kAt = 2048;
  const Bytes matrix = random_bytes(size_t{kRows} * kPitch);
  for (const SwizzleSpan span : kSpans) {
    const Swizzle swizzle{span, SwizzleAtom::k16B};
    const uint32_t width = span == SwizzleSpan::kNone ? 16 : swizzle.span_bytes();
    Bytes shared(65536);
    for (uint32_t column = 0; column < kPitch; column += width) {
      copy_box(matrix, kPitch, static_cast<int32_t>(column), 0, width, kRows, swizzle, shared,
               kAt + column * kRows);
    }
    for (const uint32_t size : {1u, 2u, 4u}) {
      for (uint32_t column = 0; column < kPitch; column += 32) {
        MatrixDescriptor d;
        d.start_address = kAt + column / width * width * kRows + column % width;
        d.leading_byte_offset = width * kRows;
        d.stride_byte_offset = 8 * width;
        d.swizzle = swizzle;
        const OperandLayout layout(decode_wgmma_descriptor(wgmma_bits(d)), MajorDimension::kK,
                                   size);
        Bytes got(size_t{kRows} * 32);
        layout.gather(shared, kRows, 32 / size, got);
        for (uint32_t row = 0; row < kRows; ++row) {
          ASSERT_EQ(std::memcmp(&got[size_t{row} * 32], &matrix[size_t{row} * kPitch + column], 32),
                    0)
              << width << " " << row;
          for (uint32_t k = 0; k < 32 / size; ++k) {
            EXPECT_EQ(shared[layout.address(row, k)], got[size_t{row} * 32 + size_t{k} * size]);
          }
        }
      }
    }
  }
}

// A [k][mn] matrix of 16-bit elements in boxes of one span of mn; an instruction takes 16 rows.
TEST(OperandLayout, ReadsMnMajorTilesOfTensorCopies) {
  constexpr uint32_t kColumns = 128;  // mn
  constexpr uint32_t kRows = 64;      // k
  constexpr uint32_t kPitch = kColumns * 2;
  constexpr uint32_t kAt = 1024;
  const Bytes matrix = random_bytes(size_t{kRows} * kPitch);
  for (const SwizzleSpan span : kSpans) {
    const Swizzle swizzle{span, SwizzleAtom::k16B};
    const uint32_t width = span == SwizzleSpan::kNone ? 16 : swizzle.span_bytes();
    Bytes shared(65536);
    for (uint32_t column = 0; column < kPitch; column += width) {
      copy_box(matrix, kPitch, static_cast<int32_t>(column), 0, width, kRows, swizzle, shared,
               kAt + column * kRows);
    }
    for (uint32_t first = 0; first < kRows; first += 16) {
      MatrixDescriptor d;
      d.start_address = kAt + first * width;
      const uint32_t next_box = width * kRows;
      const uint32_t next_8_rows = 8 * width;
      d.leading_byte_offset = span == SwizzleSpan::kNone ? next_8_rows : next_box;
      d.stride_byte_offset = span == SwizzleSpan::kNone ? next_box : next_8_rows;
      d.swizzle = swizzle;
      const OperandLayout layout(decode_wgmma_descriptor(wgmma_bits(d)), MajorDimension::kMn, 2);
      Bytes got(size_t{kColumns} * 16 * 2);
      layout.gather(shared, kColumns, 16, got);
      for (uint32_t mn = 0; mn < kColumns; ++mn) {
        for (uint32_t k = 0; k < 16; ++k) {
          const std::byte* expected = &matrix[size_t{first + k} * kPitch + size_t{mn} * 2];
          ASSERT_EQ(std::memcmp(&got[(size_t{mn} * 16 + k) * 2], expected, 2), 0)
              << width << " " << mn << " " << k;
          EXPECT_EQ(std::memcmp(&shared[layout.address(mn, k)], expected, 2), 0);
        }
      }
    }
  }
}

// CuTe's default for MN-major tiles: atoms side by side along mn first.
TEST(OperandLayout, ReadsMnMajorAtomsInTheOtherOrder) {
  constexpr uint32_t kPitch = 256;  // 128 elements of mn: two atoms
  const Bytes matrix = random_bytes(size_t{16} * kPitch);
  const Swizzle swizzle{SwizzleSpan::k128B, SwizzleAtom::k16B};
  Bytes shared(8192);
  for (uint32_t k = 0; k < 16; k += 8) {
    for (uint32_t atom = 0; atom < 2; ++atom) {
      copy_box(matrix, kPitch, static_cast<int32_t>(atom * 128), static_cast<int32_t>(k), 128, 8,
               swizzle, shared, (k / 8 * 2 + atom) * 1024);
    }
  }
  MatrixDescriptor d;
  d.leading_byte_offset = 1024;
  d.stride_byte_offset = 2048;
  d.swizzle = swizzle;
  const OperandLayout layout(d, MajorDimension::kMn, 2);
  Bytes got(size_t{128} * 16 * 2);
  layout.gather(shared, 128, 16, got);
  for (uint32_t mn = 0; mn < 128; ++mn) {
    for (uint32_t k = 0; k < 16; ++k) {
      ASSERT_EQ(std::memcmp(&got[(size_t{mn} * 16 + k) * 2],
                            &matrix[size_t{k} * kPitch + size_t{mn} * 2], 2),
                0);
    }
  }
}

// tcgen05's MN-major tf32: atoms of 32 elements x 4 rows.
TEST(OperandLayout, ReadsTf32MnMajorTilesOfTensorCopies) {
  constexpr uint32_t kPitch = 256;  // 64 elements of mn
  const Bytes matrix = random_bytes(size_t{8} * kPitch);
  const Swizzle swizzle{SwizzleSpan::k128B, SwizzleAtom::k32B};
  Bytes shared(8192);
  for (uint32_t box = 0; box < 2; ++box) {
    copy_box(matrix, kPitch, static_cast<int32_t>(box * 128), 0, 128, 8, swizzle, shared,
             box * 1024);
  }
  MatrixDescriptor d;
  d.tensor_core = TensorCore::kTcgen05;
  d.leading_byte_offset = 1024;
  d.stride_byte_offset = 512;
  d.swizzle = swizzle;
  const OperandLayout layout(d, MajorDimension::kMn, 4);
  Bytes got(size_t{64} * 8 * 4);
  layout.gather(shared, 64, 8, got);
  for (uint32_t mn = 0; mn < 64; ++mn) {
    for (uint32_t k = 0; k < 8; ++k) {
      ASSERT_EQ(std::memcmp(&got[(size_t{mn} * 8 + k) * 4],
                            &matrix[size_t{k} * kPitch + size_t{mn} * 4], 4),
                0);
    }
  }
}

TEST(OperandLayout, RejectsElementsThatTheTensorCoreHasNot) {
  const auto rejects = [](const MatrixDescriptor& d, MajorDimension major, uint32_t size,
                          const char* part) {
    expect_error<MatrixDescriptorError>([&] { OperandLayout(d, major, size); }, part);
  };
  MatrixDescriptor d;
  rejects(d, MajorDimension::kK, 8, "elements of 8 bytes: must be 1, 2 or 4");
  rejects(d, MajorDimension::kMn, 1, "MN-major elements of 1 bytes: must be 2");
  rejects(d, MajorDimension::kMn, 4, "MN-major elements of 4 bytes: must be 2");
  d.tensor_core = TensorCore::kTcgen05;
  EXPECT_NO_THROW(OperandLayout(d, MajorDimension::kMn, 1));
  rejects(d, MajorDimension::kMn, 4, "MN-major elements of 4 bytes: must be 1 or 2");
  d.swizzle = {SwizzleSpan::k128B, SwizzleAtom::k32B};
  rejects(d, MajorDimension::kMn, 2, "MN-major elements of 2 bytes: must be 4 with 32B atoms");
  rejects(d, MajorDimension::kK, 4, "swizzling mode = 128B with 32B atoms: must be MN-major");
}

TEST(OperandLayout, RejectsOperandsThatLeaveSharedMemory) {
  MatrixDescriptor d;
  d.start_address = 1024;
  d.leading_byte_offset = 16;
  d.stride_byte_offset = 1024;
  d.swizzle.span = SwizzleSpan::k128B;
  const OperandLayout layout(d, MajorDimension::kK, 2);
  Bytes out(size_t{64} * 32);
  const Bytes enough(9216);
  EXPECT_NO_THROW(layout.gather(enough, 64, 16, out));
  expect_error<MatrixDescriptorError>(
      [&] { layout.gather(std::span(enough).first(9000), 64, 16, out); },
      "start address = 1024, LBO = 16, SBO = 1024: the operand reaches byte 90");
  expect_error<MatrixDescriptorError>([&] { layout.gather(enough, 64, 8, out); },
                                      "gather of 64 x 8 elements to 2048 bytes");
  expect_error<MatrixDescriptorError>(
      [&] { layout.gather(enough, 64, 4, std::span(out).first(512)); },
      "operand of 8 contiguous bytes: must be a multiple of 16");
}

}  // namespace
}  // namespace mpfa::sim
