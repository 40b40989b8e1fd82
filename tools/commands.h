// The mpfa command's subcommands. Each adds itself, its options and what it does to the program.
#pragma once

#include <CLI/CLI.hpp>

namespace mpfa::tools {

void register_attend(CLI::App& app);
void register_bench(CLI::App& app);
void register_calibrate(CLI::App& app);
void register_compare(CLI::App& app);
void register_demo(CLI::App& app);
void register_info(CLI::App& app);
void register_quantize(CLI::App& app);

}  // namespace mpfa::tools
