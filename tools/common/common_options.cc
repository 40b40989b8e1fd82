#include "common/common_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "core/shapes.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

constexpr int64_t kMaxThreads = 4096;

}  // namespace

void add_common_options(CLI::App& command, CommonOptions& options) {
  command
      .add_option("--json", options.json,
                  "Write the result as JSON to FILE; - is standard output, text then goes to "
                  "standard error")
      ->type_name("FILE");
  command.add_option("--threads", options.threads, "Threads to use; 0 is one per core")
      ->check(whole_number(0, kMaxThreads))
      ->type_name("N");
}

CLI::Validator whole_number(int64_t min, int64_t max, int64_t multiple_of) {
  std::string range = max == INT64_MAX ? fmt::format("must be a whole number from {} on", min)
                                       : fmt::format("must be a whole number, {} to {}", min, max);
  if (multiple_of > 1) range += fmt::format(", and a multiple of {}", multiple_of);
  const auto check = [=](const std::string& text) -> std::string {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool ok = error == std::errc() && end == text.data() + text.size() && value >= min &&
                    value <= max && value % multiple_of == 0;
    return ok ? "" : fmt::format("{} {}", internal::quote(text), range);
  };
  return CLI::Validator(check, "");
}

CLI::Validator one_of(std::vector<int64_t> allowed) {
  const auto check = [allowed = std::move(allowed)](const std::string& text) -> std::string {
    // Spelled as the list spells it: no sign, no leading zero, no exponent.
    for (const int64_t value : allowed) {
      if (text == fmt::format("{}", value)) return "";
    }
    return fmt::format("{} must be {}", internal::quote(text), internal::alternatives(allowed));
  };
  return CLI::Validator(check, "");
}

CLI::Validator positive_number() {
  const auto check = [](const std::string& text) -> std::string {
    float value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool ok = error == std::errc() && end == text.data() + text.size() && value > 0 &&
                    std::isfinite(value);
    return ok ? "" : fmt::format("{} must be a finite number above 0", internal::quote(text));
  };
  return CLI::Validator(check, "");
}

}  // namespace mpfa::tools
