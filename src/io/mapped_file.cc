#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

[[noreturn]] void throw_cannot_read(const std::string& path, const std::string& why) {
  throw IoError("cannot read " + quote_path(path) + ": " + why);
}

[[noreturn]] void throw_errno(const std::string& path, int error) {
  throw_cannot_read(path, std::generic_category().message(error));
}

// Closes the descriptor on every way out; a mapping does not need it to stay open.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// O_NONBLOCK: opening a FIFO for reading must be an error here, not a wait for its writer.
int open_for_reading(const std::string& path) {
  int fd;
  do {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) throw_errno(path, errno);
  return fd;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const Descriptor fd(open_for_reading(path));
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) throw_errno(path, errno);
  if (S_ISDIR(status.st_mode)) throw_cannot_read(path, "it is a directory, not a file");
  if (!S_ISREG(status.st_mode)) throw_cannot_read(path, "it is not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // mmap rejects an empty range
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (start == MAP_FAILED) throw_errno(path, errno);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace mpfa::internal
