// A stand-in for every function that the real library exports: it says its name and fails. They are
// weak: a function that another file defines takes its stand-in's place when the library is linked.
#include <cstdio>

namespace {

constexpr int kErrorNotSupported = 801;  // cudaErrorNotSupported

int not_implemented(const char* name) {
  std::fprintf(stderr, "simulated libcudart: %s is not implemented\n", name);
  return kErrorNotSupported;
}

}  // namespace

// CUDA's header is not included here: it would give the functions their parameters.
#define EXPORT(name) \
  extern "C" __attribute__((weak)) int name() { return not_implemented(#name); }
#include "sim/cudart/exports.def"
