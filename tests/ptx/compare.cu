// setp, set, selp, slct (PTX ISA, sections Comparison and Selection Instructions and Half Precision
// Comparison Instructions).
#include "lanes.h"

namespace mpfa::ptx_test {

#define SETP(comparison, T, W, kind)                                   \
  run_form(                                                            \
      suite, {"setp." comparison "." #T, {Kind::kind, Kind::kind}, 1}, \
      PTX_2(32, W, W,                                                  \
            "{ .reg .pred p; setp." comparison "." #T " p, %1, %2; selp.b32 %0, 1, 0, p; }"));
#define ORDERED(T, W, kind) \
  SETP("eq", T, W, kind)    \
  SETP("ne", T, W, kind)    \
  SETP("lt", T, W, kind) SETP("le", T, W, kind) SETP("gt", T, W, kind) SETP("ge", T, W, kind)
#define UNORDERED(T, W, kind) \
  SETP("equ", T, W, kind)     \
  SETP("neu", T, W, kind)     \
  SETP("ltu", T, W, kind)     \
  SETP("leu", T, W, kind)     \
  SETP("gtu", T, W, kind) SETP("geu", T, W, kind) SETP("num", T, W, kind) SETP("nan", T, W, kind)

void integers(Suite& suite) {
#define FORMS(W)               \
  ORDERED(s##W, W, kInt##W)    \
  ORDERED(u##W, W, kInt##W)    \
  SETP("lo", u##W, W, kInt##W) \
  SETP("ls", u##W, W, kInt##W) \
  SETP("hi", u##W, W, kInt##W) \
  SETP("hs", u##W, W, kInt##W) SETP("eq", b##W, W, kInt##W) SETP("ne", b##W, W, kInt##W)
  FORMS(16);
  FORMS(32);
  FORMS(64);
#undef FORMS
}

void floats(Suite& suite) {
#define FORMS(T, W, kind) ORDERED(T, W, kind) UNORDERED(T, W, kind)
  FORMS(f32, 32, kF32);
  FORMS(ftz.f32, 32, kF32);
  FORMS(f64, 64, kF64);
  FORMS(f16, 16, kF16);
  FORMS(bf16, 16, kBf16);
  ORDERED(ftz.f16, 16, kF16);
#undef FORMS
}

// Both predicates, and those that a Boolean operator makes of a comparison and a third operand.
void predicate_pairs(Suite& suite) {
#define PAIR(op, T, W, kind)                                                                      \
  run_form(suite,                                                                                 \
           {"setp." op "." #T " p|q, a, b, c", {Kind::kind, Kind::kind, Kind::kSelector}, 1, 2},  \
           PTX_2_3(32, 32, W, W, 32,                                                              \
                   "{ .reg .pred p, q, c; setp.ne.b32 c, %4, 0; setp." op "." #T                  \
                   " p|q, %2, %3, c; selp.b32 %0, 1, 0, p; selp.b32 %1, 1, 0, q; }"));            \
  run_form(suite,                                                                                 \
           {"setp." op "." #T " p|q, a, b, !c", {Kind::kind, Kind::kind, Kind::kSelector}, 1, 2}, \
           PTX_2_3(32, 32, W, W, 32,                                                              \
                   "{ .reg .pred p, q, c; setp.ne.b32 c, %4, 0; setp." op "." #T                  \
                   " p|q, %2, %3, !c; selp.b32 %0, 1, 0, p; selp.b32 %1, 1, 0, q; }"));
#define FORMS(T, W, kind) \
  PAIR("lt.and", T, W, kind) PAIR("ge.or", T, W, kind) PAIR("eq.xor", T, W, kind)
  FORMS(s32, 32, kInt32);
  FORMS(u64, 64, kInt64);
  FORMS(f32, 32, kF32);
  FORMS(f64, 64, kF64);
  FORMS(s16, 16, kInt16);
#undef FORMS
#undef PAIR
#define COMBINED(op, T, kind)                                                                      \
  run_form(suite, {"setp." op "." #T " p, a, b, c", {Kind::kind, Kind::kind, Kind::kSelector}, 1}, \
           PTX_3(32, 16, 16, 32,                                                                   \
                 "{ .reg .pred p, c; setp.ne.b32 c, %3, 0; setp." op "." #T                        \
                 " p, %1, %2, c; selp.b32 %0, 1, 0, p; }"));
#define FORMS(T, kind) \
  COMBINED("lt.and", T, kind) COMBINED("ge.or", T, kind) COMBINED("eq.xor", T, kind)
  FORMS(f16, kF16);
  FORMS(bf16, kBf16);
#undef FORMS
#undef COMBINED
#define HALVES(comparison, T, kind)                                                            \
  run_form(suite, {"setp." comparison "." #T " p|q", {Kind::kind, Kind::kind}, 1, 2},          \
           PTX_2_2(32, 32, 32, 32,                                                             \
                   "{ .reg .pred p, q; setp." comparison "." #T                                \
                   " p|q, %2, %3; selp.b32 %0, 1, 0, p; selp.b32 %1, 1, 0, q; }"));            \
  run_form(                                                                                    \
      suite,                                                                                   \
      {"setp." comparison ".and." #T " p|q", {Kind::kind, Kind::kind, Kind::kSelector}, 1, 2}, \
      PTX_2_3(32, 32, 32, 32, 32,                                                              \
              "{ .reg .pred p, q, c; setp.ne.b32 c, %4, 0; setp." comparison ".and." #T        \
              " p|q, %2, %3, c; selp.b32 %0, 1, 0, p; selp.b32 %1, 1, 0, q; }"));
#define FORMS(T, kind)  \
  HALVES("eq", T, kind) \
  HALVES("ne", T, kind) \
  HALVES("lt", T, kind) \
  HALVES("ge", T, kind) \
  HALVES("neu", T, kind) HALVES("gtu", T, kind) HALVES("num", T, kind) HALVES("nan", T, kind)
  FORMS(f16x2, kF16x2);
  FORMS(bf16x2, kBf16x2);
  FORMS(ftz.f16x2, kF16x2);
#undef FORMS
#undef HALVES
}

void sets(Suite& suite) {
#define SET(op, D, W, kind)                                 \
  run_form(suite, {"set." op, {Kind::kind, Kind::kind}, D}, \
           PTX_2(D, W, W, "set." op " %0, %1, %2;"));
#define FORMS(T, W, kind)        \
  SET("lt.u32." #T, 32, W, kind) \
  SET("ge.s32." #T, 32, W, kind) SET("eq.f32." #T, 32, W, kind) SET("ne.u32." #T, 32, W, kind)
  FORMS(s16, 16, kInt16);
  FORMS(u16, 16, kInt16);
  FORMS(s32, 32, kInt32);
  FORMS(u32, 32, kInt32);
  FORMS(s64, 64, kInt64);
  FORMS(u64, 64, kInt64);
  FORMS(f32, 32, kF32);
  FORMS(f64, 64, kF64);
#undef FORMS
#define FORMS(T, W, kind) SET("equ.u32." #T, 32, W, kind) SET("nan.s32." #T, 32, W, kind)
  FORMS(f32, 32, kF32);
  FORMS(f64, 64, kF64);
#undef FORMS
  SET("lt.ftz.u32.f32", 32, 32, kF32);
  SET("eq.ftz.f32.f32", 32, 32, kF32);
#define FORMS(comparison)                             \
  SET(comparison ".f16.f16", 16, 16, kF16);           \
  SET(comparison ".bf16.bf16", 16, 16, kBf16);        \
  SET(comparison ".u16.f16", 16, 16, kF16);           \
  SET(comparison ".u32.f16", 32, 16, kF16);           \
  SET(comparison ".u16.bf16", 16, 16, kBf16);         \
  SET(comparison ".f16x2.f16x2", 32, 32, kF16x2);     \
  SET(comparison ".bf16x2.bf16x2", 32, 32, kBf16x2);  \
  SET(comparison ".ftz.f16x2.f16x2", 32, 32, kF16x2); \
  SET(comparison ".u32.f16x2", 32, 32, kF16x2);       \
  SET(comparison ".u32.bf16x2", 32, 32, kBf16x2);
  FORMS("eq");
  FORMS("ne");
  FORMS("lt");
  FORMS("geu");
  FORMS("nan");
#undef FORMS
#undef SET
#define SET(op, T, W, kind)                                                          \
  run_form(suite, {"set." op "." #T, {Kind::kind, Kind::kind, Kind::kSelector}, 32}, \
           PTX_3(32, W, W, 32,                                                       \
                 "{ .reg .pred c; setp.ne.b32 c, %3, 0; set." op "." #T " %0, %1, %2, c; }"));
#define FORMS(T, W, kind) \
  SET("lt.and.u32", T, W, kind) SET("ge.or.f32", T, W, kind) SET("eq.xor.s32", T, W, kind)
  FORMS(s32, 32, kInt32);
  FORMS(f32, 32, kF32);
  FORMS(f64, 64, kF64);
#undef FORMS
#undef SET
}

void selections(Suite& suite) {
#define SELECT(T, W, kind)                                                                       \
  run_form(                                                                                      \
      suite, {"selp." #T, {Kind::kind, Kind::kind, Kind::kSelector}, W},                         \
      PTX_3(W, W, W, 32, "{ .reg .pred c; setp.ne.b32 c, %3, 0; selp." #T " %0, %1, %2, c; }")); \
  run_form(suite, {"slct." #T ".s32", {Kind::kind, Kind::kind, Kind::kInt32}, W},                \
           PTX_3(W, W, W, 32, "slct." #T ".s32 %0, %1, %2, %3;"));                               \
  run_form(suite, {"slct." #T ".f32", {Kind::kind, Kind::kind, Kind::kF32}, W},                  \
           PTX_3(W, W, W, 32, "slct." #T ".f32 %0, %1, %2, %3;"));                               \
  run_form(suite, {"slct.ftz." #T ".f32", {Kind::kind, Kind::kind, Kind::kF32}, W},              \
           PTX_3(W, W, W, 32, "slct.ftz." #T ".f32 %0, %1, %2, %3;"));
  SELECT(b16, 16, kInt16);
  SELECT(b32, 32, kInt32);
  SELECT(b64, 64, kInt64);
  SELECT(f32, 32, kF32);
  SELECT(f64, 64, kF64);
#undef SELECT
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::integers(suite);
  mpfa::ptx_test::floats(suite);
  mpfa::ptx_test::predicate_pairs(suite);
  mpfa::ptx_test::sets(suite);
  mpfa::ptx_test::selections(suite);
  return suite.finish();
}
