#include "demo/data_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

namespace fs = std::filesystem;

// share/mpfa beside the folder of the program; empty where the system does not say where that is.
fs::path share_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : (program.parent_path() / "../share/mpfa").lexically_normal();
}

// Empty if the file is not there. In a build it is a link into the source tree.
fs::path find(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? fs::canonical(path, error) : fs::path();
}

// Relative to the current folder where the file is inside it.
std::string short_path(const fs::path& path) {
  std::error_code error;
  const fs::path relative = fs::proximate(path, error);
  const bool inside = !error && !relative.empty() && *relative.begin() != "..";
  return (inside ? relative : path).string();
}

}  // namespace

std::string find_demo_data() {
  const fs::path path = share_folder() / kDemoDataName;
  const fs::path found = find(path);
  if (!found.empty()) return short_path(found);
  throw IoError(fmt::format("cannot find {}: it belongs to {}; give other data with --data FILE",
                            internal::quote(kDemoDataName),
                            internal::quote_path(path.parent_path().string())));
}

std::string find_report_script() { return find(share_folder() / "report.py").string(); }

}  // namespace mpfa::tools
