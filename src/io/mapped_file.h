#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mpfa::internal {

// A regular file mapped read-only into memory for as long as the object lives. Pages are read when
// they are touched, so opening a file of any size costs nothing. The file must not be truncated
// meanwhile (touching a page past its new end raises SIGBUS); replacing it by rename is harmless.
class MappedFile {
 public:
  // Throws IoError, naming the path, if it does not exist, cannot be read or is not a regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The whole file; empty for an empty file. The start is aligned to a page.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace mpfa::internal
