// atom and red: every operation, type and space against what the PTX ISA says that they do.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/machine/fault.h"
#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/numerics/oracle.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::one_kernel;
using testing::PtxProgram;

constexpr int kThreads = 256;

// ---- what an operation gives --------------------------------------------------------------------

// A floating-point type's code, and its value if it is finite.
struct Float {
  const oracle::Format& format;
  uint64_t code;

  uint64_t magnitude() const { return code & ~(uint64_t{1} << format.sign_shift); }
  bool negative() const { return code >> format.sign_shift != 0; }
  bool is_nan() const { return magnitude() > format.largest + 1; }
  bool is_infinite() const { return magnitude() == format.largest + 1; }
  double value() const {
    const double size = oracle::value_of(format, magnitude());
    return negative() ? -size : size;
  }
  Float flushed() const {
    const bool normal = magnitude() >> format.mantissa_bits != 0;
    return {format, normal ? code : code - magnitude()};
  }
};

constexpr uint64_t nan_of(const oracle::Format& format) {
  return (uint64_t{1} << format.sign_shift) - 1;
}

uint64_t float_sum(const oracle::Format& format, uint64_t a_code, uint64_t b_code, bool ftz) {
  Float a{format, a_code};
  Float b{format, b_code};
  if (a.is_nan() || b.is_nan()) return nan_of(format);
  if (a.is_infinite() || b.is_infinite()) {
    const bool opposite = a.is_infinite() && b.is_infinite() && a_code != b_code;
    return opposite ? nan_of(format) : (a.is_infinite() ? a_code : b_code);
  }
  if (ftz) {
    const Float flushed_a = a.flushed();
    const Float flushed_b = b.flushed();
    return Float{format, float_sum(format, flushed_a.code, flushed_b.code, false)}.flushed().code;
  }
  const bool negative_zero = a.negative() && b.negative();
  return oracle::rounded(format, oracle::Wide(a.value()) + oracle::Wide(b.value()),
                         {Rounding::kNearestEven}, negative_zero);
}

uint64_t float_extreme(const oracle::Format& format, uint64_t a_code, uint64_t b_code, bool max) {
  const Float a{format, a_code};
  const Float b{format, b_code};
  if (a.is_nan() && b.is_nan()) return nan_of(format);
  if (a.is_nan()) return b_code;
  if (b.is_nan()) return a_code;
  const auto key = [](const Float& x) {
    const double size = static_cast<double>(x.magnitude()) + 0.5;  // -0 is below +0
    return x.negative() ? -size : size;
  };
  return (key(a) < key(b)) == max ? b_code : a_code;
}

uint64_t double_sum(uint64_t a, uint64_t b) {
  return std::bit_cast<uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
}

struct Type {
  std::string name;
  int bits;
};

uint64_t low_bits(uint64_t value, int bits) {
  return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
}
int64_t sign_extended(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

// In 65 bits or by counting: other ways than the simulator's.
uint64_t integer_result(const std::string& op, const Type& type, uint64_t old, uint64_t b) {
  const bool is_signed = type.name[0] == 's';
  const auto less = [&](uint64_t x, uint64_t y) {
    return is_signed ? sign_extended(x, type.bits) < sign_extended(y, type.bits) : x < y;
  };
  if (op == "and") return ~(~old | ~b);
  if (op == "or") return ~(~old & ~b);
  if (op == "xor") return (old | b) - (old & b);
  if (op == "exch") return b;
  if (op == "add") return low_bits((old ^ b) + 2 * (old & b), type.bits);
  if (op == "min") return less(b, old) ? b : old;
  if (op == "max") return less(old, b) ? b : old;
  if (op == "inc") return old < b ? low_bits(old + 1, 32) : 0;
  if (op == "dec") return old >= 1 && old <= b ? old - 1 : b;
  ADD_FAILURE() << op;
  return 0;
}

uint64_t half_result(const oracle::Format& format, const std::string& op, uint64_t old,
                     uint64_t b) {
  if (op == "add") return float_sum(format, old, b, false);
  return float_extreme(format, old, b, op == "max");
}

uint64_t result_of(const std::string& op, const Type& type, uint64_t old, uint64_t b, uint64_t c,
                   bool ftz) {
  if (op == "cas") return old == b ? c : old;
  if (type.name == "f32") return float_sum(oracle::kSingle, old, b, ftz);
  if (type.name == "f64") return double_sum(old, b);
  const bool is_f16 = type.name.starts_with("f16");
  if (is_f16 || type.name.starts_with("bf16")) {
    const oracle::Format& format = is_f16 ? oracle::kHalf : oracle::kBfloat;
    const uint64_t low = half_result(format, op, old & 0xFFFF, b & 0xFFFF);
    if (type.bits == 16) return low;
    return low | half_result(format, op, old >> 16, b >> 16) << 16;
  }
  return integer_result(op, type, old, b);
}

// ---- what it is asked for -----------------------------------------------------------------------

const std::vector<uint64_t> kHalfSamples = {0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400,
                                            0x3C00, 0x3C01, 0xBC00, 0x1400, 0x7BFF, 0xFBFF,
                                            0x7C00, 0xFC00, 0x7E00, 0x0410};
const std::vector<uint64_t> kBfloatSamples = {0x0000, 0x8000, 0x0001, 0x8003, 0x007F, 0x0080,
                                              0x3F80, 0x3F81, 0xBF80, 0x3B80, 0x7F7F, 0xFF7F,
                                              0x7F80, 0xFF80, 0x7FC0, 0x00FF};
const std::vector<uint64_t> kSingleSamples = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800001, 0x3F800000,
    0x3F800001, 0xBF800000, 0x33800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001};
