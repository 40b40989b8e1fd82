// The driver's linker (cuLink*), of which programs want that it compiles one text of PTX: what
// comes out is that text, as an image for cuModuleLoadData.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "sim/cudart/driver_call.h"

namespace mpfa::sim::cudart {
namespace {

struct Linker {
  std::string ptx;
};

HandleTable<Linker>& linkers() {
  static auto& all = *new HandleTable<Linker>;
  return all;
}

Linker& find_linker(CUlinkState state) {
  Linker* linker = linkers().find(state);
  require(linker != nullptr, cudaErrorInvalidResourceHandle, "there is no linker at ", state);
  return *linker;
}

void add(CUlinkState state, CUjitInputType type, std::string ptx, const char* name) {
  Linker& linker = find_linker(state);
  const std::string what = name != nullptr ? name : "an input";
  if (type != CU_JIT_INPUT_PTX) {
    say("cuLink*: " + what + " is not PTX (input type " + std::to_string(type) +
        "); the simulator links nothing else");
    fail(cudaErrorNotSupported, what, ": type ", static_cast<int>(type));
  }
  if (!linker.ptx.empty()) {
    say("cuLink*: " + what + " is a second input; the simulator links one text of PTX");
    fail(cudaErrorNotSupported, what, ": a second input");
  }
  while (!ptx.empty() && ptx.back() == '\0') ptx.pop_back();
  linker.ptx = std::move(ptx);
}

CUresult link_create(unsigned /*count*/, CUjit_option* /*options*/, void** /*values*/,
                     CUlinkState* state) {
  return driver_call("cuLinkCreate", [&] {
    require_pointer(state, "stateOut");
    *state = to_handle<CUlinkState>(linkers().add(std::make_shared<Linker>()));
  });
}

CUresult link_add_data(CUlinkState state, CUjitInputType type, void* data, size_t bytes,
                       const char* name, unsigned /*count*/, CUjit_option* /*options*/,
                       void** /*values*/) {
  return driver_call("cuLinkAddData", [&] {
    require_pointer(data, "data");
    add(state, type, {static_cast<const char*>(data), bytes}, name);
  });
}

CUresult link_add_file(CUlinkState state, CUjitInputType type, const char* path, unsigned /*count*/,
                       CUjit_option* /*options*/, void** /*values*/) {
  return driver_call("cuLinkAddFile", [&] {
    require_pointer(path, "path");
    std::ifstream file(path, std::ios::binary);
    require(file.good(), cudaErrorFileNotFound, path, " cannot be read");
    add(state, type, {std::istreambuf_iterator<char>(file), {}}, path);
  });
}

// The image lives until cuLinkDestroy.
CUresult link_complete(CUlinkState state, void** image, size_t* bytes) {
  return driver_call("cuLinkComplete", [&] {
    require_pointer(image, "cubinOut");
    std::string& ptx = find_linker(state).ptx;
    require(!ptx.empty(), cudaErrorInvalidValue, "nothing was added");
    *image = ptx.data();
    if (bytes != nullptr) *bytes = ptx.size() + 1;
  });
}

CUresult link_destroy(CUlinkState state) {
  return driver_call("cuLinkDestroy", [&] {
    find_linker(state);
    linkers().remove(state);
  });
}

}  // namespace

std::span<const DriverFunction> link_functions() {
  static const DriverFunction kAll[] = {
      entry<link_create>("cuLinkCreate", 5050),    entry<link_add_data>("cuLinkAddData", 5050),
      entry<link_add_file>("cuLinkAddFile", 5050), entry<link_complete>("cuLinkComplete", 5050),
      entry<link_destroy>("cuLinkDestroy", 5050),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
