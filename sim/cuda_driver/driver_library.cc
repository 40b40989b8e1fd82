// A libcuda.so.1 for programs that are linked with the driver's library: its functions jump to
// those that the simulated libcudart.so.13 has for cudaGetDriverEntryPoint. One that is not
// simulated says its name and fails.
#include <cstdio>
#include <string>
#include <string_view>

// libcudart's: the simulated function of that name without its version, or nullptr. `per_thread`:
// that which takes null for the calling thread's stream.
extern "C" void* __cudaSimulatedDriverFunction(const char* name, bool per_thread);

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

// Whether the name ended so.
bool take_suffix(std::string& name, std::string_view suffix) {
  if (!std::string_view(name).ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

void fill(const char* full_name, void** slot) {
  if (has_other_parameters(full_name)) return;
  // "cuMemcpyHtoD" of "cuMemcpyHtoD_v2_ptds".
  std::string name = full_name;
  const bool per_thread = take_suffix(name, "_ptsz") || take_suffix(name, "_ptds");
  for (const char* version : {"_v2", "_v3", "_v4"}) {
    if (take_suffix(name, version)) break;
  }
  void* function = __cudaSimulatedDriverFunction(name.c_str(), per_thread);
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
