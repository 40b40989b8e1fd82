#include "io/quote.h"

namespace mpfa::internal {
namespace {

constexpr std::size_t kMaxPathBytes = 4096;

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Length of the UTF-8 character at the start of the text, 0 if it is none that may be printed.
// C1 controls (U+0080 to U+009F) count as none: terminals act on them.
std::size_t printable_length(std::string_view text) {
  const unsigned lead = byte_at(text, 0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length == 0 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte_at(text, 1);
  const bool is_c1 = lead == 0xc2 && second < 0xa0;
  const bool is_overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool is_surrogate = lead == 0xed && second >= 0xa0;
  const bool is_past_unicode = lead == 0xf4 && second >= 0x90;
  return is_c1 || is_overlong || is_surrogate || is_past_unicode ? 0 : length;
}

void append_hex(std::string* out, unsigned byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  *out += "\\x";
  *out += kDigits[byte >> 4];
  *out += kDigits[byte & 15];
}

}  // namespace

std::string quote(std::string_view text, std::size_t max_bytes) {
  std::string out = "'";
  std::size_t i = 0;
  while (i < text.size() && out.size() <= max_bytes) {
    const std::size_t length = printable_length(text.substr(i));
    if (length == 0) {
      append_hex(&out, byte_at(text, i));
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out + (i < text.size() ? "...'" : "'");
}

std::string quote_path(std::string_view path) { return quote(path, kMaxPathBytes); }

}  // namespace mpfa::internal
