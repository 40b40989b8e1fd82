// A stand-in for every function that the real library exports: it says its name and fails. They are
// weak: a function that another file defines takes its stand-in's place when the library is linked.
#include "sim/cudart/not_implemented.h"

// CUDA's header is not included here: it would give the functions their parameters.
#define EXPORT(name) \
  extern "C" __attribute__((weak)) int name() { return mpfa::sim::cudart::not_implemented(#name); }
#include "sim/cudart/exports.def"
