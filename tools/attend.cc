// mpfa attend: attention over a cache file, or over raw K and V put into a cache first.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "common/cache_options.h"
#include "common/command_output.h"
#include "common/common_options.h"
#include "common/errors.h"
#include "common/file_roles.h"
#include "common/layer_file.h"
#include "common/output_guard.h"
#include "common/progress.h"
#include "common/row_range.h"
#include "common/sequence_attention.h"
#include "common/sequence_cache.h"
#include "common/table.h"
#include "common/threads.h"
#include "core/tensor.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

struct AttendOptions {
  CommonOptions common;
  CacheOptions cache;
  std::string input;
  std::string q_file;
  std::string output;
  std::string q_rows;
  std::string sinks;
  bool causal = true;
  int64_t window_left = -1;
  float softcap = 0.0f;
  std::optional<float> softmax_scale;
  int64_t kv_split_size = 0;
};

constexpr const char* kFooter = R"(
INPUT is a cache that mpfa quantize wrote; Q_FILE then holds the queries. Or INPUT holds q, k and v;
they are put into a cache first, by the options of mpfa quantize, with the same result. Queries stand
at the end of the keys: query i of n sees keys up to length - n + i. OUT gets
  out [Hq, rows, d], the type of q, and lse [Hq, rows] F32, natural logarithm.

Examples:
  mpfa attend qkv.safetensors -o out.safetensors --layer layer00
  mpfa attend cache.safetensors qkv.safetensors -o out.safetensors --layer layer00 --q-rows -64:
  mpfa attend cache.safetensors q.safetensors -o out.safetensors --window-left 1023 --softcap 50
)";

// The keys of one sequence in a cache, whoever owns them.
struct Keys {
  std::optional<KvCache> loaded;
  std::optional<SequenceCache> made;

  const KvCache& cache() const { return loaded ? *loaded : made->cache(); }
};

KvCache load_one_sequence(const std::string& path) {
  KvCache cache = load_cache(path);
  const int64_t batch = cache.block_table() == nullptr ? 0 : cache.block_table()->shape[0];
  if (batch != 1 || cache.seq_lens() == nullptr) {
    throw IoError(fmt::format(
        "{}: block_table has {} sequences: expected block_table [1, pages] and seq_lens [1]",
        internal::quote_path(path), batch));
  }
  return cache;
}

// [Hq] in FP32, from the file with the queries.
OwnedTensor load_sinks(const internal::SafetensorsReader& reader, const std::string& name,
                       int64_t heads) {
  const internal::TensorInfo& info = reader.at(name);
  const bool is_float = info.dtype == internal::Dtype::F32 || info.dtype == internal::Dtype::BF16 ||
                        info.dtype == internal::Dtype::F16;
  if (!is_float || info.shape.size() != 1 || info.shape[0] != heads) {
    throw IoError(
        fmt::format("{}: tensor {} is {} {}: expected BF16, F16 or F32 [{}], one value "
                    "per query head",
                    internal::quote_path(reader.path()), internal::quote(name),
                    internal::dtype_name(info.dtype), internal::shape_text(info.shape), heads));
  }
  OwnedTensor sinks("sinks", internal::kFloat32Type, {heads});
  internal::visit_float_tensor<1>(reader.view(name), "sinks", [&](const auto& values) {
    for (int64_t h = 0; h < heads; ++h) sinks.data<float>()[h] = internal::to_float(*values.at(h));
  });
  return sinks;
}

// Options that say how keys are put into a cache mean nothing for one that is there already.
void reject_cache_options(const CLI::App& command) {
  for (const char* name : {"--stats", "--page-size", "--residual-rank", "--no-first-key",
                           "--delta-s", "--scale-rule", "--tokens"}) {
    if (command.count(name) > 0) {
      throw UsageError(
          fmt::format("{} does not go with a cache file: it was chosen when the "
                      "cache was written",
                      name));
    }
  }
}

// A cache without queries is a mistake easily made, and easily told.
void reject_lone_cache(const LayerFile& file) {
  if (file.reader().find("k_codes") == nullptr) return;
  throw UsageError(fmt::format("{} is a cache: give the file with the queries after it",
                               internal::quote_path(file.reader().path())));
}

void check_queries(const Layer& layer, const TensorView& q, const KvCache& cache) {
  const KvCacheConfig& config = cache.config();
  if (q.size(2) != config.head_dim || q.size(1) % config.num_kv_heads != 0) {
    throw IoError(fmt::format(
        "{}: q has {} heads of d = {}: expected d = {} and a multiple of the cache's {} KV heads",
        layer.where, q.size(1), q.size(2), config.head_dim, config.num_kv_heads));
  }
}

Keys find_keys(const Layer& layer, const AttendOptions& options) {
  Keys keys;
  if (options.q_file.empty()) {
    keys.made.emplace(make_cache(layer, options.cache));
  } else {
    keys.loaded.emplace(load_one_sequence(options.input));
  }
  check_queries(layer, layer.q, keys.cache());
  return keys;
}

struct AttendResult {
  OwnedTensor out;  // [Hq, rows, d], the type of q
  OwnedTensor lse;  // [Hq, rows] FP32
  double seconds = 0.0;
};