const std::vector<uint64_t> kDoubleSamples = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800FFFFFFFFFFFFF,
    0x0010000000000000, 0x3FF0000000000000, 0xBFF0000000000001, 0x3CA0000000000000,
    0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000};
const std::vector<uint64_t> kIntegerSamples = {0,
                                               1,
                                               2,
                                               7,
                                               0x7FFF,
                                               0x8000,
                                               0xFFFF,
                                               0x7FFFFFFF,
                                               0x80000000,
                                               0xFFFFFFFF,
                                               0x7FFFFFFFFFFFFFFF,
                                               0x8000000000000000,
                                               0xFFFFFFFFFFFFFFFF,
                                               0x123456789ABCDEF0};

const std::vector<uint64_t>& samples_of(const Type& type) {
  if (type.name.starts_with("f16")) return kHalfSamples;
  if (type.name.starts_with("bf16")) return kBfloatSamples;
  if (type.name == "f32") return kSingleSamples;
  return type.name == "f64" ? kDoubleSamples : kIntegerSamples;
}

struct Values {
  std::vector<uint64_t> old, b, c;
};

// Each sample with each other, as far as the threads reach; packed types have others above.
Values values_of(const Type& type, int count) {
  const std::vector<uint64_t>& samples = samples_of(type);
  const size_t n = samples.size();
  const bool packed = type.name.ends_with("x2");
  Values values;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const auto pick = [&](size_t at, size_t above) {
      const uint64_t low = low_bits(samples[at % n], type.bits);
      return packed ? low | samples[above % n] << 16 : low;
    };
    values.old.push_back(pick(i, i / n + 3));
    values.b.push_back(pick(i / n, i + 5));
    values.c.push_back(pick(i + i / n + 1, i));
  }
  return values;
}

// A place for the operation: `prepare` puts its address into `address`.
struct Space {
  std::string name;
  std::string suffix;
  std::string address;
  std::string prepare;
  bool is_shared;
};

const std::vector<Space> kSpaces = {
    {"global", ".global", "%rd2", "", false},
    {"generic", "", "%rd2", "", false},
    {"shared", ".shared", "%at", "mad.lo.u32 %at, %r0, 16, %at;", true},
    {"shared::cta", ".shared::cta", "%at", "mad.lo.u32 %at, %r0, 16, %at;", true},
    {"generic shared", "", "%rd3",
     "mad.lo.u32 %at, %r0, 16, %at; cvt.u64.u32 %rd3, %at; cvta.shared.u64 %rd3, %rd3;", true},
};

std::string register_of(const Type& type) { return ".b" + std::to_string(type.bits); }

// Each thread of `old`, `b`, `c` at `in`: what is there then, and the value before, to `out`.
std::string sweep_kernel(const std::string& op, const Type& type, const Space& space, bool is_red) {
  const int bytes = type.bits / 8;
  const std::string reg = register_of(type);
  const bool half = type.name.find("f16") != std::string::npos;
  const auto load = [&](const std::string& to, int index) {
    return "ld.global" + reg + " " + to + ", [%rd1+" + std::to_string(index * bytes) + "];\n";
  };
  std::string body = "mov.u32 %at, buffer;\n" + space.prepare + "\n";
  body += load("%old", 0) + load("%b", 1) + load("%c", 2);
  body += "st" + space.suffix + reg + " [" + space.address + "], %old;\n";
  body += "mov" + reg + " %result, %old;\n";
  body += is_red ? "red" : "atom";
  body += space.suffix + "." + op + (half ? ".noftz." : ".") + type.name;
  body += is_red ? " " : " %result, ";
  body += "[" + space.address + "], %b" + (op == "cas" ? ", %c" : "") + ";\n";
  body += "ld" + space.suffix + reg + " %now, [" + space.address + "];\n";
  body += "st.global" + reg + " [%rd2], %now;\n";
  body += "st.global" + reg + " [%rd2+" + std::to_string(bytes) + "], %result;";
  return one_kernel("  .reg " + reg + " %old, %b, %c, %now, %result;\n  .reg .b32 %at;\n" +
                        "  .reg .b64 %rd3;\n  .shared .align 16 .b8 buffer[" +
                        std::to_string(16 * kThreads) + "];",
                    body, 3 * bytes, 2 * bytes);
}

std::vector<uint8_t> to_bytes(const std::vector<std::vector<uint64_t>>& columns, int bytes) {
  std::vector<uint8_t> result;
  for (size_t i = 0; i < columns[0].size(); ++i) {
    for (const auto& column : columns) {
      const auto* from = reinterpret_cast<const uint8_t*>(&column[i]);
      result.insert(result.end(), from, from + bytes);
    }
  }
  return result;
}

