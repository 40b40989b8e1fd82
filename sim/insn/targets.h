// Which instruction sets the families are compiled for. Included first in each family's file, with
// HWY_TARGET_INCLUDE set behind it. Lanes are plain loops that the compiler vectorises: baseline,
// AVX2 and AVX-512 are worth a copy each.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSE4
#undef HWY_TARGET_INCLUDE
