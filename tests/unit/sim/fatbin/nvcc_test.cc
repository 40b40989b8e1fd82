// The fat binaries that nvcc makes, with each of its compressions, held against the PTX that it
// writes by itself.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "sim/fatbin/choose_ptx.h"
#include "sim/fatbin/fat_binary.h"

namespace mpfa::sim {
namespace {

std::string contents(const std::string& name) {
  std::ifstream in(MPFA_FATBIN_FOLDER "/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

// From .version on, without comments and with one blank for any: nvcc drops both when it embeds.
std::string code_of(const std::string& ptx) {
  const size_t start = ptx.find(".version");
  if (start == std::string::npos) return "";
  std::istringstream lines(ptx.substr(start));
  std::string code;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find("//")));
    for (std::string word; words >> word;) code += word + " ";
  }
  return code;
}

class NvccFatBinary : public testing::TestWithParam<std::string> {};

TEST_P(NvccFatBinary, HoldsThePtx) {
  const std::string file = contents("sample_" + GetParam() + ".fatbin");
  const auto entries = read_fat_binary(std::as_bytes(std::span(file)));
  const FatBinaryEntry* hopper = choose_ptx(entries, 90);
  ASSERT_NE(hopper, nullptr);
  EXPECT_EQ(hopper->target(), "sm_90a");
  const std::string text = ptx_text(*hopper);
  EXPECT_NE(text.find(".target sm_90a"), std::string::npos);
  EXPECT_NE(text.find(".entry sample("), std::string::npos);
  EXPECT_EQ(code_of(text), code_of(contents("sample.ptx")));
  const FatBinaryEntry* ampere = choose_ptx(entries, 86);
  ASSERT_NE(ampere, nullptr);
  EXPECT_EQ(ampere->target(), "sm_80");
  EXPECT_NE(ptx_text(*ampere).find(".target sm_80"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Compressions, NvccFatBinary,
                         testing::Values("none", "size", "speed", "balance"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mpfa::sim
