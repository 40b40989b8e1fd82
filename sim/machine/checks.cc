#include "sim/machine/checks.h"

#include <algorithm>
#include <array>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

struct Named {
  std::string_view name;
  bool Checks::*field;
};

constexpr std::array kFields = {
    Named{"races", &Checks::races}, Named{"uninitialized", &Checks::uninitialized},
    Named{"async", &Checks::async}, Named{"barriers", &Checks::barriers},
    Named{"bounds", &Checks::bounds}};

}  // namespace

Checks parse_checks(std::string_view text) {
  if (text == "all") return {};
  Checks checks = Checks::none();
  if (text == "none") return checks;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    const auto* const found = std::find_if(kFields.begin(), kFields.end(),
                                           [&](const Named& field) { return field.name == name; });
    MPFA_CHECK(found != kFields.end(), "checks = \"", text, "\": \"", name,
               "\" must be races, uninitialized, async, barriers or bounds (several with commas "
               "between), or the whole all or none");
    checks.*found->field = true;
    begin = end + 1;
  }
  return checks;
}

std::string to_string(const Checks& checks) {
  std::string text;
  bool all = true;
  for (const Named& field : kFields) {
    all &= checks.*field.field;
    if (checks.*field.field) text += (text.empty() ? "" : ",") + std::string(field.name);
  }
  if (all) return "all";
  return text.empty() ? "none" : text;
}

}  // namespace mpfa::sim
