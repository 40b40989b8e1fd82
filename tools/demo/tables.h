// The demo's three tables.
#pragma once

#include "common/command_output.h"
#include "common/table.h"
#include "demo/measure.h"

namespace mpfa::tools {

// Layer by layer: bytes, errors and cosines of prefill and decode, tokens/s.
Table method_table(const DemoResult& result);

// The policies of docs/spec.md, section 2. `expected`: beside the values there, which hold for the
// demo's own data only.
Table policy_table(const DemoResult& result, bool expected);

// Bytes per token and KV head for d = 64 and 128, with and without residual.
Table bytes_table();

// Everything above, for --json and the figures.
Json demo_json(const DemoResult& result, const std::string& data, bool expected);

}  // namespace mpfa::tools
