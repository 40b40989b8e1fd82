// A command line without a command.
#pragma once

#include <CLI/CLI.hpp>

namespace mpfa::tools {

// Throws UsageError listing the subcommands if none was given. CLI11's own check would hide the
// better message about a word that is no subcommand.
void require_command(const CLI::App& app);

}  // namespace mpfa::tools
