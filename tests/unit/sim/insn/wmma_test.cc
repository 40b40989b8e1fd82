// wmma.load, wmma.mma and wmma.store against exact products.
#include <gtest/gtest.h>

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

using testing::braces;
using testing::MatrixKernel;
using testing::run_case;
using testing::Words;

// How the matrices are reached.
struct Space {
  const char* name;  // of wmma.load's and wmma.store's state space
  bool is_shared;    // the kernel works on a copy in shared memory
  bool is_generic;
};

constexpr Space kGlobal = {".global", false, false};
constexpr Space kGeneric = {"", false, true};
constexpr Space kShared = {".shared", true, false};
constexpr Space kSharedCta = {".shared::cta", true, false};
constexpr Space kGenericShared = {"", true, true};

struct Product {
  int m;
  int n;
  int k;
  std::string type;
  std::string accumulator;
  int bits;
  int a_registers;
  int b_registers;
  bool a_by_rows = true;
  bool b_by_rows = false;
  bool c_by_rows = true;
  bool d_by_rows = true;
  Space space = kGlobal;
  int padding = 0;  // elements behind each row or column of A and B; 0: the stride is left out
};

std::string layout(bool by_rows) { return by_rows ? "row" : "col"; }

uint32_t code_of(const Product& p, int value) {
  if (p.type == "f16") return fp16_from_float(static_cast<float>(value)).bits;
  if (p.type == "bf16") return std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
  if (p.type == "tf32") return std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint32_t>(value) & ((1u << p.bits) - 1);
}

// A matrix of small integers in memory.
struct Stored {
  int rows;
  int columns;
  bool by_rows;
  int stride;
  int bits;

  Stored(int row_count, int column_count, bool rows_first, int padding, int element_bits)
      : rows(row_count),
        columns(column_count),
        by_rows(rows_first),
        stride((rows_first ? column_count : row_count) + padding),
        bits(element_bits) {}

  uint32_t words() const {
    return static_cast<uint32_t>((by_rows ? rows : columns) * stride * bits / 32);
  }
  int element(int row, int column) const {
    return by_rows ? row * stride + column : column * stride + row;
  }
  void put(uint32_t* to, int row, int column, uint32_t code) const {
    const int bit = element(row, column) * bits;
    to[bit / 32] |= code << bit % 32;
  }
  uint32_t get(const uint32_t* from, int row, int column) const {
    const int bit = element(row, column) * bits;
    const uint32_t word = from[bit / 32] >> bit % 32;
    return bits == 32 ? word : word & ((1u << bits) - 1);
  }
};

// A product's kernel, its inputs, and what must come out.
class ProductTest {
 public:
  explicit ProductTest(const Product& product)
      : p_(product),
        a_(p_.m, p_.k, p_.a_by_rows, p_.padding, p_.bits),
        b_(p_.k, p_.n, p_.b_by_rows, p_.padding, p_.bits),
        c_(p_.m, p_.n, p_.c_by_rows, 0, accumulator_bits()),
        d_(p_.m, p_.n, p_.d_by_rows, 0, accumulator_bits()) {
    a_at_ = kernel_.memory(Words::kBits, a_.words());
    b_at_ = kernel_.memory(Words::kBits, b_.words());
    c_at_ = kernel_.memory(Words::kBits, c_.words());
    begin();
    multiply();
    finish();
  }

  void expect_exact() {
    fill();
    const std::vector<uint32_t> out = run_case(kernel_, in_);
    for (int row = 0; row < p_.m; ++row) {
      for (int column = 0; column < p_.n; ++column) {
        const uint32_t got = d_.get(out.data(), row, column);
        ASSERT_EQ(got, accumulator_code(product(row, column))) << row << ", " << column;
      }
    }
  }

 private:
  int accumulator_bits() const { return p_.accumulator == "f16" ? 16 : 32; }
  std::string shape() const {
    return "m" + std::to_string(p_.m) + "n" + std::to_string(p_.n) + "k" + std::to_string(p_.k);
  }

  void begin() {
    kernel_.declarations += "  .reg .b32 %tile, %lane_tile, %word;\n  .reg .b64 %generic;\n";
    kernel_.body +=
        "  mov.u32 %tile, tile;\n  mad.lo.u32 %lane_tile, %thread, 4, %tile;\n"
        "  cvt.u64.u32 %generic, %tile;\n  cvta.shared.u64 %generic, %generic;\n";
    if (p_.space.is_shared) copy_words(true, kernel_.in_words);
  }

