#include "cpu/policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "core/shapes.h"
#include "core/tensor.h"
#include "cpu/policy_operands.h"

namespace mpfa::internal {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Query rows that one work item takes.
constexpr int64_t kRowTile = 32;

// ---- Arguments --------------------------------------------------------------------------------

void check_policy(const Policy& policy) {
  const std::string& name = policy.name;
  MPFA_CHECK(policy.residual_rank >= 0 && policy.residual_rank <= 16, "policy ", name,
             ": residual_rank = ", policy.residual_rank, ": must be 0 to 16");
  MPFA_CHECK(policy.centre_k || (!policy.delta_s && policy.residual_rank == 0), "policy ", name,
             ": centre_k = false: delta_s and the residual need centred keys");
  MPFA_CHECK(policy.residual_rank == 0 || policy.k == KFormat::kNvfp4, "policy ", name,
             ": residual_rank = ", policy.residual_rank, ": the residual needs k in NVFP4");
  MPFA_CHECK(!policy.first_key || policy.k != KFormat::kInput, "policy ", name,
             ": first_key = true: k as given has no rounding error to keep");
}

struct Problem {
  Activations q;
  Activations k;
  Activations v;
  int64_t first_row = 0;
  int64_t group = 0;
  bool causal = true;
  float softmax_scale = 0;
  FloatType out_type = FloatType::kFp32;

  int64_t rows() const { return q.rows - first_row; }
  // Keys that row i of q sees: [0, result), bottom-right aligned.
  int64_t visible_keys(int64_t i) const { return causal ? i + k.rows - q.rows + 1 : k.rows; }
  // Position of an evaluated row and head in an output [rows, Hq, d].
  int64_t output_offset(int64_t i, int64_t head) const {
    return ((i - first_row) * q.heads + head) * q.head_dim;
  }
};

Problem make_problem(const DLTensor& q, const DLTensor& k, const DLTensor& v,
                     const PolicyInputs& inputs) {
  Problem problem;
  problem.q = load_activations(q, "q");
  problem.k = load_activations(k, "k");
  problem.v = load_activations(v, "v");
  const int64_t d = problem.q.head_dim;
  const int64_t kv_heads = problem.k.heads;
  MPFA_CHECK(is_head_dim(d), "head_dim = ", d, " (q has shape ", shape_string(q), "): must be ",
             alternatives(kHeadDims));
  check_size(k, "k", 2, d, "q's head_dim");
  for (int i = 0; i < 3; ++i) check_size(v, "v", i, k.shape[i], "as k has");
  MPFA_CHECK(kv_heads >= 1 && problem.q.heads >= 1 && problem.q.heads % kv_heads == 0,
             "q has shape ", shape_string(q), ": its heads must be a multiple of the ", kv_heads,
             " KV heads");
  MPFA_CHECK(problem.q.rows >= 1 && problem.q.rows <= problem.k.rows, "q has shape ",
             shape_string(q), ": its rows must be 1 to the ", problem.k.rows, " tokens of k");
  MPFA_CHECK(inputs.first_query_row >= 0 && inputs.first_query_row < problem.q.rows,
             "first_query_row = ", inputs.first_query_row, ": must be 0 to ", problem.q.rows - 1);
  problem.first_row = inputs.first_query_row;
  problem.group = problem.q.heads / kv_heads;
  problem.causal = inputs.causal;
  problem.softmax_scale = inputs.softmax_scale.value_or(1.0f / std::sqrt(static_cast<float>(d)));
  MPFA_CHECK(std::isfinite(problem.softmax_scale) && problem.softmax_scale > 0,
             "softmax_scale = ", problem.softmax_scale, ": must be finite and above 0");
  problem.out_type = float_type(q, "q");
  return problem;
}

// fn(row of q, query head) for every evaluated row, in parallel.
template <typename Fn>
void for_each_row(const Problem& problem, const Fn& fn) {
  const int64_t tiles = (problem.rows() + kRowTile - 1) / kRowTile;
  parallel_for(tiles * problem.q.heads, [&](int64_t n) {
    const int64_t begin = problem.first_row + n % tiles * kRowTile;
    const int64_t end = std::min(begin + kRowTile, problem.q.rows);
    for (int64_t i = begin; i < end; ++i) fn(i, n / tiles);
  });
}

// ---- FP64 attention over the unquantised input --------------------------------------------------

// out [d] = softmax(scale * q k^T) v over the first `keys` keys.
void reference_row(const Problem& problem, int64_t i, int64_t head, double* out) {
  const int64_t d = problem.q.head_dim;
  const int64_t kv_head = head / problem.group;
  const int64_t keys = problem.visible_keys(i);
  const float* q = problem.q.row(head, i);
  std::vector<double> p(keys);
  double m = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < keys; ++j) {
    const float* k = problem.k.row(kv_head, j);
    double sum[4] = {};  // four chains of additions, so that they overlap
    for (int64_t c = 0; c < d; c += 4) {
      for (int64_t n = 0; n < 4; ++n) sum[n] += static_cast<double>(q[c + n]) * k[c + n];
    }
    p[j] = problem.softmax_scale * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    m = std::max(m, p[j]);
  }
  double l = 0.0;
  for (double& x : p) l += x = std::exp(x - m);
  std::fill(out, out + d, 0.0);
  for (int64_t j = 0; j < keys; ++j) {
    const float* v = problem.v.row(kv_head, j);
    const double weight = p[j] / l;
    for (int64_t c = 0; c < d; ++c) out[c] += weight * v[c];
  }
}

