#include "demo/tables.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/shapes.h"
#include "mpfa/cache.h"

namespace mpfa::tools {
namespace {

double bf16_bytes(int64_t head_dim) { return 4.0 * static_cast<double>(head_dim); }

// An emulated method has no speed.
std::string speed_cell(double tokens_per_s) {
  return tokens_per_s > 0.0 ? group_digits(tokens_per_s) : "-";
}

void add_method_rows(const DemoResult& result, const std::vector<DemoScore>& scores, Table& table) {
  for (size_t m = 0; m < scores.size(); ++m) {
    const DemoMethod& method = result.methods[m];
    const DemoScore& score = scores[m];
    table.add_row(
        {method.name, fmt::format("{:g}", method.bytes),
         fmt::format("{:.2f}", bf16_bytes(result.shape.head_dim) / method.bytes),
         fmt::format("{:.4f}", score.prefill_error), fmt::format("{:.5f}", score.prefill_cosine),
         fmt::format("{:.4f}", score.decode_error), fmt::format("{:.5f}", score.decode_cosine),
         speed_cell(score.prefill_tokens_per_s), speed_cell(score.decode_tokens_per_s)},
        method.id == kDefaultMethod);
  }
}

std::string q_text(const internal::Policy& policy) {
  switch (policy.q) {
    case internal::QFormat::kNvfp4:
      return "NVFP4";
    case internal::QFormat::kNvfp4TwoTerms:
      return "NVFP4, two terms";
    default:
      return "as given";
  }
}

std::string k_text(const internal::Policy& policy) {
  switch (policy.k) {
    case internal::KFormat::kNvfp4:
      return policy.k_scale_rule == ScaleRule::kSearch ? "NVFP4, search" : "NVFP4, plain";
    case internal::KFormat::kE4m3:
      return "e4m3";
    default:
      return "as given";
  }
}

std::string compensation_text(const internal::Policy& policy) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (policy.delta_s) add("delta_s");
  if (policy.residual_rank > 0 && policy.residual_format == internal::ResidualFormat::kE4m3) {
    add(fmt::format("residual r = {}", policy.residual_rank));
  }
  if (policy.residual_rank > 0 && policy.residual_format == internal::ResidualFormat::kBf16) {
    add(fmt::format("{} BF16 columns", policy.residual_rank));
  }
  if (policy.first_key) add("first key");
  return text.empty() ? "none" : text;
}

Json score_json(const DemoScore& score) {
  return {{"prefill_relative_l2", score.prefill_error},
          {"prefill_cosine", score.prefill_cosine},
          {"decode_relative_l2", score.decode_error},
          {"decode_cosine", score.decode_cosine},
          {"prefill_tokens_per_s", score.prefill_tokens_per_s},
          {"decode_tokens_per_s", score.decode_tokens_per_s}};
}

Json methods_json(const DemoResult& result, const std::vector<DemoScore>& scores) {
  Json list = Json::array();
  for (size_t m = 0; m < scores.size(); ++m) {
    const DemoMethod& method = result.methods[m];
    Json item = {{"method", method.id},
                 {"name", method.name},
                 {"emulated", !method.real},
                 {"bytes_per_token_and_kv_head", method.bytes},
                 {"ratio", bf16_bytes(result.shape.head_dim) / method.bytes}};
    item.update(score_json(scores[m]));
    list.push_back(item);
  }
  return list;
}

// What stands in a token's bytes, per KV head, for the figure: K's codes and scales, what
// compensates for their rounding, and V.
Json bytes_json(const DemoResult& result) {
  const int64_t group = result.shape.num_q_heads / result.shape.num_kv_heads;
  Json list = Json::array();
  for (const DemoMethod& method : result.methods) {
    const double v = method.real ? static_cast<double>(result.shape.head_dim)
                                 : policy_v_bytes(method.policy, result.shape.head_dim);
    const int64_t compensation =
        method.real ? method.residual_rank : (method.policy.delta_s ? 2 * group : 0);
    list.push_back({{"method", method.id},
                    {"k", method.bytes - v - static_cast<double>(compensation)},
                    {"compensation", compensation},
                    {"v", v}});
  }
  return list;
}

}  // namespace