  void multiply() {
    const std::string type = p_.accumulator == "f32" ? "f32" : "b32";
    const int count = p_.m * p_.n / 32 / (p_.accumulator == "f16" ? 2 : 1);
    const auto a = kernel_.declare("a", "b32", p_.a_registers);
    const auto b = kernel_.declare("b", "b32", p_.b_registers);
    const auto c = kernel_.declare("c", type, count);
    const auto d = kernel_.declare("d", type, count);
    load("a", p_.type, a_, a, a_at_, p_.padding != 0);
    load("b", p_.type, b_, b, b_at_, p_.padding != 0);
    load("c", p_.accumulator, c_, c, c_at_, false);
    const std::string operands = p_.type == "f16" ? "" : "." + p_.type + "." + p_.type;
    kernel_.body += "  wmma.mma.sync.aligned." + layout(p_.a_by_rows) + "." + layout(p_.b_by_rows) +
                    "." + shape() + "." + p_.accumulator + operands + "." + p_.accumulator + " " +
                    braces(d) + ", " + braces(a) + ", " + braces(b) + ", " + braces(c) +
                    ";\n  bar.warp.sync -1;\n";
    kernel_.body += "  wmma.store.d.sync.aligned." + layout(p_.d_by_rows) + "." + shape() +
                    p_.space.name + "." + p_.accumulator + " " + address("%out", 0) + ", " +
                    braces(d) + ";\n";
  }

  void finish() {
    kernel_.out_words = d_.words();
    if (!p_.space.is_shared) return;
    kernel_.body += "  bar.warp.sync -1;\n";
    copy_words(false, kernel_.out_words);
  }

  void load(const std::string& which, const std::string& type, const Stored& stored,
            const std::vector<std::string>& registers, uint32_t at, bool says_stride) {
    kernel_.body += "  wmma.load." + which + ".sync.aligned." + layout(stored.by_rows) + "." +
                    shape() + p_.space.name + "." + type + " " + braces(registers) + ", " +
                    address("%in", at) + (says_stride ? ", " + std::to_string(stored.stride) : "") +
                    ";\n";
  }

  // In the space that the product says.
  std::string address(const std::string& base, uint32_t offset) const {
    const std::string shared = p_.space.is_generic ? "%generic" : "%tile";
    return "[" + (p_.space.is_shared ? shared : base) + " + " + std::to_string(offset) + "]";
  }

  // Input words to shared memory, or results from there.
  void copy_words(bool to_shared, uint32_t words) {
    for (uint32_t first = 0; first < words; first += 32) {
      const std::string at = std::to_string(4 * first);
      kernel_.body += to_shared ? "  ld.global.b32 %word, [%lane_in + " + at +
                                      "];\n  st.shared.b32 [%lane_tile + " + at + "], %word;\n"
                                : "  ld.shared.b32 %word, [%lane_tile + " + at +
                                      "];\n  st.global.b32 [%lane_out + " + at + "], %word;\n";
    }
    kernel_.body += "  bar.warp.sync -1;\n";
  }

  // Small integers.
  void fill() {
    std::mt19937 random(3);
    const bool is_unsigned = p_.type[0] == 'u';
    in_.assign(kernel_.in_words, 0);
    const auto fill_one = [&](const Stored& stored, uint32_t at, std::vector<int>& values,
                              auto code) {
      for (int i = 0; i < stored.rows * stored.columns; ++i) {
        values.push_back(static_cast<int>(random() % 7) - (is_unsigned ? 0 : 3));
        stored.put(in_.data() + at / 4, i / stored.columns, i % stored.columns,
                   code(values.back()));
      }
    };
    fill_one(a_, a_at_, a_values_, [&](int value) { return code_of(p_, value); });
    fill_one(b_, b_at_, b_values_, [&](int value) { return code_of(p_, value); });
    fill_one(c_, c_at_, c_values_, [&](int value) { return accumulator_code(value); });
  }

  uint32_t accumulator_code(int value) const {
    if (p_.accumulator == "s32") return static_cast<uint32_t>(value);
    if (p_.accumulator == "f16") return fp16_from_float(static_cast<float>(value)).bits;
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }

  int product(int row, int column) const {
    int sum = c_values_[static_cast<size_t>(row * p_.n + column)];
    for (int i = 0; i < p_.k; ++i) {
      sum += a_values_[static_cast<size_t>(row * p_.k + i)] *
             b_values_[static_cast<size_t>(i * p_.n + column)];
    }
    return sum;
  }

  Product p_;
  Stored a_;
  Stored b_;
  Stored c_;
  Stored d_;
  uint32_t a_at_ = 0;
  uint32_t b_at_ = 0;
  uint32_t c_at_ = 0;
  MatrixKernel kernel_{"test"};
  std::vector<uint32_t> in_;
  std::vector<int> a_values_;
  std::vector<int> b_values_;
  std::vector<int> c_values_;
};

void expect_exact(const Product& product) { ProductTest(product).expect_exact(); }

