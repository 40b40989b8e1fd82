// The mpfa command: parses the command line, runs one subcommand, turns errors into exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "commands.h"
#include "common/errors.h"
#include "common/output_guard.h"
#include "common/require_command.h"

namespace mpfa::tools {
namespace {

constexpr int kHelpColumn = 30;

void describe_program(CLI::App& app) {
  app.description("MpFA: attention over a KV cache that takes 2.56 times fewer bytes than BF16.");
  app.set_version_flag("--version", "mpfa " MPFA_VERSION, "Print the version and exit");
  app.get_formatter()->column_width(kHelpColumn);
  app.require_subcommand(0, 1);
  app.footer(
      "Start with:  mpfa demo\n"
      "Help on a command:  mpfa COMMAND --help\n\n"
      "Exit codes: 0 success; 1 a file, its contents or the machine; 2 the command line.");
  register_demo(app);
  register_calibrate(app);
  register_quantize(app);
  register_attend(app);
  register_compare(app);
  register_bench(app);
  register_info(app);
}

// "mpfa", "mpfa quantize", "mpfa bench decode": whatever was parsed.
std::string command_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* child : app.get_subcommands()) name += " " + command_name(*child);
  return name;
}

int report(const CLI::App& app, const std::string& message, int exit_code) {
  std::fflush(stdout);
  const std::string name = command_name(app);
  std::string text = fmt::format("{}: error: {}\n", name, without_source_location(message));
  if (exit_code == kExitUsage) text += fmt::format("Try '{} --help'.\n", name);
  // Where standard error cannot be written, the exit code still tells.
  std::fputs(text.c_str(), stderr);
  return exit_code;
}

// A full disk or a closed pipe shows only when the text leaves the program's buffer.
int finish(const CLI::App& app) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return kExitOk;
  return report(app, fmt::format("cannot write standard output: {}", std::strerror(errno)),
                kExitFailure);
}

int run(int argc, char** argv) {
  install_signal_handlers();
  CLI::App app("", "mpfa");
  describe_program(app);
  try {
    app.parse(argc, argv);
    require_command(app);
    return finish(app);
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success);
    return finish(app);
  } catch (const CLI::ParseError& error) {
    return report(app, error.what(), kExitUsage);
  } catch (const UsageError& error) {
    return report(app, error.what(), kExitUsage);
  } catch (const std::bad_alloc&) {
    return report(app, "out of memory", kExitFailure);
  } catch (const std::exception& error) {
    return report(app, error.what(), kExitFailure);
  }
}

}  // namespace
}  // namespace mpfa::tools

int main(int argc, char** argv) { return mpfa::tools::run(argc, argv); }
