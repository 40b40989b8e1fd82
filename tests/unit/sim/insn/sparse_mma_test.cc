// mma.sp against a dense product in exact arithmetic.
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
using testing::Words;

constexpr int kRows = 16;
constexpr int kColumns = 8;

// An instruction, and how its metadata lies (PTX ISA, figures "Sparse MMA metadata layout").
struct Case {
  std::string type;
  std::string accumulator;
  int k;
  int bits;   // of an element
  int chunk;  // elements that 4 bits of metadata describe
  int selector;
  const char* variant;
};

// Where 4 bits of metadata are: of row `row`, chunk `c`.
struct MetadataPlace {
  int lane;
  int bit;
};

MetadataPlace metadata_place(const Case& test, int row, int c) {
  const int group = row % 8;
  const bool lower = row >= 8;
  const int row_bits = 4 * (test.k / test.chunk);
  if (row_bits == 16) return {4 * group + test.selector, 4 * c + (lower ? 16 : 0)};
  if (row_bits == 32 && test.bits >= 16) {
    return {4 * group + 2 * test.selector + c / 4, 4 * (c % 4) + (lower ? 16 : 0)};
  }
  if (row_bits == 32) return {4 * group + 2 * test.selector + (lower ? 1 : 0), 4 * c};
  return {4 * group + (lower ? 1 : 0) + 2 * (c / 8), 4 * (c % 8)};
}

double value_of(const Case& test, uint32_t code) {
  if (test.type == "f16") return fp16_to_float({static_cast<uint16_t>(code)});
  if (test.type == "bf16") return std::bit_cast<float>(code << 16);
  if (test.type == "tf32") return std::bit_cast<float>(code);
  if (test.type == "s8") return static_cast<int8_t>(code);
  if (test.type == "s4") return static_cast<int8_t>(code << 4) / 16;
  return code;  // u8, u4
}

uint32_t code_of(const Case& test, int value) {
  const auto exact = static_cast<float>(value);
  if (test.type == "f16") return fp16_from_float(exact).bits;
  if (test.type == "bf16") return std::bit_cast<uint32_t>(exact) >> 16;
  if (test.type == "tf32") return std::bit_cast<uint32_t>(exact);
  return static_cast<uint32_t>(value) & ((1u << test.bits) - 1);
}

// The words of the inputs, lane by lane, and the matrices that they stand for.
class SparseProduct {
 public:
  explicit SparseProduct(const Case& test)
      : test_(test),
        per_word_(32 / test.bits),
        a_words_(kRows * test.k / 2 / per_word_ / 32),
        b_words_(kColumns * test.k / per_word_ / 32),
        kernel_(mma_kernel("test",
                           std::string(test.variant) + ".sync.aligned.m16n8k" +
                               std::to_string(test.k) + ".row.col",
                           {test.accumulator, test.type, test.type, test.accumulator},
                           {a_words_, b_words_}, Words::kMetadata, test.selector)) {
    in_.resize(kernel_.in_words);
  }

  void randomize() {
    const auto small = [&] { return static_cast<int>(random_() % 5) - (is_unsigned() ? 0 : 2); };
    a_.assign(kRows, std::vector<double>(static_cast<size_t>(test_.k)));
    b_.assign(kColumns, std::vector<double>(static_cast<size_t>(test_.k)));
    for (int column = 0; column < kColumns; ++column) {
      for (int k = 0; k < test_.k; ++k) set_b(column, k, code_of(test_, small()));
    }
    for (int row = 0; row < kRows; ++row) {
      for (int c = 0; c < test_.k / test_.chunk; ++c) fill_chunk(row, c, small);
    }
    for (int i = 0; i < kRows * kColumns; ++i) c_.push_back(small());
    for (int i = 0; i < kRows * kColumns; ++i) set_c(i);
  }

  void set_metadata(int row, int c, uint32_t nibble) {
    const MetadataPlace at = metadata_place(test_, row, c);
    uint32_t& word = in_[metadata_word(at.lane)];
    word = (word & ~(0xFu << at.bit)) | nibble << at.bit;
  }
  // An element that no row may select must not matter, whatever it is.
  void set_b(int column, int k, uint32_t code) {
    // Element e of register r of a lane: column lane / 4, k = 4 P r + P (lane % 4) + e.
    const int r = k / (4 * per_word_);
    const int lane = 4 * column + k / per_word_ % 4;
    set_element(static_cast<size_t>(32 * (a_words_ + r) + lane), k % per_word_, code);
    b_[static_cast<size_t>(column)][static_cast<size_t>(k)] = value_of(test_, code);
  }