uint64_t from_bytes(const std::vector<uint8_t>& bytes, size_t index, int size) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + index * static_cast<size_t>(size), static_cast<size_t>(size));
  return value;
}

void sweep(const std::string& op, const Type& type, const Space& space, bool is_red) {
  SCOPED_TRACE((is_red ? "red." : "atom.") + space.name + "." + op + "." + type.name);
  const int bytes = type.bits / 8;
  const Values values = values_of(type, kThreads);
  PtxProgram program(sweep_kernel(op, type, space, is_red));
  const uint64_t in = program.upload(to_bytes({values.old, values.b, values.c}, bytes));
  const size_t out_bytes = size_t{2} * static_cast<size_t>(bytes) * kThreads;
  const uint64_t out = program.upload(std::vector<uint8_t>(out_bytes));
  program.run("test", {.block = {kThreads, 1, 1}}, in, out);
  const auto result = program.download<uint8_t>(out, out_bytes);
  for (size_t i = 0; i < kThreads; ++i) {
    const uint64_t expected =
        result_of(op, type, values.old[i], values.b[i], values.c[i], !space.is_shared);
    ASSERT_EQ(from_bytes(result, 2 * i, bytes), expected)
        << std::hex << values.old[i] << " " << values.b[i] << " " << values.c[i];
    ASSERT_EQ(from_bytes(result, 2 * i + 1, bytes), values.old[i]);
  }
}

const Type kB16{"b16", 16}, kB32{"b32", 32}, kB64{"b64", 64}, kU32{"u32", 32}, kS32{"s32", 32},
    kU64{"u64", 64}, kS64{"s64", 64}, kF32{"f32", 32}, kF64{"f64", 64}, kF16{"f16", 16},
    kBf16{"bf16", 16}, kF16x2{"f16x2", 32}, kBf16x2{"bf16x2", 32};

// What ptxas 13.0 accepts for sm_90a, but b128.
const std::map<std::string, std::vector<Type>> kScalarForms = {
    {"and", {kB32, kB64}},
    {"or", {kB32, kB64}},
    {"xor", {kB32, kB64}},
    {"exch", {kB32, kB64}},
    {"cas", {kB16, kB32, kB64}},
    {"add", {kU32, kS32, kU64, kF32, kF64, kF16, kBf16, kF16x2, kBf16x2}},
    {"inc", {kU32}},
    {"dec", {kU32}},
    {"min", {kU32, kS32, kU64, kS64}},
    {"max", {kU32, kS32, kU64, kS64}},
};

class AtomicSweep : public ::testing::TestWithParam<std::string> {};

