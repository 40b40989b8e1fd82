// attention() on the CPU: validates, cuts the work into items, runs them on oneTBB's threads and
// merges the splits. Which items there are depends on the plan and the lengths alone, never on the
// number of threads.
#include "mpfa/attention.h"

#include <algorithm>
#include <vector>

#include "core/attention_args.h"
#include "core/parallel.h"
#include "core/plan.h"
#include "cpu/attention_kernel.h"

namespace mpfa {
namespace internal {
namespace {

// A sequence whose keys are split: its partial states, [split][row][head][d + state].
struct SplitSequence {
  int64_t sequence;
  int64_t num_splits;
  float* partials;
};

struct WorkList {
  std::vector<WorkItem> items;
  std::vector<SplitSequence> splits;
};

int64_t partial_floats(const AttentionInputs& in) {
  return in.cache.head_dim + kPartialStateFloats;
}

// Key-row pairs that an item has to look at: what its time is proportional to.
int64_t item_cost(const AttentionInputs& in, const WorkItem& item) {
  const int64_t last = item.q_begin + item.q_count - 1;
  const int64_t begin = std::max(in.visible_keys(item.sequence, item.q_begin).begin, item.k_begin);
  const int64_t end = std::min(in.visible_keys(item.sequence, last).end, item.k_end);
  return std::max<int64_t>(end - begin, 0) * item.q_count;
}

void add_items(const AttentionInputs& in, int64_t b, int64_t num_splits, int64_t split_size,
               float* partials, std::vector<WorkItem>& items) {
  const int64_t seqlen_q = in.seqlen_q(b);
  const int64_t seqlen_k = in.seqlen_k(b);
  const int64_t block = std::max<int64_t>(1, kMaxItemRows / in.group_size);
  for (int64_t split = 0; split < num_splits; ++split) {
    const int64_t k_begin = split * split_size;
    const int64_t k_end = num_splits == 1 ? seqlen_k : std::min(k_begin + split_size, seqlen_k);
    for (int64_t q_begin = 0; q_begin < seqlen_q; q_begin += block) {
      const int64_t q_count = std::min(block, seqlen_q - q_begin);
      const int64_t first_row = split * seqlen_q + q_begin;
      float* partial =
          partials == nullptr ? nullptr : partials + first_row * in.q.heads * partial_floats(in);
      for (int64_t h = 0; h < in.cache.num_kv_heads; ++h) {
        items.push_back({b, h, q_begin, q_count, k_begin, k_end, partial});
      }
    }
  }
}

WorkList make_work_list(const AttentionInputs& in, int64_t split_size, float* workspace) {
  WorkList work;
  for (int64_t b = 0; b < in.batch_size; ++b) {
    const int64_t seqlen_q = in.seqlen_q(b);
    int64_t num_splits = 1;
    if (seqlen_q <= kMaxSplitSeqlenQ) {
      num_splits = std::max<int64_t>(1, ceil_div(in.seqlen_k(b), split_size));
    }
    float* partials = nullptr;
    if (num_splits > 1 && seqlen_q > 0) {
      partials = workspace;
      workspace += num_splits * seqlen_q * in.q.heads * partial_floats(in);
      work.splits.push_back({b, num_splits, partials});
    }
    add_items(in, b, num_splits, split_size, partials, work.items);
  }
  // Longest first, so that no thread is left with a long item at the end.
  std::stable_sort(work.items.begin(), work.items.end(), [&](const WorkItem& x, const WorkItem& y) {
    return item_cost(in, x) > item_cost(in, y);
  });
  return work;
}

void merge_splits(const AttentionInputs& in, const AttentionOutputs& outputs,
                  const SplitSequence& split) {
  const int64_t seqlen_q = in.seqlen_q(split.sequence);
  const int64_t row_floats = partial_floats(in);
  for (int64_t i = 0; i < seqlen_q; ++i) {
    for (int64_t h = 0; h < in.q.heads; ++h) {
      merge_row(in, outputs, split.sequence, in.q_begin(split.sequence) + i, h,
                split.partials + (i * in.q.heads + h) * row_floats,
                seqlen_q * in.q.heads * row_floats, split.num_splits);
    }
  }
}

void check_within_plan(const AttentionInputs& in, const Plan& plan) {
  check_plan(plan);
  const PlanParams& p = plan.params;
  MPFA_CHECK(in.batch_size <= p.batch_size, "batch size ", in.batch_size,
             ": exceeds plan.params.batch_size = ", p.batch_size);
  MPFA_CHECK(in.q.rows <= p.total_seqlen_q, "q has ", in.q.rows,
             " rows: exceeds plan.params.total_seqlen_q = ", p.total_seqlen_q);
  MPFA_CHECK(in.q.heads == p.num_q_heads && in.cache.num_kv_heads == p.num_kv_heads &&
                 in.cache.head_dim == p.head_dim,
             "q and the cache have ", in.q.heads, " query heads, ", in.cache.num_kv_heads,
             " KV heads and head_dim ", in.cache.head_dim, ": the plan was made for ",
             p.num_q_heads, ", ", p.num_kv_heads, " and ", p.head_dim);
  for (int64_t b = 0; b < in.batch_size; ++b) {
    MPFA_CHECK(in.seqlen_k(b) <= p.max_seqlen_k, "seq_lens[", b, "] = ", in.seqlen_k(b),
               ": exceeds plan.params.max_seqlen_k = ", p.max_seqlen_k);
  }
}

float* check_workspace(const DLTensor* workspace, const Plan& plan) {
  if (plan.workspace_bytes == 0) return nullptr;
  MPFA_CHECK(workspace != nullptr, "workspace is null: the plan needs ", plan.workspace_bytes,
             " bytes");
  const auto bytes = Tensor<uint8_t, 1>::from(*workspace, "workspace");
  MPFA_CHECK(bytes.size(0) >= plan.workspace_bytes, "workspace has ", bytes.size(0),
             " bytes: the plan needs ", plan.workspace_bytes);
  MPFA_CHECK(reinterpret_cast<uintptr_t>(bytes.at()) % alignof(float) == 0,
             "workspace is not aligned to ", alignof(float), " bytes");
  return reinterpret_cast<float*>(bytes.at());
}

// All tensors of a call, each checked by itself.
struct CallTensors {
  const DLTensor& out;
  const DLTensor* lse;
  const DLTensor& q;
  const KvCacheView& cache;
  const DLTensor& block_table;
  const DLTensor& seq_lens;
  const DLTensor* cu_seqlens_q;
  const DLTensor* sinks;
  const DLTensor* workspace;  // null where the plan needs none
};

void check_memory(const CallTensors& t) {
  std::vector<NamedTensor> inputs = {{&t.q, "q"},
                                     {&t.block_table, "block_table"},
                                     {&t.seq_lens, "seq_lens"},
                                     {t.cu_seqlens_q, "cu_seqlens_q"},
                                     {t.sinks, "sinks"}};
  for (const NamedTensor& page : page_tensors(t.cache)) inputs.push_back(page);
  for (const NamedTensor& row : stats_tensors(t.cache)) inputs.push_back(row);
  const NamedTensor written[] = {{&t.out, "out"}, {t.lse, "lse"}, {t.workspace, "workspace"}};
  check_written(written, inputs);
}

}  // namespace
}  // namespace internal

void attention(const DLTensor& out, const DLTensor* lse, const DLTensor& q,
               const KvCacheView& cache, const DLTensor& block_table, const DLTensor& seq_lens,
               const DLTensor* cu_seqlens_q, const AttentionParams& params, const Plan& plan,
               const DLTensor* workspace, cudaStream_t /*stream*/) {
  using namespace internal;  // NOLINT(google-build-using-namespace)
  const AttentionInputs in =
      check_attention_inputs(q, cache, block_table, seq_lens, cu_seqlens_q, params);
  const AttentionOutputs outputs{check_attention_output(out, q),
                                 check_lse(lse, "lse", in.q.rows, in.q.heads)};
  check_within_plan(in, plan);
  float* const space = check_workspace(workspace, plan);
  check_memory({out, lse, q, cache, block_table, seq_lens, cu_seqlens_q, params.sinks,
                space == nullptr ? nullptr : workspace});

  const WorkList work = make_work_list(in, plan.params.kv_split_size, space);
  const DotKind kind = choose_dot_kind(in.q.type);
  parallel_for(static_cast<int64_t>(work.items.size()),
               [&](int64_t i) { attend_item(in, outputs, work.items[i], kind); });
  parallel_for(static_cast<int64_t>(work.splits.size()),
               [&](int64_t i) { merge_splits(in, outputs, work.splits[i]); });
}

}  // namespace mpfa
