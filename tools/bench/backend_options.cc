#include "bench/backend_options.h"

#include <fmt/format.h>

#include "common/common_options.h"
#include "common/errors.h"

namespace mpfa::tools {

void add_backend_option(CLI::App& command, std::string& backend) {
  command.add_option("--backend", backend, "Where it runs: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("NAME")
      ->capture_default_str();
}

void add_suite_option(CLI::App& command, const std::vector<std::string>& names,
                      std::string& suite) {
  command
      .add_option("--suite", suite,
                  fmt::format("cuda: a list of shapes by name: {} (without --shapes: {})",
                              fmt::join(names, ", "), names.front()))
      ->check(CLI::IsMember(names))
      ->type_name("NAME")
      ->excludes("--shapes");
}

void add_flush_option(CLI::App& command, int64_t& flush_mib) {
  command
      .add_option("--flush-mib", flush_mib,
                  "cuda: MiB written before each repetition, so that caches of the GPU are cold")
      ->check(whole_number(1, kMaxMib))
      ->type_name("N")
      ->capture_default_str();
}

void check_backend_options(const CLI::App& command, const std::string& backend,
                           const std::string& dtype, const OptionNames& names) {
  if (backend != "cuda") {
    for (const char* const name : names.of_cuda) {
      if (command.count(name) > 0) throw UsageError(fmt::format("{} needs --backend cuda", name));
    }
    return;
  }
  if (dtype == "fp32") {
    throw UsageError("--dtype fp32: must be bf16 or fp16 with --backend cuda");
  }
  if (command.count("--shapes") > 0) return;
  for (const char* const name : names.of_cases) {
    if (command.count(name) > 0) {
      throw UsageError(fmt::format("{} needs --shapes: a suite has its own", name));
    }
  }
}

}  // namespace mpfa::tools
