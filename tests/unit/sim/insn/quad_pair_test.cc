// mma.sync.m8n8k4 of f16 against exact products, its fragments by the ISA's formulas.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "mpfa/formats.h"
#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/insn/matrix_kernel.h"

namespace mpfa::sim {
namespace {

using testing::MatrixKernel;
using testing::mma_kernel;
using testing::run_case;

constexpr int kSize = 8;
constexpr int kDepth = 4;
constexpr int kPairs = 4;

struct Place {
  int row;
  int column;
};

int upper(int lane) { return lane < 16 ? 0 : 4; }
// MMA computation 1 to 4: threads 0-3 and 16-19, 4-7 and 20-23, and so on.
int pair_of(int lane) { return lane % 16 / 4; }

// PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type".
Place a_place(bool row_major, int lane, int i) {
  if (row_major) return {lane % 4 + upper(lane), i};
  return {i % 4 + upper(lane), lane % 4};
}
Place b_place(bool row_major, int lane, int i) {
  if (row_major) return {lane % 4, i + upper(lane)};
  return {i, lane % 4 + upper(lane)};
}
Place c_place(bool is_half, int lane, int i) {
  if (is_half) return {lane % 4 + upper(lane), i};
  return {(lane & 1) + (i & 2) + upper(lane), (i & 4) + (lane & 2) + (i & 1)};
}

struct Case {
  std::string a;
  std::string b;
  std::string d;
  std::string c;
};

template <int kRows, int kColumns>
using Matrices = std::array<std::array<std::array<float, kColumns>, kRows>, kPairs>;

template <class Matrix>
float& at(Matrix& matrices, int lane, Place place) {
  return matrices[static_cast<size_t>(pair_of(lane))][static_cast<size_t>(place.row)]
                 [static_cast<size_t>(place.column)];
}

void put_half(std::vector<uint32_t>& words, size_t base, int lane, int i, float value) {
  words[base + static_cast<size_t>(32 * (i / 2) + lane)] |= uint32_t{fp16_from_float(value).bits}
                                                            << 16 * (i % 2);
}

void expect_exact(const Case& test) {
  const MatrixKernel kernel = mma_kernel("test", "sync.aligned.m8n8k4." + test.a + "." + test.b,
                                         {test.d, "f16", "f16", test.c}, {2, 2, 8});
  std::mt19937 random(11);
  const auto small = [&] { return static_cast<float>(static_cast<int>(random() % 9) - 4); };
  std::vector<uint32_t> in(kernel.in_words);
  Matrices<kSize, kDepth> a;
  Matrices<kDepth, kSize> b;
  Matrices<kSize, kSize> c;
  const bool half_c = test.c == "f16";
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < kDepth; ++i) {
      put_half(in, 0, lane, i, at(a, lane, a_place(test.a == "row", lane, i)) = small());
      put_half(in, 64, lane, i, at(b, lane, b_place(test.b == "row", lane, i)) = small());
    }
    for (int i = 0; i < kSize; ++i) {
      const float value = at(c, lane, c_place(half_c, lane, i)) = small();
      if (half_c) {
        put_half(in, 128, lane, i, value);
      } else {
        in[static_cast<size_t>(128 + 32 * i + lane)] = std::bit_cast<uint32_t>(value);
      }
    }
  }
  const std::vector<uint32_t> out = run_case(kernel, in);
  const bool half_d = test.d == "f16";
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < kSize; ++i) {
      const Place place = c_place(half_d, lane, i);
      float want = at(c, lane, place);
      for (int k = 0; k < kDepth; ++k) {
        want += at(a, lane, {place.row, k}) * at(b, lane, {k, place.column});
      }
      const uint32_t word = out[static_cast<size_t>(32 * (half_d ? i / 2 : i) + lane)];
      const float got = half_d ? fp16_to_float({static_cast<uint16_t>(word >> 16 * (i % 2))})
                               : std::bit_cast<float>(word);
      ASSERT_EQ(got, want) << "lane " << lane << ", element " << i;
    }
  }
}

TEST(QuadPair, EveryLayoutAndType) {
  for (const std::string a : {"row", "col"}) {
    for (const std::string b : {"row", "col"}) {
      SCOPED_TRACE(a + ", " + b);
      expect_exact({a, b, "f16", "f16"});
      expect_exact({a, b, "f32", "f32"});
      expect_exact({a, b, "f32", "f16"});
    }
  }
}

TEST(QuadPair, F16IsNoResultOfF32) {
  const MatrixKernel kernel =
      mma_kernel("test", "sync.aligned.m8n8k4.row.col", {"f16", "f16", "f16", "f32"}, {2, 2, 8});
  expect_fault(FaultKind::kIllegalInstruction, "D must be f32 where C is f32",
               [&] { run_case(kernel, std::vector<uint32_t>(kernel.in_words)); });
}

// No other shape mixes the types of C and D.
TEST(Mma, TypesOfCAndDAreTheSame) {
  const MatrixKernel kernel =
      mma_kernel("test", "sync.aligned.m16n8k16.row.col", {"f32", "f16", "f16", "f16"}, {4, 2, 4});
  expect_fault(FaultKind::kIllegalInstruction, "C and D must have the same type",
               [&] { run_case(kernel, std::vector<uint32_t>(kernel.in_words)); });
}

TEST(Mma, ShapesThatDoNotExistAreRefused) {
  const MatrixKernel kernel =
      mma_kernel("test", "sync.aligned.m16n8k32.row.col", {"f32", "f16", "f16", "f32"}, {8, 4, 4});
  expect_fault(FaultKind::kIllegalInstruction, "there is no m16n8k32 of f16",
               [&] { run_case(kernel, std::vector<uint32_t>(kernel.in_words)); });
}

}  // namespace
}  // namespace mpfa::sim
