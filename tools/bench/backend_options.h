// Options that all commands with a GPU back end share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace mpfa::tools {

// --backend, --suite and --flush-mib.
void add_backend_option(CLI::App& command, std::string& backend);
void add_suite_option(CLI::App& command, const std::vector<std::string>& names, std::string& suite);
void add_flush_option(CLI::App& command, int64_t& flush_mib);

inline constexpr int64_t kMaxMib = int64_t{1} << 20;

// A command's options that only --backend cuda has, and those of which a suite has its own.
struct OptionNames {
  std::initializer_list<const char*> of_cuda;
  std::initializer_list<const char*> of_cases;
};

// Throws UsageError for an option that the chosen back end does not have, or that a suite settles.
void check_backend_options(const CLI::App& command, const std::string& backend,
                           const std::string& dtype, const OptionNames& names);

}  // namespace mpfa::tools
