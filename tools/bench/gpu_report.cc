#include "bench/gpu_report.h"

#include <fmt/format.h>

#include "common/table.h"

namespace mpfa::tools {
namespace {

std::string microseconds(double seconds) { return fmt::format("{:.1f}", seconds * 1e6); }

double median_rate(const GpuDecodeResult& result) {
  return cache_bytes(result.decode) / result.times.attention.median();
}

double back_to_back_rate(const GpuDecodeResult& result) {
  return cache_bytes(result.decode) / result.times.back_to_back_s;
}

}  // namespace

std::string gpu_decode_table(const GpuReference& reference,
                             const std::vector<GpuDecodeResult>& results) {
  Table table({{"shape", Align::kLeft},
               {"median\nus"},
               {"min\nus"},
               {"max\nus"},
               {"cache\nGB/s"},
               {"of copy\nspeed"},
               {"schedule\nus"},
               {"back to\nback us"},
               {"\nGB/s"},
               {"\ncaches"}});
  std::string group;
  for (const GpuDecodeResult& result : results) {
    if (describe(result.decode) != group) table.add_group(group = describe(result.decode));
    const GpuDecodeTimes& times = result.times;
    const double rate = median_rate(result);
    table.add_row({result.decode.shape.str(), microseconds(times.attention.median()),
                   microseconds(times.attention.min()), microseconds(times.attention.max()),
                   fmt::format("{:.0f}", rate * 1e-9),
                   fmt::format("{:.0f}%", 100.0 * rate / reference.copy_bytes_per_s),
                   microseconds(times.schedule_s), microseconds(times.back_to_back_s),
                   fmt::format("{:.0f}", back_to_back_rate(result) * 1e-9),
                   std::to_string(times.num_caches)});
  }
  return table.str();
}

Json gpu_decode_json(const GpuReference& reference, const GpuDecodeResult& result) {
  const DecodeCase& decode = result.decode;
  const GpuDecodeTimes& times = result.times;
  const double rate = median_rate(result);
  return {{"shape", decode.shape.str()},
          {"batch_size", decode.shape.batch_size},
          {"num_q_heads", decode.shape.num_q_heads},
          {"num_kv_heads", decode.shape.num_kv_heads},
          {"head_dim", decode.shape.head_dim},
          {"length", decode.shape.length},
          {"lengths", lengths_name(decode.lengths)},
          {"seqlens_k", seqlens_k(decode)},
          {"seqlen_q", decode.seqlen_q},
          {"page_size", decode.options.page_size},
          {"residual_rank", decode.options.residual_rank},
          {"first_key", decode.options.first_key},
          {"delta_s", decode.options.delta_s},
          {"kv_split_size", decode.options.kv_split_size},
          {"median_s", times.attention.median()},
          {"min_s", times.attention.min()},
          {"max_s", times.attention.max()},
          {"seconds", times.attention.seconds},
          {"cache_bytes", cache_bytes(decode)},
          {"cache_gb_per_s", rate * 1e-9},
          {"copy_share", rate / reference.copy_bytes_per_s},
          {"schedule_s", times.schedule_s},
          {"num_caches", times.num_caches},
          {"back_to_back_s", times.back_to_back_s},
          {"back_to_back_gb_per_s", back_to_back_rate(result) * 1e-9}};
}

}  // namespace mpfa::tools
