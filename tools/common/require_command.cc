#include "common/require_command.h"

#include "common/errors.h"

namespace mpfa::tools {

void require_command(const CLI::App& app) {
  if (!app.get_subcommands().empty()) return;
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  throw UsageError("no command given: must be one of " + names);
}

}  // namespace mpfa::tools
