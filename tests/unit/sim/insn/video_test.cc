// Video instructions against the pseudo-code of the PTX ISA's section Video Instructions.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/machine/fault.h"
#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::one_kernel;
using testing::PtxProgram;

// One instruction, `%d` to be written from %a, %b and %c, and what it gives.
struct Variant {
  std::string text;
  std::function<uint32_t(uint32_t a, uint32_t b, uint32_t c)> expected;
};

const std::vector<uint32_t> kSamples = {0,          1,          0x7F,       0x80,       0xFF,
                                        0x7FFF,     0x8000,     0xFFFF,     0x00FF80FF, 0x7FFFFFFF,
                                        0x80000000, 0xFFFFFFFF, 0x12345678, 0xFEDCBA98, 33};

struct Operands {
  uint32_t a, b, c;
};

std::vector<Operands> operands() {
  std::vector<Operands> result;
  for (size_t i = 0; i < kSamples.size(); ++i) {
    for (size_t j = 0; j < kSamples.size(); ++j) {
      result.push_back({kSamples[i], kSamples[j], kSamples[(3 * i + 5 * j + 1) % 15]});
    }
  }
  return result;
}

void check(const std::vector<Variant>& variants) {
  const std::vector<Operands> in = operands();
  std::string body =
      "ld.global.u32 %a, [%rd1];\nld.global.u32 %b, [%rd1+4];\n"
      "ld.global.u32 %c, [%rd1+8];\n";
  for (size_t i = 0; i < variants.size(); ++i) {
    // What is not written shows.
    body += "mov.u32 %d, 0xDEADBEEF;\n" + variants[i].text + "\nst.global.u32 [%rd2+" +
            std::to_string(4 * i) + "], %d;\n";
  }
  PtxProgram program(
      one_kernel("  .reg .b32 %a, %b, %c, %d;", body, 12, static_cast<int>(4 * variants.size())));
  const uint64_t from = program.upload(in);
  const uint64_t to = program.upload(std::vector<uint32_t>(in.size() * variants.size()));
  program.run("test", {.block = {static_cast<uint32_t>(in.size()), 1, 1}}, from, to);
  const auto result = program.download<uint32_t>(to, in.size() * variants.size());
  for (size_t v = 0; v < variants.size(); ++v) {
    for (size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(result[i * variants.size() + v], variants[v].expected(in[i].a, in[i].b, in[i].c))
          << variants[v].text << std::hex << " a " << in[i].a << " b " << in[i].b << " c "
          << in[i].c;
    }
  }
}

// ---- the pseudo-code ----------------------------------------------------------------------------

using Int = __int128;

// The signed number of `bits` bits that is congruent to value.
Int wrapped(Int value, int bits) {
  const Int count = Int{1} << bits;
  Int rest = value % count;
  if (rest < 0) rest += count;
  return rest >= count / 2 ? rest - count : rest;
}

struct Part {
  int position;
  int bits;
};

Part part_of(const std::string& selector) {
  if (selector.empty()) return {0, 32};
  const int bits = selector[1] == 'b' ? 8 : 16;
  return {(selector[2] - '0') * bits, bits};
}

Int extracted(uint32_t word, const std::string& selector, bool is_signed) {
  const auto [position, bits] = part_of(selector);
  const Int value = (Int{word} >> position) % (Int{1} << bits);
  return is_signed ? wrapped(value, bits) : value;
}

Int clamped(Int value, int bits, bool is_signed) {
  const Int count = Int{1} << bits;
  const Int lowest = is_signed ? -count / 2 : 0;
  const Int highest = lowest + count - 1;
  return value < lowest ? lowest : value > highest ? highest : value;
}

Int minimum(Int a, Int b) { return a < b ? a : b; }
Int maximum(Int a, Int b) { return a < b ? b : a; }

Int secondary(const std::string& op, Int value, Int c) {
  if (op == ".add") return value + c;
  if (op == ".min") return minimum(value, c);
  return op == ".max" ? maximum(value, c) : value;
}

