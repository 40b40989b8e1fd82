// What all commands share: help, exit codes, output that cannot be written.
#include <sstream>

#include "cli_fixture.h"

namespace mpfa::tools {
namespace {

class MainCli : public CliTest {
 protected:
  using Command = std::vector<std::string>;

  static std::string help_of(Command command) {
    command.emplace_back("--help");
    return succeed(command).out;
  }
  // The commands that the program, or one of its commands, says it must be given one of.
  static std::vector<Command> commands_of(const Command& group) {
    const std::string message = mpfa(group).err;
    const std::string before = "must be one of ";
    const size_t at = message.find(before);
    if (at == std::string::npos) {
      ADD_FAILURE() << "no list of commands: " << message;
      return {};
    }
    const size_t begin = at + before.size();
    std::istringstream names(message.substr(begin, message.find('\n', begin) - begin));
    std::vector<Command> commands;
    for (std::string name; names >> name;) {
      if (name.back() == ',') name.pop_back();
      commands.push_back(group);
      commands.back().push_back(name);
    }
    return commands;
  }
};

TEST_F(MainCli, HelpNamesEveryCommand) {
  const std::string help = help_of({});
  for (const Command& command : commands_of({})) {
    EXPECT_NE(help.find("\n  " + command[0] + " "), std::string::npos) << command[0];
  }
  EXPECT_NE(help.find("Exit codes"), std::string::npos);
}

TEST_F(MainCli, EveryCommandHasHelpWithExamples) {
  std::vector<Command> left = commands_of({});
  while (!left.empty()) {
    const Command command = left.back();
    left.pop_back();
    std::string name = "mpfa";
    for (const std::string& word : command) name += " " + word;
    const std::string help = help_of(command);
    EXPECT_NE(help.find("Examples:\n  " + name), std::string::npos) << help;
    if (help.find("SUBCOMMAND") != std::string::npos) {
      for (const Command& inner : commands_of(command)) left.push_back(inner);
      continue;
    }
    EXPECT_NE(help.find("--json FILE"), std::string::npos) << name;
    EXPECT_NE(help.find("--threads N"), std::string::npos) << name;
  }
}

TEST_F(MainCli, VersionIsOneLine) {
  EXPECT_EQ(succeed({"--version"}).out, "mpfa " MPFA_VERSION "\n");
}

// The exit code is right even where nobody can be told why.
TEST_F(MainCli, StandardErrorNeedNotBeWritable) {
  for (const char* redirection : {" 2>/dev/full", " 2>&-"}) {
    EXPECT_EQ(run_process({"sh", "-c", std::string(MPFA_CLI) + " nosuch" + redirection}).exit_code,
              2);
  }
}

TEST_F(MainCli, MistakesOnTheCommandLineExitWith2) {
  fail(2, {}, {"mpfa: error: ", "must be one of demo, calibrate", "Try 'mpfa --help'"});
  fail(2, {"nosuch"}, {"nosuch"});
  fail(2, {"info", "--nosuch"}, {"mpfa info: error: ", "--nosuch", "Try 'mpfa info --help'"});
  fail(2, {"bench"}, {"mpfa bench: error: ", "must be one of append, decode, prefill"});
  fail(2, {"bench", "nosuch"}, {"nosuch"});
  fail(2, {"quantize"}, {"input is required"});
  fail(2, {"info", "--threads", "-1"}, {"--threads", "'-1' must be a whole number, 0 to "});
  fail(2, {"info", "--threads", "two"}, {"--threads", "'two' must be a whole number"});
}

TEST_F(MainCli, StandardOutputThatCannotBeWrittenIsAnError) {
  const ProcessResult result =
      run_process({"/bin/sh", "-c", std::string("'") + MPFA_CLI + "' info > /dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("cannot write standard output"), std::string::npos) << result.err;
}

TEST_F(MainCli, JsonToStandardOutputLeavesNothingElseThere) {
  const ProcessResult result = mpfa({"info", "--json", "-"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(result.out)["command"], "info");
  EXPECT_NE(result.err.find("kernel"), std::string::npos);
}

TEST_F(MainCli, JsonThatCannotBeWrittenStopsTheCommandAtOnce) {
  fail(1, {"info", "--json", path("missing/info.json")}, {"missing/info.json", "No such file"});
  fail(1, {"info", "--json", folder_.path().string()}, {folder_.path().string(), "directory"});
}

TEST_F(MainCli, NoColourCodesWhereOutputIsNotATerminal) {
  const std::string out = succeed({"info"}).out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(out.find('\r'), std::string::npos);
}

}  // namespace
}  // namespace mpfa::tools
