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

// `environment`: as in "NAME=value OTHER=value".
Outcome run(const std::string& arguments, const std::string& environment = "") {
  const std::string command =
      "env -u MPFA_SIM_ARCH -u MPFA_SIM_SEED -u MPFA_SIM_CHECK -u MPFA_SIM_THREADS "
      "-u MPFA_SIM_TRACE " +
      environment + " " MPFA_SIMRUN " " + arguments + " 2>&1";
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

TEST(Simrun, ProgramsWithoutKernelsRun) {
  const Outcome outcome = run(MPFA_HOST_PROGRAM);
  EXPECT_EQ(outcome.code, 42) << outcome.output;
  EXPECT_EQ(outcome.output, "NVIDIA H200\n");
}

TEST(Simrun, OtherProgramsRun) {
  EXPECT_EQ(run("sh -c 'exit 7'").code, 7);
  EXPECT_TRUE(has(run("--seed 5 sh -c 'echo $MPFA_SIM_SEED'"), "5"));
}

TEST(Simrun, VariablesHoldWhereNoOptionIsGiven) {
  const std::string print =
      "sh -c 'echo $MPFA_SIM_ARCH $MPFA_SIM_SEED $MPFA_SIM_CHECK $MPFA_SIM_THREADS "
      "$MPFA_SIM_TRACE'";
  const std::string environment =
      "MPFA_SIM_ARCH=sm_80 MPFA_SIM_SEED=7 MPFA_SIM_CHECK=races,bounds MPFA_SIM_THREADS=3 "
      "MPFA_SIM_TRACE=/a/file";
  EXPECT_EQ(run(print).output, "sm_90a 0 all 0\n");
  EXPECT_EQ(run(print, environment).output, "sm_80 7 races,bounds 3 /a/file\n");
  EXPECT_EQ(
      run("--arch sm_89 --seed 8 --check none --threads 1 --trace /b " + print, environment).output,
      "sm_89 8 none 1 /b\n");
  EXPECT_EQ(run("--seed 0 " + print, environment).output, "sm_80 0 races,bounds 3 /a/file\n");
  EXPECT_EQ(run(print, "MPFA_SIM_ARCH= MPFA_SIM_SEED=").output, "sm_90a 0 all 0\n");
  EXPECT_TRUE(has(run(MPFA_PROGRAM, "MPFA_SIM_ARCH=sm_80"), "NVIDIA A100"));
}

TEST(Simrun, WrongVariables) {
  EXPECT_EQ(run("true", "MPFA_SIM_ARCH=sm_70").code, 2);
  EXPECT_EQ(run("true", "MPFA_SIM_SEED=x").code, 2);
  EXPECT_EQ(run("true", "MPFA_SIM_CHECK=fast").code, 2);
  EXPECT_EQ(run("true", "MPFA_SIM_THREADS=-1").code, 2);
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