TEST_P(AtomicSweep, EachTypeAndSpace) {
  const std::string& op = GetParam();
  for (const Type& type : kScalarForms.at(op)) {
    for (const Space& space : kSpaces) {
      sweep(op, type, space, false);
      if (op != "exch" && op != "cas") sweep(op, type, space, true);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, AtomicSweep,
                         ::testing::Values("and", "or", "xor", "exch", "cas", "add", "inc", "dec",
                                           "min", "max"),
                         [](const auto& info) { return info.param; });

// ---- forms that exist ---------------------------------------------------------------------------

void decode(const std::string& instruction) {
  const std::string registers =
      "  .reg .b16 %h<8>;\n  .reg .b32 %w<8>;\n  .reg .b64 %l<8>;\n  .reg .b128 %q<8>;\n"
      "  .reg .pred %never;\n";
  PtxProgram program(
      one_kernel(registers, "setp.ne.u32 %never, %r0, %r0;\n@%never " + instruction, 16, 16));
  const uint64_t memory = program.upload(std::vector<uint64_t>(64));
  program.run("test", {}, memory, memory);
}

std::string registers(int bits, int from, int count) {
  const std::map<int, std::string> kPrefix = {{16, "%h"}, {32, "%w"}, {64, "%l"}, {128, "%q"}};
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += kPrefix.at(bits) + std::to_string((from + i) % 8);
  }
  return count == 1 ? text : "{" + text + "}";
}

const std::vector<Type> kAllTypes = {kB16,  {"u16", 16}, {"s16", 16}, kB32,         kU32, kS32,
                                     kF32,  kB64,        kU64,        kS64,         kF64, kF16,
                                     kBf16, kF16x2,      kBf16x2,     {"b128", 128}};

bool exists(const std::string& op, const Type& type, int vector_size, bool is_red) {
  if (is_red && (op == "cas" || op == "exch")) return false;
  if (vector_size == 1) {
    if (type.name == "b128") return op == "cas" || op == "exch";
    const auto& types = kScalarForms.at(op);
    return std::any_of(types.begin(), types.end(),
                       [&](const Type& each) { return each.name == type.name; });
  }
  if (type.name == "f32") return op == "add" && vector_size <= 4;
  if (op != "add" && op != "min" && op != "max") return false;
  if (type.name == "f16" || type.name == "bf16") return true;
  return type.name.ends_with("x2") && vector_size <= 4;
}

TEST(Atomics, TheFormsThatExistAreThoseOfPtxas) {
  for (const bool is_red : {false, true}) {
    for (const auto& [op, unused] : kScalarForms) {
      for (const Type& type : kAllTypes) {
        for (const int size : {1, 2, 4, 8}) {
          const bool half = type.name.find("f16") != std::string::npos;
          std::string text = is_red ? "red.global." : "atom.global.";
          text += op + (half ? ".noftz" : "");
          if (size > 1) text += ".v" + std::to_string(size);
          text += "." + type.name + (is_red ? " " : " " + registers(type.bits, 0, size) + ", ");
          text += "[%rd1], " + registers(type.bits, 1, size);
          if (op == "cas") text += ", " + registers(type.bits, 2, size);
          text += ";";
          SCOPED_TRACE(text);
          if (exists(op, type, size, is_red)) {
            EXPECT_NO_THROW(decode(text));
          } else {
            expect_fault(FaultKind::kIllegalInstruction, "", [&] { decode(text); });
          }
        }
      }
    }
  }
}

TEST(Atomics, OrdersScopesSpacesAndHintsOfEveryKind) {
  for (const char* text : {
           "atom.add.u32 _, [%rd1], 1;",
           "atom.acq_rel.sys.global.add.u32 %w0, [%rd1], %w1;",
           "atom.global.add.acquire.cluster.s32 %w0, [%rd1], %w1;",
           "atom.relaxed.cta.shared::cta.and.b32 %w0, [%w1], 3;",
           "atom.release.cluster.shared::cluster.exch.b64 %l0, [%w1], %l1;",
           "atom.global.b128.exch %q0, [%rd1], %q1;",
           "atom.global.exch.L2::cache_hint.b128 %q0, [%rd1], %q1, %l2;",
           "atom.relaxed.gpu.global.add.L2::cache_hint.v2.f32 {%w0, _}, [%rd1], {%w1, %w2}, %l2;",
           "atom.global.v4.f16.max.noftz _, [%rd1], {%h0, %h1, %h2, %h3};",
           "red.release.gpu.global.add.s32 [%rd1], -1;",
           "red.relaxed.sys.global.add.L2::cache_hint.u64 [%rd1+8], 1, %l1;",
           "red.add.noftz.bf16x2 [%rd1], %w0;",
       }) {
    SCOPED_TRACE(text);
    EXPECT_NO_THROW(decode(text));
  }
}

TEST(Atomics, ErrorsNameWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> kWrong = {
      {"atom.global.u32 %w0, [%rd1], %w1;", "operation is missing"},
      {"atom.global.add %w0, [%rd1], %w1;", "type is missing"},
      {"atom.global.add.s64 %l0, [%rd1], %l1;", ".add of .s64 does not exist"},
      {"atom.global.min.f32 %w0, [%rd1], %w1;", ".min of .f32 does not exist"},
      {"red.global.cas.b32 [%rd1], %w1, %w2;", "red has no .cas"},
      {"red.global.exch.b32 [%rd1], %w1;", "red has no .exch"},
      {"atom.global.add.f16 %h0, [%rd1], %h1;", "needs .noftz"},
      {"atom.global.add.noftz.f32 %w0, [%rd1], %w1;", "has no .noftz"},
      {"atom.global.min.noftz.f16 %h0, [%rd1], %h1;", "for vectors only"},
      {"atom.global.add.v8.f32 _, [%rd1], %w1;", ".v8"},
      {"atom.global.add.v2.f32 {%w0, %w1}, [%rd1], {%w1, %w2, %w3};", "a vector of 2"},
      {"atom.local.add.u32 %w0, [%rd1], %w1;", "only .global and .shared"},
      {"atom.const.add.u32 %w0, [%rd1], %w1;", "only .global and .shared"},
      {"atom.global.add.u32 %w0, [%rd1], %w1, %l1;", "3 operands, not 4"},
      {"atom.global.cas.b32 %w0, [%rd1], %w1;", "4 operands, not 3"},
      {"atom.global.cas.L2::cache_hint.b32 %w0, [%rd1], %w1, %w2, %l1;", "no .L2::cache_hint"},
      {"red.acq_rel.global.add.u32 [%rd1], 1;", ".acq_rel"},
      {"atom.volatile.global.add.u32 %w0, [%rd1], 1;", ".volatile"},
  };
  for (const auto& [text, part] : kWrong) {
    SCOPED_TRACE(text);
    expect_fault(FaultKind::kIllegalInstruction, part, [&text = text] { decode(text); });
  }
}

// ---- vectors and 128 bits -----------------------------------------------------------------------

void sweep_vector(const std::string& op, const Type& type, int size, bool is_red) {
  SCOPED_TRACE((is_red ? "red." : "atom.") + op + ".v" + std::to_string(size) + "." + type.name);
  constexpr int kLanes = 32;
  const int bytes = type.bits / 8;
  const int count = kLanes * size;
  const Values values = values_of(type, count);
  const std::string reg = register_of(type);
  const bool half = type.name.find("f16") != std::string::npos;
  // Operands and results are the same registers.
  std::string body;
  for (int i = 0; i < size; ++i) {
    body += "ld.global" + reg + " %v" + std::to_string(i) + ", [%rd1+" + std::to_string(i * bytes) +
            "];\n";
  }
  std::string list;
  for (int i = 0; i < size; ++i) list += (i > 0 ? ", %v" : "%v") + std::to_string(i);
  body += (is_red ? "red.global." : "atom.global.") + op + (half ? ".noftz" : "") + ".v" +
          std::to_string(size) + "." + type.name + " ";
  if (!is_red) body += "{" + list + "}, ";
  body += "[%rd2], {" + list + "};\n";
  for (int i = 0; i < size; ++i) {
    body += "st.global" + reg + " [%rd1+" + std::to_string(i * bytes) + "], %v" +
            std::to_string(i) + ";\n";
  }
  PtxProgram program(one_kernel("  .reg " + reg + " %v<8>;", body, bytes * size, bytes * size));
  const uint64_t in = program.upload(to_bytes({values.b}, bytes));
  const uint64_t place = program.upload(to_bytes({values.old}, bytes));
  program.run("test", {}, in, place);
  const auto total = static_cast<size_t>(count) * static_cast<size_t>(bytes);
  const auto now = program.download<uint8_t>(place, total);
  const auto returned = program.download<uint8_t>(in, total);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    ASSERT_EQ(from_bytes(now, i, bytes), result_of(op, type, values.old[i], values.b[i], 0, true))
        << i;
    ASSERT_EQ(from_bytes(returned, i, bytes), is_red ? values.b[i] : values.old[i]) << i;
  }
}