uint32_t merged(Int value, const std::string& selector, uint32_t c) {
  const auto [position, bits] = part_of(selector);
  const auto low = static_cast<uint32_t>(value);
  if (bits == 32) return low;
  const uint32_t mask = ((uint32_t{1} << bits) - 1) << position;
  return (c & ~mask) | (low << position & mask);
}

struct Modifiers {
  bool d_signed, a_signed, b_signed, sat;
  std::string second;
  std::string d_selector, a_selector, b_selector;

  std::string operand_text(bool always_c) const {
    const bool has_c = always_c || !second.empty() || !d_selector.empty();
    return " %d" + d_selector + ", %a" + a_selector + ", %b" + b_selector + (has_c ? ", %c;" : ";");
  }
};

std::string type(bool is_signed) { return is_signed ? ".s32" : ".u32"; }

uint32_t finished(const Modifiers& m, Int primary, uint32_t c) {
  Int value = wrapped(primary, 34);
  if (m.sat) value = clamped(value, part_of(m.d_selector).bits, m.d_signed);
  value = wrapped(value, 33);
  value = secondary(m.second, value, extracted(c, "", m.d_signed));
  return merged(value, m.d_selector, c);
}

// Every combination of signs, saturation and what follows, with some selectors.
std::vector<Modifiers> all_modifiers() {
  const std::vector<std::array<std::string, 2>> kInputs = {
      {"", ""}, {".b3", ".h0"}, {".h1", ".b0"}, {".b1", ".b2"}};
  const std::vector<std::array<std::string, 2>> kEnds = {{"", ""},     {".add", ""}, {".min", ""},
                                                         {".max", ""}, {"", ".b0"},  {"", ".b1"},
                                                         {"", ".b3"},  {"", ".h0"},  {"", ".h1"}};
  std::vector<Modifiers> all;
  for (int bits = 0; bits < 16; ++bits) {
    for (const auto& input : kInputs) {
      for (const auto& end : kEnds) {
        all.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, end[0],
                       end[1], input[0], input[1]});
      }
    }
  }
  return all;
}

using Binary = std::function<Int(Int, Int)>;

void check_scalar(const std::string& opcode, const Binary& primary) {
  std::vector<Variant> variants;
  for (const Modifiers& m : all_modifiers()) {
    variants.push_back({opcode + type(m.d_signed) + type(m.a_signed) + type(m.b_signed) +
                            (m.sat ? ".sat" : "") + m.second + m.operand_text(false),
                        [=](uint32_t a, uint32_t b, uint32_t c) {
                          return finished(m,
                                          primary(extracted(a, m.a_selector, m.a_signed),
                                                  extracted(b, m.b_selector, m.b_signed)),
                                          c);
                        }});
  }
  check(variants);
}

TEST(Video, Add) {
  check_scalar("vadd", [](Int a, Int b) { return a + b; });
}
TEST(Video, Sub) {
  check_scalar("vsub", [](Int a, Int b) { return a - b; });
}
TEST(Video, AbsDiff) {
  check_scalar("vabsdiff", [](Int a, Int b) { return maximum(a - b, b - a); });
}
TEST(Video, Min) { check_scalar("vmin", minimum); }
TEST(Video, Max) { check_scalar("vmax", maximum); }

TEST(Video, Shifts) {
  for (const bool left : {false, true}) {
    for (const bool wrap : {false, true}) {
      std::vector<Variant> variants;
      for (const Modifiers& m : all_modifiers()) {
        if (m.b_signed) continue;
        const auto expected = [=](uint32_t a, uint32_t b, uint32_t c) {
          Int amount = extracted(b, m.b_selector, false);
          amount = wrap ? amount % 32 : minimum(amount, 32);
          const Int power = Int{1} << static_cast<int>(amount);
          const Int value = extracted(a, m.a_selector, m.a_signed);
          // Down to the next integer.
          const Int quotient = value / power - (value % power < 0 ? 1 : 0);
          return finished(m, left ? value * power : quotient, c);
        };
        variants.push_back({std::string(left ? "vshl" : "vshr") + type(m.d_signed) +
                                type(m.a_signed) + ".u32" + (m.sat ? ".sat" : "") +
                                (wrap ? ".wrap" : ".clamp") + m.second + m.operand_text(false),
                            expected});
      }
      check(variants);
    }
  }
}

