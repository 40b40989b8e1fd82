// Bits: logic, shifts, fields, counts, permutations (PTX ISA, sections Integer Arithmetic
// Instructions, Logic and Shift Instructions, and Data Movement's prmt).
#include "lanes.h"

namespace mpfa::ptx_test {

void logic(Suite& suite) {
#define FORMS(W)                  \
  BINARY("and.b" #W, W, kInt##W); \
  BINARY("or.b" #W, W, kInt##W);  \
  BINARY("xor.b" #W, W, kInt##W); \
  UNARY("not.b" #W, W, kInt##W);  \
  UNARY("cnot.b" #W, W, kInt##W);
  FORMS(16);
  FORMS(32);
  FORMS(64);
#undef FORMS
  // Asymmetric tables show the operands' order.
#define LOP3(table)                                                                     \
  run_form(suite, {"lop3.b32 " #table, {Kind::kInt32, Kind::kInt32, Kind::kInt32}, 32}, \
           PTX_3(32, 32, 32, 32, "lop3.b32 %0, %1, %2, %3, " #table ";"));
  LOP3(0x00);
  LOP3(0xFF);
  LOP3(0xF0);
  LOP3(0xCC);
  LOP3(0xAA);
  LOP3(0x96);
  LOP3(0xE8);
  LOP3(0xCA);
  LOP3(0x1B);
  LOP3(0x2D);
  LOP3(0x57);
  LOP3(0x6A);
  LOP3(0x80);
  LOP3(0xFE);
  LOP3(0x39);
  LOP3(0xB4);
#undef LOP3
#define LOP3(op, table)                                                  \
  run_form(suite,                                                        \
           {"lop3." #op ".b32 " #table,                                  \
            {Kind::kInt32, Kind::kInt32, Kind::kInt32, Kind::kSelector}, \
            32,                                                          \
            2},                                                          \
           PTX_2_4(32, 32, 32, 32, 32, 32,                               \
                   "{ .reg .pred p, q; setp.ne.b32 q, %5, 0; lop3." #op  \
                   ".b32 %0|p, %2, %3, %4, " #table ", q; selp.b32 %1, 1, 0, p; }"));
  LOP3(or, 0x80);
  LOP3(and, 0x80);
  LOP3(or, 0x2D);
  LOP3(and, 0x2D);
#undef LOP3
}

void shifts(Suite& suite) {
#define SHIFT(op, W) \
  run_form(suite, {op, {Kind::kInt##W, Kind::kShift}, W}, PTX_2(W, W, 32, op " %0, %1, %2;"));
#define FORMS(W) SHIFT("shl.b" #W, W) SHIFT("shr.b" #W, W) SHIFT("shr.u" #W, W) SHIFT("shr.s" #W, W)
  FORMS(16);
  FORMS(32);
  FORMS(64);
#undef FORMS
#undef SHIFT
#define FUNNEL(op)                                                      \
  run_form(suite, {op, {Kind::kInt32, Kind::kInt32, Kind::kShift}, 32}, \
           PTX_3(32, 32, 32, 32, op " %0, %1, %2, %3;"));
  FUNNEL("shf.l.clamp.b32");
  FUNNEL("shf.l.wrap.b32");
  FUNNEL("shf.r.clamp.b32");
  FUNNEL("shf.r.wrap.b32");
#undef FUNNEL
}

void fields(Suite& suite) {
#define EXTRACT(T, W)                                                          \
  run_form(suite, {"bfe." #T, {Kind::kInt##W, Kind::kShift, Kind::kShift}, W}, \
           PTX_3(W, W, 32, 32, "bfe." #T " %0, %1, %2, %3;"));
  EXTRACT(u32, 32);
  EXTRACT(s32, 32);
  EXTRACT(u64, 64);
  EXTRACT(s64, 64);
#undef EXTRACT
#define INSERT(W)                                                                              \
  run_form(suite, {"bfi.b" #W, {Kind::kInt##W, Kind::kInt##W, Kind::kShift, Kind::kShift}, W}, \
           PTX_4(W, W, W, 32, 32, "bfi.b" #W " %0, %1, %2, %3, %4;"));
  INSERT(32);
  INSERT(64);
#undef INSERT
#define MODE(mode)                                                          \
  run_form(suite, {"bmsk." mode ".b32", {Kind::kShift, Kind::kShift}, 32},  \
           PTX_2(32, 32, 32, "bmsk." mode ".b32 %0, %1, %2;"));             \
  run_form(suite, {"szext." mode ".u32", {Kind::kInt32, Kind::kShift}, 32}, \
           PTX_2(32, 32, 32, "szext." mode ".u32 %0, %1, %2;"));            \
  run_form(suite, {"szext." mode ".s32", {Kind::kInt32, Kind::kShift}, 32}, \
           PTX_2(32, 32, 32, "szext." mode ".s32 %0, %1, %2;"));
  MODE("clamp");
  MODE("wrap");
#undef MODE
}

void counts(Suite& suite) {
#define FORMS(W)                                                                             \
  run_form(suite, {"popc.b" #W, {Kind::kInt##W}, 32}, PTX_1(32, W, "popc.b" #W " %0, %1;")); \
  run_form(suite, {"clz.b" #W, {Kind::kInt##W}, 32}, PTX_1(32, W, "clz.b" #W " %0, %1;"));   \
  UNARY("brev.b" #W, W, kInt##W);
  FORMS(32);
  FORMS(64);
#undef FORMS
#define FIND(T, W)                                                                           \
  run_form(suite, {"bfind." #T, {Kind::kInt##W}, 32}, PTX_1(32, W, "bfind." #T " %0, %1;")); \
  run_form(suite, {"bfind.shiftamt." #T, {Kind::kInt##W}, 32},                               \
           PTX_1(32, W, "bfind.shiftamt." #T " %0, %1;"));
  FIND(u32, 32);
  FIND(s32, 32);
  FIND(u64, 64);
  FIND(s64, 64);
#undef FIND
}

// fns: a base below 32 and offsets to both sides.
void find_nth_set(Suite& suite) {
  const LaneForm form = {"fns.b32", {Kind::kInt32, Kind::kShift, Kind::kInt32}, 32};
  if (!suite.wants(form.name)) {
    return;
  }
  Random random(5);
  Inputs inputs;
  for (int i = 0; i < 1024; ++i) {
    const auto offset = static_cast<uint32_t>(random.between(-9, 9));
    inputs.push_back({random_integer(32, random), random.below(32), offset});
  }
  run_launch(suite, form, inputs, launch_of(PTX_3(32, 32, 32, 32, "fns.b32 %0, %1, %2, %3;")));
}

void permutations(Suite& suite) {
#define PERMUTE(op)                                                     \
  run_form(suite, {op, {Kind::kInt32, Kind::kInt32, Kind::kInt32}, 32}, \
           PTX_3(32, 32, 32, 32, op " %0, %1, %2, %3;"));
  PERMUTE("prmt.b32");
  PERMUTE("prmt.b32.f4e");
  PERMUTE("prmt.b32.b4e");
  PERMUTE("prmt.b32.rc8");
  PERMUTE("prmt.b32.ecl");
  PERMUTE("prmt.b32.ecr");
  PERMUTE("prmt.b32.rc16");
#undef PERMUTE
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::logic(suite);
  mpfa::ptx_test::shifts(suite);
  mpfa::ptx_test::fields(suite);
  mpfa::ptx_test::counts(suite);
  mpfa::ptx_test::find_nth_set(suite);
  mpfa::ptx_test::permutations(suite);
  return suite.finish();
}
