// attention() on the CPU: validates, cuts the work into items, runs them on oneTBB's threads and
// merges the splits. Which items there are depends on the plan and the lengths alone, never on the
// number of threads.
#include "cpu/attention.h"

#include <algorithm>
#include <vector>

#include "core/attention_args.h"
#include "core/attention_memory.h"
#include "core/parallel.h"
#include "core/plan.h"
#include "cpu/attention_kernel.h"

namespace mpfa::internal {
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

void check_lengths(const AttentionInputs& in, const Plan& plan) {
  const PlanParams& p = plan.params;
  for (int64_t b = 0; b < in.batch_size; ++b) {
    MPFA_CHECK(in.seqlen_k(b) <= p.max_seqlen_k, "seq_lens[", b, "] = ", in.seqlen_k(b),
               ": exceeds plan.params.max_seqlen_k = ", p.max_seqlen_k);
  }
}

}  // namespace

void cpu_attention(const AttentionCall& call, const AttentionParams& params, const Plan& plan) {
  const AttentionInputs in = check_attention_inputs(call.q, call.cache, call.block_table,
                                                    call.seq_lens, call.cu_seqlens_q, params);
  const AttentionOutputs outputs{check_attention_output(call.out, call.q),
                                 check_lse(call.lse, "lse", in.q.rows, in.q.heads)};
  check_fits_plan(in, plan);
  check_lengths(in, plan);
  auto* const space =
      reinterpret_cast<float*>(check_workspace(call.workspace, plan, alignof(float)));
  check_memory(call, params.sinks, space != nullptr);

  const WorkList work = make_work_list(in, plan.params.kv_split_size, space);
  const DotKind kind = choose_dot_kind(in.q.type);
  parallel_for(static_cast<int64_t>(work.items.size()),
               [&](int64_t i) { attend_item(in, outputs, work.items[i], kind); });
  parallel_for(static_cast<int64_t>(work.splits.size()),
               [&](int64_t i) { merge_splits(in, outputs, work.splits[i]); });
}

}  // namespace mpfa::internal
