// Modifiers that an instruction does not have are errors that name them; nothing is dropped.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {
namespace {

void decode(const std::string& instruction) {
  PtxProgram program(
      one_kernel(".reg .b16 %h<9>; .reg .b32 %w<9>; .reg .b64 %d<9>; .reg .pred %p<9>;"
                 ".reg .f32 %f<9>; .reg .f64 %g<9>; .shared .align 128 .b8 box[1024];",
                 "bra END;\n" + instruction + "\nEND:"));
  const uint64_t out = program.upload(std::vector<uint32_t>(32));
  program.run("test", {}, out, out);
}

void refused(const std::string& instruction, const std::string& part) {
  SCOPED_TRACE(instruction);
  expect_fault(FaultKind::kIllegalInstruction, part, [&] { decode(instruction); });
}

void taken(const std::string& instruction) { EXPECT_NO_THROW(decode(instruction)) << instruction; }

TEST(Modifiers, OfFloatingPoint) {
  refused("add.sat.f64 %g1, %g2, %g3;", "the modifier .sat is not known here");
  refused("add.ftz.f64 %g1, %g2, %g3;", ".ftz");
  refused("add.relu.f32 %f1, %f2, %f3;", ".relu");
  refused("add.NaN.f32 %f1, %f2, %f3;", ".NaN");
  refused("fma.rz.f16 %h1, %h2, %h3, %h4;", ".rz");
  refused("fma.rn.ftz.bf16 %h1, %h2, %h3, %h4;", ".ftz");
  refused("fma.rn.sat.bf16x2 %w1, %w2, %w3, %w4;", ".sat");
  refused("fma.rn.sat.relu.f16 %h1, %h2, %h3, %h4;", ".sat does not go with .relu");
  refused("fma.rn.relu.f32 %f1, %f2, %f3, %f4;", ".relu");
  refused("mul.rm.f16x2 %w1, %w2, %w3;", ".rm");
  refused("mul.relu.f16x2 %w1, %w2, %w3;", ".relu");
  refused("abs.rn.f32 %f1, %f2;", ".rn");
  refused("neg.sat.f32 %f1, %f2;", ".sat");
  refused("neg.ftz.bf16 %h1, %h2;", ".ftz");
  refused("min.NaN.f64 %g1, %g2, %g3;", ".NaN");
  refused("min.rn.f32 %f1, %f2, %f3;", ".rn");
  refused("max.xorsign.f32 %f1, %f2, %f3;", ".xorsign goes with .abs");
  refused("max.abs.f32 %f1, %f2, %f3;", ".abs");
  refused("div.rn.sat.f32 %f1, %f2, %f3;", ".sat");
  refused("div.approx.f64 %g1, %g2, %g3;", "of .f32");
  refused("sqrt.rn.sat.f32 %f1, %f2;", ".sat");
  refused("rcp.approx.rz.f32 %f1, %f2;", ".rz");
  refused("rcp.approx.f64 %g1, %g2;", ".f64");
  refused("tanh.approx.ftz.f32 %f1, %f2;", ".ftz");
  refused("ex2.approx.ftz.f16 %h1, %h2;", ".ftz");
  taken("add.rp.ftz.sat.f32 %f1, %f2, %f3;");
  taken("add.rn.ftz.sat.f16x2 %w1, %w2, %w3;");
  taken("fma.rn.ftz.relu.f16 %h1, %h2, %h3, %h4;");
  taken("min.NaN.xorsign.abs.bf16x2 %w1, %w2, %w3;");
}

TEST(Modifiers, MissingOperandsAreErrors) {
  refused("add.f32 %f1, %f2;", "there are 2 operands; it takes 3");
  refused("fma.rn.f64 %g1, %g2, %g3;", "there are 3 operands; it takes 4");
  refused("abs.f32 %f1, %f2, %f3;", "there are 3 operands; it takes 2");
  refused("mad.lo.s32 %w1, %w2, %w3;", "there are 3 operands; it takes 4");
  refused("add.cc.u32 %w1, %w2;", "there are 2 operands");
}

TEST(Modifiers, OfConversions) {
  refused("cvt.rn.scaled::n2::ue8m0.f16x2.e4m3x2 %w1, %h1;", ".scaled::n2::ue8m0");
}

TEST(Modifiers, OfIntegers) {
  refused("mad.lo.sat.s32 %w1, %w2, %w3, %w4;", ".sat");
  refused("mad.wide.sat.s32 %d1, %w2, %w3, %d4;", ".sat");
  refused("mad.wide.cc.u32 %d1, %w2, %w3, %d4;", ".wide has no carries");
  refused("mad.lo.cc.u16 %h1, %h2, %h3, %h4;", ".u16");
  refused("add.cc.u16 %h1, %h2, %h3;", ".u16");
  refused("addc.f32 %f1, %f2, %f3;", ".f32");
  refused("dp2a.u32.u32 %w1, %w2, %w3, %w4;", "one of .lo and .hi is missing");
  refused("dp4a.lo.u32.u32 %w1, %w2, %w3, %w4;", ".lo");
  refused("dp4a.u64.u32 %w1, %w2, %w3, %w4;", ".u32 or .s32");
  refused("mul24.u32 %w1, %w2, %w3;", "one of .lo and .hi is missing");
  refused("mad24.lo.sat.s32 %w1, %w2, %w3, %w4;", ".sat");
  refused("mad24.lo.u64 %d1, %d2, %d3, %d4;", ".u64");
  taken("mad.hi.sat.s32 %w1, %w2, %w3, %w4;");
  taken("madc.hi.cc.u64 %d1, %d2, %d3, %d4;");
  taken("dp2a.hi.s32.u32 %w1, %w2, %w3, %w4;");
}

TEST(Modifiers, TypesOfBitOperations) {
  refused("lop3.b64 %d1, %d2, %d3, %d4, 0x80;", ".b64");
  refused("lop3.and.b32 %w1, %w2, %w3, %w4, 0x80, %p1;", "d|p");
  refused("lop3.b32 %w1|%p1, %w2, %w3, %w4, 0x80, %p1;", "d|p");
  refused("shf.l.wrap.b64 %d1, %d2, %d3, %w1;", ".b64");
  refused("prmt.b64 %d1, %d2, %d3, %d4;", ".b64");
  refused("popc.b16 %w1, %h1;", ".b16");
  refused("clz.u32 %w1, %w2;", ".u32");
  refused("bfind.b32 %w1, %w2;", ".b32");
  refused("bfi.b16 %h1, %h2, %h3, %w1, %w2;", ".b16");
  refused("brev.b16 %h1, %h2;", ".b16");
  refused("szext.clamp.b32 %w1, %w2, %w3;", ".b32");
}

TEST(Modifiers, OfHints) {
  refused("prefetch.global.L3 [%rd1];", "the level is missing");
  refused("prefetch.shared.L1 [%rd1];", ".shared");
  refused("prefetch.local.L2::evict_last [%rd1];", "goes with .global");
  refused("prefetchu.L2 [%rd1];", ".L1 is missing");
  refused("applypriority.global.L2::evict_first [%rd1], 128;", ".L2::evict_normal");
  refused("applypriority.global.L2::evict_normal [%rd1], 64;", "must be 128");
  refused("discard.global.L1 [%rd1], 128;", ".L2 is missing");
  refused("createpolicy.fractional.b64 %d1;", "the primary priority is missing");
  refused("createpolicy.cvt.L2.b32 %w1, %w2;", ".b64");
  refused("createpolicy.fractional.L2::evict_last.magic.b64 %d1;", ".magic");
  refused("cp.async.bulk.prefetch.L1.global [%rd1], %w1;", ".L2.global is missing");
  refused("cp.async.bulk.prefetch.tensor.2d.L2.global.magic [%rd1, {%w1, %w2}];", ".magic");
  refused("cp.async.bulk.prefetch.tensor.L2.global [%rd1, {%w1, %w2}];",
          "the dimension is missing");
  taken("prefetch.global.L2::evict_last [%rd1];");
  taken("prefetch.tensormap [%rd1];");
  taken("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d1, 0.5;");
  taken("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1], %w1, %d1;");
  taken("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%w1, %w2}];");
}

TEST(Modifiers, OfTheRest) {
  refused("trap.magic;", ".magic");
  refused("brkpt.magic;", ".magic");
  refused("nanosleep.b64 5;", ".u32");
  refused("pmevent.magic 7;", ".magic");
  refused("activemask.b64 %d1;", ".b32");
  refused("activemask.sync.b32 %w1;", ".sync");
  refused("redux.sync.add.f32 %f1, %f2, %w1;", ".f32");
  refused("redux.sync.and.u32 %w1, %w2, %w3;", ".u32");
  refused("redux.sync.min.NaN.u32 %w1, %w2, %w3;", ".NaN");
  refused("movmatrix.sync.aligned.m8n8.b16 %w1, %w2;", ".trans is missing");
  refused("movmatrix.sync.aligned.m8n8.trans.b32 %w1, %w2;", ".b16");
  refused("ldmatrix.sync.aligned.m8n8.x1.b32 {%w1}, [box];", ".b16");
}

}  // namespace
}  // namespace mpfa::sim::testing
