#include "demo/figures.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "../temp_folder.h"

namespace mpfa::tools {
namespace {

// A program that stands for Python: it gets the script and the JSON file as arguments.
class FiguresTest : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("MPFA_PYTHON"); }

  Figures draw(const std::string& program) {
    write_file(folder_.file("python"), "#!/bin/sh\n" + program);
    std::filesystem::permissions(folder_.file("python"), std::filesystem::perms::owner_all);
    ::setenv("MPFA_PYTHON", folder_.file("python").c_str(), 1);
    return draw_figures("scripts/report.py", "demo.json");
  }

  TempFolder folder_;
};

TEST_F(FiguresTest, ArgumentsAreTheScriptAndTheData) {
  const Figures figures =
      draw("printf '[{\"id\": \"x\", \"caption\": \"%s\", \"svg\": \"%s\"}]' \"$1\" \"$2\"\n");
  ASSERT_EQ(figures.list.size(), 1u) << figures.problem;
  EXPECT_EQ(figures.list[0].id, "x");
  EXPECT_EQ(figures.list[0].caption, "scripts/report.py");
  EXPECT_EQ(figures.list[0].svg, "demo.json");
}

TEST_F(FiguresTest, EveryFailureHasAReason) {
  const auto expect = [](const Figures& figures, const std::string& part) {
    EXPECT_TRUE(figures.list.empty());
    EXPECT_NE(figures.problem.find(part), std::string::npos) << figures.problem;
  };
  expect(draw("exit 3\n"), "has no matplotlib; install matplotlib");
  expect(draw("echo first >&2; echo second >&2; exit 1\n"), "failed: 'second'");
  expect(draw("echo '{}[]'\n"), "something else than figures");
  expect(draw("echo '[{\"id\": 5}]'\n"), "something else than figures");
  expect(draw("echo '[1]'\n"), "something else than figures");
  expect(draw_figures("", "demo.json"), "not found");
  ::setenv("MPFA_PYTHON", "/no/such/python", 1);
  expect(draw_figures("scripts/report.py", "demo.json"), "cannot run '/no/such/python'");
}

}  // namespace
}  // namespace mpfa::tools
