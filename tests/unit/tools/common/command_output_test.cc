#include "common/command_output.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../temp_folder.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

TEST(CommandOutput, HeadsTheJson) {
  const TempFolder folder;
  const CommandOutput output("test", folder.file("out.json"));
  output.write_json({{"value", 1.5}, {"list", {1, 2}}});
  const Json document = Json::parse(read_file(folder.file("out.json")));
  EXPECT_EQ(document.dump(),
            "{\"command\":\"test\",\"version\":\"" MPFA_VERSION "\",\"value\":1.5,\"list\":[1,2]}");
}

TEST(CommandOutput, WhatJsonCannotHold) {
  const TempFolder folder;
  const CommandOutput output("test", folder.file("out.json"));
  output.write_json({{"nan", NAN}, {"inf", INFINITY}, {"bytes", "a\xff"}});
  const Json document = Json::parse(read_file(folder.file("out.json")));
  EXPECT_TRUE(document["nan"].is_null());
  EXPECT_TRUE(document["inf"].is_null());
  EXPECT_EQ(document["bytes"], "a\xef\xbf\xbd");  // U+FFFD for what is not UTF-8
}

TEST(CommandOutput, NoPathNoFile) { CommandOutput("test", "").write_json({{"value", 1}}); }

TEST(CommandOutput, APathThatCannotBeWrittenFailsAtOnce) {
  const TempFolder folder;
  EXPECT_THROW(CommandOutput("test", folder.file("no/out.json")), IoError);
}

}  // namespace
}  // namespace mpfa::tools
