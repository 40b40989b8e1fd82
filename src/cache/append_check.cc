#include "cache/append_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <utility>

namespace mpfa::internal {
namespace {

// Byte offsets of a view may be anything that its strides say; no product of them may overflow.
using Wide = __int128;

struct NamedTensor {
  const DLTensor* tensor;
  const char* name;
};

// Every tensor that append_kv writes; the optional ones may be null.
std::array<NamedTensor, 6> written_tensors(const KvCacheView& cache) {
  return {{{cache.k_codes, "k_codes"},
           {cache.k_scales, "k_scales"},
           {cache.v, "v"},
           {cache.delta_s, "delta_s"},
           {cache.k_residual, "k_residual"},
           {cache.k_first, "k_first"}}};
}

bool is_empty(const DLTensor& tensor) {
  return std::any_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t n) { return n == 0; });
}

Wide item_size(const DLTensor& tensor) {
  return (static_cast<Wide>(tensor.dtype.bits) * tensor.dtype.lanes + 7) / 8;
}

// First byte of a tensor that is not empty, and the byte after its last.
std::pair<Wide, Wide> byte_range(const DLTensor& tensor) {
  Wide begin = reinterpret_cast<uintptr_t>(data_of(tensor));
  Wide end = begin + item_size(tensor);
  for (int i = 0; i < tensor.ndim; ++i) {
    const Wide last =
        (static_cast<Wide>(tensor.shape[i]) - 1) * stride_of(tensor, i) * item_size(tensor);
    (last < 0 ? begin : end) += last;
  }
  return {begin, end};
}

