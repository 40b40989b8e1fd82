#include "common/subprocess.h"

#include <gtest/gtest.h>

#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

ProcessResult shell(const std::string& script) { return run_process({"sh", "-c", script}); }

TEST(Subprocess, KeepsTheStreamsApart) {
  const ProcessResult result = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
}

TEST(Subprocess, ArgumentsAreNotParsedByAShell) {
  EXPECT_EQ(run_process({"printf", "%s|", "a b", "$HOME", "*", ""}).out, "a b|$HOME|*||");
}

TEST(Subprocess, MoreThanAPipeHoldsOnBothStreams) {
  const ProcessResult result =
      shell("head -c 300000 /dev/zero >&2; head -c 400000 /dev/zero; head -c 300000 /dev/zero >&2");
  EXPECT_EQ(result.out.size(), 400000u);
  EXPECT_EQ(result.err.size(), 600000u);
}

TEST(Subprocess, HasNoInput) { EXPECT_EQ(run_process({"cat"}).out, ""); }

TEST(Subprocess, ASignalShowsInTheExitCode) {
  EXPECT_EQ(shell("kill -TERM $$").exit_code, 128 + 15);
}

TEST(Subprocess, AProgramThatIsNotThereIsAnError) {
  EXPECT_THROW(run_process({"/no/such/program"}), IoError);
}

}  // namespace
}  // namespace mpfa::tools
