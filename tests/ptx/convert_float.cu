// cvt between floating-point formats (PTX ISA, section cvt).
#include "lanes.h"

namespace mpfa::ptx_test {

#define CONVERT(op, D, S, kind) \
  run_form(suite, {"cvt." op, {Kind::kind}, D}, PTX_1(D, S, "cvt." op " %0, %1;"))
#define CONVERT_TWO(op, D, S, kind)                         \
  run_form(suite, {"cvt." op, {Kind::kind, Kind::kind}, D}, \
           PTX_2(D, S, S, "cvt." op " %0, %1, %2;"))
#define FOR_ROUNDINGS(M) M(rn) M(rz) M(rm) M(rp)

void narrowing(Suite& suite) {
#define FORMS(rounding)                                \
  CONVERT(#rounding ".f32.f64", 32, 64, kF64);         \
  CONVERT(#rounding ".ftz.f32.f64", 32, 64, kF64);     \
  CONVERT(#rounding ".sat.f32.f64", 32, 64, kF64);     \
  CONVERT(#rounding ".ftz.sat.f32.f64", 32, 64, kF64); \
  CONVERT(#rounding ".f16.f32", 16, 32, kF32);         \
  CONVERT(#rounding ".ftz.f16.f32", 16, 32, kF32);     \
  CONVERT(#rounding ".sat.f16.f32", 16, 32, kF32);     \
  CONVERT(#rounding ".f16.f64", 16, 64, kF64);         \
  CONVERT(#rounding ".sat.f16.f64", 16, 64, kF64);     \
  CONVERT(#rounding ".f16.bf16", 16, 16, kBf16);       \
  CONVERT(#rounding ".bf16.f32", 16, 32, kF32);        \
  CONVERT(#rounding ".ftz.bf16.f32", 16, 32, kF32);    \
  CONVERT(#rounding ".bf16.f64", 16, 64, kF64);        \
  CONVERT(#rounding ".bf16.f16", 16, 16, kF16);
  FOR_ROUNDINGS(FORMS);
#undef FORMS
}

// About the smallest normal f32.
void tiny_results(Suite& suite) {
#define FORMS(op)                                                                    \
  if (suite.wants("cvt." op " tiny")) {                                              \
    run_launch(suite, {"cvt." op " tiny", {Kind::kF64}, 32}, make_tiny_doubles(256), \
               launch_of(PTX_1(32, 64, "cvt." op " %0, %1;")));                      \
  }
  FORMS("rn.f32.f64");
  FORMS("rz.f32.f64");
  FORMS("rm.f32.f64");
  FORMS("rp.f32.f64");
  FORMS("rn.ftz.f32.f64");
  FORMS("rz.ftz.f32.f64");
  FORMS("rm.ftz.f32.f64");
  FORMS("rp.ftz.f32.f64");
#undef FORMS
}

void widening(Suite& suite) {
  CONVERT("f32.f16", 32, 16, kF16);
  CONVERT("ftz.f32.f16", 32, 16, kF16);
  CONVERT("sat.f32.f16", 32, 16, kF16);
  CONVERT("ftz.sat.f32.f16", 32, 16, kF16);
  CONVERT("f32.bf16", 32, 16, kBf16);
  CONVERT("ftz.f32.bf16", 32, 16, kBf16);
  CONVERT("f64.f16", 64, 16, kF16);
  CONVERT("sat.f64.f16", 64, 16, kF16);
  CONVERT("f64.bf16", 64, 16, kBf16);
  CONVERT("f64.f32", 64, 32, kF32);
  CONVERT("ftz.f64.f32", 64, 32, kF32);
  CONVERT("sat.f64.f32", 64, 32, kF32);
  CONVERT("ftz.sat.f64.f32", 64, 32, kF32);
}

// The same format: to integral values, saturated, flushed.
void within_a_format(Suite& suite) {
#define FORMS(T, W, kind)                \
  CONVERT(#T "." #T, W, W, kind);        \
  CONVERT("rni." #T "." #T, W, W, kind); \
  CONVERT("rzi." #T "." #T, W, W, kind); \
  CONVERT("rmi." #T "." #T, W, W, kind); \
  CONVERT("rpi." #T "." #T, W, W, kind);
  FORMS(f16, 16, kF16);
  FORMS(bf16, 16, kBf16);
  FORMS(f32, 32, kF32);
  FORMS(f64, 64, kF64);
#undef FORMS
#define FORMS(T, W, kind)                    \
  CONVERT("sat." #T "." #T, W, W, kind);     \
  CONVERT("rni.sat." #T "." #T, W, W, kind); \
  CONVERT("rpi.sat." #T "." #T, W, W, kind);
  FORMS(f16, 16, kF16);
  FORMS(f32, 32, kF32);
  FORMS(f64, 64, kF64);
#undef FORMS
  CONVERT("ftz.f32.f32", 32, 32, kF32);
  CONVERT("ftz.sat.f32.f32", 32, 32, kF32);
  CONVERT("rni.ftz.f32.f32", 32, 32, kF32);
  CONVERT("rzi.ftz.f32.f32", 32, 32, kF32);
  CONVERT("rmi.ftz.f32.f32", 32, 32, kF32);
  CONVERT("rpi.ftz.f32.f32", 32, 32, kF32);
  CONVERT("rpi.ftz.sat.f32.f32", 32, 32, kF32);
}

void packed(Suite& suite) {
#define FORMS(modifiers)                             \
  CONVERT(modifiers ".f16.f32", 16, 32, kF32);       \
  CONVERT(modifiers ".bf16.f32", 16, 32, kF32);      \
  CONVERT_TWO(modifiers ".f16x2.f32", 32, 32, kF32); \
  CONVERT_TWO(modifiers ".bf16x2.f32", 32, 32, kF32);
  FORMS("rn.relu");
  FORMS("rn.satfinite");
  FORMS("rn.relu.satfinite");
  FORMS("rz.relu");
  FORMS("rz.satfinite");
  FORMS("rz.relu.satfinite");
#undef FORMS
  CONVERT_TWO("rn.f16x2.f32", 32, 32, kF32);
  CONVERT_TWO("rz.f16x2.f32", 32, 32, kF32);
  CONVERT_TWO("rn.bf16x2.f32", 32, 32, kF32);
  CONVERT_TWO("rz.bf16x2.f32", 32, 32, kF32);
}

void tf32(Suite& suite) {
  CONVERT("rna.tf32.f32", 32, 32, kF32);
  CONVERT("rna.satfinite.tf32.f32", 32, 32, kF32);
  CONVERT("rn.tf32.f32", 32, 32, kF32);
  CONVERT("rn.relu.tf32.f32", 32, 32, kF32);
  CONVERT("rz.tf32.f32", 32, 32, kF32);
  CONVERT("rz.relu.tf32.f32", 32, 32, kF32);
}

void fp8(Suite& suite) {
#define FORMS(T)                                             \
  CONVERT_TWO("rn.satfinite." #T ".f32", 16, 32, kF32);      \
  CONVERT_TWO("rn.satfinite.relu." #T ".f32", 16, 32, kF32); \
  CONVERT("rn.satfinite." #T ".f16x2", 16, 32, kF16x2);      \
  CONVERT("rn.satfinite.relu." #T ".f16x2", 16, 32, kF16x2); \
  CONVERT("rn.f16x2." #T, 32, 16, kBytePairs);               \
  CONVERT("rn.relu.f16x2." #T, 32, 16, kBytePairs);
  FORMS(e4m3x2);
  FORMS(e5m2x2);
#undef FORMS
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::narrowing(suite);
  mpfa::ptx_test::tiny_results(suite);
  mpfa::ptx_test::widening(suite);
  mpfa::ptx_test::within_a_format(suite);
  mpfa::ptx_test::packed(suite);
  mpfa::ptx_test::tf32(suite);
  mpfa::ptx_test::fp8(suite);
  return suite.finish();
}
