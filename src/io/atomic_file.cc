#include "io/atomic_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <system_error>
#include <utility>

#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

constexpr int kMaxNameAttempts = 100;
constexpr int kMaxLinks = 40;  // as many as Linux follows

// The descriptor that /dev/stdout and its like stand for, or -1. They are duplicated rather than
// opened: opening them starts a second file position at 0, which would overwrite what the program
// has printed to a redirected output.
int standard_descriptor(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view prefix : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(prefix)) continue;
    const std::string_view digits = path.substr(prefix.size());
    int fd = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), fd);
    if (error == std::errc() && end == digits.data() + digits.size() && fd >= 0) return fd;
  }
  return -1;
}

// Up to and with the last slash; empty for a plain name.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// Where a symbolic link points, as seen from the link's own folder; empty where `path` is none.
std::string link_target(const std::string& path) {
  std::array<char, PATH_MAX> buffer;
  const ssize_t length = ::readlink(path.c_str(), buffer.data(), buffer.size());
  if (length <= 0) return {};
  const std::string target(buffer.data(), static_cast<std::size_t>(length));
  return target[0] == '/' ? target : folder_of(path) + target;
}

// The path without symbolic links, so that the rename happens beside the real file. The file itself
// need not exist: a link to nothing means the file that it names.
std::string resolve(std::string path) {
  // Links that lead in a circle have been refused by stat; they can only have been made since.
  for (int links = 0; links < kMaxLinks; ++links) {
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                           &std::free);
    if (real) return real.get();
    std::string next = link_target(path);
    if (next.empty()) break;
    path = std::move(next);
  }
  return path;
}

// A name in the target's directory. It does not contain the target's own name, which may already
// have the longest length that the file system allows.
std::string temporary_beside(const std::string& target) {
  static thread_local std::random_device entropy;
  const std::uint64_t number = std::uint64_t{entropy()} << 32 | entropy();
  return folder_of(target) + ".mpfa-" + std::to_string(number) + ".tmp";
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  if (const int fd = standard_descriptor(path); fd >= 0) {
    fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd_ < 0) fail(errno);
    return;
  }
  if (path.empty()) fail(ENOENT);
  struct stat status = {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail(errno);
  if (exists && S_ISDIR(status.st_mode)) fail(EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    open_direct(path);
    return;
  }
  // rename asks only for a writable directory; a write-protected file is protected from us too.
  if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) fail(errno);
  target_ = resolve(path);
  open_temporary();
  if (exists && ::fchmod(fd_, status.st_mode & 0777) != 0) fail(errno);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::open_direct(const std::string& target) {
  do {
    fd_ = ::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) fail(errno);
}

void AtomicFile::open_temporary() {
  for (int attempt = 0; attempt < kMaxNameAttempts; ++attempt) {
    const std::string name = temporary_beside(target_);
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) {
      temporary_ = name;
      return;
    }
    if (errno != EEXIST && errno != EINTR) fail(errno);
  }
  fail(EEXIST);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  MPFA_CHECK(fd_ >= 0, "write to ", quote_path(path_), " after it was committed or has failed");
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Only a pipe or terminal that another program made non-blocking comes here.
      pollfd ready = {fd_, POLLOUT, 0};
      if (::poll(&ready, 1, -1) < 0 && errno != EINTR) fail(errno);
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

void AtomicFile::commit() {
  MPFA_CHECK(fd_ >= 0, "commit of ", quote_path(path_), " after it was committed or has failed");
  // The bytes must reach the disk before the name does, or a power cut could leave a whole name on
  // half a file. The directory itself is not flushed: the old file is as whole as the new one.
  if (!temporary_.empty() && ::fsync(fd_) != 0) fail(errno);
  // Linux has closed the descriptor even when it reports EINTR.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail(errno);
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

// Cleans up first: the constructor calls this too, and then no destructor follows.
void AtomicFile::fail(int error) {
  discard();
  throw IoError("cannot write " + quote_path(path_) + ": " +
                std::generic_category().message(error));
}

}  // namespace mpfa::internal
