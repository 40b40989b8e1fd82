// mpfa quantize: a layer's K and V into a cache file.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "commands.h"
#include "common/cache_options.h"
#include "common/command_output.h"
#include "common/common_options.h"
#include "common/file_roles.h"
#include "common/layer_file.h"
#include "common/output_guard.h"
#include "common/progress.h"
#include "common/table.h"
#include "common/threads.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

struct QuantizeOptions {
  CommonOptions common;
  CacheOptions cache;
  std::string input;
  std::string output;
};

constexpr const char* kFooter = R"(
Reads <layer>.k and <layer>.v (or plain k, v; shape [heads, tokens, d]; BF16, F16 or F32), and
<layer>.q where --stats is not given or --delta-s is. Writes one layer's cache: k_codes, k_scales, v,
k_residual, k_first, delta_s, the statistics, block_table and seq_lens.

With --delta-s the residual basis is best taken from Q less its mean. This is done where the
statistics come from the input; a file of --stats should be one of mpfa calibrate --delta-s.

Examples:
  mpfa quantize qkv.safetensors -o cache.safetensors --layer layer00
  mpfa quantize qkv.safetensors -o cache.safetensors --layer layer00 --stats stats.safetensors
  mpfa quantize qkv.safetensors -o cache.safetensors --residual-rank 0 --no-first-key --delta-s
)";

Json describe_cache(const SequenceCache& cache) {
  const KvCacheConfig& config = cache.cache().config();
  const double bytes = bytes_per_token_and_kv_head(config);
  const double bf16_bytes = 4.0 * static_cast<double>(config.head_dim);  // K and V, 2 bytes each
  return {{"tokens", cache.length()},
          {"num_kv_heads", config.num_kv_heads},
          {"head_dim", config.head_dim},
          {"page_size", config.page_size},
          {"num_pages", config.num_pages},
          {"residual_rank", config.residual_rank},
          {"first_key", config.first_key},
          {"delta_s", config.delta_s},
          {"bytes_per_token_and_kv_head", bytes},
          {"bf16_bytes_per_token_and_kv_head", bf16_bytes},
          {"ratio", bf16_bytes / bytes},
          {"cache_bytes", cache.cache().bytes()}};
}

void run_quantize(const QuantizeOptions& options) {
  check_file_roles({{"the input", options.input}, {"--stats", options.cache.stats}},
                   {{"-o", options.output}, {"--json", options.common.json}});
  const CommandOutput output("quantize", options.common.json);
  const ThreadLimit threads(options.common.threads);
  const LayerFile file = LayerFile::open(options.input);
  const std::string name = file.one_name(options.cache.layer);
  const Layer layer = file.load(name, cache_needs(options.cache));
  check_writable(options.output);

  Progress progress("quantising");
  const SequenceCache cache = make_cache(layer, options.cache);
  progress.set_label("writing");
  KvCacheFile result;
  result.cache = cache.cache().view();
  result.block_table = cache.cache().block_table();
  result.seq_lens = cache.cache().seq_lens();
  result.metadata = {
      {"mpfa_version", MPFA_VERSION}, {"layer", name}, {"scale_rule", options.cache.scale_rule}};
  {
    const OutputGuard guard(options.output);
    save_cache(options.output, result);
  }
  Json json = describe_cache(cache);
  progress.finish();
  output.print(
      "{}: {} tokens, {} KV heads, d {}\n"
      "{:.0f} bytes per token and KV head, {:.0f} in BF16: {:.2f} times fewer\n"
      "{} pages of {} tokens, {}\nWrote {}.\n",
      layer.where, cache.length(), cache.cache().config().num_kv_heads,
      cache.cache().config().head_dim, json["bytes_per_token_and_kv_head"].get<double>(),
      json["bf16_bytes_per_token_and_kv_head"].get<double>(), json["ratio"].get<double>(),
      cache.cache().config().num_pages, cache.cache().config().page_size,
      bytes_text(static_cast<double>(cache.cache().bytes())), internal::quote_path(options.output));
  Json document = {{"input", options.input},
                   {"output", options.output},
                   {"layer", name},
                   {"scale_rule", options.cache.scale_rule}};
  document.update(json);
  output.write_json(document);
}

}  // namespace

void register_quantize(CLI::App& app) {
  const auto options = std::make_shared<QuantizeOptions>();
  CLI::App* command =
      app.add_subcommand("quantize", "Write K and V of one layer as a low-bit cache file");
  command->footer(kFooter);
  command->add_option("input", options->input, "K and V, and Q for the statistics")
      ->required()
      ->type_name("IN.safetensors");
  command->add_option("-o,--output", options->output, "Where the cache goes")
      ->required()
      ->type_name("CACHE.safetensors");
  add_cache_options(*command, options->cache);
  add_common_options(*command, options->common);
  command->callback([options] { run_quantize(*options); });
}

}  // namespace mpfa::tools
