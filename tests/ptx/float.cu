// f32 and f64 arithmetic that is exact or rounded as IEEE 754 says (PTX ISA, section Floating Point
// Instructions). What is approximate is in approximate.cu.
#include "lanes.h"

namespace mpfa::ptx_test {

#define FOR_ROUNDINGS(M) M(rn) M(rz) M(rm) M(rp)

void f32_sums(Suite& suite) {
#define FORMS(rounding)                              \
  BINARY("add." #rounding ".f32", 32, kF32);         \
  BINARY("add." #rounding ".ftz.f32", 32, kF32);     \
  BINARY("add." #rounding ".sat.f32", 32, kF32);     \
  BINARY("add." #rounding ".ftz.sat.f32", 32, kF32); \
  BINARY("sub." #rounding ".f32", 32, kF32);         \
  BINARY("sub." #rounding ".ftz.sat.f32", 32, kF32);
  FOR_ROUNDINGS(FORMS);
#undef FORMS
  BINARY("add.f32", 32, kF32);
  BINARY("sub.f32", 32, kF32);
  BINARY("sub.ftz.f32", 32, kF32);
}

void f32_products(Suite& suite) {
#define FORMS(rounding)                              \
  BINARY("mul." #rounding ".f32", 32, kF32);         \
  BINARY("mul." #rounding ".ftz.f32", 32, kF32);     \
  BINARY("mul." #rounding ".sat.f32", 32, kF32);     \
  BINARY("mul." #rounding ".ftz.sat.f32", 32, kF32); \
  TERNARY("fma." #rounding ".f32", 32, kF32);        \
  TERNARY("fma." #rounding ".ftz.f32", 32, kF32);    \
  TERNARY("fma." #rounding ".sat.f32", 32, kF32);    \
  TERNARY("fma." #rounding ".ftz.sat.f32", 32, kF32);
  FOR_ROUNDINGS(FORMS);
#undef FORMS
  BINARY("mul.f32", 32, kF32);
  TERNARY("mad.rn.f32", 32, kF32);
}

void f32_quotients(Suite& suite) {
#define FORMS(rounding)                          \
  BINARY("div." #rounding ".f32", 32, kF32);     \
  BINARY("div." #rounding ".ftz.f32", 32, kF32); \
  UNARY("rcp." #rounding ".f32", 32, kF32);      \
  UNARY("rcp." #rounding ".ftz.f32", 32, kF32);  \
  UNARY("sqrt." #rounding ".f32", 32, kF32);     \
  UNARY("sqrt." #rounding ".ftz.f32", 32, kF32);
  FOR_ROUNDINGS(FORMS);
#undef FORMS
}

void f64_arithmetic(Suite& suite) {
#define FORMS(rounding)                       \
  BINARY("add." #rounding ".f64", 64, kF64);  \
  BINARY("sub." #rounding ".f64", 64, kF64);  \
  BINARY("mul." #rounding ".f64", 64, kF64);  \
  TERNARY("fma." #rounding ".f64", 64, kF64); \
  BINARY("div." #rounding ".f64", 64, kF64);  \
  UNARY("rcp." #rounding ".f64", 64, kF64);   \
  UNARY("sqrt." #rounding ".f64", 64, kF64);
  FOR_ROUNDINGS(FORMS);
#undef FORMS
  TERNARY("mad.rn.f64", 64, kF64);
}

void signs_and_order(Suite& suite) {
  UNARY("abs.f32", 32, kF32);
  UNARY("abs.ftz.f32", 32, kF32);
  UNARY("neg.f32", 32, kF32);
  UNARY("neg.ftz.f32", 32, kF32);
  UNARY("abs.f64", 64, kF64);
  UNARY("neg.f64", 64, kF64);
  BINARY("copysign.f32", 32, kF32);
  BINARY("copysign.f64", 64, kF64);
#define FORMS(op)                                   \
  BINARY(#op ".f32", 32, kF32);                     \
  BINARY(#op ".ftz.f32", 32, kF32);                 \
  BINARY(#op ".NaN.f32", 32, kF32);                 \
  BINARY(#op ".ftz.NaN.f32", 32, kF32);             \
  BINARY(#op ".xorsign.abs.f32", 32, kF32);         \
  BINARY(#op ".ftz.NaN.xorsign.abs.f32", 32, kF32); \
  BINARY(#op ".f64", 64, kF64);
  FORMS(min);
  FORMS(max);
#undef FORMS
}

// Results about the smallest normal number.
void tiny_results(Suite& suite) {
#define TINY(op, inputs, body)                                                        \
  if (suite.wants(op " tiny")) {                                                      \
    run_launch(suite, {op " tiny", {Kind::kF32, Kind::kF32, Kind::kF32}, 32}, inputs, \
               launch_of(body));                                                      \
  }
#define FORMS(modifiers)                                               \
  TINY("mul." modifiers ".f32", make_tiny_products(kF32, 256, 2),      \
       PTX_2(32, 32, 32, "mul." modifiers ".f32 %0, %1, %2;"))         \
  TINY("fma." modifiers ".f32", make_tiny_products(kF32, 512, 3),      \
       PTX_3(32, 32, 32, 32, "fma." modifiers ".f32 %0, %1, %2, %3;")) \
  TINY("div." modifiers ".f32", make_tiny_quotients(kF32, 256),        \
       PTX_2(32, 32, 32, "div." modifiers ".f32 %0, %1, %2;"))
  FORMS("rn");
  FORMS("rz");
  FORMS("rm");
  FORMS("rp");
  FORMS("rn.ftz");
  FORMS("rz.ftz");
  FORMS("rm.ftz");
  FORMS("rp.ftz");
#undef FORMS
#undef TINY
}

void tests_of_class(Suite& suite) {
#define CLASS(op, W)                                        \
  run_form(suite, {"testp." #op ".f" #W, {Kind::kF##W}, 1}, \
           PTX_1(32, W, "{ .reg .pred p; testp." #op ".f" #W " p, %1; selp.b32 %0, 1, 0, p; }"));
#define FORMS(W)   \
  CLASS(finite, W) \
  CLASS(infinite, W) CLASS(number, W) CLASS(notanumber, W) CLASS(normal, W) CLASS(subnormal, W)
  FORMS(32);
  FORMS(64);
#undef FORMS
#undef CLASS
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::f32_sums(suite);
  mpfa::ptx_test::f32_products(suite);
  mpfa::ptx_test::f32_quotients(suite);
  mpfa::ptx_test::f64_arithmetic(suite);
  mpfa::ptx_test::signs_and_order(suite);
  mpfa::ptx_test::tiny_results(suite);
  mpfa::ptx_test::tests_of_class(suite);
  return suite.finish();
}
