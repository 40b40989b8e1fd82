// Address space for tensors that are far larger than the memory they use.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace mpfa::testing {

// Zeroed memory that the system hands out only where it is touched.
class SparseMemory {
 public:
  explicit SparseMemory(int64_t size)
      : size_(static_cast<size_t>(size)),
        data_(mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (ok()) munmap(data_, size_);
  }

  bool ok() const { return data_ != MAP_FAILED; }
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  size_t size_;
  void* data_;
};

}  // namespace mpfa::testing