  std::vector<uint32_t> run() { return testing::run_case(kernel_, in_); }

  void expect_exact() {
    const std::vector<uint32_t> out = run();
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        double want = c_[static_cast<size_t>(row * kColumns + column)];
        for (size_t k = 0; k < static_cast<size_t>(test_.k); ++k) {
          const double a = a_[static_cast<size_t>(row)][k];
          if (a != 0) want += a * b_[static_cast<size_t>(column)][k];
        }
        ASSERT_EQ(result(out, row, column), want) << "row " << row << ", column " << column;
      }
    }
  }

 private:
  bool is_unsigned() const { return test_.type[0] == 'u'; }
  size_t metadata_word(int lane) const { return in_.size() - 32 + static_cast<size_t>(lane); }

  void set_element(size_t word, int element, uint32_t code) {
    if (test_.bits == 32) {
      in_[word] = code;
      return;
    }
    const int shift = test_.bits * element;
    in_[word] = (in_[word] & ~(((1u << test_.bits) - 1) << shift)) | code << shift;
  }

  // Half of a chunk of A, and where it stands. 4-bit elements come in pairs; of tf32 one stands for
  // the two halves of its metadata.
  template <class Small>
  void fill_chunk(int row, int c, Small small) {
    static constexpr std::array<uint32_t, 6> kPlaces = {0x4, 0x8, 0x9, 0xC, 0xD, 0xE};
    const bool tf32 = test_.type == "tf32";
    const uint32_t nibble = tf32 ? (random_() % 2 != 0 ? 0xEu : 0x4u) : kPlaces[random_() % 6];
    set_metadata(row, c, nibble);
    const int stored = test_.chunk / 2;
    for (int i = 0; i < stored; ++i) {
      const int half = tf32 ? 0 : i / (stored / 2);
      const auto place = static_cast<int>(nibble >> (2 * half) & 3u);
      const int in_chunk = tf32 ? place / 2 : place * (test_.chunk / 4) + i % (test_.chunk / 4);
      const uint32_t code = code_of(test_, small());
      set_a(row, c * stored + i, code);
      a_[static_cast<size_t>(row)][static_cast<size_t>(c * test_.chunk + in_chunk)] =
          value_of(test_, code);
    }
  }

  // Stored element `s` of a row: register 2 * (s / 4 P) + row / 8.
  void set_a(int row, int s, uint32_t code) {
    const int r = 2 * (s / (4 * per_word_)) + row / 8;
    const int lane = 4 * (row % 8) + s / per_word_ % 4;
    set_element(static_cast<size_t>(32 * r + lane), s % per_word_, code);
  }

  // c0, c1: row g, columns 2 t and 2 t + 1; c2, c3: row g + 8. Two f16 to a register.
  struct Accumulator {
    int index;
    int lane;
  };
  static Accumulator accumulator(int row, int column) {
    return {column % 2 + 2 * (row / 8), 4 * (row % 8) + column / 2};
  }
  void set_c(int i) {
    const Accumulator at = accumulator(i / kColumns, i % kColumns);
    const auto base = static_cast<size_t>(32 * (a_words_ + b_words_));
    const double value = c_[static_cast<size_t>(i)];
    const auto lane = static_cast<size_t>(at.lane);
    if (test_.accumulator == "f16") {
      const uint32_t half = fp16_from_float(static_cast<float>(value)).bits;
      in_[base + 32 * static_cast<size_t>(at.index / 2) + lane] |= half << 16 * (at.index % 2);
    } else if (test_.accumulator == "f32") {
      in_[base + 32 * static_cast<size_t>(at.index) + lane] =
          std::bit_cast<uint32_t>(static_cast<float>(value));
    } else {
      in_[base + 32 * static_cast<size_t>(at.index) + lane] =
          static_cast<uint32_t>(static_cast<int32_t>(value));
    }
  }
  double result(const std::vector<uint32_t>& out, int row, int column) const {
    const Accumulator at = accumulator(row, column);
    const auto lane = static_cast<size_t>(at.lane);
    if (test_.accumulator == "f16") {
      const uint32_t word = out[32 * static_cast<size_t>(at.index / 2) + lane];
      return fp16_to_float({static_cast<uint16_t>(word >> 16 * (at.index % 2))});
    }
    const uint32_t word = out[32 * static_cast<size_t>(at.index) + lane];
    return test_.accumulator == "f32" ? std::bit_cast<float>(word) : static_cast<int32_t>(word);
  }

  Case test_;
  int per_word_;
  int a_words_;
  int b_words_;
  MatrixKernel kernel_;
  std::vector<uint32_t> in_;
  std::vector<std::vector<double>> a_;  // dense
  std::vector<std::vector<double>> b_;  // [column][k]
  std::vector<double> c_;
  std::mt19937 random_{7};
};

