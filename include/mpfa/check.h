// Errors and argument checks.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace mpfa {

// Base of everything MpFA throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A caller's argument is wrong: the message names it, its value and what is allowed. Thrown before
// anything is written.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

// A file could not be read or written, or holds something else than it claims.
class IoError : public Error {
 public:
  using Error::Error;
};

// A call of the CUDA runtime or driver failed; the message names it and gives CUDA's own.
class CudaError : public Error {
 public:
  using Error::Error;
};

namespace internal {

template <typename... Args>
std::string str_cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// Drops the directories that differ from one machine to the next.
constexpr const char* short_file_name(const char* path) {
  const char* name = path;
  for (const char* p = path; *p != '\0'; ++p) {
    if (*p == '/') name = p + 1;
  }
  return name;
}

template <typename ErrorType, typename... Args>
[[noreturn]] void throw_error(const char* file, int line, const Args&... args) {
  throw ErrorType(str_cat(args..., " (", short_file_name(file), ":", line, ")"));
}

}  // namespace internal
}  // namespace mpfa

// MPFA_CHECK(page_size == 16, "page_size = ", page_size, ": must be 16, 32, 64 or 128");
#define MPFA_CHECK(condition, ...)                                                             \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::mpfa::internal::throw_error<::mpfa::InvalidArgument>(__FILE__, __LINE__, __VA_ARGS__); \
  } while (false)
