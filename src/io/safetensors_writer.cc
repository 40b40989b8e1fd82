#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/atomic_file.h"
#include "io/quote.h"
#include "io/safetensors.h"
#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

// The format is little endian; data are written as they lie in memory.
static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kHeaderAlignment = 8;  // so that the data start aligned for every dtype

// The text as a JSON string with its quotes. `what` says in the message what the text is.
std::string json_string(const std::string& text, const char* what) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw InvalidArgument(str_cat(what, " ", quote(text), " is not UTF-8"));
  }
}

// Strides of an extent of 1 mean nothing, and without an element no stride does.
bool is_row_major(const DLTensor& tensor, std::span<const std::int64_t> shape) {
  if (tensor.strides == nullptr) return true;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  const std::vector<std::int64_t> expected = row_major_strides(shape);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && tensor.strides[i] != expected[i]) return false;
  }
  return true;
}

bool is_host_memory(DLDeviceType type) {
  return type == kDLCPU || type == kDLCUDAHost || type == kDLCUDAManaged;
}

std::string length_field(std::uint64_t length) {
  std::string field(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) field[i] = static_cast<char>(length >> (8 * i));
  return field;
}

}  // namespace

void SafetensorsWriter::add(const std::string& name, Dtype dtype,
                            std::span<const std::int64_t> shape, const void* data) {
  MPFA_CHECK(name != kMetadataKey, "name = ", quote(name), ": reserved by the file format");
  MPFA_CHECK(!entries_.contains(name), "name = ", quote(name), ": added twice");
  json_string(name, "name =");
  const std::string problem = shape_problem(shape, dtype);
  MPFA_CHECK(problem.empty(), "tensor ", quote(name), ": ", problem);
  const std::uint64_t size = tensor_bytes(shape, dtype);
  MPFA_CHECK(data != nullptr || size == 0, "data of tensor ", quote(name), " = null: shape ",
             shape_text(shape), " has elements");
  entries_.emplace(name, Entry{dtype,
                               {shape.begin(), shape.end()},
                               {static_cast<const std::byte*>(data), std::size_t{size}}});
}

void SafetensorsWriter::add(const std::string& name, const DLTensor& tensor) {
  MPFA_CHECK(is_host_memory(tensor.device.device_type), "device of tensor ", quote(name), " = ",
             static_cast<int>(tensor.device.device_type), ": must be host memory");
  MPFA_CHECK(tensor.ndim >= 0, "ndim of tensor ", quote(name), " = ", tensor.ndim,
             ": must not be negative");
  MPFA_CHECK(tensor.ndim == 0 || tensor.shape != nullptr, "shape of tensor ", quote(name),
             " = null: ndim is ", tensor.ndim);
  const std::span<const std::int64_t> shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  const Dtype dtype = dtype_from_dlpack(tensor.dtype);
  const std::string problem = shape_problem(shape, dtype);
  MPFA_CHECK(problem.empty(), "tensor ", quote(name), ": ", problem);
  MPFA_CHECK(is_row_major(tensor, shape), "strides of tensor ", quote(name), " = ",
             shape_text({tensor.strides, shape.size()}), ": must be row major for shape ",
             shape_text(shape));
  const auto* start = static_cast<const std::byte*>(tensor.data);
  add(name, dtype, shape, start == nullptr ? nullptr : start + tensor.byte_offset);
}

void SafetensorsWriter::add_metadata(const std::string& key, const std::string& value) {
  json_string(key, "metadata key");
  json_string(value, "metadata value");
  MPFA_CHECK(metadata_.emplace(key, value).second, "metadata key ", quote(key), ": added twice");
}

// The map is sorted by name already, which a stable sort keeps within one dtype.
std::vector<const SafetensorsWriter::NamedEntry*> SafetensorsWriter::file_order() const {
  std::vector<const NamedEntry*> order;
  for (const NamedEntry& entry : entries_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const NamedEntry* a, const NamedEntry* b) {
    return a->second.dtype > b->second.dtype;
  });
  return order;
}

// Written by hand because the order of keys is part of the result: the library would sort tensors
// by name rather than by their place in the file.
std::string SafetensorsWriter::header(std::span<const NamedEntry* const> order) const {
  std::string text = "{";
  if (!metadata_.empty()) {
    text += str_cat('"', kMetadataKey, "\":", nlohmann::json(metadata_).dump());
  }
  std::uint64_t offset = 0;
  for (const NamedEntry* item : order) {
    const auto& [name, entry] = *item;
    const std::uint64_t end = offset + entry.bytes.size();
    MPFA_CHECK(end >= offset, "tensor ", quote(name), ": the file would be over 2^64 bytes");
    if (text.size() > 1) text += ',';
    text += str_cat(json_string(name, "name ="), ":{\"dtype\":\"", dtype_name(entry.dtype),
                    "\",\"shape\":", nlohmann::json(entry.shape).dump(), ",\"data_offsets\":[",
                    offset, ",", end, "]}");
    offset = end;
  }
  text += '}';
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  MPFA_CHECK(text.size() <= kMaxHeaderBytes, "header of ", text.size(), " bytes: at most ",
             kMaxHeaderBytes, " are allowed");
  return text;
}

void SafetensorsWriter::write(const std::string& path) const {
  const std::vector<const NamedEntry*> order = file_order();
  const std::string text = header(order);
  AtomicFile file(path);
  file.write(length_field(text.size()));
  file.write(text);
  for (const NamedEntry* item : order) file.write(item->second.bytes);
  file.commit();
}

}  // namespace mpfa::internal
