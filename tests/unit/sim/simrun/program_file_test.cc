#include "sim/simrun/program_file.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

ProgramLinkage linkage_of_text(const std::string& file) {
  return linkage_of(std::as_bytes(std::span(file)));
}

std::string this_program() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ProgramFile, ScriptsAreNotElf) {
  EXPECT_FALSE(linkage_of_text("#!/bin/sh\n").is_elf);
  EXPECT_FALSE(linkage_of_text("").is_elf);
  EXPECT_FALSE(linkage_of_text("\x7f"
                               "ELF")
                   .is_elf);
  EXPECT_EQ(explain_linkage(linkage_of_text("#!/bin/sh\n")), "");
}

TEST(ProgramFile, ProgramsWithoutDeviceCodeMayRun) {
  const ProgramLinkage linkage = linkage_of_text(this_program());
  EXPECT_TRUE(linkage.is_elf);
  EXPECT_FALSE(linkage.is_linked_by_nvcc);
  EXPECT_FALSE(linkage.uses_shared_runtime);
  EXPECT_EQ(explain_linkage(linkage), "");
}

TEST(ProgramFile, Explanations) {
  ProgramLinkage linkage;
  linkage.is_elf = true;
  linkage.is_linked_by_nvcc = true;
  EXPECT_NE(explain_linkage(linkage).find("-cudart shared"), std::string::npos);
  linkage.uses_shared_runtime = true;
  linkage.runtime_library = "libcudart.so.13";
  EXPECT_EQ(explain_linkage(linkage), "");
  linkage.runtime_library = "libcudart.so.12";
  EXPECT_NE(explain_linkage(linkage).find("libcudart.so.12"), std::string::npos);
}

TEST(ProgramFile, ProgramsThatNvccLinkedNeedASharedLibraryOfCuda) {
  ProgramLinkage linkage;
  linkage.is_elf = true;
  linkage.is_linked_by_nvcc = true;
  EXPECT_NE(explain_linkage(linkage).find("-cudart shared"), std::string::npos);
  ProgramLinkage runtime = linkage;
  runtime.runtime_library = "libcudart.so.13";
  EXPECT_EQ(explain_linkage(runtime), "");
  ProgramLinkage driver = linkage;
  driver.needs_driver = true;
  EXPECT_EQ(explain_linkage(driver), "");
}

TEST(ProgramFile, DamagedElfFilesAreErrors) {
  const std::string file = this_program();
  EXPECT_THROW(linkage_of_text(file.substr(0, 30)), IoError);
  EXPECT_THROW(linkage_of_text(file.substr(0, file.size() / 2)), IoError);
  std::string damaged = file;
  auto header = std::bit_cast<Elf64_Ehdr>(*reinterpret_cast<const Elf64_Ehdr*>(file.data()));
  header.e_shoff = UINT64_MAX - 100;
  std::memcpy(damaged.data(), &header, sizeof header);
  EXPECT_THROW(linkage_of_text(damaged), IoError);
}

TEST(ProgramFile, FindsProgramsAsShellsDo) {
  EXPECT_EQ(find_program("/bin/sh", ""), "/bin/sh");
  EXPECT_EQ(find_program("/bin/no such program", "/bin"), "");
  EXPECT_EQ(find_program("sh", "/no such folder:/bin"), "/bin/sh");
  EXPECT_EQ(find_program("sh", "/no such folder"), "");
  EXPECT_EQ(find_program("sh", ""), "");
}

}  // namespace
}  // namespace mpfa::sim
