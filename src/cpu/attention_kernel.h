// The SIMD kernels behind attention() on the CPU: one work item at a time, single-threaded.
#pragma once

#include <cstdint>
#include <optional>

#include "core/attention_args.h"

namespace mpfa::internal {

// One (sequence, KV head, block of query rows, range of keys).
struct WorkItem {
  int64_t sequence;
  int64_t kv_head;
  int64_t q_begin;  // first query row, within the sequence
  int64_t q_count;
  int64_t k_begin;  // keys of this item, before masking
  int64_t k_end;
  float* partial;  // where a split's state goes, row by row and head by head; null: straight to out
};

struct AttentionOutputs {
  ActivationTensor out;
  Tensor<float, 2> lse;  // or absent
};

// Everything about a query row's softmax but its output vector. Scores s are kept in units in which
// no sum of them can overflow; lambda turns them into exponents of 2: p = 2^(lambda * (s - m)).
struct RowState {
  double unit;     // natural logits per unit of s; lambda / log2(e) unless FP32 cannot hold that
  double rowbias;  // joins the log of the sum in LSE: softmax_scale * q . k_mean, 0 with softcap
  float m;         // running maximum, -inf where nothing is visible
  float l;  // sum of p as P V uses them (rounded to BF16 by Bf16Dot): the output's denominator
  float l_exact;  // sum of p before rounding: LSE's
  float lambda;   // within FP32's normal range
};

// Values of V are held divided by this in the kernels (an e4m3 bit pattern read as FP16 has a
// different exponent bias), and the output is multiplied back.
inline constexpr float kVUnit = 0x1p-8f;

// Largest number of query rows (tokens times group) of one work item, unless the group is larger:
// enough to spread the unpacking of a tile thin, few enough for their state to stay in the L2
// cache.
inline constexpr int64_t kMaxItemRows = 192;

// Which arithmetic a kernel uses for Q K^T and P V.
enum class DotKind : uint8_t {
  kFp32,  // FP32 operands and FMA: any CPU, and the choice for FP32 queries
  kBf16,  // BF16 pairs and FP32 sums (AVX512_BF16 and AVX512_VBMI: Zen 4, Sapphire Rapids)
};

// The best kind for this CPU and this type of queries.
DotKind choose_dot_kind(FloatType q_type);
// Tests only: every later choice is `kind`, or the best again where it is absent.
void force_dot_kind_for_test(std::optional<DotKind> kind);
// "AVX3, BF16 dot products": for `mpfa info`.
const char* attention_target_name();

void attend_item(const AttentionInputs& in, const AttentionOutputs& outputs, const WorkItem& item,
                 DotKind kind);

// Merges the splits of one query row and head and writes the result. Split i's state and output
// stand at partials + i * stride: RowState, then d floats.
void merge_row(const AttentionInputs& in, const AttentionOutputs& outputs, int64_t sequence,
               int64_t row, int64_t head, const float* partials, int64_t stride,
               int64_t num_splits);

}  // namespace mpfa::internal