TEST(Atomics, Vectors) {
  for (const bool is_red : {false, true}) {
    for (const int size : {2, 4}) sweep_vector("add", kF32, size, is_red);
    for (const std::string op : {"add", "min", "max"}) {
      for (const Type& type : {kF16, kBf16}) {
        for (const int size : {2, 4, 8}) sweep_vector(op, type, size, is_red);
      }
      for (const Type& type : {kF16x2, kBf16x2}) {
        for (const int size : {2, 4}) sweep_vector(op, type, size, is_red);
      }
    }
  }
}

TEST(Atomics, VectorElementsMayBeLeftOut) {
  PtxProgram program(one_kernel("  .reg .f32 %f<4>;",
                                "ld.global.v2.f32 {%f0, %f1}, [%rd1];\n"
                                "mov.f32 %f3, 0f42280000;\n"
                                "atom.global.add.v2.f32 {_, %f3}, [%rd2], {%f0, %f1};\n"
                                "atom.global.add.v2.f32 _, [%rd2], {%f0, %f1};\n"
                                "st.global.f32 [%rd1], %f3;",
                                8, 8));
  const uint64_t in = program.upload(std::vector<float>(64, 1.5F));
  const uint64_t place = program.upload(std::vector<float>(64, 10.0F));
  program.run("test", {}, in, place);
  EXPECT_EQ(program.download<float>(place, 64), std::vector<float>(64, 13.0F));
  EXPECT_EQ(program.download<float>(in, 2), (std::vector<float>{10.0F, 1.5F}));
}

TEST(Atomics, ExchangesAndComparesOf128Bits) {
  for (const std::string space : {"global", "shared"}) {
    const bool shared = space == "shared";
    const std::string place = shared ? "%r1" : "%rd2";
    // b differs from what is there in one bit or none: lane i in bit i - 1.
    const std::string body =
        "mov.u32 %r1, buffer;\nmad.lo.u32 %r1, %r0, 16, %r1;\n"
        "ld.global.b128 %q0, [%rd1];\nld.global.b128 %q1, [%rd1+16];\n"
        "ld.global.b128 %q2, [%rd1+32];\n"
        "st." +
        space + ".b128 [" + place +
        "], %q0;\n"
        "atom." +
        space + ".cas.b128 %q3, [" + place +
        "], %q1, %q2;\n"
        "ld." +
        space + ".b128 %q4, [" + place +
        "];\n"
        "atom." +
        space + ".exch.b128 %q5, [" + place +
        "], %q1;\n"
        "ld." +
        space + ".b128 %q6, [" + place +
        "];\n"
        "st.global.b128 [%rd1], %q3;\nst.global.b128 [%rd1+16], %q4;\n"
        "st.global.b128 [%rd1+32], %q5;\nst.global.b128 [%rd1+48], %q6;";
    PtxProgram program(
        one_kernel("  .reg .b128 %q<8>;\n  .reg .b32 %r1;\n  .shared .align 16 .b8 buffer[2048];",
                   body, 64, 16));
    using Pair = std::array<uint64_t, 2>;
    std::vector<Pair> in;
    for (uint64_t lane = 0; lane < 128; ++lane) {
      const Pair old = {0x0123456789ABCDEF * (lane + 1), 0xFEDCBA9876543210 + lane};
      Pair b = old;
      if (lane != 0) b[lane / 64] ^= uint64_t{1} << (lane % 64);
      in.insert(in.end(), {old, b, Pair{lane, ~lane}, Pair{}});
    }
    const uint64_t at = program.upload(in);
    const uint64_t out = program.upload(std::vector<Pair>(128));
    program.run("test", {.block = {128, 1, 1}}, at, out);
    const auto result = program.download<Pair>(at, 512);
    for (size_t lane = 0; lane < 128; ++lane) {
      const Pair swapped = lane == 0 ? in[2] : in[4 * lane];
      EXPECT_EQ(result[4 * lane], in[4 * lane]) << lane;
      EXPECT_EQ(result[4 * lane + 1], swapped) << lane;
      EXPECT_EQ(result[4 * lane + 2], swapped) << lane;
      EXPECT_EQ(result[4 * lane + 3], in[4 * lane + 1]) << lane;
    }
  }
}

