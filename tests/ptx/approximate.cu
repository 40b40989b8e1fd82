// The approximate functions, compared within what the PTX ISA documents for each (section Floating
// Point Instructions and Half Precision Floating Point Instructions). Where it gives an error in
// ulp, that is 2^-23 of the value for each.
#include "lanes.h"

namespace mpfa::ptx_test {
namespace {

constexpr double kUlp = 0x1p-23;

// Both results may be as far away as documented.
Tolerance f32_within(double relative, double absolute = 0) {
  // A subnormal result's last place.
  return {kF32, 1, 2 * relative, std::max(2 * absolute, 0x1p-148)};
}

}  // namespace

#define APPROXIMATE(op, kind, tolerance) \
  run_form(suite, {op, {Kind::kind}, 32, 1, 2048, tolerance}, PTX_1(32, 32, op " %0, %1;"))

void f32_functions(Suite& suite) {
#define FORMS(ftz)                                                          \
  APPROXIMATE("rcp.approx" ftz ".f32", kF32, f32_within(kUlp));             \
  APPROXIMATE("sqrt.approx" ftz ".f32", kF32, f32_within(kUlp));            \
  APPROXIMATE("rsqrt.approx" ftz ".f32", kF32, f32_within(0x1.12p-23));     \
  APPROXIMATE("ex2.approx" ftz ".f32", kF32, f32_within(2 * kUlp));         \
  APPROXIMATE("lg2.approx" ftz ".f32", kF32, f32_within(0x1p-22, 0x1p-22)); \
  APPROXIMATE("sin.approx" ftz ".f32", kAngle, f32_within(0, 0x1.3bp-15));  \
  APPROXIMATE("cos.approx" ftz ".f32", kAngle, f32_within(0, 0x1.3bp-15));
  FORMS("");
  FORMS(".ftz");
#undef FORMS
  APPROXIMATE("tanh.approx.f32", kF32, f32_within(0x1p-11));
}

// Divisors beyond 2^126 have no bound and special cases of their own in div.approx.
void f32_quotients(Suite& suite) {
#define FORMS(op)                                                                    \
  run_form(suite, {op, {Kind::kF32, Kind::kF32}, 32, 1, 2048, f32_within(2 * kUlp)}, \
           PTX_2(32, 32, 32, op " %0, %1, %2;"))
  FORMS("div.approx.f32");
  FORMS("div.approx.ftz.f32");
  FORMS("div.full.f32");
  FORMS("div.full.ftz.f32");
#undef FORMS
}

void f64_functions(Suite& suite) {
  const Tolerance gross = {kF64, 1, 0x1p-19, 0};
#define FORMS(op) \
  run_form(suite, {op, {Kind::kF64}, 64, 1, 1024, gross}, PTX_1(64, 64, op " %0, %1;"))
  FORMS("rcp.approx.ftz.f64");
  FORMS("rsqrt.approx.f64");
  FORMS("rsqrt.approx.ftz.f64");
#undef FORMS
}

void half_functions(Suite& suite) {
#define FORMS(op, T, format, relative, absolute)                                                \
  run_form(                                                                                     \
      suite,                                                                                    \
      {op "." #T, {Kind::k##format}, 16, 1, 1024, Tolerance{k##format, 1, relative, absolute}}, \
      PTX_1(16, 16, op "." #T " %0, %1;"));                                                     \
  run_form(suite,                                                                               \
           {op "." #T "x2",                                                                     \
            {Kind::k##format##x2},                                                              \
            32,                                                                                 \
            1,                                                                                  \
            1024,                                                                               \
            Tolerance{k##format, 2, relative, absolute}},                                       \
           PTX_1(32, 32, op "." #T "x2 %0, %1;"));
  FORMS("ex2.approx", f16, F16, 0x1.12p-9, 0x1p-23);
  FORMS("ex2.approx.ftz", bf16, Bf16, 0x1p-6, 0);
  FORMS("tanh.approx", f16, F16, 0, 0x1.03p-10);
  FORMS("tanh.approx", bf16, Bf16, 0x1p-7, 0x1p-132);
#undef FORMS
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::f32_functions(suite);
  mpfa::ptx_test::f32_quotients(suite);
  mpfa::ptx_test::f64_functions(suite);
  mpfa::ptx_test::half_functions(suite);
  return suite.finish();
}
