// Video instructions, of one value and of two or four in a register (PTX ISA, sections Scalar Video
// Instructions and SIMD Video Instructions).
//
// ptxas makes them of other instructions. Some forms then give what the ISA does not say, and are
// not here: a result put in a byte or half of d (.h1 puts the upper half there, .sat takes a
// negative sum for a large one), a second operation on a difference below zero or a wide shift,
// vmad.shr7 of what needs more than 32 bits, vset with .max of an unsigned c.
#include "lanes.h"

namespace mpfa::ptx_test {

#define BYTES3 \
  { Kind::kInt32, Kind::kInt32, Kind::kInt32 }
#define FORM(op, operands) \
  run_form(suite, {op " " operands, BYTES3, 32}, PTX_3(32, 32, 32, 32, op " " operands ";"));

void scalar(Suite& suite) {
#define FORMS(op)                                   \
  FORM(op ".s32.s32.s32", "%0, %1, %2")             \
  FORM(op ".u32.u32.u32", "%0, %1, %2")             \
  FORM(op ".s32.u32.s32.sat", "%0, %1.b1, %2.h1")   \
  FORM(op ".u32.s32.u32.sat", "%0, %1.h0, %2.b3")   \
  FORM(op ".s32.s32.s32.sat.add", "%0, %1, %2, %3") \
  FORM(op ".s32.s32.u32.max", "%0, %1.h1, %2.h0, %3")
  FORMS("vadd");
  FORMS("vsub");
  FORMS("vabsdiff");
  FORMS("vmin");
  FORMS("vmax");
#undef FORMS
#define FORMS(op)                 \
  FORM(op ".clamp", "%0, %1, %2") \
  FORM(op ".wrap", "%0, %1, %2")  \
  FORM(op ".sat.clamp.add", "%0, %1.h1, %2.b0, %3")
  FORMS("vshl.s32.s32.u32");
  FORMS("vshr.s32.s32.u32");
  FORMS("vshl.u32.u32.u32");
  FORMS("vshr.u32.u32.u32");
#undef FORMS
  FORM("vmad.s32.s32.s32", "%0, %1.h0, %2.h1, %3");
  FORM("vmad.u32.u32.u32", "%0, %1.b0, %2.h1, %3");
  FORM("vmad.s32.s32.s32.sat", "%0, %1, %2, %3");
  FORM("vmad.s32.s32.s32.shr15", "%0, %1, -%2, %3");
  FORM("vmad.u32.u32.u32.po", "%0, %1, %2, %3");
  FORM("vset.s32.s32.lt", "%0, %1, %2");
  FORM("vset.u32.u32.ge", "%0, %1.b1, %2.b2");
  FORM("vset.u32.s32.eq.add", "%0, %1.b1, %2.b2, %3");
}

void packed(Suite& suite) {
#define FORMS(op)                               \
  FORM(op ".s32.s32.s32", "%0, %1, %2, %3")     \
  FORM(op ".u32.u32.u32.sat", "%0, %1, %2, %3") \
  FORM(op ".s32.u32.s32.sat", "%0, %1, %2, %3") \
  FORM(op ".s32.s32.s32.add", "%0, %1, %2, %3")
  FORMS("vadd2");
  FORMS("vadd4");
  FORMS("vsub2");
  FORMS("vsub4");
  FORMS("vabsdiff2");
  FORMS("vabsdiff4");
  FORMS("vmin2");
  FORMS("vmin4");
  FORMS("vmax2");
  FORMS("vmax4");
  FORMS("vavrg2");
  FORMS("vavrg4");
#undef FORMS
  FORM("vset2.s32.s32.lt", "%0, %1, %2, %3");
  FORM("vset2.u32.u32.ge.add", "%0, %1, %2, %3");
  FORM("vset4.s32.s32.lt", "%0, %1, %2, %3");
  FORM("vset4.u32.u32.ne.add", "%0, %1, %2, %3");
  FORM("vadd2.s32.s32.s32", "%0.h0, %1.h20, %2.h31, %3");
  FORM("vadd4.u32.u32.u32", "%0.b31, %1.b7210, %2.b6543, %3");
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::scalar(suite);
  mpfa::ptx_test::packed(suite);
  return suite.finish();
}
