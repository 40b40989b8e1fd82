#include "sim/simrun/settings.h"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

// What `use` says of a variable's value, it says of the variable.
template <typename Use>
void named(const char* variable, const Use& use) {
  try {
    use();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(std::string(variable) + ": " + error.what());
  }
}

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

GpuOptions options_from(const std::function<const char*(const char*)>& get) {
  GpuOptions options;
  const auto set = [&get](const char* variable) -> const char* {
    const char* value = get(variable);
    return value != nullptr && *value != '\0' ? value : nullptr;
  };
  if (const char* arch = set(kArchVariable)) {
    named(kArchVariable, [&] { device_model(arch); });
    options.arch = arch;
  }
  if (const char* seed = set(kSeedVariable)) {
    options.seed = parse_number(kSeedVariable, seed, std::numeric_limits<uint64_t>::max());
  }
  if (const char* checks = set(kCheckVariable)) {
    named(kCheckVariable, [&] { options.checks = parse_checks(checks); });
  }
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
