// Matrix instructions against an H200, bit by bit: sparse products, wmma, m8n8k4 of f16. The
// digests in h200_matrix_digests.inc are of what these kernels gave there for these inputs: small
// integers, finite numbers of wide exponents, and any bits.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "unit/sim/insn/matrix_kernel.h"

namespace mpfa::sim {
namespace {

using testing::accumulators;
using testing::braces;
using testing::matrix_module;
using testing::MatrixKernel;
using testing::mma_kernel;
using testing::PtxProgram;
using testing::Segment;
using testing::Words;
using testing::words_of;

constexpr int kCases = 90;

// ---- inputs
// ----------------------------------------------------------------------------------------

enum Mode : int { kSmallIntegers, kWide, kAnyBits, kModes };

// SplitMix64.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }

 private:
  uint64_t state_;
};

uint32_t small_float(Numbers& numbers, uint32_t limit) {
  const int value = static_cast<int>(numbers.below(2 * limit + 1)) - static_cast<int>(limit);
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

uint32_t wide_float(Numbers& numbers, uint32_t first_exponent, uint32_t exponents, int mantissa) {
  const uint32_t sign = numbers.below(2);
  const uint32_t exponent = first_exponent + numbers.below(exponents);
  const int exponent_bits = mantissa == 10 || mantissa == 2 ? 5 : 8;
  return sign << (exponent_bits + mantissa) | exponent << mantissa | numbers.below(1u << mantissa);
}

uint32_t f16_element(Numbers& numbers, int mode) {
  static constexpr std::array<uint32_t, 5> kIntegers = {0, 0x3C00, 0x4000, 0x4200, 0x4400};
  if (mode == kAnyBits) return numbers.below(65536);
  if (mode == kWide) return wide_float(numbers, 8, 14, 10);
  const int value = static_cast<int>(numbers.below(9)) - 4;
  return kIntegers[static_cast<size_t>(std::abs(value))] | (value < 0 ? 0x8000u : 0u);
}

uint32_t bf16_element(Numbers& numbers, int mode) {
  if (mode == kAnyBits) return numbers.below(65536);
  return mode == kWide ? wide_float(numbers, 118, 18, 7) : small_float(numbers, 4) >> 16;
}

uint32_t fp8_element(Numbers& numbers, int mode, bool e5m2) {
  static constexpr std::array<uint32_t, 5> kE4m3 = {0, 0x38, 0x40, 0x44, 0x48};
  static constexpr std::array<uint32_t, 5> kE5m2 = {0, 0x3C, 0x40, 0x42, 0x44};
  if (mode == kSmallIntegers) {
    const uint32_t magnitude = numbers.below(5);
    return (e5m2 ? kE5m2 : kE4m3)[magnitude] | numbers.below(2) << 7;
  }
  if (e5m2) return mode == kWide ? wide_float(numbers, 8, 14, 2) : numbers.below(256);
  const uint32_t code = numbers.below(256);
  return mode == kWide && (code & 0x7F) == 0x7F ? code ^ 1 : code;
}

template <size_t kCount>
uint32_t nibbles(Numbers& numbers, const std::array<uint32_t, kCount>& choices) {
  uint32_t word = 0;
  for (int i = 0; i < 8; ++i) word |= choices[numbers.below(kCount)] << 4 * i;
  return word;
}

uint32_t unordered_metadata(Numbers& numbers) {
  uint32_t word = 0;
  for (int i = 0; i < 8; ++i) {
    const uint32_t first = numbers.below(4);
    word |= (first | ((first + 1 + numbers.below(3)) & 3) << 2) << 4 * i;
  }
  return word;
}

template <class Element>
uint32_t packed(int bits, Element element) {
  uint32_t word = 0;
  for (int at = 0; at < 32; at += bits) word |= element() << at;
  return word;
}

uint32_t input_word(Numbers& numbers, Words words, int mode) {
  switch (words) {
    case Words::kF16:
      return packed(16, [&] { return f16_element(numbers, mode); });
    case Words::kBf16:
      return packed(16, [&] { return bf16_element(numbers, mode); });
    case Words::kTf32:
      if (mode == kSmallIntegers) return small_float(numbers, 4);
      if (mode == kWide) return wide_float(numbers, 118, 18, 23);
      break;
    case Words::kF32:
      if (mode == kSmallIntegers) return small_float(numbers, 8);
      if (mode == kWide) return wide_float(numbers, 112, 30, 23);
      break;
    case Words::kE4m3:
      return packed(8, [&] { return fp8_element(numbers, mode, false); });
    case Words::kE5m2:
      return packed(8, [&] { return fp8_element(numbers, mode, true); });
    case Words::kInteger:
      if (mode == kSmallIntegers) return numbers.below(1000) - 500;
      break;
    case Words::kMetadata:
      return nibbles<6>(numbers, {0x4, 0x8, 0x9, 0xC, 0xD, 0xE});
    case Words::kTf32Metadata:
      return nibbles<2>(numbers, {0x4, 0xE});
    case Words::kUnorderedMetadata:
      return unordered_metadata(numbers);
    default:
      break;
  }
  return static_cast<uint32_t>(numbers.next());
}

uint64_t f64_input(Numbers& numbers, int mode) {
  if (mode == kAnyBits) return numbers.next();
  if (mode == kSmallIntegers) {
    return std::bit_cast<uint64_t>(static_cast<double>(static_cast<int>(numbers.below(9)) - 4));
  }
  const uint64_t sign = numbers.below(2);
  const uint64_t exponent = 1000 + numbers.below(50);
  return sign << 63 | exponent << 52 | numbers.next() >> 12;
}

void append_segment(Numbers& numbers, const Segment& segment, int mode,
                    std::vector<uint32_t>& out) {
  const bool wide = segment.words == Words::kF64;
  for (uint32_t i = 0; i < segment.count; i += wide ? 2 : 1) {
    if (!wide) {
      out.push_back(input_word(numbers, segment.words, mode));
      continue;
    }
    const uint64_t value = f64_input(numbers, mode);
    out.push_back(static_cast<uint32_t>(value));
    out.push_back(static_cast<uint32_t>(value >> 32));
  }
}

std::vector<uint32_t> inputs(const MatrixKernel& kernel, uint64_t number) {
  Numbers numbers(number * 1000003);
  std::vector<uint32_t> words;
  for (int i = 0; i < kCases; ++i) {
    for (const Segment& segment : kernel.segments) {
      append_segment(numbers, segment, i % kModes, words);
    }
  }
  return words;
}

// ---- kernels
// ---------------------------------------------------------------------------------------

void add_sparse(std::vector<MatrixKernel>& list, const std::string& variant, int k,
                const std::string& a, const std::string& b, const std::string& accumulator,
                int registers, int selector, Words metadata = Words::kMetadata,
                const std::string& tag = "") {
  const std::string shape = "m16n8k" + std::to_string(k);
  const bool ordered = variant != "sp";
  const std::string name = std::string("sp") + (ordered ? "o_" : "_") + shape + "_" + a + "_" + b +
                           "_" + accumulator + "_" + std::to_string(selector) + tag;
  list.push_back(mma_kernel(name, variant + ".sync.aligned." + shape + ".row.col",
                            {accumulator, a, b, accumulator}, {registers, registers}, metadata,
                            selector));
}

void add_sparse_floats(std::vector<MatrixKernel>& list) {
  const std::string ordered = "sp::ordered_metadata";
  for (const char* accumulator : {"f16", "f32"}) {
    for (int s = 0; s < 4; ++s) add_sparse(list, ordered, 16, "f16", "f16", accumulator, 2, s);
    for (int s = 0; s < 2; ++s) add_sparse(list, ordered, 32, "f16", "f16", accumulator, 4, s);
  }
  add_sparse(list, "sp", 16, "f16", "f16", "f32", 2, 1);
  add_sparse(list, "sp", 32, "f16", "f16", "f32", 4, 1);
  const Words unordered = Words::kUnorderedMetadata;
  add_sparse(list, "sp", 32, "f16", "f16", "f32", 4, 0, unordered, "un");
  add_sparse(list, "sp", 64, "s8", "s8", "s32", 4, 0, unordered, "un");
  add_sparse(list, "sp", 64, "e4m3", "e4m3", "f32", 4, 0, unordered, "un");
  for (int s = 0; s < 4; ++s) add_sparse(list, ordered, 16, "bf16", "bf16", "f32", 2, s);
  for (int s = 0; s < 2; ++s) add_sparse(list, ordered, 32, "bf16", "bf16", "f32", 4, s);
  const Words pairs = Words::kTf32Metadata;
  for (int s = 0; s < 4; ++s) add_sparse(list, ordered, 8, "tf32", "tf32", "f32", 2, s, pairs);
  for (int s = 0; s < 2; ++s) add_sparse(list, ordered, 16, "tf32", "tf32", "f32", 4, s, pairs);
}

void add_sparse_integers(std::vector<MatrixKernel>& list, const std::string& bits, int k) {
  const std::string ordered = "sp::ordered_metadata";
  for (const std::string sign : {"s", "u"}) {
    for (int s = 0; s < 2; ++s) {
      add_sparse(list, ordered, k, sign + bits, "s" + bits, "s32", 2, s);
    }
    add_sparse(list, ordered, 2 * k, sign + bits, "u" + bits, "s32", 4, 0);
  }
}

void add_quad_pairs(std::vector<MatrixKernel>& list) {
  const std::array<std::pair<std::string, std::string>, 3> kTypes = {
      {{"f16", "f16"}, {"f32", "f32"}, {"f32", "f16"}}};
  for (const std::string a : {"row", "col"}) {
    for (const std::string b : {"row", "col"}) {
      for (const auto& [d, c] : kTypes) {
        list.push_back(mma_kernel("quad_" + a + "_" + b + "_" + d + "_" + c,
                                  "sync.aligned.m8n8k4." + a + "." + b, {d, "f16", "f16", c},
                                  {2, 2, 8}));
      }
    }
  }
}

void add_fp8(std::vector<MatrixKernel>& list) {
  for (const int k : {16, 32}) {
    for (const std::string accumulator : {"f16", "f32"}) {
      const std::string shape = "m16n8k" + std::to_string(k);
      list.push_back(mma_kernel("mma_" + shape + "_e4m3_" + accumulator,
                                "sync.aligned." + shape + ".row.col",
                                {accumulator, "e4m3", "e4m3", accumulator}, {k / 8, k / 16}));
    }
  }
}

struct WmmaShape {
  int m;
  int n;
  int k;
  std::string text() const {
    return "m" + std::to_string(m) + "n" + std::to_string(n) + "k" + std::to_string(k);
  }
};

int bits_of(const std::string& type) {
  return type == "b1" ? 1 : std::stoi(type.substr(type.find_first_of("0123456789")));
}

int element_bits(const std::string& type) {
  if (type == "tf32") return 32;
  return type == "bf16" ? 16 : bits_of(type);
}

// Of A or B with this many rows, or columns.
int operand_registers(const std::string& type, int lines, int k) {
  if (type == "f16") return 8;
  return type == "f64" ? 1 : lines * k * element_bits(type) / 1024;
}

std::string register_type(const std::string& type) {
  return type == "f64" || type == "f32" ? type : "b32";
}

struct WmmaLayouts {
  std::string a;
  std::string b;
  std::string c;
};

// Loads an operand with some room between its rows or columns.
std::vector<std::string> wmma_load(MatrixKernel& k, const std::string& which,
                                   const std::string& type, const WmmaShape& shape,
                                   const std::string& layout, int registers) {
  const int rows = which == "b" ? shape.k : shape.m;
  const int columns = which == "a" ? shape.k : shape.n;
  const int line = layout == "row" ? columns : rows;
  const int lines = layout == "row" ? rows : columns;
  const int bits = element_bits(type);
  const int stride = line + (bits < 8 || which == "c" ? 0 : 128 / bits);
  const auto words = static_cast<uint32_t>((lines * stride * bits / 32 + 3) / 4 * 4);
  const uint32_t at = k.memory(words_of(type), words);
  const auto names = k.declare(which, register_type(type), registers);
  k.body += "  wmma.load." + which + ".sync.aligned." + layout + "." + shape.text() + ".global." +
            type + " " + braces(names) + ", [%in + " + std::to_string(at) + "], " +
            std::to_string(stride) + ";\n";
  return names;
}

void add_wmma(std::vector<MatrixKernel>& list, const WmmaShape& shape,
              const testing::MmaTypes& types, const WmmaLayouts& layouts,
              const std::string& operation = "") {
  std::string tag;
  for (const char letter : operation) tag += letter == '.' ? "" : std::string(1, letter);
  MatrixKernel k("wmma_" + shape.text() + "_" + types.a + "_" + types.b + "_" + types.d + "_" +
                 types.c + "_" + layouts.a + layouts.b + layouts.c + tag);
  const int per_lane = shape.m * shape.n / 32;
  const auto a =
      wmma_load(k, "a", types.a, shape, layouts.a, operand_registers(types.a, shape.m, shape.k));
  const auto b =
      wmma_load(k, "b", types.b, shape, layouts.b, operand_registers(types.b, shape.n, shape.k));
  const auto c = wmma_load(k, "c", types.c, shape, layouts.c, accumulators(types.c, per_lane));
  const auto d = k.declare("d", register_type(types.d), accumulators(types.d, per_lane));
  const std::string operands = types.a == "f16" ? "" : "." + types.a + "." + types.b;
  k.body += "  wmma.mma" + operation + ".sync.aligned." + layouts.a + "." + layouts.b + "." +
            shape.text() + "." + types.d + operands + "." + types.c + " " + braces(d) + ", " +
            braces(a) + ", " + braces(b) + ", " + braces(c) + ";\n";
  const bool by_rows = layouts.c == "col";
  k.body += std::string("  wmma.store.d.sync.aligned.") + (by_rows ? "row" : "col") + "." +
            shape.text() + ".global." + types.d + " [%out], " + braces(d) + ", " +
            std::to_string(by_rows ? shape.n : shape.m) + ";\n";
  k.out_words = static_cast<uint32_t>(shape.m * shape.n * element_bits(types.d) / 32);
  list.push_back(std::move(k));
}

void add_all_wmma(std::vector<MatrixKernel>& list) {
  const std::array<WmmaLayouts, 2> kLayouts = {{{"row", "col", "row"}, {"col", "row", "col"}}};
  for (const WmmaShape shape : {WmmaShape{16, 16, 16}, {8, 32, 16}, {32, 8, 16}}) {
    for (const std::string d : {"f16", "f32"}) {
      for (const std::string c : {"f16", "f32"}) {
        for (const auto& each : kLayouts) add_wmma(list, shape, {d, "f16", "f16", c}, each);
      }
    }
    add_wmma(list, shape, {"f32", "f16", "f16", "f32"}, {"row", "row", "row"});
    add_wmma(list, shape, {"f32", "f16", "f16", "f32"}, {"col", "col", "row"});
    for (const auto& each : kLayouts) {
      add_wmma(list, shape, {"f32", "bf16", "bf16", "f32"}, each);
      add_wmma(list, shape, {"s32", "s8", "s8", "s32"}, each);
      add_wmma(list, shape, {"s32", "u8", "u8", "s32"}, each);
    }
  }
  for (const auto& each : kLayouts) {
    add_wmma(list, {16, 16, 8}, {"f32", "tf32", "tf32", "f32"}, each);
    add_wmma(list, {8, 8, 4}, {"f64", "f64", "f64", "f64"}, each);
  }
  add_wmma(list, {8, 8, 32}, {"s32", "s4", "s4", "s32"}, {"row", "col", "row"});
  add_wmma(list, {8, 8, 32}, {"s32", "u4", "u4", "s32"}, {"row", "col", "col"});
  const testing::MmaTypes bits = {"s32", "b1", "b1", "s32"};
  add_wmma(list, {8, 8, 128}, bits, {"row", "col", "row"}, ".xor.popc");
  add_wmma(list, {8, 8, 128}, bits, {"row", "col", "col"}, ".and.popc");
}

// A of 64 rows, 32 bytes each, and n columns of B of 64 bytes, in core matrices of 8 x 16 bytes
// that follow each other along k.
void add_sparse_wgmma(std::vector<MatrixKernel>& list, int k, const testing::MmaTypes& types,
                      bool a_in_registers, int selector, int n = 8,
                      Words metadata = Words::kMetadata) {
  const std::string shape = "n" + std::to_string(n) + "k" + std::to_string(k);
  MatrixKernel kernel("wgsp_" + shape + "_" + types.a + "_" + types.b + "_" + types.d + "_" +
                          (a_in_registers ? "r" : "s") + std::to_string(selector),
                      128);
  kernel.declarations +=
      "  .reg .b32 %tile, %at;\n  .reg .b64 %a_desc, %b_desc;\n  .reg .pred %add;\n";
  const auto a = kernel.load("a", words_of(types.a), 4);
  const auto b = kernel.load("b", words_of(types.b), n / 8);
  const auto d = kernel.load("d", words_of(types.d), accumulators(types.d, n / 2));
  const auto e = kernel.load("e", metadata, 1);
  kernel.body +=
      "  mov.u32 %tile, tile;\n  mad.lo.u32 %at, %thread, 16, %tile;\n"
      "  st.shared.v4.b32 [%at], " +
      braces(a) + ";\n  mad.lo.u32 %at, %thread, 4, %tile;\n";
  for (size_t i = 0; i < b.size(); ++i) {
    kernel.body +=
        "  st.shared.b32 [%at + " + std::to_string(2048 + 512 * i) + "], " + b[i] + ";\n";
  }
  kernel.body +=
      "  fence.proxy.async;\n  bar.sync 0;\n"
      "  shr.u32 %at, %tile, 4;\n  and.b32 %at, %at, 0x3FFF;\n  cvt.u64.u32 %a_desc, %at;\n"
      "  add.s64 %b_desc, %a_desc, 128;\n"
      "  or.b64 %a_desc, %a_desc, 0x1000080000;\n  or.b64 %b_desc, %b_desc, 0x2000080000;\n"
      "  wgmma.fence.sync.aligned;\n  setp.eq.u32 %add, 0, 0;\n";
  std::string tail = ", %add";
  if (types.d != "s32") tail += ", 1, 1";
  if (types.a == "f16" || types.a == "bf16") tail += a_in_registers ? ", 0" : ", 0, 0";
  kernel.body += "  wgmma.mma_async.sp.sync.aligned.m64" + shape + "." + types.d + "." + types.a +
                 "." + types.b + " " + braces(d) + ", " +
                 (a_in_registers ? braces(a) : std::string("%a_desc")) + ", %b_desc, " + e[0] +
                 ", " + std::to_string(selector) + tail +
                 ";\n"
                 "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
  kernel.store(d);
  list.push_back(std::move(kernel));
}

void add_all_sparse_wgmma(std::vector<MatrixKernel>& list, bool r) {
  for (int s = 0; s < 2; ++s) {
    add_sparse_wgmma(list, 32, {"f32", "f16", "f16", ""}, r, s);
    add_sparse_wgmma(list, 32, {"f16", "f16", "f16", ""}, r, s);
    add_sparse_wgmma(list, 32, {"f32", "bf16", "bf16", ""}, r, s, 16);
    add_sparse_wgmma(list, 16, {"f32", "tf32", "tf32", ""}, r, s, 8, Words::kTf32Metadata);
  }
  for (const std::string a : {"e4m3", "e5m2"}) {
    for (const std::string d : {"f16", "f32"}) {
      add_sparse_wgmma(list, 64, {d, a, "e4m3", ""}, r, 0);
    }
  }
  add_sparse_wgmma(list, 64, {"s32", "s8", "s8", ""}, r, 0);
  add_sparse_wgmma(list, 64, {"s32", "u8", "s8", ""}, r, 0);
  add_sparse_wgmma(list, 64, {"s32", "u8", "u8", ""}, r, 0, 16);
}

// In an order that the inputs depend on.
std::vector<MatrixKernel> all_kernels() {
  std::vector<MatrixKernel> list;
  add_sparse_floats(list);
  add_sparse_integers(list, "8", 32);
  add_sparse_integers(list, "4", 64);
  for (const char* a : {"e4m3", "e5m2"}) {
    for (const char* b : {"e4m3", "e5m2"}) {
      add_sparse(list, "sp::ordered_metadata", 64, a, b, "f32", 4, 0);
    }
  }
  add_quad_pairs(list);
  add_fp8(list);
  add_all_wmma(list);
  add_all_sparse_wgmma(list, true);
  add_all_sparse_wgmma(list, false);
  return list;
}

// ---- the test
// --------------------------------------------------------------------------------------

struct Digests {
  std::array<uint64_t, kModes> of_mode;
};

// FNV-1a of the words of each mode's cases.
Digests digests_of(const std::vector<uint32_t>& words, uint32_t words_of_case) {
  Digests digests;
  digests.of_mode.fill(0xCBF29CE484222325u);
  for (size_t i = 0; i < words.size(); ++i) {
    uint64_t& digest = digests.of_mode[i / words_of_case % kModes];
    digest = (digest ^ words[i]) * 0x100000001B3u;
  }
  return digests;
}

const std::map<std::string, Digests>& recorded() {
  static const std::map<std::string, Digests> kRecorded = {
#include "unit/sim/insn/h200_matrix_digests.inc"
  };
  return kRecorded;
}

TEST(H200Matrix, EveryInstructionGivesTheSameBits) {
  const std::vector<MatrixKernel> kernels = all_kernels();
  ASSERT_EQ(kernels.size(), recorded().size());
  std::string text;
  for (const MatrixKernel& kernel : kernels) text += kernel.text();
  PtxProgram program(matrix_module(text));
  for (size_t i = 0; i < kernels.size(); ++i) {
    const MatrixKernel& kernel = kernels[i];
    SCOPED_TRACE(kernel.name);
    const auto out = run_cases(program, kernel, inputs(kernel, i + 1));
    const Digests got = digests_of(out, kernel.out_words);
    const Digests want = recorded().at(kernel.name);
    EXPECT_EQ(got.of_mode[kSmallIntegers], want.of_mode[kSmallIntegers]);
    EXPECT_EQ(got.of_mode[kWide], want.of_mode[kWide]);
    // Which NaN an f64 product has is not simulated.
    const bool is_f64 = kernel.name.find("f64") != std::string::npos;
    if (is_f64) continue;
    EXPECT_EQ(got.of_mode[kAnyBits], want.of_mode[kAnyBits]);
  }
}

}  // namespace
}  // namespace mpfa::sim