struct Comparison {
  const char* name;
  bool less, equal, greater;

  Int of(Int a, Int b) const { return a < b ? less : (a == b ? equal : greater); }
};
const std::vector<Comparison> kComparisons = {
    {".eq", false, true, false}, {".ne", true, false, true},  {".lt", true, false, false},
    {".le", true, true, false},  {".gt", false, false, true}, {".ge", false, true, true}};

TEST(Video, Set) {
  std::vector<Variant> variants;
  for (const Modifiers& m : all_modifiers()) {
    if (m.d_signed || m.sat) continue;
    for (const Comparison& compare : kComparisons) {
      variants.push_back({"vset" + type(m.a_signed) + type(m.b_signed) + compare.name + m.second +
                              m.operand_text(false),
                          [=](uint32_t a, uint32_t b, uint32_t c) {
                            return finished(m,
                                            compare.of(extracted(a, m.a_selector, m.a_signed),
                                                       extracted(b, m.b_selector, m.b_signed)),
                                            c);
                          }});
    }
  }
  check(variants);
}

TEST(Video, Mad) {
  struct Negation {
    const char *a, *b, *c;
  };
  std::vector<Variant> variants;
  for (const bool sat : {false, true}) {
    for (const int scale : {0, 7, 15}) {
      for (const int signs : {0, 1, 2, 3}) {
        for (const Negation& negation : std::vector<Negation>{
                 {"", "", ""}, {"-", "", ""}, {"", "-", ""}, {"-", "-", ""}, {"", "", "-"}}) {
          for (const bool plus_one : {false, true}) {
            const std::string signs_text = std::string(negation.a) + negation.b + negation.c;
            if (plus_one && !signs_text.empty()) continue;
            const bool a_signed = (signs & 1) != 0;
            const bool b_signed = (signs & 2) != 0;
            const bool minus_product = std::string(negation.a) != negation.b;
            const bool minus_c = *negation.c != 0;
            const bool is_signed = signs != 0 || minus_product || minus_c;
            const std::string text = "vmad" + type(is_signed) + type(a_signed) + type(b_signed) +
                                     (plus_one ? ".po" : "") + (sat ? ".sat" : "") +
                                     (scale > 0 ? ".shr" + std::to_string(scale) : "") + " %d, " +
                                     negation.a + "%a.h0, " + negation.b + "%b, " + negation.c +
                                     "%c;";
            variants.push_back(
                {text, [=](uint32_t a, uint32_t b, uint32_t c) {
                   Int product = extracted(a, ".h0", a_signed) * extracted(b, "", b_signed);
                   // The operand's sign is taken after its bits are inverted, so -c is not c's own.
                   Int addend =
                       minus_c ? extracted(~c, "", is_signed) + 1 : extracted(c, "", is_signed);
                   if (minus_product) product = -product;
                   Int sum = product + addend + (plus_one ? 1 : 0);
                   const Int power = Int{1} << scale;
                   sum = sum / power - (sum % power < 0 ? 1 : 0);
                   return static_cast<uint32_t>(sat ? clamped(sum, 32, is_signed) : sum);
                 }});
          }
        }
      }
    }
  }
  check(variants);
}

// ---- SIMD ---------------------------------------------------------------------------------------

struct Simd {
  int elements;
  bool d_signed, a_signed, b_signed, sat, accumulate;
  std::string mask, a_selector, b_selector;  // without their dot and letter; empty: none

  std::string selector(const std::string& digits) const {
    return digits.empty() ? "" : (elements == 2 ? ".h" : ".b") + digits;
  }
};

// Element e of the eight or four of a and b.
Int element(const Simd& s, uint32_t a, uint32_t b, int e, bool is_signed) {
  const uint32_t word = e < s.elements ? a : b;
  const int bits = 32 / s.elements;
  const Int value = (Int{word} >> (e % s.elements * bits)) % (Int{1} << bits);
  return is_signed ? wrapped(value, bits) : value;
}

int digit(const std::string& digits, const std::string& standard, int from_right) {
  const std::string& text = digits.empty() ? standard : digits;
  return text[text.size() - 1 - static_cast<size_t>(from_right)] - '0';
}

