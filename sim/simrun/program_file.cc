#include "sim/simrun/program_file.h"

#include <elf.h>
#include <unistd.h>

#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

// An ELF file's sections.
class ElfFile {
 public:
  explicit ElfFile(std::span<const std::byte> bytes) : bytes_(bytes) {
    header_ = read<Elf64_Ehdr>(0);
    for (unsigned i = 0; i < header_.e_shnum; ++i) {
      sections_.push_back(read<Elf64_Shdr>(header_.e_shoff + uint64_t{i} * sizeof(Elf64_Shdr)));
    }
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

  std::string_view name_of(const Elf64_Shdr& section) const {
    return string_at(header_.e_shstrndx, section.sh_name);
  }

  // From the string table that is section `table`.
  std::string_view string_at(uint64_t table, uint64_t offset) const {
    if (table >= sections_.size()) fail("string table");
    const std::span<const std::byte> strings = contents(sections_[table]);
    if (offset >= strings.size()) fail("string");
    const auto* text = reinterpret_cast<const char*>(strings.data()) + offset;
    return {text, strnlen(text, strings.size() - offset)};
  }

  template <typename Entry>
  std::vector<Entry> entries(const Elf64_Shdr& section) const {
    const std::span<const std::byte> all = contents(section);
    std::vector<Entry> entries(all.size() / sizeof(Entry));
    if (!entries.empty()) std::memcpy(entries.data(), all.data(), entries.size() * sizeof(Entry));
    return entries;
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw IoError(
        internal::str_cat("the program's ELF file is damaged: a ", what, " is outside the file"));
  }

  std::span<const std::byte> part(uint64_t offset, uint64_t bytes, const char* what) const {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) fail(what);
    return bytes_.subspan(offset, bytes);
  }

  std::span<const std::byte> contents(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS) return {};
    return part(section.sh_offset, section.sh_size, "section");
  }

  template <typename T>
  T read(uint64_t offset) const {
    T value;
    std::memcpy(&value, part(offset, sizeof value, "header").data(), sizeof value);
    return value;
  }

  std::span<const std::byte> bytes_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

bool is_elf64(std::span<const std::byte> file) {
  return file.size() > EI_CLASS && std::memcmp(file.data(), ELFMAG, SELFMAG) == 0 &&
         static_cast<unsigned char>(file[EI_CLASS]) == ELFCLASS64;
}

// Whether the loader is to find the function elsewhere.
bool imports(const ElfFile& elf, const Elf64_Shdr& symbols, std::string_view function) {
  for (const auto& symbol : elf.entries<Elf64_Sym>(symbols)) {
    if (symbol.st_shndx == SHN_UNDEF &&
        elf.string_at(symbols.sh_link, symbol.st_name) == function) {
      return true;
    }
  }
  return false;
}

// "" if it needs none whose name begins so.
std::string needed_library(const ElfFile& elf, const Elf64_Shdr& dynamic, std::string_view start) {
  for (const auto& entry : elf.entries<Elf64_Dyn>(dynamic)) {
    if (entry.d_tag != DT_NEEDED) continue;
    const std::string_view name = elf.string_at(dynamic.sh_link, entry.d_un.d_val);
    if (name.starts_with(start)) return std::string(name);
  }
  return "";
}

}  // namespace

ProgramLinkage linkage_of(std::span<const std::byte> file) {
  ProgramLinkage linkage;
  if (!is_elf64(file)) return linkage;
  linkage.is_elf = true;
  const ElfFile elf(file);
  for (const Elf64_Shdr& section : elf.sections()) {
    // What nvcc's host code calls first; a static runtime would hold it.
    if (section.sh_type == SHT_DYNSYM && imports(elf, section, "__cudaRegisterFatBinary")) {
      linkage.uses_shared_runtime = true;
    }
    if (section.sh_type == SHT_DYNAMIC) {
      linkage.runtime_library = needed_library(elf, section, "libcudart.so");
      linkage.needs_driver = !needed_library(elf, section, "libcuda.so").empty();
    }
    if (elf.name_of(section) == ".nv_fatbin") linkage.is_linked_by_nvcc = true;
  }
  return linkage;
}

std::string explain_linkage(const ProgramLinkage& linkage) {
  if (!linkage.runtime_library.empty() && linkage.runtime_library != "libcudart.so.13") {
    return "it was built with another version of CUDA (it needs " + linkage.runtime_library +
           "): build it with CUDA 13";
  }
  const bool takes_shared_library =
      linkage.uses_shared_runtime || !linkage.runtime_library.empty() || linkage.needs_driver;
  if (linkage.is_linked_by_nvcc && !takes_shared_library) {
    return "it holds the CUDA runtime itself, which the simulator has to replace: build it with "
           "nvcc -cudart shared (CMake: set CUDA_RUNTIME_LIBRARY to Shared)";
  }
  return "";
}

std::string find_program(const std::string& name, const std::string& path) {
  const auto runs = [](const std::string& file) { return access(file.c_str(), X_OK) == 0; };
  if (name.find('/') != std::string::npos) return runs(name) ? name : "";
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (runs(file)) return file;
  }
  return "";
}

}  // namespace mpfa::sim