// ---- many at one place --------------------------------------------------------------------------

// Every thread of every block runs `instruction` at `counter`, and keeps what it returns.
std::string contention_kernel(const std::string& instruction) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n"
         ".visible .entry test(.param .u64 counter, .param .u64 out) {\n"
         "  .reg .b32 %r<8>;\n  .reg .b64 %rd<4>;\n"
         "  ld.param.u64 %rd1, [counter];\n  ld.param.u64 %rd2, [out];\n"
         "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n"
         "  mad.lo.u32 %r3, %r1, %r2, %r0;\n  mad.wide.u32 %rd2, %r3, 4, %rd2;\n"
         "  add.u32 %r4, %r3, 1;\n  " +
         instruction + "\n  st.global.u32 [%rd2], %r5;\n  ret;\n}\n";
}

struct Contention {
  std::vector<uint32_t> returned;
  uint32_t left = 0;
};

Contention contend(const std::string& instruction, uint32_t first, uint64_t seed = 0) {
  GpuOptions options;
  options.seed = seed;
  PtxProgram program(contention_kernel(instruction), options);
  constexpr size_t kAll = size_t{16} * kThreads;
  const uint64_t counter = program.upload(std::vector<uint32_t>{first});
  const uint64_t out = program.upload(std::vector<uint32_t>(kAll));
  program.run("test", {.grid = {16, 1, 1}, .block = {kThreads, 1, 1}}, counter, out);
  return {program.download<uint32_t>(out, kAll), program.download<uint32_t>(counter, 1)[0]};
}

std::vector<uint32_t> sorted(std::vector<uint32_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<uint32_t> counted(uint32_t first, uint32_t count) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

constexpr uint32_t kContenders = 16 * kThreads;

TEST(Atomics, EveryAdditionSeesAnotherValue) {
  const Contention add = contend("atom.global.add.u32 %r5, [%rd1], 1;", 7);
  EXPECT_EQ(add.left, 7 + kContenders);
  EXPECT_EQ(sorted(add.returned), counted(7, kContenders));
}

TEST(Atomics, AChainOfExchangesLosesNothing) {
  Contention exchange = contend("atom.global.exch.b32 %r5, [%rd1], %r4;", 0);
  exchange.returned.push_back(exchange.left);
  EXPECT_EQ(sorted(exchange.returned), counted(0, kContenders + 1));
}

TEST(Atomics, CountersWrap) {
  // 0, 1, ..., 9, 0, ...
  const Contention inc = contend("atom.global.inc.u32 %r5, [%rd1], 9;", 0);
  EXPECT_EQ(inc.left, kContenders % 10);
  const std::vector<uint32_t> seen = sorted(inc.returned);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), (kContenders + 9) / 10);
  EXPECT_EQ(seen.back(), 9u);
  const Contention dec = contend("atom.global.dec.u32 %r5, [%rd1], 9;", 0);
  EXPECT_EQ(dec.left, (10 - kContenders % 10) % 10);
}

TEST(Atomics, ACompareAndSwapLoopAdds) {
  const Contention loop = contend(
      ".reg .pred %p;\n  ld.global.u32 %r5, [%rd1];\nAGAIN:\n  mov.u32 %r6, %r5;\n"
      "  add.u32 %r7, %r6, 3;\n  atom.global.cas.b32 %r5, [%rd1], %r6, %r7;\n"
      "  setp.ne.u32 %p, %r5, %r6;\n  @%p bra AGAIN;",
      5);
  EXPECT_EQ(loop.left, 5 + 3 * kContenders);
  std::set<uint32_t> seen(loop.returned.begin(), loop.returned.end());
  EXPECT_EQ(seen.size(), kContenders);
}

TEST(Atomics, TheSeedChoosesTheOrderOfAWarpsLanes) {
  const std::string instruction = "atom.global.add.u32 %r5, [%rd1], 1;";
  const Contention one = contend(instruction, 0, 1);
  const Contention again = contend(instruction, 0, 1);
  EXPECT_EQ(one.left, again.left);
  const auto order = [](const Contention& run) {
    std::vector<uint32_t> lanes(32);
    const auto first = run.returned.begin();
    for (size_t i = 0; i < 32; ++i)
      lanes[i] = run.returned[i] - *std::min_element(first, first + 32);
    return lanes;
  };
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const std::vector<uint32_t> lanes = order(contend(instruction, 0, seed));
    EXPECT_EQ(sorted(lanes), counted(0, 32));
    orders.insert(lanes);
  }
  EXPECT_EQ(orders.size(), 8u);
}

