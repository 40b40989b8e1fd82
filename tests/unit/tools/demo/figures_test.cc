#include "demo/figures.h"

#include <gtest/gtest.h>

#include "../environment.h"
#include "../temp_folder.h"

namespace mpfa::tools {
namespace {

// A program that stands for Python: it gets the script and the JSON file as arguments.
class FiguresTest : public ::testing::Test {
 protected:
  Figures draw(const std::string& program) {
    write_file(folder_.file("python"), "#!/bin/sh\n" + program);
    std::filesystem::permissions(folder_.file("python"), std::filesystem::perms::owner_all);
    const ScopedEnvironment python("MPFA_PYTHON", folder_.file("python"));
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
  expect(draw("echo first >&2; echo second >&2; exit 1\n"), "failed with code 1: 'second'");
  expect(draw("echo '{}[]'\n"), "something else than figures");
  expect(draw("echo '[{\"id\": 5}]'\n"), "something else than figures");
  expect(draw("echo '[1]'\n"), "something else than figures");
  expect(draw_figures("", "demo.json"), "not found");
  const ScopedEnvironment python("MPFA_PYTHON", "/no/such/python");
  expect(draw_figures("scripts/report.py", "demo.json"), "cannot run '/no/such/python'");
}

// Without MPFA_PYTHON the source tree's own environment is taken, but never the current folder's.
TEST_F(FiguresTest, ThePythonBesideTheScriptIsFoundAndTheFoldersIsNot) {
  const ScopedEnvironment unset("MPFA_PYTHON", nullptr);
  const ScopedEnvironment path("PATH", folder_.file("nothing"));
  const auto make_python = [](const std::filesystem::path& root) {
    std::filesystem::create_directories(root / ".venv/bin");
    const std::string python = (root / ".venv/bin/python").string();
    write_file(python, "#!/bin/sh\necho '[{\"id\": \"x\", \"caption\": \"\", \"svg\": \"\"}]'\n");
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  };
  const std::filesystem::path tree = folder_.path() / "tree";
  make_python(tree);
  EXPECT_EQ(draw_figures((tree / "scripts/report.py").string(), "demo.json").list.size(), 1u);

  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path here = folder_.path() / "here";
  make_python(here);
  std::filesystem::current_path(here);
  const Figures figures = draw_figures((folder_.path() / "share/mpfa/report.py").string(), "j");
  const Figures relative = draw_figures("scripts/report.py", "j");
  std::filesystem::current_path(before);
  EXPECT_NE(figures.problem.find("cannot run 'python3'"), std::string::npos) << figures.problem;
  EXPECT_NE(relative.problem.find("cannot run 'python3'"), std::string::npos) << relative.problem;
}

}  // namespace
}  // namespace mpfa::tools
