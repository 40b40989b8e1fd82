#include "common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace mpfa::tools {

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

int terminal_width(std::FILE* stream) {
  constexpr int kUnknown = 80;
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknown;
  return size.ws_col;
}

}  // namespace mpfa::tools
