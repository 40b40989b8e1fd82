// What a program's file says about how it was linked.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mpfa::sim {

struct ProgramLinkage {
  bool is_elf = false;               // else a script, say
  bool is_linked_by_nvcc = false;    // it has a section for fat binaries, perhaps with none in it
  bool uses_shared_runtime = false;  // it registers that with the runtime of a shared library
  bool needs_driver = false;         // libcuda.so, directly
  std::string runtime_library;       // as "libcudart.so.13"; empty: not needed directly
};

// Of the contents of a 64-bit ELF file. Throws IoError where its tables leave the file.
ProgramLinkage linkage_of(std::span<const std::byte> file);

// "" if the program can run in the simulator, as far as its file shows; else what to do.
std::string explain_linkage(const ProgramLinkage& linkage);

// The file that running `name` runs: as it is if it has a slash, else from the folders of `path`
// (PATH's value). "" if there is none.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace mpfa::sim