TEST(Atomics, LanesOfAWarpTakeTurnsAtALock) {
  // Each takes the lock, adds to a plain counter, and gives the lock back.
  const std::string body =
      "  mov.u32 %w1, lock;\n  setp.ne.u32 %p, %r0, 0;\n"
      "  @!%p st.shared.u32 [%w1], 0;\n  @!%p st.shared.u32 [%w1+4], 0;\n  bar.sync 0;\n"
      "TRY:\n  atom.acquire.cta.shared.cas.b32 %w3, [%w1], 0, 1;\n"
      "  setp.ne.u32 %p, %w3, 0;\n  @%p bra TRY;\n"
      "  ld.shared.u32 %w4, [%w1+4];\n  add.u32 %w4, %w4, 1;\n  st.shared.u32 [%w1+4], %w4;\n"
      "  atom.release.cta.shared.exch.b32 _, [%w1], 0;\n"
      "  bar.sync 0;\n  ld.shared.u32 %w4, [%w1+4];\n  st.global.u32 [%rd2], %w4;";
  for (uint64_t seed = 0; seed < 3; ++seed) {
    GpuOptions options;
    options.seed = seed;
    PtxProgram program(one_kernel("  .reg .b32 %w<5>;\n  .reg .pred %p;\n"
                                  "  .shared .align 8 .b8 lock[8];",
                                  body),
                       options);
    const uint64_t out = program.upload(std::vector<uint32_t>(96));
    program.run("test", {.block = {96, 1, 1}}, out, out);
    EXPECT_EQ(program.download<uint32_t>(out, 96), std::vector<uint32_t>(96, 96));
  }
}

TEST(Atomics, InTheSharedMemoryOfAnotherBlockOfTheCluster) {
  // Each thread adds its number to the next block's word, and reads its own block's.
  const std::string ptx =
      ".version 9.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry test(.param .u64 out) {\n"
      "  .reg .b32 %r<8>;\n  .reg .b64 %rd<4>;\n  .reg .pred %p;\n  .shared .align 4 .b32 sum;\n"
      "  ld.param.u64 %rd1, [out];\n  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, %cluster_ctarank;\n"
      "  mov.u32 %r2, sum;\n  setp.eq.u32 %p, %r0, 0;\n"
      "  @%p st.shared.u32 [%r2], 100;\n"
      "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n"
      "  xor.b32 %r4, %r2, 0x1000000;\n  add.u32 %r5, %r0, %r1;\n"
      "  red.relaxed.cluster.shared::cluster.add.u32 [%r4], %r5;\n"
      "  cvt.u64.u32 %rd3, %r4;\n  cvta.shared.u64 %rd3, %rd3;\n"
      "  atom.add.u32 %r6, [%rd3], 1;\n"
      "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n"
      "  ld.shared.u32 %r6, [%r2];\n  mov.u32 %r7, %ctaid.x;\n"
      "  mad.wide.u32 %rd2, %r7, 4, %rd1;\n  st.global.u32 [%rd2], %r6;\n  ret;\n}\n";
  PtxProgram program(ptx);
  const uint64_t out = program.upload(std::vector<uint32_t>(4));
  program.run("test", {.grid = {4, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}}, out);
  const uint32_t own = 100 + 64 + 63 * 64 / 2;
  EXPECT_EQ(program.download<uint32_t>(out, 4),
            (std::vector<uint32_t>{own + 64, own, own + 64, own}));
}

TEST(Atomics, LanesThatTheGuardExcludesDoNothing) {
  PtxProgram program(one_kernel("  .reg .pred %p;\n  .reg .b32 %r1;",
                                "and.b32 %r1, %r0, 1;\nsetp.eq.u32 %p, %r1, 0;\n"
                                "mov.u32 %r1, 77;\n"
                                "@%p atom.global.add.u32 %r1, [%rd1], 1;\n"
                                "st.global.u32 [%rd2], %r1;"));
  const uint64_t in = program.upload(std::vector<uint32_t>(32, 5));
  const uint64_t out = program.upload(std::vector<uint32_t>(32));
  program.run("test", {}, in, out);
  for (size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(program.download<uint32_t>(in, 32)[lane], lane % 2 == 0 ? 6u : 5u);
    EXPECT_EQ(program.download<uint32_t>(out, 32)[lane], lane % 2 == 0 ? 5u : 77u);
  }
}

TEST(Atomics, TheResultMayReplaceAddressAndOperand) {
  PtxProgram program(one_kernel("  .reg .b64 %rd3;",
                                "mov.u64 %rd3, %rd1;\n"
                                "atom.global.add.u64 %rd3, [%rd3], %rd3;\n"
                                "st.global.u64 [%rd2], %rd3;",
                                8, 8));
  const uint64_t in = program.upload(std::vector<uint64_t>(32, 1000));
  const uint64_t out = program.upload(std::vector<uint64_t>(32));
  program.run("test", {}, in, out);
  EXPECT_EQ(program.download<uint64_t>(out, 32), std::vector<uint64_t>(32, 1000));
  const auto now = program.download<uint64_t>(in, 32);
  for (uint64_t lane = 0; lane < 32; ++lane) EXPECT_EQ(now[lane], 1000 + in + 8 * lane);
}