std::vector<Product> products() {
  return {
      {16, 16, 16, "f16", "f32", 16, 8, 8},  {8, 32, 16, "f16", "f32", 16, 8, 8},
      {32, 8, 16, "f16", "f32", 16, 8, 8},   {16, 16, 16, "f16", "f16", 16, 8, 8},
      {8, 32, 16, "f16", "f16", 16, 8, 8},   {32, 8, 16, "f16", "f16", 16, 8, 8},
      {16, 16, 16, "bf16", "f32", 16, 4, 4}, {8, 32, 16, "bf16", "f32", 16, 2, 8},
      {32, 8, 16, "bf16", "f32", 16, 8, 2},  {16, 16, 16, "s8", "s32", 8, 2, 2},
      {8, 32, 16, "s8", "s32", 8, 1, 4},     {32, 8, 16, "s8", "s32", 8, 4, 1},
      {16, 16, 16, "u8", "s32", 8, 2, 2},    {8, 32, 16, "u8", "s32", 8, 1, 4},
      {32, 8, 16, "u8", "s32", 8, 4, 1},     {16, 16, 8, "tf32", "f32", 32, 4, 4},
      {8, 8, 32, "s4", "s32", 4, 1, 1},      {8, 8, 32, "u4", "s32", 4, 1, 1},
  };
}

std::string name_of(const Product& p) {
  return "m" + std::to_string(p.m) + "n" + std::to_string(p.n) + " " + p.type + " into " +
         p.accumulator;
}

TEST(Wmma, EveryShapeTypeAndLayout) {
  for (const Product& each : products()) {
    SCOPED_TRACE(name_of(each));
    expect_exact(each);
    Product other = each;
    // Types of less than 8 bits have one layout.
    other.a_by_rows = each.bits < 8;
    other.b_by_rows = each.bits >= 8;
    other.c_by_rows = false;
    other.d_by_rows = false;
    other.padding = each.bits < 8 ? 32 : 128 / each.bits;
    expect_exact(other);
  }
}

TEST(Wmma, EverySpace) {
  for (const Space& space : {kGlobal, kGeneric, kShared, kSharedCta, kGenericShared}) {
    SCOPED_TRACE(std::string(space.name) + (space.is_shared ? " in shared memory" : ""));
    Product product = {16, 16, 16, "f16", "f32", 16, 8, 8};
    product.space = space;
    expect_exact(product);
    product.padding = 8;
    product.d_by_rows = false;
    expect_exact(product);
  }
}

// fragment.x[i] of f16 and of f32 accumulators is the same element of the matrix.
TEST(Wmma, AccumulatorsOfBothTypesHaveOneLayout) {
  for (const std::string shape : {"m16n16k16", "m8n32k16", "m32n8k16"}) {
    MatrixKernel k("test");
    k.memory(Words::kBits, 128);
    k.memory(Words::kBits, 256);
    const auto halves = k.declare("h", "b32", 4);
    const auto floats = k.declare("f", "f32", 8);
    k.body += "  wmma.load.c.sync.aligned.row." + shape + ".global.f16 " + braces(halves) +
              ", [%in];\n  wmma.load.c.sync.aligned.row." + shape + ".global.f32 " +
              braces(floats) + ", [%in + 512];\n";
    k.store(halves);
    k.store(floats);
    std::vector<uint32_t> in(k.in_words);
    for (uint32_t i = 0; i < 256; ++i) {
      const auto value = static_cast<float>(i);
      in[i / 2] |= uint32_t{fp16_from_float(value).bits} << 16 * (i % 2);
      in[128 + i] = std::bit_cast<uint32_t>(value);
    }
    const std::vector<uint32_t> out = run_case(k, in);
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t i = 0; i < 8; ++i) {
        const uint32_t word = out[32 * (i / 2) + lane];
        const float half = fp16_to_float({static_cast<uint16_t>(word >> 16 * (i % 2))});
        ASSERT_EQ(half, std::bit_cast<float>(out[128 + 32 * i + lane])) << shape << lane << i;
      }
    }
  }
}

