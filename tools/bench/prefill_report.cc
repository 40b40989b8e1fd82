#include "bench/prefill_report.h"

#include <fmt/format.h>

#include "common/table.h"

namespace mpfa::tools {
namespace {

std::string milliseconds(double seconds) { return fmt::format("{:.3f}", seconds * 1e3); }

double tflops(const GpuPrefillResult& result, double seconds) {
  return flops(result.prefill) * 1e-12 / seconds;
}

std::string rate(const GpuPrefillResult& result, double seconds) {
  return fmt::format("{:.0f}", tflops(result, seconds));
}

// The clock is unknown where work was too short for it.
std::string clock_text(double mhz) { return mhz > 0.0 ? fmt::format("{:.0f}", mhz) : "-"; }

bool has_sustained(const std::vector<GpuPrefillResult>& results) {
  return !results.empty() && results[0].times.sustained_s > 0.0;
}

}  // namespace

std::string gpu_prefill_table(const std::vector<GpuPrefillResult>& results) {
  std::vector<Column> columns = {
      {"shape", Align::kLeft}, {"attention\nms"}, {"\nTFLOP/s"}, {"\nMHz"},
      {"and append\nms"},      {"\nTFLOP/s"},     {"\nMHz"}};
  const bool is_sustained = has_sustained(results);
  if (is_sustained) {
    for (const char* const header : {"in a row\nms", "\nTFLOP/s", "\nMHz"}) {
      columns.push_back({header});
    }
  }
  Table table(columns);
  std::string group;
  for (const GpuPrefillResult& result : results) {
    if (describe(result.prefill) != group) table.add_group(group = describe(result.prefill));
    const GpuPrefillTimes& times = result.times;
    std::vector<std::string> row = {label(result.prefill)};
    const auto add = [&](double seconds, double mhz) {
      row.push_back(milliseconds(seconds));
      row.push_back(rate(result, seconds));
      row.push_back(clock_text(mhz));
    };
    add(times.attention.median(), times.attention_clock_mhz);
    add(times.call.median(), times.clock_mhz);
    if (is_sustained) add(times.sustained_s, times.sustained_clock_mhz);
    table.add_row(std::move(row));
  }
  return table.str();
}

Json gpu_prefill_json(const GpuPrefillResult& result) {
  const PrefillCase& prefill = result.prefill;
  const GpuPrefillTimes& times = result.times;
  Json json = {{"shape", label(prefill)},
               {"batch_size", prefill.shape.batch_size},
               {"num_q_heads", prefill.shape.num_q_heads},
               {"num_kv_heads", prefill.shape.num_kv_heads},
               {"head_dim", prefill.shape.head_dim},
               {"is_causal", prefill.is_causal},
               {"seqlens_q", prefill.seqlens_q},
               {"seqlens_k", prefill.seqlens_k},
               {"page_size", prefill.options.page_size},
               {"residual_rank", prefill.options.residual_rank},
               {"first_key", prefill.options.first_key},
               {"delta_s", prefill.options.delta_s},
               {"precision", precision_name(prefill.precision)},
               {"policy", describe(prefill)},
               {"flops", flops(prefill)},
               {"median_s", times.call.median()},
               {"min_s", times.call.min()},
               {"max_s", times.call.max()},
               {"seconds", times.call.seconds},
               {"tflops", tflops(result, times.call.median())},
               {"clock_mhz", times.clock_mhz},
               {"attention_s", times.attention.median()},
               {"attention_tflops", tflops(result, times.attention.median())},
               {"attention_clock_mhz", times.attention_clock_mhz}};
  if (times.sustained_s > 0.0) {
    json["sustained_s"] = times.sustained_s;
    json["sustained_tflops"] = tflops(result, times.sustained_s);
    json["sustained_clock_mhz"] = times.sustained_clock_mhz;
  }
  return json;
}

}  // namespace mpfa::tools