uint32_t simd_expected(const Simd& s, const Binary& primary, uint32_t a, uint32_t b, uint32_t c) {
  const int bits = 32 / s.elements;
  const std::string a_standard = s.elements == 2 ? "10" : "3210";
  const std::string b_standard = s.elements == 2 ? "32" : "7654";
  const std::string mask = s.mask.empty() ? a_standard : s.mask;
  uint32_t result = s.accumulate ? c : 0;
  for (int e = 0; e < s.elements; ++e) {
    const Int x = element(s, a, b, digit(s.a_selector, a_standard, e), s.a_signed);
    const Int y = element(s, a, b, digit(s.b_selector, b_standard, e), s.b_signed);
    Int value = primary(x, y);
    if (s.sat) value = clamped(value, bits, s.d_signed);
    const bool wanted = mask.find(static_cast<char>('0' + e)) != std::string::npos;
    const auto all = static_cast<uint32_t>((Int{1} << bits) - 1);
    if (s.accumulate) {
      result += wanted ? static_cast<uint32_t>(value) : 0;
    } else {
      const uint32_t kept = c >> (bits * e) & all;
      result |= (wanted ? static_cast<uint32_t>(value) & all : kept) << (bits * e);
    }
  }
  return result;
}

std::vector<Simd> all_simd(int elements, bool is_set) {
  using Selectors = std::array<std::string, 3>;
  const std::vector<Selectors> two = {
      {"", "", ""}, {"0", "10", "32"}, {"1", "31", "20"}, {"10", "33", "12"}};
  const std::vector<Selectors> four = {{"", "", ""},
                                       {"0", "7654", "3210"},
                                       {"31", "0246", "1357"},
                                       {"321", "7000", "4444"},
                                       {"3210", "6521", "0123"},
                                       {"2", "3210", "7654"}};
  std::vector<Simd> all;
  for (int bits = 0; bits < 8; ++bits) {
    const bool d_signed = (bits & 1) != 0;
    if (is_set && d_signed) continue;
    for (const int end : {0, 1, 2}) {  // nothing, .sat, .add
      if (is_set && end == 1) continue;
      for (const Selectors& each : elements == 2 ? two : four) {
        all.push_back({elements, d_signed, (bits & 2) != 0, (bits & 4) != 0, end == 1, end == 2,
                       each[0], each[1], each[2]});
      }
    }
  }
  return all;
}

void check_simd(const std::string& opcode, const Binary& primary) {
  for (const int elements : {2, 4}) {
    std::vector<Variant> variants;
    for (const Simd& s : all_simd(elements, false)) {
      variants.push_back(
          {opcode + std::to_string(elements) + type(s.d_signed) + type(s.a_signed) +
               type(s.b_signed) + (s.sat ? ".sat" : "") + (s.accumulate ? ".add" : "") + " %d" +
               s.selector(s.mask) + ", %a" + s.selector(s.a_selector) + ", %b" +
               s.selector(s.b_selector) + ", %c;",
           [=](uint32_t a, uint32_t b, uint32_t c) { return simd_expected(s, primary, a, b, c); }});
    }
    check(variants);
  }
}

TEST(SimdVideo, Add) {
  check_simd("vadd", [](Int a, Int b) { return a + b; });
}
TEST(SimdVideo, Sub) {
  check_simd("vsub", [](Int a, Int b) { return a - b; });
}
TEST(SimdVideo, Average) {
  // Halves go away from zero upwards, and down below it.
  check_simd("vavrg", [](Int a, Int b) {
    const Int sum = a + b;
    if (sum >= 0) return (sum + 1) / 2;
    return sum / 2 - (sum % 2 != 0 ? 1 : 0);
  });
}
TEST(SimdVideo, AbsDiff) {
  check_simd("vabsdiff", [](Int a, Int b) { return maximum(a - b, b - a); });
}
TEST(SimdVideo, Min) { check_simd("vmin", minimum); }
TEST(SimdVideo, Max) { check_simd("vmax", maximum); }

