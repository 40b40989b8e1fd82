// mma.sync: every shape and type of sm_90 (PTX ISA, section Warp Level Matrix Instructions: mma).
#include "matrix_inputs.h"

namespace mpfa::ptx_test {
namespace {

constexpr int kLanes = 32;

enum class BitOp { kNone, kAnd, kXor };

struct MmaForm {
  std::string name;
  int m, n, k;
  Element a, b, c, d;
  BitOp bit_op = BitOp::kNone;
};

// Registers of 32 bits of a lane.
int registers_of(Element element, int rows, int columns) {
  return rows * columns * bits_of(element) / 32 / kLanes;
}

// A warp a set of operands; every register of a lane is beside the others.
template <int kA, int kB, int kC, int kD, class Body>
__global__ void run_mma(Body body, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                        uint32_t* d) {
  const size_t lane = size_t{blockIdx.x} * kLanes + threadIdx.x;
  uint32_t own_a[kA];
  uint32_t own_b[kB];
  uint32_t own_c[kC];
  uint32_t own_d[kD];
  for (int i = 0; i < kA; ++i) own_a[i] = a[lane * kA + i];
  for (int i = 0; i < kB; ++i) own_b[i] = b[lane * kB + i];
  for (int i = 0; i < kC; ++i) own_c[i] = c[lane * kC + i];
  body(own_a, own_b, own_c, own_d);
  for (int i = 0; i < kD; ++i) d[lane * kD + i] = own_d[i];
}

// Where element (row, k) of A or (k, column) of B lies: rows of 8, columns of as many as 4 lanes'
// registers hold (PTX ISA, Matrix Fragments for mma.m16n8k16 and those of the other shapes, which
// are all made so; m8n8k4 of f16 is not).
struct Place {
  int lane;
  int bit;  // in the lane's registers
};

Place place_of_factor(Element element, int rows, int outer, int k) {
  const int bits = bits_of(element);
  const int in_word = bits == 64 ? 1 : 32 / bits;
  const int word = bits == 64 ? 64 : 32;
  const int row_half = outer / 8;
  const int k_half = k / (4 * in_word);
  const int lane = outer % 8 * 4 + k / in_word % 4;
  return {lane, (k_half * (rows / 8) + row_half) * word + k % in_word * bits};
}

Place place_of_sum(Element element, int row, int column) {
  const int bits = bits_of(element);
  return {row % 8 * 4 + column / 2, (row / 8 * 2 + column % 2) * bits};
}

void put(std::vector<uint32_t>& registers, int of_lane, Place place, int bits, uint64_t value) {
  const auto base = static_cast<size_t>(place.lane) * static_cast<size_t>(of_lane);
  const auto word = base + static_cast<size_t>(place.bit / 32);
  registers[word] |= static_cast<uint32_t>(value << (place.bit % 32));
  if (bits == 64) {
    registers[word + 1] |= static_cast<uint32_t>(value >> 32);
  }
}

uint64_t take(const std::vector<uint32_t>& registers, size_t base, int of_lane, Place place,
              int bits) {
  const size_t word = base + static_cast<size_t>(place.lane) * static_cast<size_t>(of_lane) +
                      static_cast<size_t>(place.bit / 32);
  if (bits == 64) {
    return registers[word] | uint64_t{registers[word + 1]} << 32;
  }
  return registers[word] >> (place.bit % 32) & ((uint64_t{1} << bits) - 1);
}

// One set of operands in lanes' registers.
struct Operands {
  Matrix a, b, c;
  std::vector<uint32_t> a_registers, b_registers, c_registers;
};

Operands make_operands(const MmaForm& form, const OperandSet& set, Random& random) {
  Operands made = {random_matrix(form.a, form.m, form.k, set, set.spread, random),
                   random_matrix(form.b, form.k, form.n, set, set.spread, random),
                   random_matrix(form.c, form.m, form.n, set, set.addend_spread, random),
                   {},
                   {},
                   {}};
  const int na = registers_of(form.a, form.m, form.k);
  const int nb = registers_of(form.b, form.k, form.n);
  const int nc = registers_of(form.c, form.m, form.n);
  made.a_registers.resize(static_cast<size_t>(kLanes * na));
  made.b_registers.resize(static_cast<size_t>(kLanes * nb));
  made.c_registers.resize(static_cast<size_t>(kLanes * nc));
  for (int k = 0; k < form.k; ++k) {
    for (int row = 0; row < form.m; ++row) {
      put(made.a_registers, na, place_of_factor(form.a, form.m, row, k), bits_of(form.a),
          made.a.at(row, k));
    }
    for (int column = 0; column < form.n; ++column) {
      put(made.b_registers, nb, place_of_factor(form.b, form.n, column, k), bits_of(form.b),
          made.b.at(k, column));
    }
  }
  for (int row = 0; row < form.m; ++row) {
    for (int column = 0; column < form.n; ++column) {
      put(made.c_registers, nc, place_of_sum(form.c, row, column), bits_of(form.c),
          made.c.at(row, column));
    }
  }
  return made;
}

// Of small integers, where nothing is rounded.
int64_t exact_sum(const MmaForm& form, const Operands& operands, int row, int column) {
  int64_t sum = integer_value(form.c, operands.c.at(row, column));
  for (int k = 0; k < form.k; ++k) {
    const int a = integer_value(form.a, operands.a.at(row, k));
    const int b = integer_value(form.b, operands.b.at(k, column));
    sum += form.bit_op == BitOp::kXor ? a ^ b : a * b;
  }
  return sum;
}

using MmaLaunch = std::function<void(unsigned sets, const uint32_t* a, const uint32_t* b,
                                     const uint32_t* c, uint32_t* d)>;

void check_exact(Suite& suite, const MmaForm& form, const Operands& operands,
                 const std::vector<uint64_t>& values) {
  for (int row = 0; row < form.m; ++row) {
    for (int column = 0; column < form.n; ++column) {
      const uint64_t got = values[static_cast<size_t>(row * form.n + column)];
      const FloatFormat* format = format_of(form.d);
      const double value = format != nullptr ? to_double(*format, got) : static_cast<int32_t>(got);
      if (value != static_cast<double>(exact_sum(form, operands, row, column))) {
        suite.fail(form.name, "the sum of integers at row " + std::to_string(row) + ", column " +
                                  std::to_string(column) + " is " + std::to_string(value) +
                                  ", not " +
                                  std::to_string(exact_sum(form, operands, row, column)));
        return;
      }
    }
  }
}

void run_mma_form(Suite& suite, const MmaForm& form, const MmaLaunch& launch) {
  if (!suite.wants(form.name)) {
    return;
  }
  constexpr int kRepeats = 3;
  Random random(seed_of(form.name));
  std::vector<Operands> operands;
  std::vector<std::string> names;
  std::vector<uint32_t> a, b, c;
  for (const OperandSet& set : operand_sets()) {
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      Operands& made = operands.emplace_back(make_operands(form, set, random));
      names.push_back(set.name);
      a.insert(a.end(), made.a_registers.begin(), made.a_registers.end());
      b.insert(b.end(), made.b_registers.begin(), made.b_registers.end());
      c.insert(c.end(), made.c_registers.begin(), made.c_registers.end());
    }
  }
  const int nd = registers_of(form.d, form.m, form.n);
  const DeviceArray<uint32_t> device_a(a), device_b(b), device_c(c);
  const DeviceArray<uint32_t> device_d(operands.size() * kLanes * static_cast<size_t>(nd));
  launch(static_cast<unsigned>(operands.size()), device_a.data(), device_b.data(), device_c.data(),
         device_d.data());
  if (!finished(suite, form.name)) {
    return;
  }
  const std::vector<uint32_t> d = device_d.values();
  Results results;
  results.name = form.name;
  results.bits = bits_of(form.d);
  const auto elements = static_cast<size_t>(form.m * form.n);
  for (size_t s = 0; s < operands.size(); ++s) {
    for (int row = 0; row < form.m; ++row) {
      for (int column = 0; column < form.n; ++column) {
        results.values.push_back(take(d, s * kLanes * static_cast<size_t>(nd), nd,
                                      place_of_sum(form.d, row, column), bits_of(form.d)));
      }
    }
  }
  results.inputs_of = [&](size_t i) {
    const size_t s = i / elements;
    const auto row = static_cast<int>(i % elements) / form.n;
    const auto column = static_cast<int>(i % elements) % form.n;
    return "(" + names[s] + ") " +
           describe_sum(operands[s].a, operands[s].b,
                        hex(operands[s].c.at(row, column), bits_of(form.c)), row, column);
  };
  check_exact(suite, form, operands[0], results.values);
  suite.add(results);
}

}  // namespace

