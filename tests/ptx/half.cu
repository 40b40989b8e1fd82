// f16 and bf16, one or two of them (PTX ISA, section Half Precision Floating Point Instructions).
#include "lanes.h"

namespace mpfa::ptx_test {

void f16_arithmetic(Suite& suite) {
#define FORMS(op)                          \
  BINARY(#op ".f16", 16, kF16);            \
  BINARY(#op ".rn.f16", 16, kF16);         \
  BINARY(#op ".ftz.f16", 16, kF16);        \
  BINARY(#op ".sat.f16", 16, kF16);        \
  BINARY(#op ".rn.ftz.sat.f16", 16, kF16); \
  BINARY(#op ".f16x2", 32, kF16x2);        \
  BINARY(#op ".rn.f16x2", 32, kF16x2);     \
  BINARY(#op ".ftz.f16x2", 32, kF16x2);    \
  BINARY(#op ".sat.f16x2", 32, kF16x2);    \
  BINARY(#op ".rn.ftz.sat.f16x2", 32, kF16x2);
  FORMS(add);
  FORMS(sub);
  FORMS(mul);
#undef FORMS
#define FORMS(T, W, kind)                  \
  TERNARY("fma.rn." #T, W, kind);          \
  TERNARY("fma.rn.ftz." #T, W, kind);      \
  TERNARY("fma.rn.sat." #T, W, kind);      \
  TERNARY("fma.rn.ftz.sat." #T, W, kind);  \
  TERNARY("fma.rn.relu." #T, W, kind);     \
  TERNARY("fma.rn.ftz.relu." #T, W, kind); \
  TERNARY("fma.rn.oob." #T, W, kind);      \
  TERNARY("fma.rn.oob.relu." #T, W, kind);
  FORMS(f16, 16, kF16);
  FORMS(f16x2, 32, kF16x2);
#undef FORMS
}

void bf16_arithmetic(Suite& suite) {
#define FORMS(T, W, kind)              \
  BINARY("add." #T, W, kind);          \
  BINARY("add.rn." #T, W, kind);       \
  BINARY("sub." #T, W, kind);          \
  BINARY("sub.rn." #T, W, kind);       \
  BINARY("mul." #T, W, kind);          \
  BINARY("mul.rn." #T, W, kind);       \
  TERNARY("fma.rn." #T, W, kind);      \
  TERNARY("fma.rn.relu." #T, W, kind); \
  TERNARY("fma.rn.oob." #T, W, kind);  \
  TERNARY("fma.rn.oob.relu." #T, W, kind);
  FORMS(bf16, 16, kBf16);
  FORMS(bf16x2, 32, kBf16x2);
#undef FORMS
}

void signs(Suite& suite) {
#define FORMS(T, W, kind)    \
  UNARY("abs." #T, W, kind); \
  UNARY("neg." #T, W, kind);
  FORMS(f16, 16, kF16);
  FORMS(f16x2, 32, kF16x2);
  FORMS(bf16, 16, kBf16);
  FORMS(bf16x2, 32, kBf16x2);
  FORMS(ftz.f16, 16, kF16);
  FORMS(ftz.f16x2, 32, kF16x2);
#undef FORMS
}

void order(Suite& suite) {
#define FORMS(op, T, W, kind)              \
  BINARY(#op "." #T, W, kind);             \
  BINARY(#op ".NaN." #T, W, kind);         \
  BINARY(#op ".xorsign.abs." #T, W, kind); \
  BINARY(#op ".NaN.xorsign.abs." #T, W, kind);
#define BOTH(T, W, kind) FORMS(min, T, W, kind) FORMS(max, T, W, kind)
  BOTH(f16, 16, kF16);
  BOTH(f16x2, 32, kF16x2);
  BOTH(bf16, 16, kBf16);
  BOTH(bf16x2, 32, kBf16x2);
#undef FORMS
#define FORMS(op, T, W, kind)          \
  BINARY(#op ".ftz." #T, W, kind);     \
  BINARY(#op ".ftz.NaN." #T, W, kind); \
  BINARY(#op ".ftz.NaN.xorsign.abs." #T, W, kind);
  BOTH(f16, 16, kF16);
  BOTH(f16x2, 32, kF16x2);
#undef BOTH
#undef FORMS
}

// .oob, on the NaN that a tensor copy fills with: 0x7FF7. It is a, b or c of some, of either sign.
void out_of_bounds(Suite& suite) {
#define OOB(op, W, kind, body)                                                            \
  if (suite.wants(op " of 0x7FF7")) {                                                     \
    Inputs inputs = make_inputs({Kind::kind, Kind::kind, Kind::kind}, 512, 8);            \
    Random random(9);                                                                     \
    for (std::vector<uint64_t> & input : inputs) {                                        \
      const uint64_t shift = random.below(W / 16) * 16;                                   \
      uint64_t& operand = input[random.below(3)];                                         \
      operand &= ~(uint64_t{0xFFFF} << shift);                                            \
      operand |= (random.below(3) == 0 ? uint64_t{0xFFF7} : uint64_t{0x7FF7}) << shift;   \
    }                                                                                     \
    run_launch(suite, {op " of 0x7FF7", {Kind::kind, Kind::kind, Kind::kind}, W}, inputs, \
               launch_of(body));                                                          \
  }
#define FORMS(op, W, kind) OOB(op, W, kind, PTX_3(W, W, W, W, op " %0, %1, %2, %3;"))
  FORMS("fma.rn.oob.f16", 16, kF16);
  FORMS("fma.rn.oob.relu.f16", 16, kF16);
  FORMS("fma.rn.oob.f16x2", 32, kF16x2);
  FORMS("fma.rn.oob.relu.f16x2", 32, kF16x2);
  FORMS("fma.rn.oob.bf16", 16, kBf16);
  FORMS("fma.rn.oob.relu.bf16", 16, kBf16);
  FORMS("fma.rn.oob.bf16x2", 32, kBf16x2);
  FORMS("fma.rn.oob.relu.bf16x2", 32, kBf16x2);
#undef FORMS
#undef OOB
}

// Results about the smallest normal number.
void tiny_results(Suite& suite) {
#define TINY(op, kind, format, operands, body)                                \
  if (suite.wants(op " tiny")) {                                              \
    run_launch(suite, {op " tiny", {Kind::kind, Kind::kind, Kind::kind}, 16}, \
               make_tiny_products(format, 512, operands), launch_of(body));   \
  }
#define FORMS(T, mul, fma, kind, format)                                        \
  TINY(mul "." T, kind, format, 2, PTX_2(16, 16, 16, mul "." T " %0, %1, %2;")) \
  TINY(fma "." T, kind, format, 3, PTX_3(16, 16, 16, 16, fma "." T " %0, %1, %2, %3;"))
  FORMS("f16", "mul.rn", "fma.rn", kF16, kF16);
  FORMS("f16", "mul.rn.ftz", "fma.rn.ftz", kF16, kF16);
  FORMS("bf16", "mul.rn", "fma.rn", kBf16, kBf16);
#undef FORMS
#undef TINY
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::f16_arithmetic(suite);
  mpfa::ptx_test::bf16_arithmetic(suite);
  mpfa::ptx_test::signs(suite);
  mpfa::ptx_test::order(suite);
  mpfa::ptx_test::out_of_bounds(suite);
  mpfa::ptx_test::tiny_results(suite);
  return suite.finish();
}
