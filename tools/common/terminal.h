// What a stream is connected to.
#pragma once

#include <cstdio>

namespace mpfa::tools {

bool is_terminal(std::FILE* stream);

// Columns of the terminal behind a stream; 80 where that is not known.
int terminal_width(std::FILE* stream);

}  // namespace mpfa::tools
