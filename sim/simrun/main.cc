// simrun: runs a CUDA program with the simulated libcudart.so.13 in front of the real one.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "mpfa/check.h"
#include "sim/simrun/program_file.h"
#include "sim/simrun/settings.h"

namespace mpfa::sim {
namespace {

namespace fs = std::filesystem;

constexpr int kExitUsage = 2;
constexpr int kExitCannotRun = 126;  // as shells have it
constexpr int kExitNotFound = 127;
constexpr const char* kLibrary = "libcudart.so.13";

struct Settings {
  std::string arch = "sm_90a";
  uint64_t seed = 0;
  std::string checks = "all";
  int threads = 0;
  std::string trace;
};

// CLI11 does not know that a program and its arguments follow the options.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: simrun [OPTIONS] PROGRAM [ARGUMENTS...]\n";
  }
};

void describe(CLI::App& app, Settings& settings) {
  app.description("Runs a CUDA program on a machine without a GPU, by executing its PTX.");
  app.formatter(std::make_shared<HelpFormatter>());
  app.add_option("--arch", settings.arch,
                 "The GPU: sm_80 (A100), sm_86 (A10), sm_89 (L40S), sm_90a (H200), sm_100a (B200)")
      ->envname(kArchVariable)
      ->capture_default_str();
  app.add_option("--seed", settings.seed,
                 "Another seed, another order of warps and of asynchronous work")
      ->envname(kSeedVariable)
      ->capture_default_str();
  app.add_option("--check", settings.checks,
                 "all, none, or a list of races,uninitialized,async,barriers,bounds")
      ->envname(kCheckVariable)
      ->capture_default_str();
  app.add_option("--threads", settings.threads, "Threads of the host; 0: as many as it has")
      ->envname(kThreadsVariable)
      ->capture_default_str();
  app.add_option("--trace", settings.trace, "Write what happens to this file")
      ->envname(kTraceVariable);
  app.prefix_command();
  app.footer(
      "The program must take the CUDA runtime from its shared library and hold PTX for the GPU:\n"
      "  nvcc -cudart shared -gencode arch=compute_90a,code=compute_90a add.cu -o add\n\n"
      "Examples:\n"
      "  simrun ./add\n"
      "  simrun --arch sm_100a --seed 7 ./test --gtest_filter='Decode.*'\n"
      "  CUDA_LOG_FILE=stderr simrun ./add    # says why a call of the runtime failed\n\n"
      "The exit code is the program's; 2 for a wrong command line, 126 if the program cannot run\n"
      "in the simulator, 127 if there is no such program.");
}

// Throws InvalidArgument for settings that libcudart would not take.
void check(const Settings& settings) {
  device_model(settings.arch);
  parse_checks(settings.checks);
  MPFA_CHECK(settings.threads >= 0 && settings.threads <= 4096, "--threads ", settings.threads,
             ": must be from 0 to 4096");
}

// Beside this program: in a build folder, or installed.
fs::path find_library() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* folder : {".", "../sim/cudart", "../cudart", "../lib/mpfa-sim"}) {
    const fs::path file = here / folder / kLibrary;
    if (fs::exists(file)) return fs::canonical(file);
  }
  throw IoError(internal::str_cat("the simulated ", kLibrary, " was not found near ", here.string(),
                                  ": it is built where the CUDA toolkit's headers are found"));
}

void put_in_front(const char* variable, const std::string& value) {
  const char* rest = std::getenv(variable);
  const std::string all = rest == nullptr || *rest == '\0' ? value : value + ":" + rest;
  setenv(variable, all.c_str(), 1);
}

void set_environment(const Settings& settings, const fs::path& library) {
  setenv(kArchVariable, settings.arch.c_str(), 1);
  setenv(kSeedVariable, std::to_string(settings.seed).c_str(), 1);
  setenv(kCheckVariable, settings.checks.c_str(), 1);
  setenv(kThreadsVariable, std::to_string(settings.threads).c_str(), 1);
  if (!settings.trace.empty()) {
    setenv(kTraceVariable, fs::absolute(settings.trace).c_str(), 1);  // the program may move
  }
  put_in_front("LD_LIBRARY_PATH", library.parent_path().string());
  // A program's DT_RPATH would come before LD_LIBRARY_PATH; nothing comes before this. The loader
  // splits its value at spaces and colons.
  if (library.string().find_first_of(" :") == std::string::npos) {
    put_in_front("LD_PRELOAD", library.string());
  }
}

// Throws IoError if the program's file shows that it cannot run in the simulator.
void check_program(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> contents{std::istreambuf_iterator<char>(in), {}};
  const std::string problem = explain_linkage(linkage_of(std::as_bytes(std::span(contents))));
  if (!problem.empty()) throw IoError(file + " cannot run in the simulator: " + problem);
}

int fail(const std::string& message, int code) {
  std::fprintf(stderr, "simrun: error: %s\n", message.c_str());
  if (code == kExitUsage) std::fputs("Try 'simrun --help'.\n", stderr);
  return code;
}

int run(const Settings& settings, std::vector<std::string> command) {
  if (command.empty()) return fail("no program is given", kExitUsage);
  if (command.front().starts_with('-')) {
    return fail("unknown option " + command.front(), kExitUsage);
  }
  try {
    check(settings);
  } catch (const InvalidArgument& error) {
    return fail(error.what(), kExitUsage);
  }
  const char* path = std::getenv("PATH");
  const std::string file = find_program(command.front(), path == nullptr ? "" : path);
  if (file.empty()) return fail(command.front() + ": there is no such program", kExitNotFound);
  try {
    check_program(file);
    set_environment(settings, find_library());
  } catch (const std::exception& error) {
    return fail(error.what(), kExitCannotRun);
  }
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execv(file.c_str(), arguments.data());
  return fail(file + ": " + std::strerror(errno), kExitCannotRun);
}

}  // namespace
}  // namespace mpfa::sim

int main(int argc, char** argv) {
  CLI::App app;
  mpfa::sim::Settings settings;
  mpfa::sim::describe(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return mpfa::sim::fail(error.what(), mpfa::sim::kExitUsage);
  }
  return mpfa::sim::run(settings, app.remaining());
}