// Two elements of a written tensor must never share an address, or the result would depend on the
// order of writes. Sorted by stride, every dimension must step over all of the smaller ones.
void check_no_self_overlap(const DLTensor& tensor, const char* name) {
  std::vector<std::pair<Wide, int64_t>> dims;  // |stride|, size
  for (int i = 0; i < tensor.ndim; ++i) {
    const Wide stride = stride_of(tensor, i);
    if (tensor.shape[i] > 1) dims.emplace_back(stride < 0 ? -stride : stride, tensor.shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  Wide extent = 1;
  for (const auto& [stride, size] : dims) {
    MPFA_CHECK(stride >= extent, name, " has shape ", shape_string(tensor), " and a stride of ",
               static_cast<int64_t>(stride),
               " that makes its elements share memory: a written tensor must not overlap itself");
    extent += (size - 1) * stride;
  }
}

void check_memory(const KvCacheView& cache, std::initializer_list<NamedTensor> inputs) {
  for (const NamedTensor& written : written_tensors(cache)) {
    if (written.tensor == nullptr || is_empty(*written.tensor)) continue;
    check_no_self_overlap(*written.tensor, written.name);
    const auto [begin, end] = byte_range(*written.tensor);
    for (const NamedTensor& input : inputs) {
      if (is_empty(*input.tensor)) continue;
      const auto [input_begin, input_end] = byte_range(*input.tensor);
      MPFA_CHECK(input_end <= begin || end <= input_begin, input.name, " overlaps the cache's ",
                 written.name, " in memory: inputs must lie outside the cache");
    }
  }
}

AppendInput read_input(const DLTensor& tensor, const char* name, const CacheTensors& cache,
                       FloatType type) {
  // The type is a run-time value here, so only shape and strides are taken from the view.
  const auto view = Tensor<const std::byte, 3>::untyped(tensor, name);
  check_size(tensor, name, 1, cache.num_kv_heads, "the cache's KV heads");
  check_size(tensor, name, 2, cache.head_dim, "the cache's head_dim");
  const auto size = static_cast<int64_t>(float_type_size(type));
  return {view.at(0), view.stride(0) * size, view.stride(1) * size};
}

void check_slot_range(const Tensor<int64_t, 1>& slots, const CacheTensors& cache) {
  // Pages beyond what 64 bits can number cannot be addressed anyway.
  const int64_t max_pages = std::numeric_limits<int64_t>::max() / cache.page_size;
  const int64_t num_slots = std::min(cache.num_pages, max_pages) * cache.page_size;
  for (int64_t i = 0; i < slots.size(0); ++i) {
    const int64_t slot = *slots.at(i);
    MPFA_CHECK(slot >= -1 && slot < num_slots, "slot_mapping[", i, "] = ", slot,
               ": must be -1 (skip) to ", num_slots - 1, " (", cache.num_pages, " pages of ",
               cache.page_size, ")");
  }
}

// True where the slots, skipped tokens aside, only grow: the usual prefill, found without a table.
bool strictly_increasing(const Tensor<int64_t, 1>& slots) {
  int64_t last = -1;
  for (int64_t i = 0; i < slots.size(0); ++i) {
    const int64_t slot = *slots.at(i);
    if (slot < 0) continue;
    if (slot <= last) return false;
    last = slot;
  }
  return true;
}

void check_slots_differ(const Tensor<int64_t, 1>& slots) {
  if (strictly_increasing(slots)) return;
  // Open addressing over the tokens' indices: linear time, whatever the slots are.
  const auto count = static_cast<uint64_t>(slots.size(0));
  const int bits = std::bit_width(count) + 1;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  std::vector<int64_t> table(mask + 1, -1);
  for (int64_t i = 0; i < slots.size(0); ++i) {
    const int64_t slot = *slots.at(i);
    if (slot < 0) continue;
    // Multiplying by 2^64 / golden ratio spreads runs of slots over the table.
    uint64_t place = (static_cast<uint64_t>(slot) * 0x9E3779B97F4A7C15u) >> (64 - bits);
    for (; table[place] >= 0; place = (place + 1) & mask) {
      MPFA_CHECK(*slots.at(table[place]) != slot, "slot_mapping[", i, "] = ", slot,
                 ": slot_mapping[", table[place], "] is the same, a slot may be used once a call");
    }
    table[place] = i;
  }
}

// Which sequence, and so which row of statistics, every token belongs to.
std::vector<int64_t> read_stats_rows(const AppendArgs& args, const AppendParams& params) {
  const auto cu_seqlens = Tensor<int32_t, 1>::from(params.cu_seqlens, "cu_seqlens", false);
  int64_t batch_size = 1;
  int64_t covered = args.num_tokens;
  if (cu_seqlens) {
    batch_size = check_cu_seqlens(cu_seqlens, "cu_seqlens", args.num_tokens);
    covered = *cu_seqlens.at(batch_size);
  }
  check_stats_index(args.cache, batch_size);
  for (int64_t i = covered; i < args.num_tokens; ++i) {
    MPFA_CHECK(*args.slots.at(i) == -1, "slot_mapping[", i, "] = ", *args.slots.at(i),
               ": must be -1, as token ", i, " belongs to no sequence (cu_seqlens ends at ",
               covered, ")");
  }
  if (!args.cache.stats_index) return {};
  std::vector<int64_t> rows(args.num_tokens, batch_size > 0 ? args.cache.stats_row(0) : 0);
  for (int64_t b = 0; cu_seqlens && b < batch_size; ++b) {
    std::fill(rows.begin() + *cu_seqlens.at(b), rows.begin() + *cu_seqlens.at(b + 1),
              args.cache.stats_row(b));
  }
  return rows;
}

}  // namespace

AppendArgs check_append(const KvCacheView& cache, const DLTensor& k, const DLTensor& v,
                        const DLTensor& slot_mapping, const AppendParams& params) {
  AppendArgs args;
  args.cache = check_cache(cache);
  args.type = float_type(k, "k");
  MPFA_CHECK(float_type(v, "v") == args.type, "v has type ", dtype_string(v.dtype), ": must be ",
             dtype_string(k.dtype), ", as k has");
  args.k = read_input(k, "k", args.cache, args.type);
  args.v = read_input(v, "v", args.cache, args.type);
  args.num_tokens = k.shape[0];
  check_size(v, "v", 0, args.num_tokens, "as k has");
  args.slots = Tensor<int64_t, 1>::from(slot_mapping, "slot_mapping", false);
  check_size(slot_mapping, "slot_mapping", 0, args.num_tokens, "one slot per token of k");
  MPFA_CHECK(params.scale_rule == ScaleRule::kPlain || params.scale_rule == ScaleRule::kSearch,
             "scale_rule = ", static_cast<int>(params.scale_rule), ": must be kPlain or kSearch");
  check_slot_range(args.slots, args.cache);
  check_slots_differ(args.slots);
  args.stats_rows = read_stats_rows(args, params);
  check_memory(cache, {{&k, "k"}, {&v, "v"}, {&slot_mapping, "slot_mapping"}});
  return args;
}

}  // namespace mpfa::internal