Table method_table(const DemoResult& result) {
  Table table({{"method", Align::kLeft},
               {"bytes"},
               {"ratio"},
               {"prefill\nerror"},
               {"prefill\ncosine"},
               {"decode\nerror"},
               {"decode\ncosine"},
               {"prefill\ntokens/s"},
               {"decode\ntokens/s"}});
  for (const DemoLayer& layer : result.layers) {
    table.add_group(layer.name.empty() ? "(unnamed layer)" : layer.name);
    add_method_rows(result, layer.scores, table);
  }
  if (result.layers.size() > 1) {
    table.add_group("mean over layers");
    add_method_rows(result, result.means(), table);
  }
  return table;
}

Table policy_table(const DemoResult& result, bool expected) {
  std::vector<Column> columns = {{"Q", Align::kLeft},
                                 {"K", Align::kLeft},
                                 {"compensation", Align::kLeft},
                                 {"K bytes"},
                                 {"error"}};
  if (expected) columns.insert(columns.end(), {{"expected"}, {"change"}});
  Table table(columns);
  const int64_t group = result.shape.num_q_heads / result.shape.num_kv_heads;
  for (const DemoTableRow& row : result.table) {
    const internal::Policy& policy = row.expected.policy;
    const double bytes = policy_k_bytes(policy, result.shape.head_dim, group);
    std::vector<std::string> cells = {q_text(policy), k_text(policy), compensation_text(policy),
                                      fmt::format("{:g}", bytes),
                                      fmt::format("{:.4f}", row.measured)};
    if (expected) {
      cells.push_back(fmt::format("{:.4f}", row.expected.error));
      cells.push_back(fmt::format("{:+.1f}%", 100.0 * (row.measured / row.expected.error - 1.0)));
    }
    table.add_row(std::move(cells), policy.name == internal::default_policy().name);
  }
  return table;
}

Table bytes_table() {
  Table table(
      {{"d"}, {"BF16"}, {"MpFA,\nno residual"}, {"ratio"}, {"MpFA,\nresidual 8"}, {"ratio"}});
  for (const int64_t head_dim : internal::kHeadDims) {
    std::vector<std::string> row = {fmt::format("{}", head_dim),
                                    fmt::format("{:.0f}", bf16_bytes(head_dim))};
    for (const int64_t rank : {0, 8}) {
      KvCacheConfig config;
      config.num_q_heads = 1;
      config.num_kv_heads = 1;
      config.head_dim = head_dim;
      config.residual_rank = rank;
      const double bytes = bytes_per_token_and_kv_head(config);
      row.push_back(fmt::format("{:.0f}", bytes));
      row.push_back(fmt::format("{:.2f}", bf16_bytes(head_dim) / bytes));
    }
    table.add_row(std::move(row));
  }
  return table;
}

Json demo_json(const DemoResult& result, const std::string& data, bool expected) {
  Json layers = Json::array();
  for (const DemoLayer& layer : result.layers) {
    layers.push_back({{"layer", layer.name}, {"methods", methods_json(result, layer.scores)}});
  }
  Json policies = Json::array();
  for (const DemoTableRow& row : result.table) {
    Json item = {{"policy", row.expected.policy.name},
                 {"description", row.expected.policy.description},
                 {"relative_l2", row.measured}};
    if (expected) item["expected_relative_l2"] = row.expected.error;
    policies.push_back(item);
  }
  const DemoChannel& channel = result.channel;
  return {{"data", data},
          {"tokens", result.shape.tokens},
          {"prompt_tokens", result.shape.prompt},
          {"decode_steps", result.shape.steps},
          {"num_q_heads", result.shape.num_q_heads},
          {"num_kv_heads", result.shape.num_kv_heads},
          {"head_dim", result.shape.head_dim},
          {"layers", layers},
          {"mean", methods_json(result, result.means())},
          {"policies", policies},
          {"bytes", bytes_json(result)},
          {"channel",
           {{"layer", channel.layer},
            {"kv_head", channel.kv_head},
            {"channel", channel.channel},
            {"scale_before", channel.scale_before},
            {"scale_after", channel.scale_after},
            {"before", channel.before},
            {"after", channel.after}}}};
}

}  // namespace mpfa::tools
