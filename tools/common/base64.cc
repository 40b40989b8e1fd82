#include "common/base64.h"

#include <cstdint>

namespace mpfa::tools {

std::string base64_encode(std::string_view bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      const uint32_t byte = i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0;
      group = group << 8 | byte;
    }
    for (size_t j = 0; j < 4; ++j) {
      // The last group has as many characters as its bytes need, then padding.
      const bool padding = i + j > bytes.size();
      text += padding ? '=' : kAlphabet[group >> (18 - 6 * j) & 63];
    }
  }
  return text;
}

}  // namespace mpfa::tools