#define IN1(v) "r"(v[0])
#define IN2(v) IN1(v), "r"(v[1])
#define IN4(v) IN2(v), "r"(v[2]), "r"(v[3])
#define OUT2(v) "=r"(v[0]), "=r"(v[1])
#define OUT4(v) OUT2(v), "=r"(v[2]), "=r"(v[3])

// Texts of the registers: D's, A's, B's, C's by their numbers.
#define R_2_1_1_2 "{%0, %1}, {%2}, {%3}, {%4, %5};"
#define R_2_2_1_2 "{%0, %1}, {%2, %3}, {%4}, {%5, %6};"
#define R_2_4_2_2 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
#define R_4_2_1_4 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
#define R_4_4_2_4 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"

#define MMA(M, N, K, modifiers, types, suffix, EA, EB, EC, ED, NA, NB, NC, ND, bit_op)           \
  {                                                                                              \
    const auto body = [] __device__(const uint32_t* a, const uint32_t* b, const uint32_t* c,     \
                                    uint32_t* d) {                                               \
      asm volatile("mma.sync.aligned.m" #M "n" #N "k" #K ".row.col" modifiers "." types suffix   \
                   " " R_##ND##_##NA##_##NB##_##NC                                               \
                   : OUT##ND(d)                                                                  \
                   : IN##NA(a), IN##NB(b), IN##NC(c));                                           \
    };                                                                                           \
    run_mma_form(                                                                                \
        suite,                                                                                   \
        {"mma.m" #M "n" #N "k" #K modifiers "." types suffix, M, N, K, Element::EA, Element::EB, \
         Element::EC, Element::ED, BitOp::bit_op},                                               \
        [body](unsigned sets, const uint32_t* a, const uint32_t* b, const uint32_t* c,           \
               uint32_t* d) { run_mma<NA, NB, NC, ND><<<sets, kLanes>>>(body, a, b, c, d); });   \
  }

void half_factors(Suite& suite) {
  MMA(16, 8, 8, "", "f16.f16.f16.f16", "", kF16, kF16, kF16, kF16, 2, 1, 2, 2, kNone);
  MMA(16, 8, 16, "", "f16.f16.f16.f16", "", kF16, kF16, kF16, kF16, 4, 2, 2, 2, kNone);
  MMA(16, 8, 8, "", "f32.f16.f16.f32", "", kF16, kF16, kF32, kF32, 2, 1, 4, 4, kNone);
  MMA(16, 8, 16, "", "f32.f16.f16.f32", "", kF16, kF16, kF32, kF32, 4, 2, 4, 4, kNone);
  MMA(16, 8, 8, "", "f32.bf16.bf16.f32", "", kBf16, kBf16, kF32, kF32, 2, 1, 4, 4, kNone);
  MMA(16, 8, 16, "", "f32.bf16.bf16.f32", "", kBf16, kBf16, kF32, kF32, 4, 2, 4, 4, kNone);
  MMA(16, 8, 4, "", "f32.tf32.tf32.f32", "", kTf32, kTf32, kF32, kF32, 2, 1, 4, 4, kNone);
  MMA(16, 8, 8, "", "f32.tf32.tf32.f32", "", kTf32, kTf32, kF32, kF32, 4, 2, 4, 4, kNone);
}

void fp8_factors(Suite& suite) {
#define FORMS(A, EA, B, EB)                                                            \
  MMA(16, 8, 16, "", "f32." A "." B ".f32", "", EA, EB, kF32, kF32, 2, 1, 4, 4, kNone) \
  MMA(16, 8, 32, "", "f32." A "." B ".f32", "", EA, EB, kF32, kF32, 4, 2, 4, 4, kNone) \
  MMA(16, 8, 16, "", "f16." A "." B ".f16", "", EA, EB, kF16, kF16, 2, 1, 2, 2, kNone) \
  MMA(16, 8, 32, "", "f16." A "." B ".f16", "", EA, EB, kF16, kF16, 4, 2, 2, 2, kNone)
  FORMS("e4m3", kE4m3, "e4m3", kE4m3);
  FORMS("e4m3", kE4m3, "e5m2", kE5m2);
  FORMS("e5m2", kE5m2, "e4m3", kE4m3);
  FORMS("e5m2", kE5m2, "e5m2", kE5m2);
#undef FORMS
}

void integer_factors(Suite& suite) {
#define EIGHT(sat, A, EA, B, EB)                                                        \
  MMA(8, 8, 16, sat, "s32." A "." B ".s32", "", EA, EB, kS32, kS32, 1, 1, 2, 2, kNone)  \
  MMA(16, 8, 16, sat, "s32." A "." B ".s32", "", EA, EB, kS32, kS32, 2, 1, 4, 4, kNone) \
  MMA(16, 8, 32, sat, "s32." A "." B ".s32", "", EA, EB, kS32, kS32, 4, 2, 4, 4, kNone)
#define FOUR(sat, A, EA, B, EB)                                                         \
  MMA(8, 8, 32, sat, "s32." A "." B ".s32", "", EA, EB, kS32, kS32, 1, 1, 2, 2, kNone)  \
  MMA(16, 8, 32, sat, "s32." A "." B ".s32", "", EA, EB, kS32, kS32, 2, 1, 4, 4, kNone) \
  MMA(16, 8, 64, sat, "s32." A "." B ".s32", "", EA, EB, kS32, kS32, 4, 2, 4, 4, kNone)
#define FORMS(sat)                 \
  EIGHT(sat, "s8", kS8, "s8", kS8) \
  EIGHT(sat, "s8", kS8, "u8", kU8) \
  EIGHT(sat, "u8", kU8, "s8", kS8) \
  EIGHT(sat, "u8", kU8, "u8", kU8) \
  FOUR(sat, "s4", kS4, "s4", kS4)  \
  FOUR(sat, "s4", kS4, "u4", kU4) FOUR(sat, "u4", kU4, "s4", kS4) FOUR(sat, "u4", kU4, "u4", kU4)
  FORMS("");
  FORMS(".satfinite");
#undef FORMS
#undef FOUR
#undef EIGHT
#define FORMS(op, bit_op)                                                            \
  MMA(8, 8, 128, "", "s32.b1.b1.s32", op, kB1, kB1, kS32, kS32, 1, 1, 2, 2, bit_op)  \
  MMA(16, 8, 128, "", "s32.b1.b1.s32", op, kB1, kB1, kS32, kS32, 2, 1, 4, 4, bit_op) \
  MMA(16, 8, 256, "", "s32.b1.b1.s32", op, kB1, kB1, kS32, kS32, 4, 2, 4, 4, bit_op)
  FORMS(".and.popc", kAnd);
  FORMS(".xor.popc", kXor);
#undef FORMS
}

// A register of f64 is two of 32 bits to the rest of this file.
#define IN_D(v, i) "d"(v[i])
#define IN_D1(v) IN_D(v, 0)
#define IN_D2(v) IN_D1(v), IN_D(v, 1)
#define IN_D4(v) IN_D2(v), IN_D(v, 2), IN_D(v, 3)
#define IN_D8(v) IN_D4(v), IN_D(v, 4), IN_D(v, 5), IN_D(v, 6), IN_D(v, 7)
#define OUT_D(v, i) "=d"(v[i])
#define OUT_D2(v) OUT_D(v, 0), OUT_D(v, 1)
#define OUT_D4(v) OUT_D2(v), OUT_D(v, 2), OUT_D(v, 3)
#define R_4_8_4_4                                                                                \
  "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, " \
  "%19};"

#define MMA_F64(M, K, rounding, NA, NB, NC)                                                     \
  {                                                                                             \
    const auto body = [] __device__(const uint32_t* a, const uint32_t* b, const uint32_t* c,    \
                                    uint32_t* d) {                                              \
      double da[NA], db[NB], dc[NC], dd[NC];                                                    \
      memcpy(da, a, sizeof da);                                                                 \
      memcpy(db, b, sizeof db);                                                                 \
      memcpy(dc, c, sizeof dc);                                                                 \
      asm volatile("mma.sync.aligned.m" #M "n8k" #K ".row.col.f64.f64.f64.f64" rounding         \
                   " " R_##NC##_##NA##_##NB##_##NC                                              \
                   : OUT_D##NC(dd)                                                              \
                   : IN_D##NA(da), IN_D##NB(db), IN_D##NC(dc));                                 \
      memcpy(d, dd, sizeof dd);                                                                 \
    };                                                                                          \
    run_mma_form(suite,                                                                         \
                 {"mma.m" #M "n8k" #K ".f64.f64.f64.f64" rounding, M, 8, K, Element::kF64,      \
                  Element::kF64, Element::kF64, Element::kF64},                                 \
                 [body](unsigned sets, const uint32_t* a, const uint32_t* b, const uint32_t* c, \
                        uint32_t* d) {                                                          \
                   run_mma<2 * NA, 2 * NB, 2 * NC, 2 * NC><<<sets, kLanes>>>(body, a, b, c, d); \
                 });                                                                            \
  }

void f64_factors(Suite& suite) {
#define FORMS(rounding)             \
  MMA_F64(8, 4, rounding, 1, 1, 2)  \
  MMA_F64(16, 4, rounding, 2, 1, 4) \
  MMA_F64(16, 8, rounding, 4, 2, 4) MMA_F64(16, 16, rounding, 8, 4, 4)
  FORMS("");
  FORMS(".rn");
  FORMS(".rz");
  FORMS(".rm");
  FORMS(".rp");
#undef FORMS
}

namespace {

// m8n8k4: four products of quads of lanes at a time; A and B are 4 f16 of a lane, C and D 8 of one.
// What is compared is every lane's registers, as the shape's places are not those of the others.
void run_quads(Suite& suite, const std::string& name, Element c_element, Element d_element,
               const MmaLaunch& launch) {
  if (!suite.wants(name)) {
    return;
  }
  Random random(seed_of("m8n8k4"));
  std::vector<uint32_t> a, b, c;
  std::vector<std::string> names;
  for (const OperandSet& set : operand_sets()) {
    names.push_back(set.name);
    const auto words_of = [&](Element element, int words, int spread,
                              std::vector<uint32_t>& registers) {
      for (int i = 0; i < kLanes * words; ++i) {
        uint64_t word = element_value(element, set, spread, random);
        if (element == Element::kF16) {
          word |= element_value(element, set, spread, random) << 16;
        }
        registers.push_back(static_cast<uint32_t>(word));
      }
    };
    words_of(Element::kF16, 2, set.spread, a);
    words_of(Element::kF16, 2, set.spread, b);
    words_of(c_element, c_element == Element::kF16 ? 4 : 8, set.addend_spread, c);
  }
  const size_t sets = names.size();
  const size_t nd = d_element == Element::kF16 ? 4 : 8;
  const DeviceArray<uint32_t> device_a(a), device_b(b), device_c(c), device_d(sets * kLanes * nd);
  launch(static_cast<unsigned>(sets), device_a.data(), device_b.data(), device_c.data(),
         device_d.data());
  if (!finished(suite, name)) {
    return;
  }
  Results results;
  results.name = name;
  for (const uint32_t word : device_d.values()) {
    results.values.push_back(word);
  }
  results.inputs_of = [&](size_t i) {
    return "(" + names[i / nd / kLanes] + ") lane " + std::to_string(i / nd % kLanes) +
           " register " + std::to_string(i % nd);
  };
  suite.add(results);
}

}  // namespace

#define IN8(v) IN4(v), "r"(v[4]), "r"(v[5]), "r"(v[6]), "r"(v[7])
#define OUT8(v) OUT4(v), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7])
#define R_4_2_2_4 "{%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%8, %9, %10, %11};"
#define R_8_2_2_4 "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%12, %13, %14, %15};"
#define R_8_2_2_8                                                                                \
  "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%12, %13, %14, %15, %16, %17, %18, " \
  "%19};"

#define QUADS(layouts, D, ED, ND, C, EC, NC)                                                       \
  {                                                                                                \
    const auto body = [] __device__(const uint32_t* a, const uint32_t* b, const uint32_t* c,       \
                                    uint32_t* d) {                                                 \
      asm volatile("mma.sync.aligned.m8n8k4." layouts "." D ".f16.f16." C " " R_##ND##_2_2_##NC    \
                   : OUT##ND(d)                                                                    \
                   : IN2(a), IN2(b), IN##NC(c));                                                   \
    };                                                                                             \
    run_quads(suite, "mma.m8n8k4." layouts "." D ".f16.f16." C, Element::EC, Element::ED,          \
              [body](unsigned sets, const uint32_t* a, const uint32_t* b, const uint32_t* c,       \
                     uint32_t* d) { run_mma<2, 2, NC, ND><<<sets, kLanes>>>(body, a, b, c, d); }); \
  }

void quads(Suite& suite) {
#define FORMS(layouts)                           \
  QUADS(layouts, "f16", kF16, 4, "f16", kF16, 4) \
  QUADS(layouts, "f32", kF32, 8, "f32", kF32, 8) QUADS(layouts, "f32", kF32, 8, "f16", kF16, 4)
  FORMS("row.row");
  FORMS("row.col");
  FORMS("col.row");
  FORMS("col.col");
#undef FORMS
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::half_factors(suite);
  mpfa::ptx_test::fp8_factors(suite);
  mpfa::ptx_test::integer_factors(suite);
  mpfa::ptx_test::f64_factors(suite);
  mpfa::ptx_test::quads(suite);
  return suite.finish();
}