const char* const kOrdered = "sp::ordered_metadata";

TEST(SparseMma, EveryShapeTypeAndSelector) {
  std::vector<Case> cases;
  const auto add = [&](const char* type, const char* accumulator, int k, int bits, int chunk,
                       int selectors) {
    for (int s = 0; s < selectors; ++s) {
      cases.push_back({type, accumulator, k, bits, chunk, s, s % 2 == 0 ? kOrdered : "sp"});
    }
  };
  add("f16", "f32", 16, 16, 4, 4);
  add("f16", "f16", 16, 16, 4, 4);
  add("f16", "f32", 32, 16, 4, 2);
  add("f16", "f16", 32, 16, 4, 2);
  add("bf16", "f32", 16, 16, 4, 4);
  add("bf16", "f32", 32, 16, 4, 2);
  add("tf32", "f32", 8, 32, 2, 4);
  add("tf32", "f32", 16, 32, 2, 2);
  for (const char* type : {"s8", "u8"}) {
    add(type, "s32", 32, 8, 4, 2);
    add(type, "s32", 64, 8, 4, 1);
  }
  for (const char* type : {"s4", "u4"}) {
    add(type, "s32", 64, 4, 8, 2);
    add(type, "s32", 128, 4, 8, 1);
  }
  for (const Case& each : cases) {
    SCOPED_TRACE(each.type + " k" + std::to_string(each.k) + ", selector " +
                 std::to_string(each.selector) + " into " + each.accumulator);
    SparseProduct product(each);
    product.randomize();
    product.expect_exact();
  }
}

// A zero that is not stored is no factor: infinity times it would be NaN.
TEST(SparseMma, WhatNoRowSelectsDoesNotMatter) {
  const Case test = {"f16", "f32", 32, 16, 4, 0, kOrdered};
  SparseProduct product(test);
  product.randomize();
  constexpr int kChunk = 3;
  for (int row = 0; row < kRows; ++row) product.set_metadata(row, kChunk, 0x4);
  const std::vector<uint32_t> before = product.run();
  for (int column = 0; column < kColumns; ++column) {
    product.set_b(column, 4 * kChunk + 2, 0x7C00);
    product.set_b(column, 4 * kChunk + 3, 0x7E00);
  }
  EXPECT_EQ(product.run(), before);
}

TEST(SparseMma, UndefinedMetadataIsReported) {
  for (const uint32_t nibble : {0x0u, 0x5u, 0xAu, 0xFu}) {
    SparseProduct product({"f16", "f32", 16, 16, 4, 2, kOrdered});
    product.randomize();
    product.set_metadata(9, 1, nibble);
    expect_fault(FaultKind::kCheck, "metadata of row 9, elements 4 to 7", [&] { product.run(); });
  }
  SparseProduct product({"tf32", "f32", 8, 32, 2, 0, kOrdered});
  product.randomize();
  product.set_metadata(0, 3, 0x9);
  expect_fault(FaultKind::kCheck, "metadata of row 0, elements 6 to 7", [&] { product.run(); });
}

TEST(SparseMma, WrongSelectorsAndShapesAreRefused) {
  const auto decode = [](const std::string& instruction, const testing::MmaTypes& types,
                         const testing::MmaRegisters& registers, int selector) {
    const MatrixKernel kernel =
        mma_kernel("test", instruction, types, registers, Words::kMetadata, selector);
    testing::run_case(kernel, std::vector<uint32_t>(kernel.in_words, 0x44444444));
  };
  const testing::MmaTypes f16 = {"f32", "f16", "f16", "f32"};
  const testing::MmaTypes s8 = {"s32", "s8", "s8", "s32"};
  expect_fault(FaultKind::kIllegalInstruction, "selector is 2; must be in 0 to 1", [&] {
    decode("sp.sync.aligned.m16n8k32.row.col", f16, {4, 4}, 2);
  });
  expect_fault(FaultKind::kIllegalInstruction, "selector is 1; must be in 0 to 0", [&] {
    decode("sp.sync.aligned.m16n8k64.row.col", s8, {4, 4}, 1);
  });
  expect_fault(FaultKind::kIllegalInstruction, "no m16n8k64 of f16 with a sparse A", [&] {
    decode("sp.sync.aligned.m16n8k64.row.col", f16, {4, 4}, 0);
  });
}

}  // namespace
}  // namespace mpfa::sim
