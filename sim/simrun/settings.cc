#include "sim/simrun/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

struct CheckName {
  std::string_view name;
  bool Checks::*member;
};

constexpr std::array kChecks = {
    CheckName{"races", &Checks::races}, CheckName{"uninitialized", &Checks::uninitialized},
    CheckName{"async", &Checks::async}, CheckName{"barriers", &Checks::barriers},
    CheckName{"bounds", &Checks::bounds}};

template <typename T>
T parse_number(const char* variable, std::string_view text, T max) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  MPFA_CHECK(
      error == std::errc{} && end == text.data() + text.size() && value <= max && value >= T{0},
      variable, " = ", text, ": must be a number from 0 to ", max);
  return value;
}

}  // namespace

Checks parse_checks(std::string_view text) {
  if (text == "all") return {};
  Checks checks = Checks::none();
  if (text == "none") return checks;
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    bool known = false;
    for (const CheckName& check : kChecks) {
      if (check.name != name) continue;
      checks.*check.member = true;
      known = true;
    }
    MPFA_CHECK(known, "check = ", text,
               ": must be all, none, or a list of races, uninitialized, async, barriers, bounds");
    if (comma == std::string_view::npos) return checks;
    rest.remove_prefix(comma + 1);
  }
}

GpuOptions options_from(const std::function<const char*(const char*)>& get) {
  GpuOptions options;
  const auto set = [&get](const char* variable) -> const char* {
    const char* value = get(variable);
    return value != nullptr && *value != '\0' ? value : nullptr;
  };
  if (const char* arch = set(kArchVariable)) {
    try {
      device_model(arch);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string(kArchVariable) + ": " + error.what());
    }
    options.arch = arch;
  }
  if (const char* seed = set(kSeedVariable)) {
    options.seed = parse_number(kSeedVariable, seed, std::numeric_limits<uint64_t>::max());
  }
  if (const char* checks = set(kCheckVariable)) options.checks = parse_checks(checks);
  if (const char* threads = set(kThreadsVariable)) {
    options.threads = parse_number(kThreadsVariable, threads, 4096);
  }
  if (const char* trace = set(kTraceVariable)) options.trace_file = trace;
  return options;
}

GpuOptions options_from_environment() {
  return options_from([](const char* name) { return std::getenv(name); });
}

}  // namespace mpfa::sim
