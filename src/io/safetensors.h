// Reads and writes safetensors, the file format for tensors (safetensors_header.h says what it is).
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/dtype.h"
#include "io/safetensors_header.h"

namespace mpfa::internal {

// A file's tensors, mapped rather than loaded. Everything is checked when the reader is made, as
// parse_safetensors says, so that afterwards every tensor can be read. Const functions may be
// called from several threads at once. Pointers and views live as long as the reader they come
// from, or the one that it was moved to.
class SafetensorsReader {
 public:
  // Throws IoError, naming the path and what is wrong.
  static SafetensorsReader open(const std::string& path);

  // The same over a file's bytes in memory, which must outlive the reader. `label` stands for the
  // path in messages.
  static SafetensorsReader from_bytes(std::span<const std::byte> bytes,
                                      const std::string& label = "<memory>");

  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) noexcept;

  // The path or label.
  const std::string& path() const;

  // In the order of their bytes in the file.
  std::span<const TensorInfo> tensors() const;

  // The tensor of that name, or null.
  const TensorInfo* find(std::string_view name) const;

  // The tensor of that name. Throws IoError naming the file, the name, and names that are there.
  const TensorInfo& at(std::string_view name) const;

  // A CPU tensor over the file's bytes, contiguous, aligned to its dtype; data is null if it has no
  // element. The bytes are read-only although DLTensor cannot say so. Files written here keep every
  // tensor aligned; the format does not demand it, and of a tensor that is not aligned the first
  // call makes an aligned copy, which the reader keeps. Throws like at().
  DLTensor view(std::string_view name) const;

  // The text under "__metadata__"; empty if there is none.
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct Impl;
  explicit SafetensorsReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Collects tensors and writes them as one file. The bytes of the file depend on nothing but the
// tensors and metadata, not on the order of calls: data are laid out by dtype, widest first, then
// by name, which also aligns every tensor; metadata by key.
class SafetensorsWriter {
 public:
  // Adds a contiguous row-major tensor of host memory, which must stay valid until write(). `data`
  // may be null if an extent is 0. Throws InvalidArgument for a name that was added before, is not
  // UTF-8 or is "__metadata__", a shape with a problem (shape_problem), or null data.
  void add(const std::string& name, Dtype dtype, std::span<const std::int64_t> shape,
           const void* data);

  // The same for a DLTensor. Throws InvalidArgument also for memory that the host cannot read, a
  // dtype that the format has not, or strides that are not row major.
  void add(const std::string& name, const DLTensor& tensor);

  // Adds one pair of text. Throws InvalidArgument for a key that was added before, or text that is
  // not UTF-8.
  void add_metadata(const std::string& key, const std::string& value);

  // Writes everything through AtomicFile: the file appears whole or not at all. Throws IoError
  // naming the path, InvalidArgument if the header is over kMaxHeaderBytes.
  void write(const std::string& path) const;

 private:
  struct Entry {
    Dtype dtype;
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;
  };
  using NamedEntry = std::pair<const std::string, Entry>;

  std::vector<const NamedEntry*> file_order() const;
  std::string header(std::span<const NamedEntry* const> order) const;

  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace mpfa::internal
