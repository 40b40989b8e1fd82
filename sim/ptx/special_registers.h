// Predefined registers (PTX ISA, section 10).
#pragma once

#include <string_view>

namespace mpfa::sim {

// Whether `name`, with its %, is one.
bool is_special_register(std::string_view name);

}  // namespace mpfa::sim
