// cvt to and from integers (PTX ISA, sections cvt and cvt.pack).
#include "lanes.h"

namespace mpfa::ptx_test {

// An 8-bit source lies in a register of 32 bits, whose upper ones are not part of it; an 8-bit
// result goes to one of 16.
#define CONVERT(op, D, S, kind, bits) \
  run_form(suite, {op, {Kind::kind}, bits}, PTX_1(D, S, op " %0, %1;"))

#define FOR_INTEGER_SOURCES(M) \
  M(u8, 32, kInt8)             \
  M(s8, 32, kInt8)             \
  M(u16, 16, kInt16)           \
  M(s16, 16, kInt16) M(u32, 32, kInt32) M(s32, 32, kInt32) M(u64, 64, kInt64) M(s64, 64, kInt64)
#define FOR_INTEGER_RESULTS(M, ...) \
  M(u8, 16, __VA_ARGS__)            \
  M(s8, 16, __VA_ARGS__)            \
  M(u16, 16, __VA_ARGS__)           \
  M(s16, 16, __VA_ARGS__)           \
  M(u32, 32, __VA_ARGS__) M(s32, 32, __VA_ARGS__) M(u64, 64, __VA_ARGS__) M(s64, 64, __VA_ARGS__)

void between_integers(Suite& suite) {
#define PAIR(T, D, U, S, kind) CONVERT("cvt." #T "." #U, D, S, kind, D);
#define FORMS(U, S, kind) FOR_INTEGER_RESULTS(PAIR, U, S, kind)
  FOR_INTEGER_SOURCES(FORMS);
#undef FORMS
#undef PAIR
}

// To what cannot hold all of the source's values.
void saturating(Suite& suite) {
#define FORMS(T, D, U, S, kind) CONVERT("cvt.sat." #T "." #U, D, S, kind, D);
  FORMS(s8, 16, u8, 32, kInt8);
  FORMS(u8, 16, s8, 32, kInt8);
  FORMS(u16, 16, s8, 32, kInt8);
  FORMS(u32, 32, s8, 32, kInt8);
  FORMS(u64, 64, s8, 32, kInt8);
  FORMS(u8, 16, u16, 16, kInt16);
  FORMS(s8, 16, u16, 16, kInt16);
  FORMS(s16, 16, u16, 16, kInt16);
  FORMS(u8, 16, s16, 16, kInt16);
  FORMS(s8, 16, s16, 16, kInt16);
  FORMS(u16, 16, s16, 16, kInt16);
  FORMS(u32, 32, s16, 16, kInt16);
  FORMS(u64, 64, s16, 16, kInt16);
  FORMS(u8, 16, u32, 32, kInt32);
  FORMS(s8, 16, u32, 32, kInt32);
  FORMS(u16, 16, u32, 32, kInt32);
  FORMS(s16, 16, u32, 32, kInt32);
  FORMS(s32, 32, u32, 32, kInt32);
  FORMS(u8, 16, s32, 32, kInt32);
  FORMS(s8, 16, s32, 32, kInt32);
  FORMS(u16, 16, s32, 32, kInt32);
  FORMS(s16, 16, s32, 32, kInt32);
  FORMS(u32, 32, s32, 32, kInt32);
  FORMS(u64, 64, s32, 32, kInt32);
  FORMS(u8, 16, u64, 64, kInt64);
  FORMS(s8, 16, u64, 64, kInt64);
  FORMS(u16, 16, u64, 64, kInt64);
  FORMS(s16, 16, u64, 64, kInt64);
  FORMS(u32, 32, u64, 64, kInt64);
  FORMS(s32, 32, u64, 64, kInt64);
  FORMS(s64, 64, u64, 64, kInt64);
  FORMS(u8, 16, s64, 64, kInt64);
  FORMS(s8, 16, s64, 64, kInt64);
  FORMS(u16, 16, s64, 64, kInt64);
  FORMS(s16, 16, s64, 64, kInt64);
  FORMS(u32, 32, s64, 64, kInt64);
  FORMS(s32, 32, s64, 64, kInt64);
  FORMS(u64, 64, s64, 64, kInt64);
#undef FORMS
}

void from_float(Suite& suite) {
#define ROUNDINGS(op, D, S, kind)        \
  CONVERT("cvt.rni." op, D, S, kind, D); \
  CONVERT("cvt.rzi." op, D, S, kind, D); \
  CONVERT("cvt.rmi." op, D, S, kind, D); \
  CONVERT("cvt.rpi." op, D, S, kind, D);
#define FORMS(T, D, U, S, kind) ROUNDINGS(#T "." #U, D, S, kind)
  FOR_INTEGER_RESULTS(FORMS, f16, 16, kF16);
  FOR_INTEGER_RESULTS(FORMS, f32, 32, kF32);
  FOR_INTEGER_RESULTS(FORMS, f64, 64, kF64);
#undef FORMS
#define FORMS(T, D, U, S, kind)                     \
  CONVERT("cvt.rni.ftz." #T "." #U, D, S, kind, D); \
  CONVERT("cvt.rpi.ftz." #T "." #U, D, S, kind, D); \
  CONVERT("cvt.rzi.sat." #T "." #U, D, S, kind, D);
  FOR_INTEGER_RESULTS(FORMS, f32, 32, kF32);
#undef FORMS
#define FORMS(T, D) ROUNDINGS(#T ".bf16", D, 16, kBf16)
  FORMS(u16, 16);
  FORMS(s16, 16);
  FORMS(u32, 32);
  FORMS(s32, 32);
  FORMS(u64, 64);
  FORMS(s64, 64);
#undef FORMS
#undef ROUNDINGS
}

void to_float(Suite& suite) {
#define ROUNDINGS(op, D, S, kind)       \
  CONVERT("cvt.rn." op, D, S, kind, D); \
  CONVERT("cvt.rz." op, D, S, kind, D); \
  CONVERT("cvt.rm." op, D, S, kind, D); \
  CONVERT("cvt.rp." op, D, S, kind, D);
#define FORMS(U, S, kind)           \
  ROUNDINGS("f16." #U, 16, S, kind) \
  ROUNDINGS("f32." #U, 32, S, kind) \
  ROUNDINGS("f64." #U, 64, S, kind) \
  CONVERT("cvt.rn.sat.f32." #U, 32, S, kind, 32);
  FOR_INTEGER_SOURCES(FORMS);
#undef FORMS
#define FORMS(U, S, kind) ROUNDINGS("bf16." #U, 16, S, kind)
  FORMS(u16, 16, kInt16);
  FORMS(s16, 16, kInt16);
  FORMS(u32, 32, kInt32);
  FORMS(s32, 32, kInt32);
  FORMS(u64, 64, kInt64);
  FORMS(s64, 64, kInt64);
#undef FORMS
#undef ROUNDINGS
}

void packs(Suite& suite) {
  BINARY("cvt.pack.sat.u16.s32", 32, kInt32);
  BINARY("cvt.pack.sat.s16.s32", 32, kInt32);
  TERNARY("cvt.pack.sat.u8.s32.b32", 32, kInt32);
  TERNARY("cvt.pack.sat.s8.s32.b32", 32, kInt32);
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::between_integers(suite);
  mpfa::ptx_test::saturating(suite);
  mpfa::ptx_test::from_float(suite);
  mpfa::ptx_test::to_float(suite);
  mpfa::ptx_test::packs(suite);
  return suite.finish();
}
