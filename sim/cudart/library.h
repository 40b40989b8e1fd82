// Libraries of device code that the program loaded at run time; the driver calls them modules.
#pragma once

#include <memory>

#include "sim/cudart/function.h"

namespace mpfa::sim::cudart {

class Module;

// The handle. The code is copied.
void* add_library(const void* image);
// Of the file of that name.
void* add_library_file(const char* file_name);
void unload_library(const void* handle);
// Throw ApiError if there is no such library or function.
std::shared_ptr<Module> find_library(const void* handle);
Function* find_library_function(const void* library, const char* name);
Symbol find_library_variable(const void* library, const char* name);

}  // namespace mpfa::sim::cudart
