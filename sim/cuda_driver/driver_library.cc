// A libcuda.so.1 for programs that are linked with the driver's library: its functions jump to
// those that the simulated libcudart.so.13 has for cudaGetDriverEntryPoint. One that is not
// simulated says its name and fails.
#include <cstdio>
#include <cstring>
#include <string>

// libcudart's: the simulated function of that name without its version, or nullptr.
extern "C" void* __cudaSimulatedDriverFunction(const char* name);

namespace {

constexpr int kErrorNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

int not_simulated(const char* name) {
  std::fprintf(stderr, "simulated libcuda: %s is not implemented\n", name);
  return kErrorNotSupported;
}

// Functions whose versions have other parameters than the simulated one.
bool has_other_parameters(const std::string& name) {
  for (const char* each :
       {"cuStreamGetCtx_v2", "cuGetProcAddress", "cuGraphInstantiate", "cuGraphInstantiate_v2",
        "cuMemAdvise", "cuMemPrefetchAsync", "cuMemPrefetchAsync_ptsz", "cuStreamBeginCapture",
        "cuStreamBeginCapture_ptsz"}) {
    if (name == each) return true;
  }
  return false;
}

// "cuMemAlloc" of "cuMemAlloc_v2", "cuLaunchKernel" of "cuLaunchKernel_ptsz".
std::string without_version(std::string name) {
  for (const char* suffix : {"_ptsz", "_ptds", "_v2", "_v3", "_v4"}) {
    const size_t length = std::strlen(suffix);
    if (name.size() > length && name.compare(name.size() - length, length, suffix) == 0) {
      name.resize(name.size() - length);
    }
  }
  return name;
}

void fill(const char* name, void** slot) {
  if (has_other_parameters(name)) return;
  void* function = __cudaSimulatedDriverFunction(without_version(name).c_str());
  if (function != nullptr) *slot = function;
}

}  // namespace

// For each name: what stands in for it, where it leads, and the jump there, which leaves all
// arguments where they are.
#define EXPORT(name)                                             \
  extern "C" {                                                   \
  static int missing_##name() { return not_simulated(#name); }   \
  __attribute__((visibility("hidden"))) void* mpfa_slot_##name = \
      reinterpret_cast<void*>(&missing_##name);                  \
  }                                                              \
  asm(".pushsection .text\n"                                     \
      ".globl " #name                                            \
      "\n"                                                       \
      ".type " #name ", @function\n" #name                       \
      ":\n"                                                      \
      "  jmp *mpfa_slot_" #name                                  \
      "(%rip)\n"                                                 \
      ".popsection\n");
#include "sim/cuda_driver/exports.def"
#undef EXPORT

namespace {

__attribute__((constructor)) void fill_all() {
#define EXPORT(name) fill(#name, &mpfa_slot_##name);
#include "sim/cuda_driver/exports.def"
#undef EXPORT
}

}  // namespace