std::vector<double> reference_output(const Problem& problem) {
  std::vector<double> out(problem.rows() * problem.q.heads * problem.q.head_dim);
  for_each_row(problem, [&](int64_t i, int64_t head) {
    reference_row(problem, i, head, &out[problem.output_offset(i, head)]);
  });
  return out;
}

// ---- Algorithm 1 --------------------------------------------------------------------------------

// Everything that one query row needs.
struct Row {
  const Policy& policy;
  const KeyValueOperands& kv;
  const QueryOperands& queries;
  int64_t index;  // row of q
  int64_t head_dim;
  int64_t keys;  // it sees [0, keys)
  float lambda;  // softmax_scale * log2(e)
};

using KeyBlock = float[kKeyBlockSize];

// s_j += a * b_j. Products and sums round to FP32 one by one; a tensor core keeps a few more or
// fewer bits inside a group of products, which no policy depends on.
void add_scaled(float a, const float* b, KeyBlock& s) {
  for (int64_t j = 0; j < kKeyBlockSize; ++j) s[j] += a * b[j];
}

void add_compensation(const Row& row, int64_t begin, KeyBlock& s) {
  if (row.policy.delta_s) add_scaled(1.0f, &row.queries.delta_s[begin], s);
  const int64_t rank = row.policy.residual_rank;
  for (int64_t r = 0; r < rank; ++r) {
    add_scaled(row.queries.u_q[row.index * rank + r], &row.kv.residual[r * row.kv.padded + begin],
               s);
  }
  if (row.policy.first_key && begin == 0) s[0] += row.queries.q_first[row.index];
}

void add_products(const Row& row, int64_t begin, KeyBlock& s) {
  for (int n = 0; n < row.queries.num_terms; ++n) {
    const float* q = &row.queries.terms[n][row.index * row.head_dim];
    for (int64_t c = 0; c < row.head_dim; ++c) {
      add_scaled(q[c], &row.kv.k_transposed[c * row.kv.padded + begin], s);
    }
  }
}

// Unscaled scores of one block of keys.
void scores(const Row& row, int64_t begin, KeyBlock& s) {
  std::fill(s, s + kKeyBlockSize, 0.0f);
  if (row.policy.compensation == CompensationPlace::kAccumulator) {
    add_compensation(row, begin, s);
    add_products(row, begin, s);
    return;
  }
  KeyBlock compensation = {};
  add_compensation(row, begin, compensation);
  add_products(row, begin, s);
  add_scaled(1.0f, compensation, s);
}

// The factor that P carries into the second product, divided out at the end.
float p_factor(PFormat format) { return format == PFormat::kE4m3 ? kE4m3Max : 1.0f; }

// NVFP4 with two levels of scales: the row's maximum in this block is brought to the largest value
// that a block of 16 can hold, so that its e4m3 scales use their whole range.
void round_p_to_nvfp4(KeyBlock& p) {
  const float largest = *std::max_element(p, p + kKeyBlockSize);
  if (largest == 0.0f) return;
  const float up = kE4m3Max * kE2m1Max / largest;
  const float down = largest / (kE4m3Max * kE2m1Max);
  for (int64_t j = 0; j < kKeyBlockSize; j += kNvfp4BlockSize) {
    float x[kNvfp4BlockSize];
    for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = p[j + i] * up;
    const Nvfp4Block block = nvfp4_quantize(x, ScaleRule::kPlain);
    for (int i = 0; i < kNvfp4BlockSize; ++i) {
      p[j + i] = nvfp4_value(block.scale, nvfp4_code(block, i)) * down;
    }
  }
}

// P as the second product takes it, p_factor included.
void round_p(PFormat format, KeyBlock& p) {
  switch (format) {
    case PFormat::kFp32:
      return;
    case PFormat::kBf16:
      for (float& x : p) x = bf16_to_float(bf16_from_float(x));
      return;
    case PFormat::kE4m3:
      for (float& x : p) x = e4m3_to_float(e4m3_from_float(kE4m3Max * x));
      return;
    case PFormat::kNvfp4TwoLevel:
      round_p_to_nvfp4(p);
  }
}

