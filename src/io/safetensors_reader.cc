#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "io/mapped_file.h"
#include "io/quote.h"
#include "io/safetensors.h"
#include "mpfa/check.h"

namespace mpfa::internal {

// On the heap so that names, shapes and views stay where they are when the reader moves.
struct SafetensorsReader::Impl {
  std::string path;
  std::optional<MappedFile> file;  // nothing for from_bytes
  SafetensorsHeader header;
  std::mutex copies_mutex;
  std::unordered_map<const TensorInfo*, std::unique_ptr<std::byte[]>> copies;  // of misaligned data

  const std::byte* aligned_data(const TensorInfo& tensor);
};

const std::byte* SafetensorsReader::Impl::aligned_data(const TensorInfo& tensor) {
  const std::size_t alignment = dtype_size(tensor.dtype);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % alignment == 0) return tensor.data;
  const std::lock_guard<std::mutex> lock(copies_mutex);
  std::unique_ptr<std::byte[]>& copy = copies[&tensor];
  if (!copy) {
    const auto size = static_cast<std::size_t>(tensor.end - tensor.begin);
    copy.reset(new std::byte[size]);  // new aligns to 16; make_unique would clear it first
    std::memcpy(copy.get(), tensor.data, size);
  }
  return copy.get();
}

SafetensorsReader::SafetensorsReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SafetensorsReader::~SafetensorsReader() = default;
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;
SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&&) noexcept = default;

SafetensorsReader SafetensorsReader::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->file.emplace(path);
  impl->header = parse_safetensors(impl->file->bytes(), quote_path(path));
  return SafetensorsReader(std::move(impl));
}

SafetensorsReader SafetensorsReader::from_bytes(std::span<const std::byte> bytes,
                                                const std::string& label) {
  auto impl = std::make_unique<Impl>();
  impl->path = label;
  impl->header = parse_safetensors(bytes, quote_path(label));
  return SafetensorsReader(std::move(impl));
}

const std::string& SafetensorsReader::path() const { return impl_->path; }

std::span<const TensorInfo> SafetensorsReader::tensors() const { return impl_->header.tensors; }

const std::map<std::string, std::string>& SafetensorsReader::metadata() const {
  return impl_->header.metadata;
}

const TensorInfo* SafetensorsReader::find(std::string_view name) const {
  const std::vector<TensorInfo>& tensors = impl_->header.tensors;
  const std::vector<std::size_t>& index = impl_->header.by_name;
  const auto found = std::lower_bound(
      index.begin(), index.end(), name,
      [&tensors](std::size_t i, std::string_view wanted) { return tensors[i].name < wanted; });
  if (found == index.end() || tensors[*found].name != name) return nullptr;
  return &tensors[*found];
}

const TensorInfo& SafetensorsReader::at(std::string_view name) const {
  if (const TensorInfo* tensor = find(name)) return *tensor;
  constexpr std::size_t kMaxListed = 12;
  const SafetensorsHeader& header = impl_->header;
  const std::size_t listed = std::min(header.by_name.size(), kMaxListed);
  std::string present = listed == 0 ? "none" : "";
  for (std::size_t i = 0; i < listed; ++i) {
    present += (i > 0 ? ", " : "") + quote(header.tensors[header.by_name[i]].name);
  }
  if (header.by_name.size() > listed) {
    present += str_cat(" and ", header.by_name.size() - listed, " more");
  }
  throw IoError(str_cat(quote_path(impl_->path), " has no tensor ", quote(name),
                        "; its tensors are: ", present));
}

DLTensor SafetensorsReader::view(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  const bool is_empty = tensor.begin == tensor.end;
  const bool is_scalar = tensor.shape.empty();
  DLTensor view = {};
  // DLTensor has no const; the header says that views are read-only.
  view.data = is_empty ? nullptr : const_cast<std::byte*>(impl_->aligned_data(tensor));
  view.device = {kDLCPU, 0};
  view.ndim = static_cast<std::int32_t>(tensor.shape.size());
  view.dtype = dtype_to_dlpack(tensor.dtype);
  view.shape = is_scalar ? nullptr : const_cast<std::int64_t*>(tensor.shape.data());
  view.strides = is_scalar ? nullptr : const_cast<std::int64_t*>(tensor.strides.data());
  return view;
}

}  // namespace mpfa::internal
