#include "demo/data_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

namespace fs = std::filesystem;

fs::path program_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program.parent_path();
}

// A file of the source tree: beside a program in build/bin or build/<name>/bin, where the program
// was built, or in the folder the user is in; or as it was installed, in share/mpfa.
std::vector<fs::path> candidates(const fs::path& source_path) {
  const fs::path bin = program_folder();
  return {
      bin / "../.." / source_path,
      bin / "../../.." / source_path,
      bin / "../share/mpfa" / source_path.filename(),
      fs::path(MPFA_SOURCE_DIR) / source_path,
      source_path,
  };
}

// Relative to the current folder where the file is inside it.
std::string short_path(const fs::path& path) {
  std::error_code error;
  const fs::path relative = fs::proximate(path, error);
  const bool inside = !error && !relative.empty() && *relative.begin() != "..";
  return (inside ? relative : path.lexically_normal()).string();
}

std::string find(const fs::path& source_path) {
  std::error_code error;
  for (const fs::path& candidate : candidates(source_path)) {
    if (fs::is_regular_file(candidate, error)) return short_path(candidate);
  }
  return "";
}

}  // namespace

std::string find_demo_data() {
  const fs::path source_path = fs::path("data") / kDemoDataName;
  std::string found = find(source_path);
  if (!found.empty()) return found;
  std::string places;
  for (const fs::path& candidate : candidates(source_path)) {
    places +=
        (places.empty() ? "" : ", ") + internal::quote_path(candidate.lexically_normal().string());
  }
  throw IoError(fmt::format("cannot find {}: give it with --data FILE. Looked for {}",
                            internal::quote(kDemoDataName), places));
}

std::string find_report_script() { return find("scripts/report.py"); }

}  // namespace mpfa::tools
