#include "common/file_roles.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "common/errors.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

namespace fs = std::filesystem;

bool same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return false;
  if (fs::equivalent(a, b, error)) return true;
  // Outputs need not exist yet.
  const fs::path full_a = fs::weakly_canonical(a, error);
  return !error && full_a == fs::weakly_canonical(b, error) && !error;
}

}  // namespace

void check_file_roles(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& output = outputs[i];
    if (output.path == "-" && output.option != "--json") {
      throw UsageError(
          fmt::format("{} -: must name a file (./- for one with this name)", output.option));
    }
    for (const NamedFile& input : inputs) {
      if (!same_file(output.path, input.path)) continue;
      throw UsageError(fmt::format("{} {} would overwrite {}: must be another file", output.option,
                                   internal::quote_path(output.path), input.option));
    }
    for (size_t j = 0; j < i; ++j) {
      if (!same_file(output.path, outputs[j].path)) continue;
      throw UsageError(fmt::format("{} {} is the file of {} too: must be another file",
                                   output.option, internal::quote_path(output.path),
                                   outputs[j].option));
    }
  }
}

}  // namespace mpfa::tools
