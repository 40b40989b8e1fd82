// What runs once a lane is inlined into the loop over lanes, wherever that stands: a family
// compiles its loops for several instruction sets, and only code inside of the loop follows.
#pragma once

#if defined(__GNUC__)
#define MPFA_SIM_LANE [[gnu::always_inline]] inline
#else
#define MPFA_SIM_LANE inline
#endif
