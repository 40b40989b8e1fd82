// How much memory this process really uses.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace mpfa::testing {

inline int64_t resident_bytes() {
  int64_t total = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;  // in pages
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace mpfa::testing
