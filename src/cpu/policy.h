// Precision assignments, emulated on raw Q, K and V: what each choice of formats and compensation
// costs in accuracy, on any machine (docs/spec.md, sections 2 and 3). The bits are those of the
// cache writer; the arithmetic is Algorithm 1's: online softmax over blocks of 128 keys, last block
// first.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mpfa/formats.h"

namespace mpfa::internal {

enum class QFormat : uint8_t {
  kInput,          // as given: BF16, FP16 or FP32
  kNvfp4,          // one NVFP4 term
  kNvfp4TwoTerms,  // NVFP4(x) + NVFP4(x - first term): two MMAs over the same K
};
enum class KFormat : uint8_t {
  kInput,
  kNvfp4,
  kE4m3,  // scale 1
};
enum class VFormat : uint8_t {
  kInput,
  kE4m3,         // scale 1
  kNvfp4Tokens,  // NVFP4, plain scales, blocks of 16 along the tokens: the reduction of P V
};
enum class PFormat : uint8_t {
  kFp32,
  kBf16,
  kE4m3,           // e4m3(448 * P): no amax is needed, P <= 1
  kNvfp4TwoLevel,  // each row's maximum in a block of 128 keys to 448 * 6, then NVFP4 along keys
};
enum class ResidualFormat : uint8_t {
  kE4m3,  // p_j = e4m3(U_j . E / p_scale_j), U x kept in FP32
  kBf16,  // both U_j . E and U x in BF16: the columns beside delta_s in the BF16 MMA with K = 16
};
// Where delta_s, residual and first key join the score.
enum class CompensationPlace : uint8_t {
  kAccumulator,   // before the products: they accumulate onto it (MpFA)
  kSoftmaxWarps,  // added to the finished products, in FP32 (Figure 10's other placement)
};

// One precision assignment. The default is plain attention in the input's precision, FP32 P.
struct Policy {
  std::string name;         // for command lines and JSON: lower case, digits, '_'
  std::string description;  // one line
  QFormat q = QFormat::kInput;
  KFormat k = KFormat::kInput;
  VFormat v = VFormat::kInput;
  PFormat p = PFormat::kFp32;
  ScaleRule q_scale_rule = ScaleRule::kSearch;
  ScaleRule k_scale_rule = ScaleRule::kSearch;
  bool centre_k = false;  // Kc = K - K_mean
  // Q is centred as well, and delta_s = bf16(Q_mean . Kc) added. Needs centre_k.
  bool delta_s = false;
  // 0: no residual. U comes from the queries that the products see: of Q, or of Qc with delta_s.
  int residual_rank = 0;
  ResidualFormat residual_format = ResidualFormat::kE4m3;
  bool first_key = false;  // the first key's remaining error is kept in BF16
  CompensationPlace compensation = CompensationPlace::kAccumulator;

  friend bool operator==(const Policy&, const Policy&) = default;
};

// Bytes that K (codes, scales, delta_s, residual; not k_first, which is per page) or V take per
// token and KV head. `group` is Hq / Hkv; an input format counts as BF16.
double policy_k_bytes(const Policy& policy, int64_t head_dim, int64_t group);
double policy_v_bytes(const Policy& policy, int64_t head_dim);

// The paper's six assignments (Figures 3, 6 and 10), the low-bit ones also without compensation:
// bf16_bf16, nvfp4_nvfp4, nvfp4_nvfp4_direct, nvfp4_bf16, nvfp4_bf16_direct, nvfp4_fp8_direct,
// mpfa, nvfp4_fp8_softmax. "direct" means uncentred Q and K.
const std::vector<Policy>& paper_policies();

// One row of the table "Measured" of docs/spec.md, section 2.
struct TableRow {
  Policy policy;
  double k_bytes;  // the table's third column: d = 64, G = 3
  double error;    // the table's value
};
const std::vector<TableRow>& table_rows();

// The four that mpfa demo shows, all with e4m3 V and P; set `p` for another P.
Policy default_policy();  // "default": Q as given, NVFP4 K with search, residual r = 8, first key
Policy paper_policy();    // "mpfa": NVFP4 Q and K, plain scales, delta_s in the MMA
Policy naive_policy();    // "nvfp4_fp8_direct": NVFP4 Q and K, plain scales, uncentred
Policy fp8_k_policy();    // "fp8_k": Q as given, e4m3 K, uncentred

// Every policy above once, and lookup by name: the four of mpfa demo, the paper's, the table's.
const std::vector<Policy>& all_policies();
const Policy* find_policy(std::string_view name);  // null if there is none

// Rows [begin, end) of a tensor; end < 0 means all rows from begin on.
struct RowRange {
  int64_t begin = 0;
  int64_t end = -1;
};

struct PolicyInputs {
  bool causal = true;                  // bottom-right aligned
  std::optional<float> softmax_scale;  // default 1 / sqrt(head_dim)
  RowRange mean_keys;      // rows of k whose mean is K_mean, and whose errors set p_scale
  RowRange mean_queries;   // rows of q whose mean is Q_mean
  RowRange basis_queries;  // rows of q whose second moments give U
  // Rows of q before it serve the statistics only. Decode steps are the last rows of all tokens' q.
  int64_t first_query_row = 0;
  bool keep_output = false;
};

// The protocol of the table in docs/spec.md, section 2: causal, means over all tokens, U from the
// first 128 tokens' queries.
PolicyInputs table_inputs();

struct PolicyResult {
  // Per query head, over all evaluated rows together, against FP64 attention over the unquantised
  // input. Two outputs that are 0 count as equal (error 0, cosine 1); one that is 0, as
  // perpendicular (cosine 0).
  std::vector<double> relative_l2;  // |out - ref| / |ref|
  std::vector<double> cosine;       // out . ref / (|out| |ref|)
  std::vector<float> output;        // [rows, Hq, d] with keep_output, rounded to q's type
  std::vector<double> reference;    // [rows, Hq, d] with keep_output

  double mean_relative_l2() const;
  double worst_relative_l2() const;
  double mean_cosine() const;
};

// Runs one policy over one sequence.
//
//   q  [tokens_q, Hq, d], k and v [tokens, Hkv, d]: BF16, FP16 or FP32; outer strides free,
//      innermost contiguous; finite values; d 64 or 128; Hq a multiple of Hkv. Row i of q
//      stands at token i + tokens - tokens_q; tokens_q may not exceed tokens.
//
// Errors: InvalidArgument for shapes, types and ranges that do not fit, and for combinations that
// mean nothing (delta_s or residual without centre_k; residual without NVFP4 K; first key without a
// quantised K; residual rank above 16). Results do not depend on the thread count.
PolicyResult run_policy(const Policy& policy, const DLTensor& q, const DLTensor& k,
                        const DLTensor& v, const PolicyInputs& inputs = {});

// The same for several policies; the FP64 reference is computed once.
std::vector<PolicyResult> run_policies(std::span<const Policy> policies, const DLTensor& q,
                                       const DLTensor& k, const DLTensor& v,
                                       const PolicyInputs& inputs = {});

}  // namespace mpfa::internal
