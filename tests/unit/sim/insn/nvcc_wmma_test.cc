// nvcuda::wmma and wgmma as nvcc 13 compiles them, run on the simulator.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "mpfa/formats.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::PtxProgram;

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class T>
T from_int(int value) {
  if constexpr (std::is_same_v<T, Fp16>) {
    return fp16_from_float(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return {static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16)};
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
std::vector<T> converted(const std::vector<int>& values) {
  std::vector<T> result;
  for (const int value : values) result.push_back(from_int<T>(value));
  return result;
}

std::vector<int> small_numbers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> values(count);
  for (int& value : values) value = static_cast<int>(random() % 7) - 3;
  return values;
}

class NvccWmma : public ::testing::Test {
 protected:
  NvccWmma() : program_(text_of(MPFA_WMMA_PTX)) {}

  // D = A * B + 2 C: A by rows, B and C by columns, D by rows.
  template <class T, class C, class D = C>
  void expect_product(const std::string& kernel, int m, int n, int k) {
    SCOPED_TRACE(kernel);
    const std::vector<int> a = small_numbers(static_cast<size_t>(m * k), 1);
    const std::vector<int> b = small_numbers(static_cast<size_t>(k * n), 2);
    const std::vector<int> c = small_numbers(static_cast<size_t>(m * n), 3);
    const uint64_t to = program_.upload(std::vector<D>(c.size()));
    program_.run(kernel, {}, program_.upload(converted<T>(a)), program_.upload(converted<T>(b)),
                 program_.upload(converted<C>(c)), to);
    const std::vector<D> d = program_.download<D>(to, c.size());
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        int want = 2 * c[static_cast<size_t>(column * m + row)];
        for (int i = 0; i < k; ++i) {
          want += a[static_cast<size_t>(row * k + i)] * b[static_cast<size_t>(column * k + i)];
        }
        ASSERT_TRUE(d[static_cast<size_t>(row * n + column)] == from_int<D>(want))
            << row << ", " << column;
      }
    }
  }

  PtxProgram program_;
};

TEST_F(NvccWmma, ProductsOfEveryType) {
  expect_product<Fp16, float>("half_16_16", 16, 16, 16);
  expect_product<Fp16, Fp16>("half_8_32", 8, 32, 16);
  expect_product<Bf16, float>("bf16_32_8", 32, 8, 16);
  expect_product<int8_t, int>("s8_16_16", 16, 16, 16);
  expect_product<double, double>("f64_8_8", 8, 8, 4);
  expect_product<float, float>("tf32_16_16", 16, 16, 8);
  expect_product<Fp16, Fp16, float>("converted", 16, 16, 16);
}

TEST_F(NvccWmma, Bits) {
  std::mt19937 random(5);
  std::vector<uint32_t> a(32);
  std::vector<uint32_t> b(32);
  for (uint32_t& word : a) word = random();
  for (uint32_t& word : b) word = random();
  const std::vector<int> c = small_numbers(64, 6);
  const uint64_t to = program_.upload(std::vector<int>(64));
  program_.run("xor_8_8", {}, program_.upload(a), program_.upload(b), program_.upload(c), to);
  const std::vector<int> d = program_.download<int>(to, 64);
  for (size_t row = 0; row < 8; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      int want = c[8 * row + column];
      for (size_t i = 0; i < 4; ++i) want += std::popcount(a[4 * row + i] ^ b[4 * column + i]);
      ASSERT_EQ(d[8 * row + column], want);
    }
  }
}

// What is 2 A B^T B2^T: B in core matrices of 8 rows and 8 elements of k, B2 its first 8 rows.
TEST_F(NvccWmma, ChainedWgmmaPassesTheChecks) {
  constexpr int kRows = 64;
  constexpr int kDepth = 16;
  constexpr int kRepeats = 3;
  const std::vector<int> a = small_numbers(kRows * kDepth, 7);
  const std::vector<int> b = small_numbers(kDepth * kDepth, 8);
  // Element k of a row: core matrices of 8 x 8 follow each other along k, 2 to 8 rows.
  const auto at = [](int row, int k) {
    return static_cast<size_t>(row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8);
  };
  const uint64_t to = program_.upload(std::vector<float>(kRows * 8));
  PtxProgram::Shape shape;
  shape.block = {128, 1, 1};
  program_.run("chained", shape, program_.upload(converted<Fp16>(a)),
               program_.upload(converted<Fp16>(b)), to, kRepeats);
  const std::vector<float> d = program_.download<float>(to, kRows * 8);
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < 8; ++column) {
      int want = 0;
      for (int i = 0; i < kDepth; ++i) {
        int s = 0;
        for (int k = 0; k < kDepth; ++k) s += a[at(row, k)] * b[at(i, k)];
        want += 2 * kRepeats * s * b[at(column, i)];
      }
      ASSERT_EQ(d[static_cast<size_t>(row * 8 + column)], static_cast<float>(want));
    }
  }
}

}  // namespace
}  // namespace mpfa::sim