// D of f16 is the f32 sum rounded to nearest even; an f16 C is widened.
TEST(Wmma, MixedAccumulators) {
  MatrixKernel k("test");
  const auto a = k.load("a", Words::kF16, 8);
  const auto b = k.load("b", Words::kF16, 8);
  const auto c = k.load("c", Words::kF32, 8);
  const auto d = k.declare("d", "b32", 4);
  const auto e = k.declare("e", "f32", 8);
  const std::string multiply = "  wmma.mma.sync.aligned.row.col.m16n16k16.";
  k.body += multiply + "f16.f32 " + braces(d) + ", " + braces(a) + ", " + braces(b) + ", " +
            braces(c) + ";\n" + multiply + "f32.f16 " + braces(e) + ", " + braces(a) + ", " +
            braces(b) + ", " + braces(d) + ";\n";
  k.store(d);
  k.store(e);
  std::vector<uint32_t> in(k.in_words);
  constexpr size_t kAccumulators = 512;
  // 1 + 2^-11 is a tie, and goes to 1; 2^16 is too large.
  for (size_t lane = 0; lane < 32; ++lane) {
    in[kAccumulators + lane] = std::bit_cast<uint32_t>(1.00048828125F);
    in[kAccumulators + 32 + lane] = std::bit_cast<uint32_t>(65536.0F);
  }
  const std::vector<uint32_t> out = run_case(k, in);
  EXPECT_EQ(out[0], 0x7C003C00u);
  EXPECT_EQ(out[128], std::bit_cast<uint32_t>(1.0F));
  EXPECT_EQ(out[160], 0x7F800000u);
}

// 1/3 * 1/3 + 1, cut toward either side.
TEST(Wmma, RoundingsOfF64) {
  const auto result_of = [](const std::string& rounding) {
    MatrixKernel k("test");
    k.memory(Words::kF64, 64);
    k.declarations += "  .reg .f64 %a, %b, %c0, %c1, %d0, %d1;\n";
    k.body +=
        "  mov.f64 %a, 0d3FD5555555555555;\n  mov.f64 %b, 0d3FD5555555555555;\n"
        "  mov.f64 %c0, 0d3FF0000000000000;\n  mov.f64 %c1, %c0;\n"
        "  wmma.mma.sync.aligned.row.col.m8n8k4" +
        rounding +
        ".f64.f64.f64.f64 {%d0, %d1}, {%a}, {%b}, {%c0, %c1};\n"
        "  wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%out], {%d0, %d1}, 8;\n";
    k.out_words = 128;
    const std::vector<uint32_t> out = run_case(k, std::vector<uint32_t>(k.in_words));
    return static_cast<uint64_t>(out[1]) << 32 | out[0];
  };
  // The four multiply-adds by hand, in integers of 2^-108 (3FD5555555555555 is third / 2^54).
  using Wide = unsigned __int128;
  constexpr uint64_t kThird = 0x15555555555555;
  const auto by_hand = [&](bool up) {
    uint64_t sum = uint64_t{1} << 52;  // of 2^-52
    for (int i = 0; i < 4; ++i) {
      const Wide exact = (static_cast<Wide>(sum) << 56) + static_cast<Wide>(kThird) * kThird;
      const bool cut = (exact & ((Wide{1} << 56) - 1)) != 0;
      sum = static_cast<uint64_t>(exact >> 56) + (up && cut ? 1 : 0);
    }
    return std::bit_cast<uint64_t>(static_cast<double>(sum) * 0x1p-52);
  };
  EXPECT_EQ(result_of(".rz"), by_hand(false));
  EXPECT_EQ(result_of(".rm"), by_hand(false));
  EXPECT_EQ(result_of(".rp"), by_hand(true));
  EXPECT_EQ(result_of(".rn"), result_of(""));
  EXPECT_NE(result_of(".rz"), result_of(".rp"));
}

TEST(Wmma, WhatIsNotThereIsRefused) {
  const auto run = [](const std::string& instruction) {
    MatrixKernel k("test");
    k.memory(Words::kBits, 1024);
    k.declare("r", "b32", 8);
    k.declare("f", "f32", 8);
    k.body += "  " + instruction + "\n";
    run_case(k, std::vector<uint32_t>(k.in_words));
  };
  const auto refused = [&](const std::string& part, const std::string& instruction) {
    expect_fault(FaultKind::kIllegalInstruction, part, [&] { run(instruction); });
  };
  refused("no m16n16k8 of f16",
          "wmma.load.a.sync.aligned.row.m16n16k8.global.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, "
          "%r7}, [%in], 16;");
  refused("A must be .row", "wmma.load.a.sync.aligned.col.m8n8k32.global.s4 {%r0}, [%in], 32;");
  refused("has 4 registers; the shape has 8",
          "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r0, %r1, %r2, %r3}, [%in], 16;");
  refused("layout", "wmma.load.a.sync.aligned.m8n8k32.global.s4 {%r0}, [%in], 32;");
  expect_fault(FaultKind::kCheck, "different addresses or strides", [&] {
    run("wmma.load.c.sync.aligned.row.m8n8k32.global.s32 {%r0, %r1}, [%lane_in], 8;");
  });
  expect_fault(FaultKind::kMisalignedAddress, "multiple of 4", [&] {
    run("wmma.load.c.sync.aligned.row.m8n8k32.global.s32 {%r0, %r1}, [%in + 2], 8;");
  });
}

}  // namespace
}  // namespace mpfa::sim
