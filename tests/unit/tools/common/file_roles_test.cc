#include "common/file_roles.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "../temp_folder.h"
#include "common/errors.h"

namespace mpfa::tools {
namespace {

class FileRoles : public ::testing::Test {
 protected:
  FileRoles() { write_file(path("in"), "x"); }

  std::string path(const std::string& name) const { return folder_.file(name); }
  static std::string error(const std::vector<NamedFile>& inputs,
                           const std::vector<NamedFile>& outputs) {
    try {
      check_file_roles(inputs, outputs);
    } catch (const UsageError& error) {
      return without_source_location(error.what());
    }
    return "";
  }

  TempFolder folder_;
};

TEST_F(FileRoles, DifferentFilesAreFine) {
  EXPECT_EQ(error({{"the input", path("in")}, {"--stats", ""}},
                  {{"-o", path("out")}, {"--json", path("json")}}),
            "");
  EXPECT_EQ(error({{"the input", path("in")}}, {{"-o", path("out")}, {"--json", ""}}), "");
}

TEST_F(FileRoles, AnInputIsNotOverwritten) {
  EXPECT_EQ(error({{"the input", path("in")}}, {{"-o", path("in")}}),
            "-o '" + path("in") + "' would overwrite the input: must be another file");
  // Under any of its names.
  std::filesystem::create_symlink(path("in"), path("link"));
  std::filesystem::create_hard_link(path("in"), path("hard"));
  for (const std::string& name : {path("link"), path("hard"), folder_.file("./in")}) {
    EXPECT_NE(error({{"the input", path("in")}}, {{"--json", name}}), "") << name;
  }
}

TEST_F(FileRoles, OutputsAreDifferentFiles) {
  EXPECT_EQ(error({}, {{"-o", path("new")}, {"--json", folder_.file("./new")}}),
            "--json '" + folder_.file("./new") + "' is the file of -o too: must be another file");
  EXPECT_EQ(error({}, {{"-o", "/dev/null"}, {"--json", "/dev/null"}}), "");
}

TEST_F(FileRoles, OnlyJsonKnowsTheDash) {
  EXPECT_EQ(error({}, {{"--json", "-"}}), "");
  EXPECT_NE(error({}, {{"-o", "-"}}).find("-o -: must name a file"), std::string::npos);
}

}  // namespace
}  // namespace mpfa::tools
