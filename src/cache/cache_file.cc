#include "cuda/cache_file.h"

#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/allocated_tensor.h"
#include "cache/page_tables.h"
#include "core/cache_layout.h"
#include "cuda/memory.h"
#include "io/quote.h"
#include "io/safetensors.h"
#include "mpfa/cache.h"
#include "mpfa/check.h"

namespace mpfa {
namespace {

using internal::Dtype;
using internal::quote;
using internal::quote_path;

constexpr const char* kFormatKey = "format";
constexpr const char* kFormat = "mpfa-kv-cache";
constexpr const char* kVersionKey = "version";
constexpr const char* kVersion = "1";

// One tensor of docs/spec.md, section 4: its name in a file, its type there, its place in memory,
// and the tensor without which nothing reads it (null: always read).
struct Field {
  const char* name;
  Dtype dtype;
  const DLTensor*& (*slot)(KvCacheFile&);
  const char* used_with;
};

using F = KvCacheFile;
using Slot = const DLTensor*&;
constexpr Field kFields[] = {
    {"k_codes", Dtype::U8, [](F& f) -> Slot { return f.cache.k_codes; }, nullptr},
    {"k_scales", Dtype::F8_E4M3, [](F& f) -> Slot { return f.cache.k_scales; }, nullptr},
    {"v", Dtype::F8_E4M3, [](F& f) -> Slot { return f.cache.v; }, nullptr},
    {"delta_s", Dtype::BF16, [](F& f) -> Slot { return f.cache.delta_s; }, nullptr},
    {"k_residual", Dtype::F8_E4M3, [](F& f) -> Slot { return f.cache.k_residual; }, nullptr},
    {"k_first", Dtype::BF16, [](F& f) -> Slot { return f.cache.k_first; }, nullptr},
    {"k_mean", Dtype::F32, [](F& f) -> Slot { return f.cache.stats.k_mean; }, nullptr},
    {"q_mean", Dtype::F32, [](F& f) -> Slot { return f.cache.stats.q_mean; }, "delta_s"},
    {"residual_basis", Dtype::F32, [](F& f) -> Slot { return f.cache.stats.residual_basis; },
     "k_residual"},
    {"residual_scale", Dtype::F32, [](F& f) -> Slot { return f.cache.stats.residual_scale; },
     "k_residual"},
    {"k_scale", Dtype::F32, [](F& f) -> Slot { return f.cache.stats.k_scale; }, nullptr},
    {"v_scale", Dtype::F32, [](F& f) -> Slot { return f.cache.stats.v_scale; }, nullptr},
    {"stats_index", Dtype::I32, [](F& f) -> Slot { return f.cache.stats_index; }, nullptr},
    {"block_table", Dtype::I32, [](F& f) -> Slot { return f.block_table; }, nullptr},
    {"seq_lens", Dtype::I32, [](F& f) -> Slot { return f.seq_lens; }, nullptr},
};

const Field* find_field(std::string_view name) {
  for (const Field& field : kFields) {
    if (name == field.name) return &field;
  }
  return nullptr;
}

bool is_used(const Field& field, KvCacheFile& file) {
  return field.used_with == nullptr || find_field(field.used_with)->slot(file) != nullptr;
}

// Copies a strided tensor's elements, row after row, to `to`; returns one past the last byte.
std::byte* pack(const DLTensor& tensor, int dim, const std::byte* from, std::byte* to) {
  const int64_t size = (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
  const int64_t step = internal::stride_of(tensor, dim) * size;
  const bool last = dim + 1 == tensor.ndim;
  if (last && step == size) {
    std::memcpy(to, from, static_cast<size_t>(size * tensor.shape[dim]));
    return to + size * tensor.shape[dim];
  }
  for (int64_t i = 0; i < tensor.shape[dim]; ++i, from += step) {
    if (last) {
      std::memcpy(to, from, static_cast<size_t>(size));
      to += size;
    } else {
      to = pack(tensor, dim + 1, from, to);
    }
  }
  return to;
}

bool is_row_major(const DLTensor& tensor) {
  int64_t expected = 1;
  for (int dim = tensor.ndim - 1; dim >= 0; --dim) {
    if (tensor.shape[dim] != 1 && internal::stride_of(tensor, dim) != expected) return false;
    expected *= tensor.shape[dim];
  }
  return true;
}

// Hands a tensor to the writer. Packed copies go to `copies`, which must outlive the writing.
void add_tensor(internal::SafetensorsWriter& writer, const Field& field, const DLTensor& tensor,
                std::vector<std::vector<std::byte>>& copies) {
  const std::span<const int64_t> shape(tensor.shape, static_cast<size_t>(tensor.ndim));
  const std::string problem = internal::shape_problem(shape, field.dtype);
  MPFA_CHECK(problem.empty(), field.name, ": ", problem);
  const std::byte* data = internal::data_of(tensor);
  if (!is_row_major(tensor)) {
    copies.emplace_back(internal::tensor_bytes(shape, field.dtype));
    pack(tensor, 0, data, copies.back().data());
    data = copies.back().data();
  }
  writer.add(field.name, field.dtype, shape, data);
}

void add_metadata(internal::SafetensorsWriter& writer,
                  const std::map<std::string, std::string>& metadata) {
  writer.add_metadata(kFormatKey, kFormat);
  writer.add_metadata(kVersionKey, kVersion);
  for (const auto& [key, value] : metadata) {
    MPFA_CHECK(key != kFormatKey && key != kVersionKey, "metadata key ", quote(key),
               " is reserved: save_cache writes it");
    writer.add_metadata(key, value);
  }
}

// Another tool may leave the format out, but must not name a different one.
void check_metadata(const internal::SafetensorsReader& reader) {
  const auto check = [&](const char* key, const char* expected) {
    const auto found = reader.metadata().find(key);
    if (found == reader.metadata().end() || found->second == expected) return;
    internal::throw_error<IoError>(__FILE__, __LINE__, quote_path(reader.path()), ": metadata ",
                                   key, " is ", quote(found->second), ": must be '", expected, "'");
  };
  check(kFormatKey, kFormat);
  check(kVersionKey, kVersion);
}

// The file's tensors as a cache; `tensors` holds what it points to, in kFields' order.
KvCacheFile view_file(const internal::SafetensorsReader& reader, std::vector<DLTensor>& tensors) {
  for (const internal::TensorInfo& info : reader.tensors()) {
    MPFA_CHECK(find_field(info.name) != nullptr, "tensor ", quote(info.name),
               " is not one of a cache's");
  }
  KvCacheFile file;
  tensors.resize(std::size(kFields));
  for (size_t i = 0; i < std::size(kFields); ++i) {
    const Field& field = kFields[i];
    if (reader.find(field.name) == nullptr) continue;
    MPFA_CHECK(field.used_with == nullptr || reader.find(field.used_with) != nullptr, field.name,
               " is there without ", field.used_with);
    tensors[i] = reader.view(field.name);
    field.slot(file) = &tensors[i];
  }
  return file;
}

// The tensors of a file that it uses, in host memory. Copies of those on a GPU go to `copies`.
KvCacheFile on_host(const KvCacheFile& file, std::deque<internal::AllocatedTensor>& copies) {
  KvCacheFile host = file;
  if (file.cache.k_codes == nullptr || file.cache.k_codes->device.device_type != kDLCUDA) {
    return host;
  }
  internal::cuda_check_cache_file(file);
  for (const Field& field : kFields) {
    const DLTensor*& tensor = field.slot(host);
    if (!is_used(field, host)) tensor = nullptr;  // its shape has not been checked
    if (tensor == nullptr) continue;
    internal::AllocatedTensor& copy = copies.emplace_back();
    copy.allocate(field.name, tensor->dtype, {tensor->shape, tensor->shape + tensor->ndim});
    internal::cuda_download(*tensor, copy.data<std::byte>());
    tensor = copy.get();
  }
  return host;
}

KvCacheConfig config_of(const internal::CacheTensors& t, const KvCacheFile& file) {
  KvCacheConfig config;
  config.num_pages = t.num_pages;
  config.page_size = t.page_size;
  config.num_q_heads = t.num_q_heads;
  config.num_kv_heads = t.num_kv_heads;
  config.head_dim = t.head_dim;
  config.residual_rank = t.residual_rank;
  config.first_key = static_cast<bool>(t.k_first);
  config.delta_s = static_cast<bool>(t.delta_s);
  config.num_stats = t.num_stats;
  if (t.stats_index) config.batch_size = t.stats_index.size(0);
  if (file.block_table != nullptr) {
    config.batch_size = file.block_table->shape[0];
    config.max_pages_per_seq = file.block_table->shape[1];
  }
  return config;
}

KvCache copy_cache(KvCacheFile& file) {
  const internal::CacheTensors tensors = internal::check_cache(file.cache);
  internal::check_page_tables(tensors, file.block_table, file.seq_lens);
  KvCache cache(config_of(tensors, file));
  KvCacheFile target{cache.view(), cache.block_table(), cache.seq_lens(), {}};
  for (const Field& field : kFields) {
    const DLTensor* from = field.slot(file);
    if (from != nullptr)
      pack(*from, 0, internal::data_of(*from), internal::data_of(*field.slot(target)));
  }
  return cache;
}

}  // namespace

void save_cache(const std::string& path, const KvCacheFile& file) {
  std::deque<internal::AllocatedTensor> on_device;
  KvCacheFile source = on_host(file, on_device);
  const internal::CacheTensors tensors = internal::check_cache(source.cache);
  MPFA_CHECK(tensors.num_pages >= 1, "k_codes has shape ",
             internal::shape_string(*source.cache.k_codes), ": needs at least one page");
  internal::check_page_tables(tensors, source.block_table, source.seq_lens);
  internal::SafetensorsWriter writer;
  add_metadata(writer, file.metadata);
  std::vector<std::vector<std::byte>> copies;
  for (const Field& field : kFields) {
    const DLTensor* tensor = field.slot(source);
    if (tensor != nullptr && is_used(field, source)) add_tensor(writer, field, *tensor, copies);
  }
  writer.write(path);
}

KvCache load_cache(const std::string& path, std::map<std::string, std::string>* metadata) {
  const internal::SafetensorsReader reader = internal::SafetensorsReader::open(path);
  check_metadata(reader);
  std::vector<DLTensor> tensors;
  try {
    KvCacheFile file = view_file(reader, tensors);
    KvCache cache = copy_cache(file);
    if (metadata != nullptr) {
      *metadata = reader.metadata();
      metadata->erase(kFormatKey);
      metadata->erase(kVersionKey);
    }
    return cache;
  } catch (const InvalidArgument& error) {
    throw IoError(internal::str_cat(quote_path(path), " is not a cache: ", error.what()));
  }
}

}  // namespace mpfa
