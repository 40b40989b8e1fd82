// Names as the user wrote them.
#pragma once

#include <string>

namespace mpfa::sim {

// The C++ name that a mangled one stands for; any other name as it is.
std::string demangled(const std::string& name);

}  // namespace mpfa::sim
