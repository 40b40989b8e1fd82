// The named precision assignments.
#include <algorithm>

#include "cpu/policy.h"

namespace mpfa::internal {
namespace {

// How many columns beside delta_s the BF16 MMA with K = 16 has to spare.
constexpr int kBf16ResidualColumns = 15;

Policy named(Policy policy, std::string name, std::string description) {
  policy.name = std::move(name);
  policy.description = std::move(description);
  return policy;
}

// ---- The paper's ------------------------------------------------------------------------------

// NVFP4 Q and K by the plain rule, neither centred.
Policy direct(VFormat v, PFormat p) {
  Policy policy;
  policy.q = QFormat::kNvfp4;
  policy.k = KFormat::kNvfp4;
  policy.v = v;
  policy.p = p;
  policy.q_scale_rule = ScaleRule::kPlain;
  policy.k_scale_rule = ScaleRule::kPlain;
  return policy;
}

Policy compensated(Policy policy) {
  policy.centre_k = true;
  policy.delta_s = true;
  return policy;
}

// ---- The table's: V and P in e4m3 in all ------------------------------------------------------

Policy with_v_and_p_in_e4m3(Policy policy) {
  policy.v = VFormat::kE4m3;
  policy.p = PFormat::kE4m3;
  return policy;
}

// Q as given and centred NVFP4 K, without compensation.
Policy nvfp4_k(ScaleRule rule) {
  Policy policy = with_v_and_p_in_e4m3({});
  policy.k = KFormat::kNvfp4;
  policy.k_scale_rule = rule;
  policy.centre_k = true;
  return policy;
}

Policy with_delta_s(Policy policy) {
  policy.delta_s = true;
  return policy;
}

Policy with_residual(Policy policy, int rank, ResidualFormat format = ResidualFormat::kE4m3) {
  policy.residual_rank = rank;
  policy.residual_format = format;
  return policy;
}

Policy with_first_key(Policy policy) {
  policy.first_key = true;
  return policy;
}

Policy with_q(Policy policy, QFormat q) {
  policy.q = q;
  return policy;
}

std::vector<TableRow> nvfp4_rows() {
  const Policy plain = nvfp4_k(ScaleRule::kPlain);
  const Policy search = nvfp4_k(ScaleRule::kSearch);
  const Policy first = with_first_key(search);
  return {
      {paper_policy(), 42, 0.0845},
      {named(plain, "plain", "NVFP4 K, plain scales"), 36, 0.120},
      {named(with_delta_s(plain), "plain_delta_s", "NVFP4 K, plain scales, delta_s"), 42, 0.0643},
      {named(search, "search", "NVFP4 K, scale search"), 36, 0.0915},
      {named(with_delta_s(search), "search_delta_s", "NVFP4 K, scale search, delta_s"), 42, 0.0557},
      {named(with_residual(search, 4), "search_r4", "NVFP4 K, scale search, residual r = 4"), 40,
       0.0537},
      {named(with_residual(search, 8), "search_r8", "NVFP4 K, scale search, residual r = 8"), 44,
       0.0506},
      {named(with_residual(search, 16), "search_r16", "NVFP4 K, scale search, residual r = 16"), 52,
       0.0459},
      {named(first, "search_first", "NVFP4 K, scale search, first key"), 36, 0.0578},
      {named(with_delta_s(first), "search_delta_s_first",
             "NVFP4 K, scale search, delta_s, first key"),
       42, 0.0419},
      {named(with_residual(first, 4), "search_r4_first",
             "NVFP4 K, scale search, residual r = 4, first key"),
       40, 0.0407},
      {default_policy(), 44, 0.0383},
      {named(with_residual(first, 16), "search_r16_first",
             "NVFP4 K, scale search, residual r = 16, first key"),
       52, 0.0347},
  };
}

std::vector<TableRow> nvfp4_q_rows() {
  const Policy first = with_first_key(nvfp4_k(ScaleRule::kSearch));
  const Policy delta_s = with_delta_s(first);
  const Policy columns = with_residual(delta_s, kBf16ResidualColumns, ResidualFormat::kBf16);
  return {
      {named(with_q(delta_s, QFormat::kNvfp4), "one_term_delta_s_first",
             "NVFP4 Q and K, scale search, delta_s, first key"),
       42, 0.0650},
      {named(with_q(columns, QFormat::kNvfp4), "one_term_columns_first",
             "NVFP4 Q and K, scale search, delta_s and 15 BF16 residual columns, first key"),
       72, 0.0587},
      {named(with_q(with_residual(first, 8), QFormat::kNvfp4TwoTerms), "two_terms_r8_first",
             "two-term NVFP4 Q, NVFP4 K, scale search, residual r = 8, first key"),
       44, 0.0390},
      {named(with_q(columns, QFormat::kNvfp4TwoTerms), "two_terms_columns_first",
             "two-term NVFP4 Q, NVFP4 K, scale search, delta_s and 15 BF16 residual columns, first "
             "key"),
       72, 0.0330},
  };
}

std::vector<TableRow> wide_k_rows() {
  Policy fp8 = fp8_k_policy();
  fp8.centre_k = true;
  return {
      {named(fp8, "fp8_k_centred", "e4m3 K, centred"), 64, 0.0374},
      {named(with_v_and_p_in_e4m3({}), "fp8_v", "Q and K as given; only V and P in e4m3"), 0,
       0.0210},
  };
}

void append_new(std::vector<Policy>& list, const Policy& policy) {
  const auto same_name = [&](const Policy& other) { return other.name == policy.name; };
  if (std::none_of(list.begin(), list.end(), same_name)) list.push_back(policy);
}

}  // namespace

Policy default_policy() {
  return named(with_residual(with_first_key(nvfp4_k(ScaleRule::kSearch)), 8), "default",
               "NVFP4 K, scale search, residual r = 8, first key");
}

Policy paper_policy() {
  return named(compensated(direct(VFormat::kE4m3, PFormat::kE4m3)), "mpfa",
               "the paper's: NVFP4 Q K^T, FP8 P V, compensation in the MMA");
}

Policy naive_policy() {
  return named(direct(VFormat::kE4m3, PFormat::kE4m3), "nvfp4_fp8_direct",
               "NVFP4 Q K^T, FP8 P V, uncentred");
}

Policy fp8_k_policy() {
  Policy policy = with_v_and_p_in_e4m3({});
  policy.k = KFormat::kE4m3;
  return named(policy, "fp8_k", "e4m3 K and V, uncentred");
}

const std::vector<Policy>& paper_policies() {
  static const std::vector<Policy> policies = [] {
    Policy bf16;
    bf16.p = PFormat::kBf16;
    const Policy nvfp4 = direct(VFormat::kNvfp4Tokens, PFormat::kNvfp4TwoLevel);
    const Policy nvfp4_bf16 = direct(VFormat::kInput, PFormat::kBf16);
    Policy softmax_warps = paper_policy();
    softmax_warps.compensation = CompensationPlace::kSoftmaxWarps;
    return std::vector<Policy>{
        named(bf16, "bf16_bf16", "Q, K and V as given, BF16 P"),
        named(compensated(nvfp4), "nvfp4_nvfp4", "NVFP4 Q K^T and P V, compensation in the MMA"),
        named(nvfp4, "nvfp4_nvfp4_direct", "NVFP4 Q K^T and P V, uncentred"),
        named(compensated(nvfp4_bf16), "nvfp4_bf16",
              "NVFP4 Q K^T, BF16 P V, compensation in the MMA"),
        named(nvfp4_bf16, "nvfp4_bf16_direct", "NVFP4 Q K^T, BF16 P V, uncentred"),
        naive_policy(),
        paper_policy(),
        named(softmax_warps, "nvfp4_fp8_softmax",
              "NVFP4 Q K^T, FP8 P V, compensation on the softmax warps"),
    };
  }();
  return policies;
}

const std::vector<TableRow>& table_rows() {
  static const std::vector<TableRow> rows = [] {
    std::vector<TableRow> list = nvfp4_rows();
    for (const auto& more : {nvfp4_q_rows(), wide_k_rows()}) {
      list.insert(list.end(), more.begin(), more.end());
    }
    return list;
  }();
  return rows;
}

const std::vector<Policy>& all_policies() {
  static const std::vector<Policy> policies = [] {
    std::vector<Policy> list = {default_policy(), paper_policy(), naive_policy(), fp8_k_policy()};
    for (const Policy& policy : paper_policies()) append_new(list, policy);
    for (const TableRow& row : table_rows()) append_new(list, row.policy);
    return list;
  }();
  return policies;
}

const Policy* find_policy(std::string_view name) {
  for (const Policy& policy : all_policies()) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

// ---- Bytes ------------------------------------------------------------------------------------

namespace {

constexpr double kInputBytes = 2;  // BF16
constexpr double kDeltaSBytes = 2;
constexpr double kNvfp4Bytes = 0.5 + 1.0 / kNvfp4BlockSize;

}  // namespace

double policy_k_bytes(const Policy& policy, int64_t head_dim, int64_t group) {
  const double element = policy.k == KFormat::kInput   ? kInputBytes
                         : policy.k == KFormat::kNvfp4 ? kNvfp4Bytes
                                                       : 1.0;
  const double column = policy.residual_format == ResidualFormat::kBf16 ? 2.0 : 1.0;
  const double delta_s = policy.delta_s ? kDeltaSBytes * static_cast<double>(group) : 0.0;
  return element * static_cast<double>(head_dim) + delta_s + column * policy.residual_rank;
}

double policy_v_bytes(const Policy& policy, int64_t head_dim) {
  const double element = policy.v == VFormat::kInput  ? kInputBytes
                         : policy.v == VFormat::kE4m3 ? 1.0
                                                      : kNvfp4Bytes;
  return element * static_cast<double>(head_dim);
}

}  // namespace mpfa::internal
