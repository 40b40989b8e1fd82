// Base64, for pictures inside HTML.
#pragma once

#include <string>
#include <string_view>

namespace mpfa::tools {

// RFC 4648, with padding.
std::string base64_encode(std::string_view bytes);

}  // namespace mpfa::tools
