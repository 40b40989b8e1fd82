#include "cache/append_check.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <limits>

#include "core/stats_index.h"
#include "core/value_checks.h"

namespace mpfa::internal {
namespace {

// Nothing that the call reads, statistics included, may lie where it writes.
void check_memory(const KvCacheView& cache, std::initializer_list<NamedTensor> arguments) {
  std::vector<NamedTensor> inputs = arguments;
  for (const NamedTensor& row : stats_tensors(cache)) inputs.push_back(row);
  check_written(page_tensors(cache), inputs);
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
  const CacheTensors& cache = args.cache;
  check_stats_index(cache.stats_index, batch_size, cache.num_stats);
  if (!cu_seqlens) {
    check_one_sequence(cache.stats_index, cache.num_stats, args.num_tokens, "cu_seqlens");
  }
  for (int64_t i = covered; i < args.num_tokens; ++i) {
    MPFA_CHECK(*args.slots.at(i) == -1, "slot_mapping[", i, "] = ", *args.slots.at(i),
               ": must be -1, as token ", i, " belongs to no sequence (cu_seqlens ends at ",
               covered, ")");
  }
  if (!cache.stats_index) return {};
  std::vector<int64_t> rows(args.num_tokens, batch_size > 0 ? cache.stats_row(0) : 0);
  for (int64_t b = 0; cu_seqlens && b < batch_size; ++b) {
    std::fill(rows.begin() + *cu_seqlens.at(b), rows.begin() + *cu_seqlens.at(b + 1),
              cache.stats_row(b));
  }
  return rows;
}

// What read_stats_rows checks, but for values.
void check_sequences(const AppendArgs& args, const AppendParams& params) {
  const auto cu_seqlens = Tensor<int32_t, 1>::from(params.cu_seqlens, "cu_seqlens", false);
  const CacheTensors& cache = args.cache;
  check_stats_index(cache.stats_index, cu_seqlens ? count_sequences(cu_seqlens, "cu_seqlens") : 1,
                    0);
  if (!cu_seqlens) {
    check_one_sequence(cache.stats_index, cache.num_stats, args.num_tokens, "cu_seqlens");
  }
}

}  // namespace

AppendArgs check_append(const KvCacheView& cache, const DLTensor& k, const DLTensor& v,
                        const DLTensor& slot_mapping, const AppendParams& params, Values values) {
  AppendArgs args;
  args.cache = check_cache(cache, values);
  args.type = float_type(k, "k");
  MPFA_CHECK(float_type(v, "v") == args.type, "v has type ", dtype_string(v.dtype), ": must be ",
             dtype_string(k.dtype), ", as k has");
  args.k = read_input(k, "k", args.cache, args.type);
  args.v = read_input(v, "v", args.cache, args.type);
  args.num_tokens = k.shape[0];
  check_size(v, "v", 0, args.num_tokens, "as k has");
  args.slots = Tensor<int64_t, 1>::from(slot_mapping, "slot_mapping", false);
  check_size(slot_mapping, "slot_mapping", 0, args.num_tokens, "one slot per token of k");
  check_scale_rule(params.scale_rule);
  if (values == Values::kKnown) {
    check_slot_range(args.slots, args.cache);
    check_slots_differ(args.slots);
    args.stats_rows = read_stats_rows(args, params);
  } else {
    check_sequences(args, params);
  }
  check_memory(
      cache,
      {{&k, "k"}, {&v, "v"}, {&slot_mapping, "slot_mapping"}, {params.cu_seqlens, "cu_seqlens"}});
  return args;
}

}  // namespace mpfa::internal
