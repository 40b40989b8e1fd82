#include "demo/tables.h"

#include <fmt/format.h>

#include <string>
#include <vector>

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
         speed_cell(score.prefill_tokens_per_s), speed_cell(score.decode_tokens_per_s)});
  }
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
  const auto d = static_cast<double>(result.shape.head_dim);
  const auto group = static_cast<double>(result.shape.num_q_heads) /
                     static_cast<double>(result.shape.num_kv_heads);
  const auto item = [](const char* method, double k, double compensation, double v) {
    return Json{{"method", method}, {"k", k}, {"compensation", compensation}, {"v", v}};
  };
  const double k = d / 2 + d / 16;
  return {item("bf16", 2 * d, 0, 2 * d),  item("fp8_k", d, 0, d),   item("nvfp4_naive", k, 0, d),
          item("paper", k, 2 * group, d), item("mpfa_r0", k, 0, d), item("mpfa_default", k, 8, d)};
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
  std::vector<Column> columns = {{"Q, K and compensation", Align::kLeft}, {"K bytes"}, {"error"}};
  if (expected) columns.insert(columns.end(), {{"expected"}, {"difference"}});
  Table table(columns);
  const int64_t group = result.shape.num_q_heads / result.shape.num_kv_heads;
  for (const DemoTableRow& row : result.table) {
    const internal::Policy& policy = row.expected.policy;
    const double bytes = policy_k_bytes(policy, result.shape.head_dim, group);
    std::vector<std::string> cells = {policy.description, fmt::format("{:g}", bytes),
                                      fmt::format("{:.4f}", row.measured)};
    if (expected) {
      cells.push_back(fmt::format("{:.4f}", row.expected.error));
      cells.push_back(fmt::format("{:+.1f}%", 100.0 * (row.measured / row.expected.error - 1.0)));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

Table bytes_table() {
  Table table(
      {{"d"}, {"BF16"}, {"MpFA,\nno residual"}, {"ratio"}, {"MpFA,\nresidual 8"}, {"ratio"}});
  for (const int64_t head_dim : {64, 128}) {
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
