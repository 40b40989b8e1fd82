// Integer arithmetic (PTX ISA, sections Integer Arithmetic Instructions and Extended-Precision
// Integer Arithmetic Instructions).
#include "lanes.h"

namespace mpfa::ptx_test {

#define FOR_ALL_INTEGERS(M) \
  M(u16, 16, kInt16)        \
  M(s16, 16, kInt16) M(u32, 32, kInt32) M(s32, 32, kInt32) M(u64, 64, kInt64) M(s64, 64, kInt64)

void sums(Suite& suite) {
#define FORMS(T, W, kind)     \
  BINARY("add." #T, W, kind); \
  BINARY("sub." #T, W, kind); \
  BINARY("min." #T, W, kind); \
  BINARY("max." #T, W, kind); \
  TERNARY("sad." #T, W, kind);
  FOR_ALL_INTEGERS(FORMS);
#undef FORMS
  BINARY("add.sat.s32", 32, kInt32);
  BINARY("sub.sat.s32", 32, kInt32);
  BINARY("add.u16x2", 32, kInt16x2);
  BINARY("add.s16x2", 32, kInt16x2);
  BINARY("min.u16x2", 32, kInt16x2);
  BINARY("max.u16x2", 32, kInt16x2);
  BINARY("min.s16x2", 32, kInt16x2);
  BINARY("max.s16x2", 32, kInt16x2);
  BINARY("min.relu.s16x2", 32, kInt16x2);
  BINARY("max.relu.s16x2", 32, kInt16x2);
  BINARY("min.relu.s32", 32, kInt32);
  BINARY("max.relu.s32", 32, kInt32);
#define FORMS(W)                 \
  UNARY("abs.s" #W, W, kInt##W); \
  UNARY("neg.s" #W, W, kInt##W);
  FORMS(16);
  FORMS(32);
  FORMS(64);
#undef FORMS
}

void products(Suite& suite) {
#define FORMS(T, W, kind)         \
  BINARY("mul.lo." #T, W, kind);  \
  BINARY("mul.hi." #T, W, kind);  \
  TERNARY("mad.lo." #T, W, kind); \
  TERNARY("mad.hi." #T, W, kind); \
  BINARY("div." #T, W, kind);     \
  BINARY("rem." #T, W, kind);
  FOR_ALL_INTEGERS(FORMS);
#undef FORMS
#define WIDE(T, W, V)                                                                 \
  run_form(suite, {"mul.wide." #T, {Kind::kInt##W, Kind::kInt##W}, V},                \
           PTX_2(V, W, W, "mul.wide." #T " %0, %1, %2;"));                            \
  run_form(suite, {"mad.wide." #T, {Kind::kInt##W, Kind::kInt##W, Kind::kInt##V}, V}, \
           PTX_3(V, W, W, V, "mad.wide." #T " %0, %1, %2, %3;"));
  WIDE(u16, 16, 32);
  WIDE(s16, 16, 32);
  WIDE(u32, 32, 64);
  WIDE(s32, 32, 64);
#undef WIDE
  TERNARY("mad.hi.sat.s32", 32, kInt32);
#define FORMS(T)                       \
  BINARY("mul24.lo." #T, 32, kInt32);  \
  BINARY("mul24.hi." #T, 32, kInt32);  \
  TERNARY("mad24.lo." #T, 32, kInt32); \
  TERNARY("mad24.hi." #T, 32, kInt32);
  FORMS(u32);
  FORMS(s32);
#undef FORMS
  TERNARY("mad24.hi.sat.s32", 32, kInt32);
}

void dot_products(Suite& suite) {
#define FORMS(A, B)                                                                         \
  run_form(suite, {"dp4a." #A "." #B, {Kind::kBytes, Kind::kBytes, Kind::kInt32}, 32},      \
           PTX_3(32, 32, 32, 32, "dp4a." #A "." #B " %0, %1, %2, %3;"));                    \
  run_form(suite, {"dp2a.lo." #A "." #B, {Kind::kInt16x2, Kind::kBytes, Kind::kInt32}, 32}, \
           PTX_3(32, 32, 32, 32, "dp2a.lo." #A "." #B " %0, %1, %2, %3;"));                 \
  run_form(suite, {"dp2a.hi." #A "." #B, {Kind::kInt16x2, Kind::kBytes, Kind::kInt32}, 32}, \
           PTX_3(32, 32, 32, 32, "dp2a.hi." #A "." #B " %0, %1, %2, %3;"));
  FORMS(u32, u32);
  FORMS(u32, s32);
  FORMS(s32, u32);
  FORMS(s32, s32);
#undef FORMS
}

// The carry is seen in the second result.
void carries(Suite& suite) {
#define FORMS(W)                                                                        \
  run_form(suite, {"add.cc.u" #W " addc.u" #W, {Kind::kInt##W, Kind::kInt##W}, W, 2},   \
           PTX_2_2(W, W, W, W, "add.cc.u" #W " %0, %2, %3; addc.u" #W " %1, %2, %3;")); \
  run_form(suite, {"sub.cc.u" #W " subc.u" #W, {Kind::kInt##W, Kind::kInt##W}, W, 2},   \
           PTX_2_2(W, W, W, W, "sub.cc.u" #W " %0, %2, %3; subc.u" #W " %1, %2, %3;")); \
  run_form(suite, {"add.cc.s" #W " subc.s" #W, {Kind::kInt##W, Kind::kInt##W}, W, 2},   \
           PTX_2_2(W, W, W, W, "add.cc.s" #W " %0, %2, %3; subc.s" #W " %1, %3, %2;")); \
  run_form(suite,                                                                       \
           {"add.cc addc.cc addc.u" #W,                                                 \
            {Kind::kInt##W, Kind::kInt##W, Kind::kInt##W, Kind::kInt##W},               \
            W,                                                                          \
            2},                                                                         \
           PTX_2_4(W, W, W, W, W, W,                                                    \
                   "{ .reg .b" #W " t; add.cc.u" #W " t, %2, %3; addc.cc.u" #W          \
                   " %0, %4, %5; addc.u" #W " %1, t, 0; }"));                           \
  run_form(suite,                                                                       \
           {"sub.cc subc.cc subc.u" #W,                                                 \
            {Kind::kInt##W, Kind::kInt##W, Kind::kInt##W, Kind::kInt##W},               \
            W,                                                                          \
            2},                                                                         \
           PTX_2_4(W, W, W, W, W, W,                                                    \
                   "{ .reg .b" #W " t; sub.cc.u" #W " t, %2, %3; subc.cc.u" #W          \
                   " %0, %4, %5; subc.u" #W " %1, t, 0; }"));
  FORMS(32);
  FORMS(64);
#undef FORMS
#define FORMS(T, W)                                                                               \
  run_form(                                                                                       \
      suite,                                                                                      \
      {"mad.lo.cc." #T " madc.hi." #T, {Kind::kInt##W, Kind::kInt##W, Kind::kInt##W}, W, 2},      \
      PTX_2_3(W, W, W, W, W, "mad.lo.cc." #T " %0, %2, %3, %4; madc.hi." #T " %1, %2, %3, %4;")); \
  run_form(suite,                                                                                 \
           {"mad.hi.cc." #T " madc.lo.cc." #T " addc." #T,                                        \
            {Kind::kInt##W, Kind::kInt##W, Kind::kInt##W},                                        \
            W,                                                                                    \
            2},                                                                                   \
           PTX_2_3(W, W, W, W, W,                                                                 \
                   "{ .reg .b" #W " t; mad.hi.cc." #T " t, %2, %3, %4; madc.lo.cc." #T            \
                   " %0, %2, %3, t; addc." #T " %1, %4, 0; }"));
  FORMS(u32, 32);
  FORMS(s32, 32);
  FORMS(u64, 64);
  FORMS(s64, 64);
#undef FORMS
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::sums(suite);
  mpfa::ptx_test::products(suite);
  mpfa::ptx_test::dot_products(suite);
  mpfa::ptx_test::carries(suite);
  return suite.finish();
}