AttendResult attend(const Layer& layer, const TensorView& q, const KvCache& cache,
                    const OwnedTensor& sinks, const AttendOptions& options) {
  AttentionParams params;
  params.causal = options.causal;
  params.window_left = options.window_left;
  params.softcap = options.softcap;
  params.softmax_scale = options.softmax_scale;
  params.sinks = sinks.get();
  const int64_t rows = q.size(0);
  const int64_t heads = q.size(1);
  AttendResult result;
  result.out = OwnedTensor("out", q.dtype, {heads, rows, q.size(2)});
  result.lse = OwnedTensor("lse", internal::kFloat32Type, {heads, rows});
  const TensorView out = result.out.view().transposed(0, 1);
  const TensorView lse = result.lse.view().transposed(0, 1);
  const auto start = std::chrono::steady_clock::now();
  with_layer(layer, [&] {
    const SequenceAttention attention(cache,
                                      {.num_q_heads = heads,
                                       .max_rows = rows,
                                       .max_keys = sequence_length(cache),
                                       .kv_split_size = options.kv_split_size},
                                      params);
    attention.run(out, &lse, q);
  });
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void write_output(const std::string& path, const std::string& layer, const AttendResult& result) {
  internal::SafetensorsWriter writer;
  writer.add("out", result.out.dl());
  writer.add("lse", result.lse.dl());
  writer.add_metadata("mpfa_version", MPFA_VERSION);
  writer.add_metadata("layer", layer);
  const OutputGuard guard(path);
  writer.write(path);
}

void run_attend(const CLI::App& command, const AttendOptions& options) {
  check_file_roles({{"the input", options.input},
                    {"the queries' file", options.q_file},
                    {"--stats", options.cache.stats}},
                   {{"-o", options.output}, {"--json", options.common.json}});
  const CommandOutput output("attend", options.common.json);
  const ThreadLimit threads(options.common.threads);
  const bool from_cache = !options.q_file.empty();
  if (from_cache) reject_cache_options(command);
  const LayerFile file = LayerFile::open(from_cache ? options.q_file : options.input);
  if (!from_cache) reject_lone_cache(file);
  const std::string name = file.one_name(options.cache.layer);
  const Layer layer = file.load(name, {.q = true, .k = !from_cache, .v = !from_cache});
  const RowSlice slice = options.q_rows.empty() ? RowSlice{} : parse_row_slice(options.q_rows);
  const auto [begin, end] =
      with_context(layer.where, [&] { return slice.resolve(layer.q.size(0)); });
  const TensorView q = layer.q.slice(0, begin, end);
  const OwnedTensor sinks =
      options.sinks.empty() ? OwnedTensor() : load_sinks(file.reader(), options.sinks, q.size(1));
  check_writable(options.output);

  Progress progress("reading");
  const Keys keys = find_keys(layer, options);
  progress.set_label("attention");
  const AttendResult result = attend(layer, q, keys.cache(), sinks, options);
  write_output(options.output, name, result);
  progress.finish();

  const int64_t length = sequence_length(keys.cache());
  output.print("{}: {} query rows, {} heads, over {} keys in {:.1f} ms\nWrote {}.\n", layer.where,
               q.size(0), q.size(1), length, result.seconds * 1e3,
               internal::quote_path(options.output));
  output.write_json({{"input", options.input},
                     {"output", options.output},
                     {"layer", name},
                     {"rows", q.size(0)},
                     {"num_q_heads", q.size(1)},
                     {"head_dim", q.size(2)},
                     {"keys", length},
                     {"seconds", result.seconds}});
}

void add_attention_options(CLI::App& command, AttendOptions& options) {
  command.add_flag("!--no-causal", options.causal,
                   "Queries see all keys, not only those up to their own");
  command
      .add_option("--window-left", options.window_left,
                  "See only the last N keys before a query's own; without: all")
      ->check(whole_number(0))
      ->type_name("N");
  command.add_option("--softcap", options.softcap, "Replace a score s by C * tanh(s / C)")
      ->check(positive_number())
      ->type_name("C");
  command.add_option("--softmax-scale", options.softmax_scale, "Scale of the scores; 1 / sqrt(d)")
      ->check(positive_number())
      ->type_name("X");
  command
      .add_option("--sinks", options.sinks,
                  "Tensor [Hq] of logits that join the denominator only, in the file with q")
      ->type_name("NAME");
  add_kv_split_size_option(command, options.kv_split_size);
}

}  // namespace

void register_attend(CLI::App& app) {
  const auto options = std::make_shared<AttendOptions>();
  CLI::App* command = app.add_subcommand("attend", "Attention over a cache file or raw Q, K, V");
  command->footer(kFooter);
  command->add_option("input", options->input, "A cache, or q, k and v")
      ->required()
      ->type_name("INPUT.safetensors");
  command->add_option("q_file", options->q_file, "The queries, where INPUT is a cache")
      ->type_name("Q_FILE.safetensors");
  command->add_option("-o,--output", options->output, "Where out and lse go")
      ->required()
      ->type_name("OUT.safetensors");
  command
      ->add_option("--q-rows", options->q_rows,
                   "Only these queries, as in Python: ':448' are the first, '-64:' the last")
      ->check([](const std::string& text) -> std::string {
        try {
          parse_row_slice(text);
          return "";
        } catch (const UsageError& error) {
          return error.what();
        }
      })
      ->type_name("BEGIN:END");
  add_attention_options(*command, *options);
  add_cache_options(*command, options->cache);
  add_common_options(*command, options->common);
  command->callback([options, command] { run_attend(*command, *options); });
}

}  // namespace mpfa::tools