TEST(SimdVideo, Set) {
  for (const int elements : {2, 4}) {
    std::vector<Variant> variants;
    for (const Simd& s : all_simd(elements, true)) {
      for (const Comparison& compare : kComparisons) {
        variants.push_back({"vset" + std::to_string(elements) + type(s.a_signed) +
                                type(s.b_signed) + compare.name + (s.accumulate ? ".add" : "") +
                                " %d" + s.selector(s.mask) + ", %a" + s.selector(s.a_selector) +
                                ", %b" + s.selector(s.b_selector) + ", %c;",
                            [=](uint32_t a, uint32_t b, uint32_t c) {
                              return simd_expected(
                                  s, [&](Int x, Int y) { return compare.of(x, y); }, a, b, c);
                            }});
      }
    }
    check(variants);
  }
}

// ---- what does not exist ------------------------------------------------------------------------

TEST(Video, ErrorsNameWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> kWrong = {
      {"vadd.s32.s32.s32.add %d.b1, %a, %b, %c;", "exclude each other"},
      {"vadd.s32.s32.s32 %d, -%a, %b;", "negated"},
      {"vadd.s32.s32.s32 %d, %a.h2, %b;", ".h2"},
      {"vadd.s32.s32.s32 %d, %a.b10, %b;", ".b10"},
      {"vadd.s32.s32.f32 %d, %a, %b;", ".u32 or .s32"},
      {"vadd.s32.s32 %d, %a, %b;", "type is missing"},
      {"vadd.s32.s32.s32.wrap %d, %a, %b;", ".wrap"},
      {"vshl.u32.u32.u32 %d, %a, %b;", ".clamp or .wrap"},
      {"vshl.u32.u32.s32.clamp %d, %a, %b;", "shift amount"},
      {"vset.s32.u32 %d, %a, %b;", "comparison is missing"},
      {"vset.u32.s32.u32.lt %d, %a, %b;", ".u32"},
      {"vmad.s32.s32.s32.po %d, %a, %b, -%c;", ".po"},
      {"vmad.s32.s32.s32 %d, -%a, %b, -%c;", "either"},
      {"vset4.u32.u32.ne.max %d, %a, %b, %c;", ".max"},
      {"vadd4.s32.s32.u32.sat.add %d, %a, %b, %c;", "exclude each other"},
      {"vadd4.u32.u32.u32 %d, %a, %b;", "operand 4 is missing"},
      {"vmin4.s32.u32.u32 %d.b00, %a, %b, %c;", ".b00"},
      {"vadd2.s32.u32.u32 %d.h01, %a, %b, %c;", ".h01"},
      {"vadd2.s32.u32.u32 %d.b1, %a, %b, %c;", ".b1"},
      {"vadd2.u32.u32.u32 %d, %a.h3, %b, %c;", ".h3"},
      {"vadd2.u32.u32.u32 %d, %a.h34, %b, %c;", ".h34"},
      {"vadd4.u32.u32.u32 %d, %a, %b.b765, %c;", ".b765"},
      {"mov.u32 %d, %a.b1;", "only video instructions"},
      {"mov.u32 %d.h1, %a;", "only video instructions"},
  };
  for (const auto& [text, part] : kWrong) {
    SCOPED_TRACE(text);
    expect_fault(FaultKind::kIllegalInstruction, part, [&text = text] {
      PtxProgram program(one_kernel("  .reg .b32 %a, %b, %c, %d;", text));
      const uint64_t memory = program.upload(std::vector<uint32_t>(32));
      program.run("test", {}, memory, memory);
    });
  }
}

TEST(Video, NumbersAreOperandsToo) {
  check({{"vadd.s32.s32.s32.sat %d, %a, -3;",
          [](uint32_t a, uint32_t, uint32_t) {
            return static_cast<uint32_t>(clamped(extracted(a, "", true) - 3, 32, true));
          }},
         {"vadd4.u32.u32.u32 %d, %a, 0x01020304, 0;", [](uint32_t a, uint32_t, uint32_t) {
            uint32_t result = 0;
            for (uint32_t i = 0; i < 4; ++i) {
              result |= ((a >> (8 * i) & 0xFF) + 4 - i) % 256 << (8 * i);
            }
            return result;
          }}});
}

}  // namespace
}  // namespace mpfa::sim