// ---- faults -------------------------------------------------------------------------------------

void run_at(const std::string& body, const std::string& declarations = "") {
  PtxProgram program(one_kernel(
      "  .reg .b32 %w<8>;\n  .reg .b64 %l<4>;\n  .reg .b128 %q<2>;\n" + declarations, body, 0, 0));
  const uint64_t in = program.upload(std::vector<uint64_t>(32));
  program.run("test", {.block = {1, 1, 1}}, in, in);
}

TEST(Atomics, AddressesMustBeAligned) {
  const auto misaligned = [](const std::string& instruction, const std::string& part) {
    SCOPED_TRACE(instruction);
    expect_fault(FaultKind::kMisalignedAddress, part, [&] { run_at(instruction); });
  };
  misaligned("red.global.add.u32 [%rd1+2], 1;", "multiple of 4");
  misaligned("red.global.add.noftz.f16x2 [%rd1+2], %w0;", "multiple of 4");
  misaligned("red.global.add.u64 [%rd1+4], 1;", "multiple of 8");
  misaligned("red.global.add.v2.f32 [%rd1+4], {%w0, %w1};", "multiple of 8");
  misaligned("red.global.add.v4.f32 [%rd1+8], {%w0, %w1, %w2, %w3};", "multiple of 16");
  misaligned("atom.global.exch.b128 %q0, [%rd1+8], %q1;", "multiple of 16");
}

TEST(Atomics, AddressesMustBeInAnAllocation) {
  expect_fault(FaultKind::kIllegalAddress, "atomic operation on 4 bytes",
               [] { run_at("red.global.add.u32 [%rd1+256], 1;"); });
  expect_fault(FaultKind::kIllegalAddress, "atomic operation on 8 bytes",
               [] { run_at("mov.u64 %l0, 0;\n red.add.u64 [%l0], 1;"); });
  expect_fault(FaultKind::kIllegalAddress, "shared memory ends", [] {
    run_at("mov.u32 %w0, 0x80000;\n red.shared.add.u32 [%w0], 1;", ".shared .b32 word;");
  });
}

// As an H200 does: each thread's own word, though all threads have the same address of it.
TEST(Atomics, GenericAddressesReachTheThreadsOwnMemory) {
  PtxProgram program(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry test(.param .u64 out) {\n"
      "  .reg .b32 %t, %old, %sum; .reg .b64 %out, %at, %local;\n  .local .b32 word;\n"
      "  ld.param.u64 %out, [out];\n  mov.u32 %t, %tid.x;\n"
      "  mad.wide.u32 %out, %t, 8, %out;\n"
      "  mov.u64 %local, word;\n  cvta.local.u64 %at, %local;\n  st.local.u32 [%local], %t;\n"
      "  atom.add.u32 %old, [%at], 100;\n  red.max.u32 [%at], 120;\n"
      "  atom.cas.b32 %sum, [%at], 121, 7;\n  ld.local.u32 %sum, [%local];\n"
      "  st.global.v2.u32 [%out], {%old, %sum};\n  ret;\n}\n");
  const uint64_t out = program.upload(std::vector<uint32_t>(128));
  program.run("test", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, out);
  const auto got = program.download<uint32_t>(out, 128);
  for (uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(got[2 * t], t);
    const uint32_t most = std::max(t + 100, 120u);
    EXPECT_EQ(got[2 * t + 1], most == 121 ? 7 : most) << "thread " << t;
  }
  expect_fault(FaultKind::kIllegalAddress, "local memory", [] {
    run_at("mov.u64 %l0, word;\n cvta.local.u64 %l0, %l0;\n red.add.u32 [%l0+1048576], 1;",
           ".local .b32 word;");
  });
}

TEST(Atomics, VectorsAreForGlobalMemory) {
  const std::string address = "mov.u64 %l0, words;\n cvta.shared.u64 %l0, %l0;\n ";
  const std::string words = ".shared .align 8 .b32 words[2];";
  expect_fault(FaultKind::kInvalidAddressSpace, "only global memory",
               [&] { run_at(address + "red.add.v2.f32 [%l0], {%w0, %w1};", words); });
  expect_fault(FaultKind::kInvalidAddressSpace, "local memory", [] {
    run_at("mov.u64 %l0, words;\n cvta.local.u64 %l0, %l0;\n red.add.v2.f32 [%l0], {%w0, %w1};",
           ".local .align 8 .b32 words[2];");
  });
  EXPECT_NO_THROW(run_at(address + "st.f32 [%l0], 0f00000000;\n red.add.f32 [%l0], %w0;", words));
}

TEST(Atomics, ConstantMemoryIsNotWritten) {
  const std::string ptx =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.const .align 4 .u32 word = 1;\n"
      ".visible .entry test() {\n  .reg .b64 %rd1;\n"
      "  mov.u64 %rd1, word;\n  cvta.const.u64 %rd1, %rd1;\n  red.add.u32 [%rd1], 1;\n"
      "  ret;\n}\n";
  expect_fault(FaultKind::kIllegalAddress, "constant memory", [&] {
    PtxProgram program(ptx);
    program.run("test", {});
  });
}

}  // namespace
}  // namespace mpfa::sim