// out [d]: the row's output in FP32.
void attend_row(const Row& row, float* out) {
  float m = kMinusInfinity;
  float l = 0.0f;
  std::fill(out, out + row.head_dim, 0.0f);
  // The last block first: an early attention sink then cannot push later probabilities into e4m3's
  // subnormals (docs/spec.md, section 3).
  const int64_t last = (row.keys - 1) / kKeyBlockSize * kKeyBlockSize;
  for (int64_t begin = last; begin >= 0; begin -= kKeyBlockSize) {
    const int64_t count = std::min(kKeyBlockSize, row.keys - begin);
    KeyBlock p;
    scores(row, begin, p);
    const float m_new = std::max(m, *std::max_element(p, p + count));
    const float correction = std::exp2(row.lambda * (m - m_new));
    float sum = 0.0f;
    for (int64_t j = 0; j < count; ++j) sum += p[j] = std::exp2(row.lambda * (p[j] - m_new));
    std::fill(p + count, p + kKeyBlockSize, 0.0f);
    l = correction * l + sum;  // of P before rounding, as the paper has it
    m = m_new;
    round_p(row.policy.p, p);
    for (int64_t c = 0; c < row.head_dim; ++c) out[c] *= correction;
    for (int64_t j = 0; j < count; ++j) {
      const float* v = &row.kv.v[(begin + j) * row.head_dim];
      for (int64_t c = 0; c < row.head_dim; ++c) out[c] += p[j] * v[c];
    }
  }
  const float divisor = p_factor(row.policy.p) * l;
  for (int64_t c = 0; c < row.head_dim; ++c) out[c] /= divisor;
}

float round_output(FloatType type, float x) {
  return visit_float_type(type,
                          [&](auto element) { return to_float(from_float<decltype(element)>(x)); });
}

std::vector<float> policy_output(const Policy& policy, const Problem& problem,
                                 const PolicyStats& stats) {
  std::vector<KeyValueOperands> kv(problem.k.heads);
  parallel_for(problem.k.heads, [&](int64_t head) {
    kv[head] = make_key_value_operands(policy, problem.k, problem.v, stats, head);
  });
  std::vector<QueryOperands> queries(problem.q.heads);
  parallel_for(problem.q.heads, [&](int64_t head) {
    queries[head] = make_query_operands(policy, problem.q, stats, kv[head / problem.group], head,
                                        problem.group);
  });
  const int64_t d = problem.q.head_dim;
  const float lambda = problem.softmax_scale * 1.44269504f;  // log2(e)
  std::vector<float> out(problem.rows() * problem.q.heads * d);
  for_each_row(problem, [&](int64_t i, int64_t head) {
    float* o = &out[problem.output_offset(i, head)];
    attend_row(
        {policy, kv[head / problem.group], queries[head], i, d, problem.visible_keys(i), lambda},
        o);
    for (int64_t c = 0; c < d; ++c) o[c] = round_output(problem.out_type, o[c]);
  });
  return out;
}

// ---- Errors -------------------------------------------------------------------------------------

PolicyResult compare(const Problem& problem, const std::vector<float>& out,
                     const std::vector<double>& reference) {
  PolicyResult result;
  for (int64_t head = 0; head < problem.q.heads; ++head) {
    double error = 0.0;
    double product = 0.0;
    double out_norm = 0.0;
    double reference_norm = 0.0;
    for (int64_t i = problem.first_row; i < problem.q.rows; ++i) {
      const int64_t begin = problem.output_offset(i, head);
      for (int64_t n = begin; n < begin + problem.q.head_dim; ++n) {
        const double x = out[n];
        const double y = reference[n];
        error += (x - y) * (x - y);
        product += x * y;
        out_norm += x * x;
        reference_norm += y * y;
      }
    }
    const double norms = std::sqrt(out_norm) * std::sqrt(reference_norm);
    result.relative_l2.push_back(error == 0.0 ? 0.0 : std::sqrt(error / reference_norm));
    result.cosine.push_back(norms > 0.0 ? product / norms : (error == 0.0 ? 1.0 : 0.0));
  }
  return result;
}

double mean_of(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

}  // namespace

PolicyInputs table_inputs() {
  PolicyInputs inputs;
  inputs.basis_queries = {0, 128};
  return inputs;
}

double PolicyResult::mean_relative_l2() const { return mean_of(relative_l2); }
double PolicyResult::worst_relative_l2() const {
  return *std::max_element(relative_l2.begin(), relative_l2.end());
}
double PolicyResult::mean_cosine() const { return mean_of(cosine); }

std::vector<PolicyResult> run_policies(std::span<const Policy> policies, const DLTensor& q,
                                       const DLTensor& k, const DLTensor& v,
                                       const PolicyInputs& inputs) {
  for (const Policy& policy : policies) check_policy(policy);
  const Problem problem = make_problem(q, k, v, inputs);
  const std::vector<double> reference = reference_output(problem);
  std::vector<PolicyResult> results;
  for (const Policy& policy : policies) {
    const PolicyStats stats = make_stats(policy, q, k, inputs);
    std::vector<float> out = policy_output(policy, problem, stats);
    results.push_back(compare(problem, out, reference));
    if (!inputs.keep_output) continue;
    results.back().output = std::move(out);
    results.back().reference = reference;
  }
  return results;
}

PolicyResult run_policy(const Policy& policy, const DLTensor& q, const DLTensor& k,
                        const DLTensor& v, const PolicyInputs& inputs) {
  return run_policies({&policy, 1}, q, k, v, inputs).front();
}

}  // namespace mpfa::internal
