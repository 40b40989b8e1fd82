// What mpfa demo measures: the cache on real activations, beside other precision assignments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/layer_file.h"
#include "common/progress.h"
#include "cpu/policy.h"
#include "demo/channel.h"

namespace mpfa::tools {

// Id of the method that is this library with its defaults.
inline constexpr const char* kDefaultMethod = "mpfa_default";

// One line of the demo's table.
struct DemoMethod {
  std::string name;           // "MpFA"
  std::string id;             // for JSON: "mpfa_default"
  std::string description;    // one sentence
  double bytes = 0.0;         // K and V, per token and KV head
  bool real = false;          // append_kv and attention; otherwise emulated by `policy`
  int64_t residual_rank = 0;  // real: the cache's
  internal::Policy policy;    // emulated
};

// A method on one layer; means over heads, against FP64 attention over the unquantised input.
struct DemoScore {
  double prefill_error = 0.0;  // relative L2
  double prefill_cosine = 0.0;
  double decode_error = 0.0;
  double decode_cosine = 0.0;
  double prefill_tokens_per_s = 0.0;  // real methods: append and attention, one layer
  double decode_tokens_per_s = 0.0;
};

struct DemoLayer {
  std::string name;
  std::vector<DemoScore> scores;  // of each method
};

// Tokens of one sequence: a prompt, then steps of one token.
struct DemoShape {
  int64_t tokens = 0;
  int64_t prompt = 0;
  int64_t steps = 0;
  int64_t num_q_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
};

// A policy of docs/spec.md, section 2, over all tokens; mean over all layers' heads.
struct DemoTableRow {
  internal::TableRow expected;
  double measured = 0.0;
};

struct DemoResult {
  DemoShape shape;
  std::vector<DemoMethod> methods;
  std::vector<DemoLayer> layers;
  std::vector<DemoScore> means() const;  // over layers, of each method
  std::vector<DemoTableRow> table;
  DemoChannel channel;
};

// Throws Error naming the file where its layers differ in shape or are too short.
DemoResult measure_demo(const LayerFile& file, Progress& progress);

}  // namespace mpfa::tools
