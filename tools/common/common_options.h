// Options that every command has.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace mpfa::tools {

struct CommonOptions {
  std::string json;  // where the machine-readable result goes; empty: nowhere
  int threads = 0;   // 0: as many as there are cores
};

// Adds --json and --threads.
void add_common_options(CLI::App& command, CommonOptions& options);

// Checks of option values: a whole number from `min` to `max` that `multiple_of` divides, one of a
// few, and a finite number above 0. Their errors say what is allowed.
CLI::Validator whole_number(int64_t min, int64_t max = INT64_MAX, int64_t multiple_of = 1);
CLI::Validator one_of(std::vector<int64_t> allowed);
CLI::Validator positive_number();

}  // namespace mpfa::tools
