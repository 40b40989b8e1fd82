// The driver's functions that load device code, and find kernels and variables in it.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "sim/cudart/driver_call.h"
#include "sim/cudart/library.h"
#include "sim/cudart/module.h"

namespace mpfa::sim::cudart {
namespace {

// A module is loaded at once.
CUmodule load_now(void* handle) {
  try {
    find_library(handle)->program();
  } catch (...) {
    unload_library(handle);
    throw;
  }
  return static_cast<CUmodule>(handle);
}

CUresult module_load_data(CUmodule* module, const void* image) {
  return driver_call("cuModuleLoadData", [&] {
    require_pointer(module, "module");
    *module = load_now(add_library(image));
  });
}

CUresult module_load(CUmodule* module, const char* file_name) {
  return driver_call("cuModuleLoad", [&] {
    require_pointer(module, "module");
    *module = load_now(add_library_file(file_name));
  });
}

// The caller's buffer for the compiler's complaints, and where to say how much of it is filled.
struct ErrorLog {
  char* text = nullptr;
  size_t capacity = 0;
  void** bytes = nullptr;
};

ErrorLog find_error_log(unsigned count, const CUjit_option* options, void** values) {
  ErrorLog log;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log.text = static_cast<char*>(values[i]);
    if (options[i] != CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) continue;
    // The value itself, not a pointer to it (cuModuleLoadDataEx).
    log.capacity = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
    log.bytes = &values[i];
  }
  return log;
}

// A text that ends with a null byte, cut where the buffer ends; bytes says its length.
void write_log(const ErrorLog& log, std::string_view text) {
  const size_t bytes = log.text == nullptr || log.capacity == 0
                           ? 0
                           : text.copy(log.text, std::min(text.size(), log.capacity - 1));
  if (log.text != nullptr && log.capacity != 0) log.text[bytes] = '\0';
  if (log.bytes != nullptr) *log.bytes = reinterpret_cast<void*>(bytes);
}

CUresult module_load_data_ex(CUmodule* module, const void* image, unsigned count,
                             CUjit_option* options, void** values) {
  return driver_call("cuModuleLoadDataEx", [&] {
    require_pointer(module, "module");
    const ErrorLog log = find_error_log(count, options, values);
    try {
      *module = load_now(add_library(image));
    } catch (const Error& error) {
      write_log(log, error.what());
      throw;
    }
    write_log(log, "");
  });
}

CUresult module_unload(CUmodule module) {
  return driver_call("cuModuleUnload", [&] { unload_library(module); });
}

CUresult module_get_function(CUfunction* function, CUmodule module, const char* name) {
  return driver_call("cuModuleGetFunction", [&] {
    require_pointer(function, "hfunc");
    *function = to_handle<CUfunction>(find_library_function(module, name));
  });
}

CUresult module_get_global(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  return driver_call("cuModuleGetGlobal", [&] {
    const Symbol symbol = find_library_variable(module, name);
    if (address != nullptr) *address = symbol.address;
    if (bytes != nullptr) *bytes = symbol.bytes;
  });
}

CUresult library_load_data(CUlibrary* library, const void* code, CUjit_option* /*options*/,
                           void** /*values*/, unsigned /*count*/,
                           CUlibraryOption* /*library_options*/, void** /*library_values*/,
                           unsigned /*library_count*/) {
  return driver_call("cuLibraryLoadData", [&] {
    require_pointer(library, "library");
    *library = static_cast<CUlibrary>(add_library(code));
  });
}

CUresult library_unload(CUlibrary library) {
  return driver_call("cuLibraryUnload", [&] { unload_library(library); });
}

CUresult library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return driver_call("cuLibraryGetKernel", [&] {
    require_pointer(kernel, "pKernel");
    *kernel = to_handle<CUkernel>(find_library_function(library, name));
  });
}

}  // namespace

std::span<const DriverFunction> module_functions() {
  static const DriverFunction kAll[] = {
      entry<module_load>("cuModuleLoad", 2000),
      entry<module_load_data>("cuModuleLoadData", 2000),
      entry<module_load_data_ex>("cuModuleLoadDataEx", 2010),
      entry<module_load_data>("cuModuleLoadFatBinary", 2000),
      entry<module_unload>("cuModuleUnload", 2000),
      entry<module_get_function>("cuModuleGetFunction", 2000),
      entry<module_get_global>("cuModuleGetGlobal", 3020),
      entry<library_load_data>("cuLibraryLoadData", 12000),
      entry<library_unload>("cuLibraryUnload", 12000),
      entry<library_get_kernel>("cuLibraryGetKernel", 12000),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
