// simrun as a user runs it, on programs that nvcc made.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace mpfa::sim {
namespace {

struct Outcome {
  int code = -1;
  std::string output;  // both streams
};

Outcome run(const std::string& arguments) {
  const std::string command = MPFA_SIMRUN " " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  EXPECT_NE(pipe, nullptr);
  Outcome outcome;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    outcome.output.append(buffer, n);
  }
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

bool has(const Outcome& outcome, const char* text) {
  return outcome.output.find(text) != std::string::npos;
}

TEST(Simrun, RunsAProgram) {
  const Outcome outcome =
      run("--arch sm_90a --seed 3 --check all --threads 1 " MPFA_PROGRAM " --first --seed 9 'a b'");
  EXPECT_EQ(outcome.code, 41) << outcome.output;
  EXPECT_EQ(outcome.output, "NVIDIA H200: 5 arguments, last a b; sum 496\n");
}

TEST(Simrun, RunsItOnAnotherDevice) {
  const Outcome outcome = run("--arch sm_80 " MPFA_PROGRAM);
  EXPECT_EQ(outcome.code, 41) << outcome.output;
  EXPECT_TRUE(has(outcome, "NVIDIA A100")) << outcome.output;
}

TEST(Simrun, StaticRuntimesCannotBeReplaced) {
  const Outcome outcome = run(MPFA_STATIC_PROGRAM);
  EXPECT_EQ(outcome.code, 126);
  EXPECT_TRUE(has(outcome, "nvcc -cudart shared")) << outcome.output;
}

TEST(Simrun, OtherProgramsRun) {
  EXPECT_EQ(run("sh -c 'exit 7'").code, 7);
  EXPECT_TRUE(has(run("--seed 5 sh -c 'echo $MPFA_SIM_SEED'"), "5"));
}

TEST(Simrun, WrongCommandLines) {
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("--sed 3 true").code, 2);
  EXPECT_EQ(run("--seed x true").code, 2);
  EXPECT_EQ(run("--arch sm_70 true").code, 2);
  EXPECT_EQ(run("--check fast true").code, 2);
  EXPECT_EQ(run("--threads -1 true").code, 2);
  EXPECT_EQ(run("/no/such/program").code, 127);
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_TRUE(has(run("--help"), "Examples:"));
}

}  // namespace
}  // namespace mpfa::sim
