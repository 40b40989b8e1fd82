#include "demo/figures.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/subprocess.h"
#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kNoMatplotlib = 3;  // scripts/report.py's exit code
constexpr const char* kHowTo =
    "install matplotlib (python3 -m pip install matplotlib, or scripts/setup.sh demo in the source "
    "tree), or name a Python that has it in MPFA_PYTHON";

std::vector<std::string> pythons(const std::string& script) {
  if (const char* chosen = std::getenv("MPFA_PYTHON"); chosen != nullptr && *chosen != '\0') {
    return {chosen};
  }
  std::vector<std::string> found;
  std::error_code error;
  const fs::path beside = fs::path(script).parent_path().parent_path() / ".venv/bin/python";
  if (fs::path(script).is_absolute() && fs::exists(beside, error)) found.push_back(beside.string());
  found.emplace_back("python3");
  return found;
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// The script prints [{"id", "caption", "svg"}].
std::vector<Figure> parse_figures(const std::string& text) {
  std::vector<Figure> figures;
  for (const auto& item : nlohmann::json::parse(text)) {
    figures.push_back({item.at("id"), item.at("caption"), item.at("svg")});
  }
  return figures;
}

}  // namespace

Figures draw_figures(const std::string& script, const std::string& json_path) {
  if (script.empty()) return {{}, "report.py, which draws them, was not found"};
  std::string problem;
  for (const std::string& python : pythons(script)) {
    try {
      const ProcessResult result = run_process({python, script, json_path});
      if (result.exit_code == 0) return {parse_figures(result.out), ""};
      if (result.exit_code == kNoMatplotlib) {
        problem = fmt::format("{} has no matplotlib; {}", python, kHowTo);
      } else {
        return {{},
                fmt::format("{} failed with code {}: {}", script, result.exit_code,
                            internal::quote(last_line(result.err)))};
      }
    } catch (const Error& error) {
      problem = fmt::format("{}; {}", error.what(), kHowTo);
    } catch (const nlohmann::json::exception& error) {
      return {{}, fmt::format("{} printed something else than figures: {}", script, error.what())};
    }
  }
  return {{}, problem};
}

}  // namespace mpfa::tools
